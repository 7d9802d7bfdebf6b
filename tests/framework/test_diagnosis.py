"""Why a pod fits nowhere: counted over arrays, equal to counting node by node."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stowplan.framework.diagnosis import Diagnosis, Rejections, fit_message, status_histogram
from stowplan.framework.status import Code, Status, unresolvable, unschedulable
from tests.builders import World, node

PLUGINS = ("A", "B")
REASONS = {1: ["a0", "a1", "shared"], 2: ["b0", "shared"]}

rejections = st.tuples(st.integers(0, 2), st.integers(1, 7), st.booleans())
"""(plugin number, reasons as bits, final)"""

statuses = st.builds(
    Status,
    st.sampled_from([Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE]),
    st.sampled_from([("nominated",), ("shared", "nominated")]),
    st.sampled_from(["A", "C"]),
)


@st.composite
def diagnoses(draw: st.DrawFn) -> Diagnosis:
    rows = draw(st.lists(rejections, min_size=1, max_size=8))
    world = World(*[node(f"node-{n}") for n in range(len(rows))])
    first = np.array([number for number, _, _ in rows], np.uint8)
    masks = (0, 7, 3)
    why = np.array([max(1, bits & masks[n]) if n else 0 for n, bits, _ in rows], np.uint32)
    final = np.array([final for _, _, final in rows], np.bool_)
    candidates = np.array(draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows))))
    overridden = draw(st.dictionaries(st.integers(0, len(rows) - 1), statuses, max_size=3))
    return Diagnosis(
        world.table,
        len(rows),
        Rejections(PLUGINS, REASONS, first, why, final),
        candidates,
        overridden,
        draw(st.sampled_from([None, unresolvable("absent"), unschedulable("soft", "absent")])),
    )


def by_hand(diagnosis: Diagnosis) -> list[Status]:
    """The status of every node that has one."""
    found = [diagnosis.status(row) for row in range(diagnosis.node_count)]
    return [status for status in found if status is not None]


@given(diagnoses())
def test_the_histogram_counts_every_nodes_reasons(diagnosis: Diagnosis) -> None:
    assert diagnosis.histogram() == status_histogram(by_hand(diagnosis))


@given(diagnoses())
def test_evicting_may_help_where_the_status_is_plain_unschedulable(diagnosis: Diagnosis) -> None:
    expected = [
        row
        for row in range(diagnosis.node_count)
        if (status := diagnosis.status(row)) is not None and status.code == Code.UNSCHEDULABLE
    ]

    assert diagnosis.resolvable_rows().tolist() == expected


@given(diagnoses())
def test_the_rejectors_are_those_of_the_nodes_that_were_looked_at(diagnosis: Diagnosis) -> None:
    diagnosis.add_plugins()

    named = {status.plugin for status in by_hand(diagnosis)} - {""}
    assert diagnosis.unschedulable_plugins == named


def test_the_message_has_reasons_sorted_as_text_and_what_pre_and_post_filter_say() -> None:
    counts = {"Insufficient cpu": 10, "node(s) had untolerated taint(s)": 9}

    assert fit_message(19, counts) == (
        "0/19 nodes are available: 10 Insufficient cpu, 9 node(s) had untolerated taint(s)."
    )
    assert fit_message(3, counts, "the claim is lost") == (
        "0/3 nodes are available: the claim is lost."
    )
    assert fit_message(0, {}) == "0/0 nodes are available:"
