"""Making the objects of a workload, and what they need to be accepted.

Templates are read once.  The embedded cluster takes structs, which share what replicas share; a
real one gets the JSON as written.  `ops` and `pod_ops` ask here for whatever they create.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from stowplan.apiserver.stored_kinds import PLAIN_KINDS
from stowplan.bench.catalogue import TEMPLATES
from stowplan.bench.language import Workload
from stowplan.bench.measure import Meter
from stowplan.bench.stage import Stage, Steps
from stowplan.bench.templates import Stencil
from stowplan.errors import AlreadyExists
from stowplan.objects.api import Create
from stowplan.objects.base import KubeObject, ObjectMeta
from stowplan.objects.codec import convert
from stowplan.objects.kinds import NAMESPACE, POD, PRIORITY_CLASS, Kind
from stowplan.objects.pod import Pod
from stowplan.objects.workloads import Namespace, PriorityClass

BASE_NODE = "base-node"
BASE_POD = "base-pod"

Body = KubeObject | dict[str, Any]


@dataclass(frozen=True, slots=True)
class Device:
    driver: str
    node: str
    """Its pool has the same name."""
    name: str


@dataclass(frozen=True, slots=True)
class Claim:
    namespace: str
    name: str
    requests: tuple[str, ...]


@dataclass(slots=True)
class Maker:
    stage: Stage
    workload: Workload
    _stencils: dict[str, Stencil] = field(default_factory=dict)
    _shared: dict[tuple[str, int], Body] = field(default_factory=dict)
    """Objects of templates that do not vary: made once, used for every replica."""
    devices: list[Device] = field(default_factory=list)
    claims: list[Claim] = field(default_factory=list)
    """Devices and claims that are not allocated yet."""

    def stencil(self, path: str) -> Stencil:
        found = self._stencils.get(path)
        if found is None:
            found = self._stencils[path] = Stencil(_resolved(self.workload, path))
        return found

    def data(self, path: str, index: int, count: int) -> dict[str, Any]:
        return self.stencil(path).data(index, count)

    def thing(self, path: str, index: int, count: int) -> tuple[Kind, Body]:
        """The object of a template, ready to be created."""
        stencil = self.stencil(path)
        if stencil.varies:
            return stencil.kind, self.body(stencil.kind, stencil.data(index, count))
        shared = self._shared.get((path, count))
        if shared is None:
            shared = self.body(stencil.kind, stencil.data(index, count))
            self._shared[path, count] = shared
        return stencil.kind, shared

    def body(self, kind: Kind, data: dict[str, Any]) -> Body:
        if kind is POD:
            data = _for_scheduler(_with_class(data), self.stage.scheduler_name)
        if self.stage.whole_objects or kind in PLAIN_KINDS:
            return data
        made: KubeObject = convert(data, kind.struct)
        return made

    def prepare(self, path: str) -> Steps[None]:
        """See that a pod of this template will be admitted: its priority needs a class."""
        stencil = self.stencil(path)
        if stencil.kind is not POD:
            return
        priority = stencil.data(0, 1).get("spec", {}).get("priority")
        name = _class_name(priority)
        if not priority or (PRIORITY_CLASS.name, name) in self.stage.known:
            return
        body = PriorityClass(metadata=ObjectMeta(name=name), value=priority)
        yield from self._ensure(PRIORITY_CLASS, name, body)

    def ensure_namespace(self, name: str) -> Steps[None]:
        if name and (NAMESPACE.name, name) not in self.stage.known:
            yield from self._ensure(NAMESPACE, name, Namespace(metadata=ObjectMeta(name=name)))

    def _ensure(self, kind: Kind, name: str, body: KubeObject) -> Steps[None]:
        self.stage.known.add((kind.name, name))
        try:
            yield from self.stage.ask(Create(kind, "", body))
        except AlreadyExists:
            return
        self.stage.created.append((kind, name))


@dataclass(slots=True)
class Act:
    """The op being carried out, and all it may use."""

    stage: Stage
    workload: Workload
    make: Maker
    meter: Meter
    index: int
    """Its position among the workload's ops."""

    def namespace(self, given: str) -> str:
        return given or f"namespace-{self.index}"


def _resolved(workload: Workload, path: str) -> Path:
    if path in (BASE_NODE, BASE_POD):
        return TEMPLATES / f"{path}.yaml"
    return workload.path(path)


def _class_name(priority: Any) -> str:
    """
    >>> _class_name(10), _class_name(-5)
    ('bench-priority-10', 'bench-priority-minus-5')
    """
    if not isinstance(priority, int):
        return ""
    return f"bench-priority-{'minus-' if priority < 0 else ''}{abs(priority)}"


def _with_class(data: dict[str, Any]) -> dict[str, Any]:
    """Upstream's harness runs without priority admission, so that templates write the number;
    with it, as every real cluster has it, the number has to come from a class."""
    spec = data.get("spec", {})
    if not spec.get("priority") or spec.get("priorityClassName"):
        return data
    return {**data, "spec": {**spec, "priorityClassName": _class_name(spec["priority"])}}


def _for_scheduler(data: dict[str, Any], name: str) -> dict[str, Any]:
    return {**data, "spec": {**data.get("spec", {}), "schedulerName": name}} if name else data


def with_claim(body: Body, claim: str) -> Body:
    """The pod with a volume of this claim."""
    volume = {"name": "vol", "persistentVolumeClaim": {"claimName": claim}}
    if isinstance(body, dict):
        spec = body["spec"]
        return {**body, "spec": {**spec, "volumes": [*spec.get("volumes", ()), volume]}}
    assert isinstance(body, Pod)
    made = convert({"spec": {"volumes": [volume]}}, Pod).spec.volumes or []
    spec = msgspec.structs.replace(body.spec, volumes=[*(body.spec.volumes or ()), *made])
    return msgspec.structs.replace(body, spec=spec)
