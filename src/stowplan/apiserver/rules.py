"""What the API refuses, as a table: a path into an object of a kind, and what must hold there.

The table is `rules.txt`; `checks` has what it may ask.  Here it is read and applied, to JSON data;
`device_rules` has the tables of resource.k8s.io, `group_rules` those of groups.
Only what no struct holds, or what few kinds have, is in it: `validation` and `pod_validation` have
the rules that every create must pass quickly.  Updates that compare old and new come last.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import cache
from importlib.resources import files
from operator import itemgetter
from typing import Any

from stowplan.apiserver import wire_schema
from stowplan.apiserver.answers import Problem, invalid, not_allowed
from stowplan.apiserver.checks import MADE, PLAIN, Check
from stowplan.apiserver.device_rules import (
    DEVICE_KINDS,
    IMMUTABLE,
    claim_status_problems,
    device_problems,
)
from stowplan.apiserver.group_rules import GROUP_KINDS, group_problems, group_status_problems
from stowplan.apiserver.pod_claim_checks import POD_CLAIM_CHECKS
from stowplan.apiserver.pod_validation import validate_template
from stowplan.apiserver.validation import validate_object
from stowplan.objects.base import KubeObject
from stowplan.objects.kinds import Kind
from stowplan.objects.workloads import WorkloadSpec

_PLAIN = PLAIN | POD_CLAIM_CHECKS

Data = dict[str, Any]
Rule = tuple[str, Check]

TEMPLATED = frozenset(
    {"Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job", "ReplicationController"}
)


class _Step:
    """A place that rules lead to: what is checked there, and where they go on from it."""

    __slots__ = ("checks", "fields", "items")

    def __init__(self) -> None:
        self.checks: list[tuple[int, Check]] = []
        """With the number of the rule: problems are told in the order of the rules."""
        self.fields: dict[str, _Step] = {}
        self.items: _Step | None = None

    def below(self, part: str) -> _Step:
        """The step of a part of a path, `name` or `name[]`."""
        step = self.fields.setdefault(part.removesuffix("[]"), _Step())
        if not part.endswith("[]"):
            return step
        if step.items is None:
            step.items = _Step()
        return step.items


def _tree(rules: Iterable[Rule]) -> _Step:
    """All rules of a kind as one tree, so that an object is gone through once."""
    root = _Step()
    for number, (path, check) in enumerate(rules):
        step = root
        for part in path.split(".") if path != "." else ():
            step = step.below(part)
        step.checks.append((number, check))
    return root


_NO_RULES = _Step()
_ALWAYS_RESTARTED = _tree([("spec.restartPolicy", MADE["one_of"]("Always"))])


@cache
def _lines() -> list[list[str]]:
    text = files(__package__).joinpath("rules.txt").read_text()
    return [line.split() for line in text.splitlines() if not line.startswith("#")]


@cache
def _rules() -> dict[str, _Step]:
    found: dict[str, list[Rule]] = defaultdict(list)
    for kind, path, *rest in _lines():
        if not kind.endswith("!"):
            name, *arguments = rest
            found[kind].append((path, MADE[name](*arguments) if arguments else _PLAIN[name]))
    return {kind: _tree(rules) for kind, rules in found.items()}


@cache
def _immutable() -> dict[str, list[str]]:
    return {kind[:-1]: paths for kind, *paths in _lines() if kind.endswith("!")}


def validate_data(kind: str, data: Data) -> list[Problem]:
    """The problems of a new object as JSON data; what its struct is checked for aside."""
    if kind in DEVICE_KINDS:
        return device_problems(kind, data)
    if kind in GROUP_KINDS:
        return group_problems(kind, data)
    problems = _check_all(_rules().get(kind, _NO_RULES), data, "")
    if kind == "CronJob":
        job = (data.get("spec") or {}).get("jobTemplate") or {}
        inner = [
            *validate_data("Job", job),
            *validate_template((job.get("spec") or {}).get("template")),
        ]
        problems += [it._replace(field=f"spec.jobTemplate.{it.field}") for it in inner]
    if kind in TEMPLATED:
        template = (data.get("spec") or {}).get("template") or {}
        problems += _check_all(_rules()["Pod"], template, "spec.template.")
        if kind != "Job":
            problems += _check_all(_ALWAYS_RESTARTED, template, "spec.template.")
            if (template.get("spec") or {}).get("activeDeadlineSeconds") is not None:
                text = f"activeDeadlineSeconds in {kind} is not Supported"
                problems.append(not_allowed("spec.template.spec.activeDeadlineSeconds", text))
    return problems


def object_problems(kind: Kind, thing: KubeObject) -> list[Problem]:
    """Of an object of any kind but Pod, with the pod template that it may have."""
    problems = validate_object(kind, thing)
    if kind.name in TEMPLATED:
        problems += validate_template(getattr(thing, "spec", WorkloadSpec()).template)
    return problems


def _check_all(rules: _Step, data: Data, prefix: str) -> list[Problem]:
    found: list[tuple[int, Problem]] = []
    _check(rules, data, prefix, "", found)
    found.sort(key=itemgetter(0))
    return [problem for _, problem in found]


def _check(
    step: _Step, value: Any, prefix: str, where: str, found: list[tuple[int, Problem]]
) -> None:
    """`value` is None where only the last part of a path is missing."""
    for number, check in step.checks:
        found += [(number, problem) for problem in check(f"{prefix}{where}", value)]
    if step.items is not None and isinstance(value, list):
        for n, item in enumerate(value):
            _check(step.items, item, prefix, f"{where}[{n}]", found)
    elif step.fields and isinstance(value, dict):
        start = f"{where}." if where else ""
        for name, below in step.fields.items():
            inner = value.get(name)
            if inner is not None or below.checks:
                _check(below, inner, prefix, f"{start}{name}", found)


def validate_status(kind: str, data: Data, old: Data) -> list[Problem]:
    """What a write to the status may not say."""
    if kind == "ResourceClaim":
        return [*claim_status_problems(data, old)]
    if kind == "PodGroup":
        return [*group_status_problems(data)]
    return _check_all(_rules().get(f"{kind}/status", _NO_RULES), data, "")


def validate_changed(kind: str, new: Data, old: Data) -> list[Problem]:
    """What an update may not make of an object."""
    if kind in DEVICE_KINDS:
        return device_problems(kind, new, old)
    if kind in GROUP_KINDS:
        return group_problems(kind, new, old)
    problems = validate_data(kind, new)
    for path in _immutable().get(kind, []):
        after = _at(new, path)
        if after != _at(old, path):
            problems.append(invalid(path, after, IMMUTABLE))
    if kind in _FROZEN:
        before, after = old.get("spec") or {}, new.get("spec") or {}
        problems += _FROZEN[kind](after, before, new)
    return problems


def _claim_update(after: Data, before: Data, new: Data) -> list[Problem]:
    """Of a claim only its size may change, and its volume be set once."""
    allowed = {"volumeName"} if not before.get("volumeName") else set()
    if (new.get("status") or {}).get("phase") == "Bound":
        allowed |= {"volumeAttributesClassName"}
        after, before = (
            {**spec, "resources": _without(spec.get("resources") or {}, {"requests"})}
            for spec in (after, before)
        )
    if _without(after, allowed) == _without(before, allowed):
        return []
    text = "spec is immutable after creation except resources.requests and "
    return [not_allowed("spec", f"{text}volumeAttributesClassName for bound claims")]


def _volume_update(after: Data, before: Data, new: Data) -> list[Problem]:
    sources = wire_schema.message("core.PersistentVolumeSource")
    assert sources is not None
    problems = []
    if any(after.get(name) != before.get(name) for name in sources.by_name):
        where, text = "spec.persistentvolumesource", "is immutable after creation"
        problems.append(not_allowed(where, f"{where} {text}"))
    if after.get("volumeMode") != before.get("volumeMode"):
        problems.append(invalid("volumeMode", after.get("volumeMode"), IMMUTABLE))
    affinity = before.get("nodeAffinity")
    if affinity is not None and after.get("nodeAffinity") != affinity:
        text = "field is immutable, except for updating from beta label to GA"
        problems.append(invalid("nodeAffinity", after.get("nodeAffinity"), text))
    return problems


def _set_update(after: Data, before: Data, new: Data) -> list[Problem]:
    allowed = {*_SET_MUTABLE}
    if _without(after, allowed) == _without(before, allowed):
        return []
    names = "'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', "
    text = f"{names}'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
    return [not_allowed("spec", f"updates to statefulset spec for fields other than {text}")]


def _service_update(after: Data, before: Data, new: Data) -> list[Problem]:
    was, now = before.get("clusterIPs"), after.get("clusterIPs")
    if not was or "ExternalName" in (after.get("type"), before.get("type")) or was == now:
        return []
    return [invalid("spec.clusterIPs[0]", now, "may not change once set")]


def _without(spec: Data, names: set[str]) -> Data:
    return {
        key: value
        for key, value in spec.items()
        if key not in names and value not in (None, [], "")
    }


_SET_MUTABLE = (
    "replicas", "ordinals", "template", "updateStrategy", "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy", "minReadySeconds",
)  # fmt: skip


def _node_update(after: Data, before: Data, new: Data) -> list[Problem]:
    """What a cloud and the controller of addresses have said of a node stays."""
    return [
        not_allowed(f"spec.{field}", f'node updates may not change {name} except from "" to valid')
        for field, name in (("podCIDRs", "podCIDR"), ("providerID", "providerID"))
        if before.get(field) and before[field] != after.get(field)
    ]


def _drivers_update(after: Data, before: Data, new: Data) -> list[Problem]:
    """Of a driver that stays on a node, how much it can have may change."""
    known = {it.get("name"): _without(it, {"allocatable"}) for it in before.get("drivers") or ()}
    drivers = [_without(it, {"allocatable"}) for it in after.get("drivers") or ()]
    return [
        invalid("spec.drivers", wire_schema.internal_form("storage.CSINodeDriver", it), IMMUTABLE)
        for it in drivers
        if known.get(it.get("name"), it) != it
    ]


_FROZEN: dict[str, Callable[[Data, Data, Data], list[Problem]]] = {
    "CSINode": _drivers_update,
    "Node": _node_update,
    "PersistentVolume": _volume_update,
    "PersistentVolumeClaim": _claim_update,
    "Service": _service_update,
    "StatefulSet": _set_update,
}


def _at(data: Any, path: str) -> Any:
    for name in path.split("."):
        data = data.get(name) if isinstance(data, dict) else None
    return data
