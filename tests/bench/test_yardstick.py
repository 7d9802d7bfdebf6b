"""The bare kernel that rates are compared with."""

from __future__ import annotations

from collections import Counter

from stowplan.bench.yardstick import PODS_KEPT, Yardstick, _Nodes, place_every_row


def place_kept(node_count: int, pod_count: int) -> list[int]:
    nodes = _Nodes(node_count)
    nodes.compute()
    rows = []
    for _ in range(pod_count):
        rows.append(nodes.place())
        nodes.compute_one(rows[-1])
    return rows


def test_kept_scores_place_pods_where_computed_ones_do() -> None:
    assert place_kept(50, 400) == place_every_row(50, 400)


def test_the_kernel_does_schedule() -> None:
    """Nodes for 40 pods of 0.1 cpu each: spread evenly by the least allocated, none overfilled."""
    assert set(Counter(place_every_row(10, 200)).values()) == {20}
    assert set(Counter(place_kept(10, 400)).values()) == {40}


def test_a_yardstick_can_be_looked_at_for_long() -> None:
    stick = Yardstick(node_count=60)

    stick.look()
    for _ in range(2 * PODS_KEPT // 50):
        stick.glance()

    assert stick.kept > 0
    assert stick.every_row > 0
