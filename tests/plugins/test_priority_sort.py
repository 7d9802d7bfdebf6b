"""PrioritySort: the more important first, then who has waited longer."""

from __future__ import annotations

from stowplan.plugins.priority_sort import PrioritySort
from tests.builders import info, pod


def test_priority_then_time() -> None:
    plugin = PrioritySort()
    queue = [
        ("low", info(pod(spec={"priority": -5})), 0.0),
        ("none, late", info(pod()), 2.0),
        ("zero, early", info(pod(spec={"priority": 0})), 1.0),
        ("high", info(pod(spec={"priority": 10})), 9.0),
    ]

    order = sorted(queue, key=lambda entry: plugin.sort_key(entry[1], entry[2]))

    assert [name for name, _, _ in order] == ["high", "zero, early", "none, late", "low"]
