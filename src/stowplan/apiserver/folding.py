"""matchLabelKeys and mismatchLabelKeys, folded into the selectors they belong to.

kube-apiserver does this once, when a pod is created, so that schedulers read the selector alone:
`key In [value]` for a key to match and `key NotIn [value]` for one to differ in, for keys that
the pod has.  A term without a selector stays as it is.  Mirrors `mutatePodAffinity` and
`mutateTopologySpreadConstraints` of the pod strategy.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from stowplan.apiserver.answers import Problem, invalid
from stowplan.objects.base import LabelSelector, LabelSelectorRequirement
from stowplan.objects.pod import (
    PodAffinity,
    PodAffinityTerm,
    PodSpec,
    TopologySpreadConstraint,
    WeightedPodAffinityTerm,
)

Labels = Mapping[str, str]


def folds_label_keys(spec: PodSpec) -> bool:
    """Whether `fold_label_keys` can change the spec, whatever the labels."""
    if any(item.match_label_keys for item in spec.topology_spread_constraints or ()):
        return True
    affinity = spec.affinity
    if affinity is None:
        return False
    return any(
        term.match_label_keys or term.mismatch_label_keys
        for part in (affinity.pod_affinity, affinity.pod_anti_affinity)
        if part is not None
        for term in _terms(part)
    )


def fold_label_keys(spec: PodSpec, labels: Labels) -> PodSpec:
    """The spec of a new pod that has these labels."""
    constraints = spec.topology_spread_constraints
    if constraints:
        constraints = [_fold_constraint(constraint, labels) for constraint in constraints]
    affinity = spec.affinity
    if affinity is not None:
        affinity = replace(
            affinity,
            pod_affinity=_fold_affinity(affinity.pod_affinity, labels),
            pod_anti_affinity=_fold_affinity(affinity.pod_anti_affinity, labels),
        )
    return replace(spec, topology_spread_constraints=constraints, affinity=affinity)


def label_key_problems(spec: PodSpec, labels: Labels) -> Iterator[Problem]:
    """Keys that would be in a selector twice: named there already, or named twice themselves."""
    for n, constraint in enumerate(spec.topology_spread_constraints or ()):
        where = f"spec.topologySpreadConstraints[{n}]"
        yield from _named_twice(constraint, where, labels, ("match",))
    affinity = spec.affinity
    for name, part in (
        ("podAffinity", affinity and affinity.pod_affinity),
        ("podAntiAffinity", affinity and affinity.pod_anti_affinity),
    ):
        where = f"spec.affinity.{name}"
        for n, term in enumerate((part and part.required) or ()):
            place = f"{where}.requiredDuringSchedulingIgnoredDuringExecution[{n}]"
            yield from _named_twice(term, place, labels, ("match", "mismatch"))
        for n, weighted in enumerate((part and part.preferred) or ()):
            place = f"{where}.preferredDuringSchedulingIgnoredDuringExecution[{n}].podAffinityTerm"
            yield from _named_twice(
                weighted.pod_affinity_term, place, labels, ("match", "mismatch")
            )


def _named_twice(
    term: PodAffinityTerm | TopologySpreadConstraint,
    where: str,
    labels: Labels,
    sorts: tuple[str, ...],
) -> Iterator[Problem]:
    selector = term.label_selector
    if selector is None:
        return
    expressions = selector.match_expressions or ()
    known = {*(selector.match_labels or ()), *(wanted.key for wanted in expressions)}
    for sort in sorts:
        for n, key in enumerate(getattr(term, f"{sort}_label_keys") or ()):
            if key in labels and key in known:
                text = f"exists in both {sort}LabelKeys and labelSelector"
                # Upstream names the place without the field.
                yield invalid(f"{where}[{n}]", key, text)
            known.add(key)


def _terms(affinity: PodAffinity) -> list[PodAffinityTerm]:
    preferred = [weighted.pod_affinity_term for weighted in affinity.preferred or ()]
    return [*(affinity.required or ()), *preferred]


def _fold_constraint(
    constraint: TopologySpreadConstraint, labels: Labels
) -> TopologySpreadConstraint:
    selector = _folded(constraint.label_selector, labels, constraint.match_label_keys, None)
    return replace(constraint, label_selector=selector)


def _fold_affinity(affinity: PodAffinity | None, labels: Labels) -> PodAffinity | None:
    if affinity is None:
        return None
    required, preferred = affinity.required, affinity.preferred
    return replace(
        affinity,
        required=required and [_fold_term(term, labels) for term in required],
        preferred=preferred and [_fold_weighted(term, labels) for term in preferred],
    )


def _fold_weighted(weighted: WeightedPodAffinityTerm, labels: Labels) -> WeightedPodAffinityTerm:
    return replace(weighted, pod_affinity_term=_fold_term(weighted.pod_affinity_term, labels))


def _fold_term(term: PodAffinityTerm, labels: Labels) -> PodAffinityTerm:
    selector = _folded(term.label_selector, labels, term.match_label_keys, term.mismatch_label_keys)
    return replace(term, label_selector=selector)


def _folded(
    selector: LabelSelector | None,
    labels: Labels,
    match_keys: list[str] | None,
    mismatch_keys: list[str] | None,
) -> LabelSelector | None:
    if selector is None:
        return None
    added = [
        LabelSelectorRequirement(key=key, operator=operator, values=[labels[key]])
        for operator, keys in (("In", match_keys), ("NotIn", mismatch_keys))
        for key in keys or ()
        if key in labels
    ]
    if not added:
        return selector
    return replace(selector, match_expressions=[*(selector.match_expressions or ()), *added])
