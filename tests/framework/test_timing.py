"""Durations are handed on in batches, and none is lost."""

from __future__ import annotations

from collections.abc import Callable

from stowplan.framework.timing import BUFFER_MAX, Recorders


class Listener:
    def __init__(self, *, sampled: bool = False) -> None:
        self.sampled = sampled
        self.catch_up: Callable[[], None] = lambda: None
        self.told: list[tuple[str, str, str, float]] = []
        self.plugins: list[tuple[str, str, str, float]] = []
        self.batches = 0

    def now(self) -> float:
        return 1.5

    def points(self, point: str, profile: str, status: str, seconds: list[float]) -> None:
        self.batches += 1
        self.told += [(point, profile, status, each) for each in seconds]

    def plugin(self, plugin: str, point: str, status: str, seconds: float) -> None:
        self.plugins.append((plugin, point, status, seconds))


def test_every_listener_hears_of_every_duration_once() -> None:
    first, second = Listener(), Listener()
    recorders = Recorders(first, second)
    expected = []
    for n in range(3 * BUFFER_MAX):
        labels = ("Filter", "a", "Success") if n % 2 else ("Score", "b", "Error")
        recorders.point(*labels, float(n))
        expected.append((*labels, float(n)))

    first.catch_up()
    second.catch_up()

    assert sorted(first.told) == sorted(second.told) == sorted(expected)
    assert first.batches < 10


def test_what_is_read_is_up_to_date() -> None:
    listener = Listener()
    recorders = Recorders(listener)
    recorders.point("Filter", "a", "Success", 1.0)
    assert listener.told == []

    listener.catch_up()

    assert listener.told == [("Filter", "a", "Success", 1.0)]
    listener.catch_up()
    assert len(listener.told) == 1


def test_the_first_has_the_clock_and_says_whether_plugins_are_timed() -> None:
    recorders = Recorders(Listener(sampled=True), Listener())

    assert recorders.sampled
    assert recorders.now() == 1.5


def test_plugins_are_told_at_once() -> None:
    first, second = Listener(), Listener()

    Recorders(first, second).plugin("X", "Filter", "Success", 0.25)

    assert first.plugins == second.plugins == [("X", "Filter", "Success", 0.25)]
