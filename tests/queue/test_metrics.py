"""What the queue counts, and that another one counts on where it stopped."""

from __future__ import annotations

from stowplan.queue.metrics import NAMES_MAX, OTHER_NAMES, FewNames, QueueMetrics

HINT = ("NodeName", "NodeAdd", "Queue")


def test_a_queue_counts_on_where_another_stopped() -> None:
    old, new = QueueMetrics(), QueueMetrics()
    for metrics, times in ((old, 2), (new, 3)):
        metrics.incoming_pods["active", "PodAdd"] += times
        metrics.held_back_s["greedy"] += times
        metrics.hint_durations[HINT].observe(0.001 * times, times)
        metrics.raise_unschedulable(frozenset({"NodeName"}), "default")
        metrics.kept_events["NodeAdd"] += times
    old.incoming_pods["backoff", "PodAdd"] += 1
    old.popped = (1, 2)

    new.go_on_from(old)

    assert new.incoming_pods == {("active", "PodAdd"): 5, ("backoff", "PodAdd"): 1}
    assert new.held_back_s == {"greedy": 5.0}
    durations = new.hint_durations[HINT]
    assert (durations.count, round(durations.sum, 6)) == (5, 0.013)
    # What waits now is counted anew.
    assert new.unschedulable_pods == {("NodeName", "default"): 1}
    assert new.inflight_events == {"PodPopped": 0, "NodeAdd": 3}
    assert old.inflight_events == {"PodPopped": 2, "NodeAdd": 2}


def test_who_waits_is_counted_for_every_plugin_that_turned_it_away() -> None:
    metrics = QueueMetrics()
    both = frozenset({"A", "B"})
    metrics.raise_unschedulable(both, "p")
    metrics.raise_unschedulable(both, "p")
    metrics.lower_unschedulable(frozenset({"A"}), "p")
    metrics.raise_unschedulable(frozenset({"A"}), "q")

    assert metrics.unschedulable_pods == {("A", "p"): 1, ("B", "p"): 2, ("A", "q"): 1}


def test_beyond_so_many_names_the_others_are_one() -> None:
    amounts = FewNames()
    for number in range(NAMES_MAX + 3):
        amounts[str(number)] += 1.0
    amounts["0"] += 1.0
    amounts["late"] += 2.0

    assert len(amounts) == NAMES_MAX + 1
    assert (amounts["0"], amounts["1"], amounts[OTHER_NAMES]) == (2.0, 1.0, 5.0)
    assert amounts["nobody"] == 0.0
    assert "nobody" not in amounts
