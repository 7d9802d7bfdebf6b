"""Taints and tolerations: may a pod run on a node that wants to keep pods off?

Mirrors `component-helpers/scheduling/corev1/helpers.go` and `core/v1/toleration.go`.  Used by
TaintToleration, NodeUnschedulable, PodTopologySpread and the expansion of DaemonSets.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from stowplan.objects.node import Taint
from stowplan.objects.pod import Toleration
from stowplan.objects.quantity import INT64_MAX

NO_SCHEDULE = "NoSchedule"
NO_EXECUTE = "NoExecute"
PREFER_NO_SCHEDULE = "PreferNoSchedule"

HARD_EFFECTS = frozenset({NO_SCHEDULE, NO_EXECUTE})
"""These keep a pod off the node; PreferNoSchedule only lowers the node's score."""

_CANONICAL_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,18}")


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Values are not compared: TaintTolerationComparisonOperators, with `Lt` and `Gt`, is off."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    operator = toleration.operator
    if operator in ("", "Equal"):
        return toleration.value == taint.value
    return operator == "Exists"


def first_untolerated(
    taints: Iterable[Taint] | None, tolerations: Iterable[Toleration] | None
) -> Taint | None:
    """The first hard taint that no toleration covers."""
    if not taints:
        return None
    tolerated_by = tuple(tolerations or ())
    for taint in taints:
        if taint.effect in HARD_EFFECTS and not any(tolerates(t, taint) for t in tolerated_by):
            return taint
    return None


def parse_canonical_integer(text: str) -> int | None:
    """A 64-bit number without leading zeros, `+` or `-0`; None for anything else."""
    if _CANONICAL_INTEGER.fullmatch(text) is None:
        return None
    number = int(text)
    return number if -INT64_MAX - 1 <= number <= INT64_MAX else None
