"""What may change in a pod that exists: almost nothing.

Works on JSON data, so that fields the structs do not hold are guarded as well.  A gated pod is
freer: its node selector and node affinity may be narrowed until the last gate is gone.  Mirrors
`ValidatePodUpdate` and, for the resize subresource, `dropNonResizeUpdates`.
"""

from __future__ import annotations

from typing import Any

from stowplan.apiserver.answers import Problem, invalid, not_allowed

IMMUTABLE = (
    "pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only "
    "additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set "
    "to 1 if it was previously negative)"
)

Spec = dict[str, Any]


def validate_pod_update(new: Spec, old: Spec) -> list[Problem]:
    """The problems of turning the spec `old` into `new`; both with their defaults."""
    for field in ("containers", "initContainers"):
        if len(new.get(field) or ()) != len(old.get(field) or ()):
            text = "pod updates may not add or remove containers"
            return [not_allowed(f"spec.{field}", text)]
    problems = [*_gates(new, old), *_tolerations(new, old), *_deadline(new, old)]
    comparable = _with_what_may_differ(new, old)
    if old.get("schedulingGates"):
        problems += _narrowed(new, old)
        comparable["nodeSelector"] = old.get("nodeSelector")
        comparable["affinity"] = {
            **(new.get("affinity") or {}),
            "nodeAffinity": (old.get("affinity") or {}).get("nodeAffinity"),
        }
    same_selector = (comparable.get("nodeSelector") or {}) == (old.get("nodeSelector") or {})
    # An empty value is one, too, of a label.
    if not same_selector or _pruned(comparable) != _pruned(old):
        problems.append(not_allowed("spec", IMMUTABLE))
    return problems


def resized_spec(new: Spec, old: Spec) -> Spec:
    """`old` with the resources of the containers, and of the pod as a whole, of `new`."""
    spec = dict(old)
    for field in ("containers", "initContainers"):
        if field not in old:
            continue
        wanted = {container.get("name"): container for container in new.get(field) or ()}
        spec[field] = [
            _resized(container, wanted.get(container.get("name"))) for container in old[field]
        ]
    if "resources" in new:
        spec["resources"] = new["resources"]
    return spec


def _resized(container: dict[str, Any], wanted: dict[str, Any] | None) -> dict[str, Any]:
    changed = {
        key: value for key, value in (wanted or {}).items() if key in ("resources", "resizePolicy")
    }
    return {**container, **changed}


def _gates(new: Spec, old: Spec) -> list[Problem]:
    known = {gate.get("name") for gate in old.get("schedulingGates") or ()}
    return [
        not_allowed(
            "spec.schedulingGates",
            f"only deletion is allowed, but found new scheduling gate '{gate.get('name')}'",
        )
        for gate in new.get("schedulingGates") or ()
        if gate.get("name") not in known
    ]


def _tolerations(new: Spec, old: Spec) -> list[Problem]:
    def without_seconds(toleration: dict[str, Any]) -> dict[str, Any]:
        if toleration.get("effect") != "NoExecute":
            return toleration
        return {key: value for key, value in toleration.items() if key != "tolerationSeconds"}

    kept = [without_seconds(toleration) for toleration in new.get("tolerations") or ()]
    if all(without_seconds(toleration) in kept for toleration in old.get("tolerations") or ()):
        return []
    text = "existing toleration can not be modified except its tolerationSeconds"
    return [not_allowed("spec.tolerations", text)]


def _deadline(new: Spec, old: Spec) -> list[Problem]:
    before, after = old.get("activeDeadlineSeconds"), new.get("activeDeadlineSeconds")
    if before is None or after == before:
        return []
    if not isinstance(after, int):
        text = "must not update from a positive integer to nil value"
        return [invalid("spec.activeDeadlineSeconds", after, text)]
    if after > before:
        text = f"must be less than or equal to previous value {before}"
        return [invalid("spec.activeDeadlineSeconds", after, text)]
    return []


def _with_what_may_differ(new: Spec, old: Spec) -> Spec:
    """`new` with the mutable fields of `old`: what is left must be equal."""
    spec = dict(new)
    for field in ("containers", "initContainers"):
        if new.get(field):
            spec[field] = [
                {**after, "image": before.get("image")}
                for after, before in zip(new[field], old[field], strict=True)
            ]
    for field in ("tolerations", "schedulingGates", "activeDeadlineSeconds"):
        spec[field] = old.get(field)
    period_s = old.get("terminationGracePeriodSeconds")
    if period_s is not None and period_s < 0 and new.get("terminationGracePeriodSeconds") == 1:
        spec["terminationGracePeriodSeconds"] = period_s
    return spec


def _narrowed(new: Spec, old: Spec) -> list[Problem]:
    """A gated pod's node selector and required node affinity only get stricter."""
    problems = []
    selector = new.get("nodeSelector") or {}
    if any(selector.get(key) != value for key, value in (old.get("nodeSelector") or {}).items()):
        text = "only additions are allowed (no mutations or deletions)"
        problems.append(invalid("spec.nodeSelector", selector, text))
    before, after = _required_terms(old), _required_terms(new)
    if before is None:
        return problems
    field = (
        "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
        ".nodeSelectorTerms"
    )
    if after is None or len(after) != len(before):
        text = "no additions/deletions to non-empty NodeSelectorTerms list are allowed"
        problems.append(invalid(field, after, text))
    elif not all(map(_is_narrower, after, before)):
        text = "only additions are allowed (no mutations or deletions)"
        problems.append(invalid(field, after, text))
    return problems


def _required_terms(spec: Spec) -> list[dict[str, Any]] | None:
    node = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = node.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    return required.get("nodeSelectorTerms") or None


def _is_narrower(after: dict[str, Any], before: dict[str, Any]) -> bool:
    return all(
        expression in (after.get(field) or ())
        for field in ("matchExpressions", "matchFields")
        for expression in before.get(field) or ()
    )


def _pruned(value: Any) -> Any:
    """Without what means the same as absence, so that `{}` equals nothing there."""
    if isinstance(value, dict):
        pruned = {key: _pruned(item) for key, item in value.items()}
        # 0 equals False in Python but is a value here, such as a priority.
        return {k: v for k, v in pruned.items() if v or (v == 0 and v is not False)}
    if isinstance(value, list):
        return [_pruned(item) for item in value]
    return value
