"""What the API refuses of groups and workloads, as tables.

Each message has its fields in upstream's order, and what must hold there (see `field_rules`).
Nothing of a spec may change, so only new ones are looked through.  Fields of feature gates that are
off never come here (`gated_fields`).  `rules` calls it for both kinds.
Mirrors `pkg/apis/scheduling/v1alpha2`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from stowplan.apiserver import device_checks as checks
from stowplan.apiserver import wire_schema
from stowplan.apiserver.answers import Problem, duplicate, invalid, required
from stowplan.apiserver.checks import subdomain_if_given
from stowplan.apiserver.conforming import complete
from stowplan.apiserver.device_checks import Check, Scope
from stowplan.apiserver.field_rules import Rules, apply, each, inside
from stowplan.apiserver.validation import path_segment_problem
from stowplan.objects.pod_groups import POD_BY_POD, WHOLE_GROUP

Data = dict[str, Any]

IMMUTABLE = "field is immutable"
_PACKAGE = "schedulingalpha2"
PRIORITY_MAX = 1_000_000_000
TEMPLATES_MAX = 8
CLAIMS_MAX = 4
TOPOLOGY_MAX = 1


# Checks.


def _exactly_one(*names: str) -> Check:
    shown = ", ".join(f"`{name}`" for name in names)

    def check(where: str, value: Any, scope: Scope) -> Iterator[Problem]:
        given = [name for name in names if value.get(name) is not None]
        if not given:
            yield invalid(where, "", f"must specify one of: {shown}")
        elif len(given) > 1:
            yield invalid(where, f"{{{', '.join(given)}}}", f"must specify exactly one of: {shown}")

    return check


def _named_list(type_: str, rules: Rules, most: int) -> Check:
    """At most so many, of different names."""
    all_ = each(inside(rules), most)
    message = wire_schema.message(f"{_PACKAGE}.{type_}")
    assert message is not None, f"{type_} is not described"

    def named(where: str, value: Any, scope: Scope) -> Iterator[Problem]:
        seen: set[str] = set()
        for n, item in enumerate(value or ()) if len(value or ()) <= most else ():
            if (name := item.get("name") or "") in seen:
                yield duplicate(f"{where}[{n}]", complete(item, message))
            seen.add(name)
        yield from all_(where, value, scope)

    return named


def _long_name_or_none(where: str, value: Any, scope: Scope) -> Iterator[Problem]:
    yield from subdomain_if_given(where, value)


def _long_name_if_any(where: str, value: Any, scope: Scope) -> Iterator[Problem]:
    yield from subdomain_if_given(where, value or None)


def _path_segment(where: str, value: Any, scope: Scope) -> Iterator[Problem]:
    if not value:
        yield required(where)
    elif problem := path_segment_problem(value):
        yield invalid(where, value, problem)


def _label_key(where: str, value: Any, scope: Scope) -> Iterator[Problem]:
    yield from checks.label_key(where, value, scope) if value else (required(where),)


def _min_count(where: str, value: Any, scope: Scope) -> Iterator[Problem]:
    if not value:
        yield required(where)
    elif value < 1:
        yield invalid(where, value, "must be greater than or equal to 1")


def _priority(where: str, value: Any, scope: Scope) -> Iterator[Problem]:
    if value is not None and value > PRIORITY_MAX:
        yield invalid(where, value, f"must be less than or equal to {PRIORITY_MAX}")


# Tables.

_CLAIM: Rules = (
    ("", _exactly_one("resourceClaimName", "resourceClaimTemplateName")),
    ("name", checks.label_if_any),
    ("resourceClaimName", _long_name_or_none),
    ("resourceClaimTemplateName", _long_name_or_none),
)
_POLICY: Rules = (
    ("", _exactly_one("basic", "gang")),
    ("gang", inside((("minCount", _min_count),))),
)
_CONSTRAINTS: Rules = (("topology", each(inside((("key", _label_key),)), TOPOLOGY_MAX)),)


def _policy(where: str, value: Any, scope: Scope) -> Iterator[Problem]:
    yield from apply(_POLICY, where, value or {}, scope)


_PLAN: Rules = (
    ("schedulingPolicy", _policy),
    ("schedulingConstraints", inside(_CONSTRAINTS)),
    ("resourceClaims", _named_list("PodGroupResourceClaim", _CLAIM, CLAIMS_MAX)),
    ("disruptionMode", checks.one_of_or_none(POD_BY_POD, WHOLE_GROUP)),
    ("priorityClassName", _long_name_if_any),
    ("priority", _priority),
)
"""What a group and a template have in common."""
_REFERENCE: Rules = (
    ("", _exactly_one("workload")),
    (
        "workload",
        inside(
            (("workloadName", checks.class_name), ("podGroupTemplateName", checks.label_if_any))
        ),
    ),
)
_GROUP: Rules = (("podGroupTemplateRef", inside(_REFERENCE)), *_PLAN)
_CONTROLLER: Rules = (
    ("apiGroup", _long_name_if_any),
    ("kind", _path_segment),
    ("name", _path_segment),
)
_WORKLOAD: Rules = (
    ("controllerRef", inside(_CONTROLLER)),
    ("podGroupTemplates", checks.given),
    (
        "podGroupTemplates",
        _named_list("PodGroupTemplate", (("name", checks.label_if_any), *_PLAN), TEMPLATES_MAX),
    ),
)
_CLAIM_STATUSES = _named_list(
    "PodGroupResourceClaimStatus", (("resourceClaimName", _long_name_or_none),), CLAIMS_MAX
)

_SPECS: dict[str, Rules] = {"PodGroup": _GROUP, "Workload": _WORKLOAD}
GROUP_KINDS = frozenset(_SPECS)


def group_problems(kind: str, data: Data, old: Data | None = None) -> list[Problem]:
    """What is wrong with a new object, or with what an update makes of an old one."""
    spec, rules = data.get("spec") or {}, _SPECS[kind]
    if old is None:
        return [*apply(rules, "spec", spec, Scope())]
    before = old.get("spec") or {}
    changed = (field for field, _ in dict(rules).items() if spec.get(field) != before.get(field))
    return [invalid(f"spec.{field}", None, IMMUTABLE) for field in changed]


def group_status_problems(data: Data) -> Iterator[Problem]:
    """What a write to the status of a group may not say."""
    spec, status = data.get("spec") or {}, data.get("status") or {}
    yield from checks.conditions("status.conditions", status.get("conditions"), Scope())
    place, statuses = "status.resourceClaimStatuses", status.get("resourceClaimStatuses") or ()
    known = {claim.get("name") for claim in spec.get("resourceClaims") or ()}
    for n, item in enumerate(statuses):
        if (name := item.get("name") or "") not in known:
            text = "must match the name of an entry in `spec.resourceClaims`"
            yield invalid(f"{place}[{n}].name", name, text)
    yield from _CLAIM_STATUSES(place, statuses, Scope())
