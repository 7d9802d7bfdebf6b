"""What plugins answer: a status for one node, or a verdict for all of them.

kube-scheduler builds one status object per node.  Here a filter answers for all nodes at once
with a `Verdict`: two arrays and no strings.  Sentences are made in `framework.diagnosis`, only
when somebody will read them.  `None` stands for Success, as upstream's nil status does.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import IntEnum

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

NodeMask = NDArray[np.bool_]
Scores = NDArray[np.int64]
ShortScores = NDArray[np.int32]
"""As good: quicker to make of floats, and they take half the room in the processor's cache."""
Rows = NDArray[np.intp]
"""Row numbers into the node table."""

MAX_NODE_SCORE = 100


class Code(IntEnum):
    SUCCESS = 0
    ERROR = 1
    UNSCHEDULABLE = 2
    UNSCHEDULABLE_AND_UNRESOLVABLE = 3
    WAIT = 4
    SKIP = 5
    PENDING = 6

    @property
    def label(self) -> str:
        """The name kube-scheduler prints in metrics and logs."""
        return _LABELS[self]


_LABELS = {
    Code.SUCCESS: "Success",
    Code.ERROR: "Error",
    Code.UNSCHEDULABLE: "Unschedulable",
    Code.UNSCHEDULABLE_AND_UNRESOLVABLE: "UnschedulableAndUnresolvable",
    Code.WAIT: "Wait",
    Code.SKIP: "Skip",
    Code.PENDING: "Pending",
}

_REJECTED = frozenset({Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, Code.PENDING})


class Status(Struct, frozen=True):
    """Anything but Success.  `plugin` is filled in by the runtime."""

    code: Code
    reasons: tuple[str, ...] = ()
    plugin: str = ""

    @property
    def is_rejected(self) -> bool:
        return self.code in _REJECTED

    @property
    def message(self) -> str:
        return ", ".join(self.reasons)


def unschedulable(*reasons: str) -> Status:
    return Status(Code.UNSCHEDULABLE, reasons)


def unresolvable(*reasons: str) -> Status:
    """Evicting pods from the node cannot help."""
    return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, reasons)


def error(*reasons: str) -> Status:
    return Status(Code.ERROR, reasons)


SKIP = Status(Code.SKIP)
"""Nothing to say about this pod, this time."""

SKIP_STEADILY = Status(Code.SKIP, ("steadily",))
"""Nor about pods like it, whatever their size, until a node object changes, or an object of
`handle.objects` other than a ResourceClaim, or the affinity terms of running pods: till then the
plugin is not asked."""

SKIP_ALWAYS = Status(Code.SKIP, ("always",))
"""Nor about pods like it, whatever becomes of the cluster.  From PreFilter: the plugin is not asked
about them again, at any point; from PreScore: it does not score them."""

NO_REASON = ("",)
"""What stands in a verdict for a node that was turned down without a word."""


class Verdict(Struct, frozen=True):
    """One filter's answer for the rows it was asked about."""

    reasons: tuple[str, ...]
    """Worded exactly as kube-scheduler words them; at most 32.  "" is no reason, but counts."""

    why: NDArray[np.uint32]
    """Per row, bit n is set when `reasons[n]` applies.  0 means the node passed."""

    unresolvable: NodeMask
    """Per row, turned down for good: preemption skips the node.  Read only where `why` is set."""

    all_passed: bool = False
    """The plugin may say that no row was turned down, to spare others the looking."""

    @property
    def passed(self) -> NodeMask:
        passed: NodeMask = self.why == 0
        return passed

    def status(self, position: int) -> Status | None:
        """The verdict on one row, as the one-node form of the plugin would give it."""
        bits = int(self.why[position])
        if not bits:
            return None
        reasons = tuple(text for n, text in enumerate(self.reasons) if bits >> n & 1 and text)
        hopeless = bool(self.unresolvable[position])
        return unresolvable(*reasons) if hopeless else unschedulable(*reasons)


class Normalized(Struct, frozen=True):
    """Scores from 0 to 100 that need no `normalize_scores`; never to be written."""

    scores: Scores


def row_numbers(rows: Collection[int]) -> Rows:
    """To index with: NumPy takes its time to make out what a list holds."""
    return np.fromiter(rows, np.intp, len(rows))


def verdict_of(failed: NodeMask, reason: str, *, unresolvable: bool) -> Verdict:
    """The common case: one reason, and whether it is final is the same for all nodes."""
    flags = np.full(failed.shape, unresolvable, np.bool_)
    return Verdict((reason,), failed.astype(np.uint32), flags)
