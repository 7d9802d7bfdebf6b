"""Extenders: schedulers' helpers behind HTTP, asked in the middle of a cycle.

Pure on both ends: a call is built as data (`CallExtender`), the answer is read from data.  Who
sends it, with which timeout and TLS, is the runtime's business.  Mirrors kube-scheduler's
`pkg/scheduler/extender.go`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec

from stowplan.framework.status import MAX_NODE_SCORE
from stowplan.objects.base import KubeObject
from stowplan.objects.pod import Container
from stowplan.objects.quantity import INT64_MAX
from stowplan.state.node_info import NodeInfo
from stowplan.state.pod_info import PodInfo

MAX_EXTENDER_SCORE = 10

Read = TypeVar("Read")


class ExtenderFailed(Exception):
    """The extender did not answer, or answered with an error."""


@dataclass(frozen=True, slots=True)
class CallExtender:
    """POST `body` as JSON to `url`; the answer is an `ExtenderAnswer`."""

    extender: Extender
    verb: str
    url: str
    body: dict[str, Any]


@dataclass(frozen=True, slots=True)
class ExtenderAnswer:
    """What came back: a decoded body, or why there is none."""

    body: Any = None
    error: str = ""


@dataclass(frozen=True, slots=True)
class FilterResult:
    nodes: tuple[str, ...]
    failed: dict[str, str] = field(default_factory=dict)
    unresolvable: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Extender:
    """One configured extender; `config` has the field names of the configuration, snake_case."""

    config: Any

    @property
    def name(self) -> str:
        prefix: str = self.config.url_prefix
        return prefix

    @property
    def ignorable(self) -> bool:
        return bool(self.config.ignorable)

    @property
    def filters(self) -> bool:
        return bool(self.config.filter_verb)

    @property
    def prioritizes(self) -> bool:
        return bool(self.config.prioritize_verb)

    @property
    def preempts(self) -> bool:
        return bool(self.config.preempt_verb)

    @property
    def binds(self) -> bool:
        return bool(self.config.bind_verb)

    def is_interested(self, pod: PodInfo) -> bool:
        managed = {resource.name for resource in self.config.managed_resources or ()}
        if not managed:
            return True
        spec = pod.kind.spec
        containers = (*(spec.containers or ()), *(spec.init_containers or ()))
        return any(managed & _names(container) for container in containers)

    def filter_call(self, pod: PodInfo, nodes: Sequence[NodeInfo]) -> CallExtender:
        return self._call(self.config.filter_verb, self._arguments(pod, nodes))

    def prioritize_call(self, pod: PodInfo, nodes: Sequence[NodeInfo]) -> CallExtender:
        return self._call(self.config.prioritize_verb, self._arguments(pod, nodes))

    def bind_call(self, pod: PodInfo, node: str) -> CallExtender:
        metadata = pod.pod.metadata
        body = {
            "PodName": metadata.name,
            "PodNamespace": metadata.namespace,
            "PodUID": metadata.uid,
            "Node": node,
        }
        return self._call(self.config.bind_verb, body)

    def preempt_call(
        self, pod: PodInfo, victims: dict[str, tuple[list[PodInfo], int]]
    ) -> CallExtender:
        """`victims`: node -> (victims, disruption budget violations)."""
        body: dict[str, Any] = {
            "Pod": _data(pod.pod),
            "NodeNameToVictims": None,
            "NodeNameToMetaVictims": None,
        }
        if self.config.node_cache_capable:
            body["NodeNameToMetaVictims"] = {
                node: {"Pods": [{"UID": p.uid} for p in pods], "NumPDBViolations": broken}
                for node, (pods, broken) in victims.items()
            }
        else:
            body["NodeNameToVictims"] = {
                node: {"Pods": [_data(p.pod) for p in pods], "NumPDBViolations": broken}
                for node, (pods, broken) in victims.items()
            }
        return self._call(self.config.preempt_verb, body)

    def _call(self, verb: str, body: dict[str, Any]) -> CallExtender:
        return CallExtender(self, verb, f"{self.config.url_prefix.rstrip('/')}/{verb}", body)

    def _arguments(self, pod: PodInfo, nodes: Sequence[NodeInfo]) -> dict[str, Any]:
        names = [node.name for node in nodes] if self.config.node_cache_capable else None
        items = None
        if names is None:
            items = {"metadata": {}, "items": [_data(n.node) for n in nodes if n.node is not None]}
        return {"Pod": _data(pod.pod), "Nodes": items, "NodeNames": names}

    # An extender may answer anything at all: what cannot be read is an error of its own.

    def read_filter(self, answer: ExtenderAnswer, asked: Sequence[NodeInfo]) -> FilterResult:
        return self._read(answer, lambda body: self._filter_result(body, asked))

    def _filter_result(self, body: dict[str, Any], asked: Sequence[NodeInfo]) -> FilterResult:
        names = body.get("nodenames")
        if self.config.node_cache_capable and names is not None:
            known = {node.name for node in asked}
            for name in names:
                if name not in known:
                    raise ExtenderFailed(
                        f'extender "{self.name}" claims a filtered node "{name}" '
                        "which is not found in the input node list"
                    )
            nodes = tuple(names)
        else:
            listed = _lower(body.get("nodes") or {}).get("items") or ()
            nodes = tuple(item["metadata"]["name"] for item in listed)
        return FilterResult(
            nodes,
            {str(k): str(v) for k, v in (body.get("failednodes") or {}).items()},
            {str(k): str(v) for k, v in (body.get("failedandunresolvablenodes") or {}).items()},
        )

    def read_priorities(self, answer: ExtenderAnswer) -> dict[str, int]:
        """Node -> what to add to its total.  Errors are ignored, as upstream does."""
        if answer.error:
            return {}
        factor = int(self.config.weight) * (MAX_NODE_SCORE // MAX_EXTENDER_SCORE)
        try:
            entries = [_lower(entry) for entry in answer.body or ()]
            return {str(e.get("host", "")): int(e.get("score") or 0) * factor for e in entries}
        except (TypeError, ValueError, AttributeError):
            return {}

    def read_preemption(self, answer: ExtenderAnswer) -> dict[str, tuple[list[str], int]]:
        """Node -> (uids of victims, violations)."""
        return self._read(answer, _victims)

    def read_bind(self, answer: ExtenderAnswer) -> None:
        self._read(answer, lambda body: None)

    def _read(self, answer: ExtenderAnswer, read: Callable[[dict[str, Any]], Read]) -> Read:
        """The answer with its keys in lower case (Go reads them without regard to case), read."""
        if answer.error:
            raise ExtenderFailed(answer.error)
        try:
            body = _lower(answer.body)
            if body.get("error"):
                raise ExtenderFailed(str(body["error"]))
            return read(body)
        except (TypeError, ValueError, AttributeError, KeyError) as cause:
            problem = f'extender "{self.name}" gave an answer that cannot be read: {cause!r}'
            raise ExtenderFailed(problem) from cause


def _victims(body: dict[str, Any]) -> dict[str, tuple[list[str], int]]:
    result = {}
    for node, victims in (body.get("nodenametometavictims") or {}).items():
        entry = _lower(victims or {})
        uids = [str(_lower(pod).get("uid", "")) for pod in entry.get("pods") or ()]
        violations = int(entry.get("numpdbviolations") or 0)
        if abs(violations) > INT64_MAX:
            raise ValueError(f"{violations} violations of budgets")
        result[str(node)] = (uids, violations)
    return result


def _lower(data: dict[str, Any]) -> dict[str, Any]:
    return {str(key).lower(): value for key, value in data.items()}


def _names(container: Container) -> set[str]:
    resources = container.resources
    if resources is None:
        return set()
    return set(resources.requests or ()) | set(resources.limits or ())


def _data(obj: KubeObject) -> Any:
    return msgspec.to_builtins(obj)
