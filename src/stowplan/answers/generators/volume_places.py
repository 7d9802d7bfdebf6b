"""Where a volume is: labels and a node affinity that tie it to nodes, and what would bring it and
the pod together.  Whether a tie holds on a node is asked of the function that the plugins ask."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

from stowplan.answers.changes import Candidate, Data, Edit, ObjectEdit, Sort
from stowplan.answers.situation import Situation, is_fact
from stowplan.answers.words import NEAR, likeness, nearest
from stowplan.objects.selectors import SelectorError, make_requirement

ZONES = ("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone",
         "topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region")  # fmt: skip
SEVERAL = "__"
"""Stands between the zones of a volume's label."""
ROWS_MAX = 4
"""Nodes that a volume could be brought to."""


class Tie(NamedTuple):
    """What a volume demands of a node."""

    key: str
    operator: str
    values: tuple[str, ...]
    at: tuple[int, int] | None = None
    """Which term of its affinity, and which expression of it; None: a label of the volume.  Fields
    of nodes are not asked for volumes."""

    def holds(self, labels: dict[str, str]) -> bool:
        try:
            return make_requirement(self.key, self.operator, self.values).matches(labels)
        except SelectorError:
            return False

    def __str__(self) -> str:
        return f"{self.key} {self.operator} {','.join(self.values)}".strip()


def ties(volume: Any) -> list[tuple[str, str]]:
    """Labels that make a node right for the volume."""
    first = next(iter(_terms(volume)), [])
    return [(tie.key, tie.values[0]) for tie in (*_labels(volume), *first)
            if tie.operator == "In" and tie.values]  # fmt: skip


def _labels(volume: Any) -> list[Tie]:
    labels = volume.metadata.labels or {}
    return [Tie(key, "In", tuple(labels[key].split(SEVERAL))) for key in ZONES if key in labels]


def _terms(volume: Any) -> list[list[Tie]]:
    """The terms of its affinity, one of which has to hold."""
    required = volume.spec.node_affinity and volume.spec.node_affinity.required
    return [
        [
            Tie(each.key, each.operator, tuple(each.values or ()), (number, place))
            for place, each in enumerate(term.match_expressions or ())
        ]
        for number, term in enumerate((required and required.node_selector_terms) or ())
    ]


def _broken(volume: Any, labels: dict[str, str]) -> Iterator[Tie]:
    """The ties that alone keep the volume from a node: each of its labels, and of each term of its
    affinity the one that does not hold."""
    yield from (tie for tie in _labels(volume) if not tie.holds(labels))
    terms = [[tie for tie in term if not tie.holds(labels)] for term in _terms(volume)]
    if all(terms):
        yield from (term[0] for term in terms if len(term) == 1)


def reachable(
    s: Situation, volume: Any, rows: list[int], *, apart: bool = False
) -> Iterator[Candidate]:
    """Changes to the volume or to a node after which the node has it; `apart`: the pod's volumes
    are where no node has all of them."""
    for row in rows[:ROWS_MAX]:
        for tie in _broken(volume, s.labels(row)):
            yield from _corrected(s, volume, tie)
            yield from _moved(s, volume, tie, row, apart=apart)
            yield from _labelled(s, tie, row)


def _known(s: Situation, key: str) -> set[str]:
    """What nodes have for a label."""
    return {labels[key] for labels in map(s.labels, range(len(s.names))) if key in labels}


def _corrected(s: Situation, volume: Any, tie: Tie) -> Iterator[Candidate]:
    """A word that no node has, and looks like one that some have."""
    known = _known(s, tie.key)
    if not known and tie.at is not None and tie.operator != "DoesNotExist":
        labels = {key for row in range(len(s.names)) for key in s.labels(row)}
        # The same name under another prefix is another driver's.
        right = nearest(tie.key, labels, NEAR + 0.01)
        if right is not None:
            title = f"correct a key of the volume {volume.name}: {right} instead of {tie.key}"
            edit = partial(_set_key, tie, right)
            yield _change(volume, title, Sort.CORRECT, 1 - likeness(tie.key, right), edit)
    for place, value in enumerate(tie.values if tie.operator == "In" else ()):
        right = nearest(value, known) if value not in known else None
        if right is not None:
            title = f"correct the {tie.key} of the volume {volume.name}: {right} instead of {value}"
            values = (*tie.values[:place], right, *tie.values[place + 1 :])
            edit = partial(_set_values, tie, values)
            yield _change(volume, title, Sort.CORRECT, 1 - likeness(value, right), edit)


def _moved(s: Situation, volume: Any, tie: Tie, row: int, *, apart: bool) -> Iterator[Candidate]:
    """Its place is gone, or is not the node's: what was on it is perhaps not there."""
    own = s.labels(row).get(tie.key)
    if tie.operator == "In":
        if own is not None and (apart or not _known(s, tie.key) & set(tie.values)):
            old = " or ".join(tie.values)
            title = f"let the volume {volume.name} be at {tie.key}={own} instead of {old}"
            edit = partial(_set_values, tie, (own,))
            yield _change(volume, title, Sort.OTHER, 1 + row / 1e6, edit, last_resort=True)
        return
    if tie.operator == "NotIn" and len(tie.values) > 1 and own is not None:
        title = f"let the volume {volume.name} be at {tie.key}={own} too"
        left = tuple(value for value in tie.values if value != own)
        edit = partial(_set_values, tie, left)
        yield _change(volume, title, Sort.RELAX, 1, edit, last_resort=True)
    title = f"do not tie the volume {volume.name} to {tie}"
    yield _change(volume, title, Sort.DROP, 1, partial(_drop, tie), last_resort=True)


def _labelled(s: Situation, tie: Tie, row: int) -> Iterator[Candidate]:
    """The node is given what the volume asks for."""
    name, labels = s.names[row], s.labels(row)
    if tie.operator not in ("In", "Exists", "DoesNotExist"):
        return
    lies = is_fact(tie.key) and tie.key in labels
    value = None if tie.operator == "DoesNotExist" else (tie.values or ("",))[0]
    word = f"label {name} with {tie.key}={value}"
    title = word if value is not None else f"take the label {tie.key} from {name}"
    edit = ObjectEdit("Node", name, partial(_label, tie.key, value))
    yield Candidate(title, Sort.LABEL, row / 1e6, objects=(edit,), last_resort=lies)


def _change(
    volume: Any, title: str, sort: Sort, amount: float, edit: Edit, *, last_resort: bool = False
) -> Candidate:
    objects = (ObjectEdit("PersistentVolume", volume.name, edit),)
    return Candidate(title, sort, amount, objects=objects, last_resort=last_resort)


def volume_names(s: Situation) -> set[str]:
    """Volumes that claims of the pod are bound to."""
    names = {volume.persistent_volume_claim.claim_name for volume in s.pod.spec.volumes or ()
             if volume.persistent_volume_claim is not None}  # fmt: skip
    return {claim.spec.volume_name for claim in s.objects("PersistentVolumeClaim")
            if claim.namespace == s.pod.namespace and claim.name in names}  # fmt: skip


def are_apart(s: Situation, volumes: list[Any]) -> bool:
    """Whether each of these volumes is somewhere, and no node has them all."""
    return len(volumes) > 1 and not any(
        not any(True for volume in volumes for _ in _broken(volume, s.labels(row)))
        for row in range(len(s.names))
    )


def _requirement(tie: Tie, volume: Data) -> Data:
    assert tie.at is not None, tie
    number, place = tie.at
    terms = volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    found: Data = terms[number]["matchExpressions"][place]
    return found


def _set_values(tie: Tie, values: tuple[str, ...], volume: Data) -> None:
    if tie.at is None:
        volume["metadata"]["labels"][tie.key] = SEVERAL.join(values)
    else:
        _requirement(tie, volume)["values"] = list(values)


def _set_key(tie: Tie, key: str, volume: Data) -> None:
    _requirement(tie, volume)["key"] = key


def _drop(tie: Tie, volume: Data) -> None:
    """With the last requirement of the last term goes the affinity: an empty term matches
    nothing."""
    assert tie.at is not None, tie
    number, place = tie.at
    terms = volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    del terms[number]["matchExpressions"][place]
    if not any(terms[number].values()):
        del terms[number]
    if not terms:
        del volume["spec"]["nodeAffinity"]


def _label(key: str, value: str | None, node: Data) -> None:
    labels = node["metadata"].setdefault("labels", {})
    if value is None:
        del labels[key]
    else:
        labels[key] = value
