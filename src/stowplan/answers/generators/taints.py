"""TaintToleration and NodeUnschedulable: tolerate, correct a toleration, uncordon, let a pod go."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from stowplan.answers.changes import Candidate, Data, Edit, ObjectEdit, Sort
from stowplan.answers.situation import CORDONED, Situation
from stowplan.answers.words import likeness

STATES = ("node.kubernetes.io/", "node-role.kubernetes.io/", "node.cloudprovider.kubernetes.io/")
"""Taints under these say how a node is or that it is the control plane's: nothing to tolerate."""

SHAPES_MAX = 6
"""Different lists of taints that are looked at, those of the most nodes first."""


def tolerations(s: Situation, rows: list[int]) -> Iterator[Candidate]:
    by_taints: dict[tuple[Any, ...], int] = {}
    for row in rows:
        taints = tuple(taint for taint in s.untolerated(row) if taint.key != CORDONED)
        by_taints[taints] = by_taints.get(taints, 0) + 1
    # What is left of a cordon, as long as nobody has taken its taint away.
    yield from uncordon(s, [row for row in rows if s.is_only_cordoned(row)])
    shapes = sorted(by_taints, key=lambda taints: (len(taints), -by_taints[taints]))
    for taints in [shape for shape in shapes if shape][:SHAPES_MAX]:
        last_resort = any(taint.key.startswith(STATES) for taint in taints)
        yield from _corrected(s, taints)
        texts = " and ".join(taint_text(taint) for taint in taints)
        yield Candidate(
            f"tolerate the taint {texts}",
            Sort.TOLERATE,
            len(taints),
            pod=tuple(partial(_tolerate, taint) for taint in taints),
            last_resort=last_resort,
        )


def taint_text(taint: Any) -> str:
    value = f"={taint.value}" if taint.value else ""
    return f"{taint.key}{value}:{taint.effect}"


def _tolerate(taint: Any, pod: Data) -> None:
    toleration: Data = {"key": taint.key, "operator": "Equal", "value": taint.value}
    if not taint.value:
        toleration = {"key": taint.key, "operator": "Exists"}
    pod["spec"].setdefault("tolerations", []).append({**toleration, "effect": taint.effect})


def _corrected(s: Situation, taints: tuple[Any, ...]) -> Iterator[Candidate]:
    """Tolerations that were meant for these taints: all but one word of each is right.  What no
    toleration was meant for is tolerated."""
    repairs = [_repair(s, taint) for taint in taints]
    sorts = tuple(repair[0] for repair in repairs)
    if Sort.CORRECT in sorts:
        yield Candidate(
            ", and ".join(title for _, _, title, _ in repairs),
            max(sorts),
            sum(amount for _, amount, _, _ in repairs) + len(repairs) - 1,
            pod=tuple(edit for _, _, _, edit in repairs),
            sorts=sorts if len(sorts) > 1 else (),
        )


def _repair(s: Situation, taint: Any) -> tuple[Sort, float, str, Edit]:
    best: tuple[float, int, str, str] | None = None
    for number, each in enumerate(s.manifest["spec"].get("tolerations") or ()):
        found = _wrong_word(each, taint)
        if found is not None and (best is None or found[0] > best[0]):
            best = found[0], number, found[1], found[2]
    if best is None:
        title = f"tolerate the taint {taint_text(taint)}"
        return Sort.TOLERATE, 1, title, partial(_tolerate, taint)
    alike, number, field, right = best
    old = s.manifest["spec"]["tolerations"][number].get(field, "")

    def edit(pod: Data) -> None:
        pod["spec"]["tolerations"][number][field] = right

    title = f"correct the toleration's {field}: {right!r} instead of {old!r}"
    return Sort.CORRECT, 1 - alike, title, edit


def _wrong_word(toleration: Data, taint: Any) -> tuple[float, str, str] | None:
    exists = toleration.get("operator") == "Exists"
    wanted = {"key": taint.key, "effect": taint.effect}
    if not exists:
        wanted["value"] = taint.value
    wrong = [
        field
        for field, right in wanted.items()
        if toleration.get(field, "") != right
        and not (field == "effect" and not toleration.get(field))
    ]
    if len(wrong) != 1:
        return None
    field = wrong[0]
    alike = likeness(str(toleration.get(field, "")), wanted[field])
    if field != "effect" and alike < 0.5:
        return None
    return alike, field, wanted[field]


def uncordon(s: Situation, rows: list[int]) -> Iterator[Candidate]:
    for row in sorted(rows, key=lambda row: s.names[row])[:SHAPES_MAX]:
        name = s.names[row]
        edit = ObjectEdit("Node", name, _uncordoned)
        yield Candidate(f"uncordon {name}", Sort.UNCORDON, row / 1e6, objects=(edit,))


def _uncordoned(node: Data) -> None:
    spec = node["spec"]
    spec.pop("unschedulable", None)
    left = [taint for taint in spec.get("taints") or () if taint.get("key") != CORDONED]
    if len(left) != len(spec.get("taints") or ()):
        spec["taints"] = left
        if not left:
            del spec["taints"]
