"""Long attempts: their namespace lets the others go first for nine times as long."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.queue import Debt, QueuedPod
from stowplan.queue.metrics import NAMES_MAX, OTHER_NAMES
from stowplan.state.pod_info import PodInfo
from tests.queue.builders import Harness, annotated, pod
from tests.queue.model import Model


class Fair(Harness):
    def __init__(self, *names: str) -> None:
        self.told: list[tuple[str, str]] = []
        super().__init__(on_held_back=self.note)
        for name in names:
            self.add(name)

    def note(self, queued: QueuedPod, debt: Debt) -> None:
        self.told.append((queued.info.key, debt.pod))

    def add(self, name: str, priority: int = 0) -> PodInfo:
        """`name` is of the form `namespace/name`."""
        namespace, _, short = name.partition("/")
        info = pod(short, uid=name, namespace=namespace, priority=priority)
        self.queue.add(info)
        self.tick(0.001)  # A later pod comes later.
        return info

    def popped(self, count: int) -> list[str]:
        return [self.pop().info.key for _ in range(count)]


def test_pods_of_a_namespace_that_owes_are_passed_over_and_keep_their_order() -> None:
    h = Fair("greedy/a", "greedy/b", "shop/a", "greedy/c", "shop/b")

    assert h.popped(1) == ["greedy/a"]
    h.queue.owe("greedy/a", 1.0)

    assert h.popped(4) == ["shop/a", "shop/b", "greedy/b", "greedy/c"]
    assert not h.queue.has_next


def test_an_important_pod_waits_all_the_same() -> None:
    h = Fair("shop/a")
    h.queue.owe("greedy/x", 1.0)
    h.add("greedy/urgent", priority=1_000_000)

    assert h.popped(2) == ["shop/a", "greedy/urgent"]


def test_a_debt_is_paid_by_nine_times_the_time() -> None:
    h = Fair("greedy/a", "shop/a", "shop/b")
    h.queue.owe("greedy/x", 1.0)

    h.tick(8.999)
    assert h.popped(1) == ["shop/a"]
    h.tick(0.001)
    assert h.popped(2) == ["greedy/a", "shop/b"]


def test_what_was_put_aside_and_is_free_again_has_its_old_place() -> None:
    h = Fair("shop/a", "greedy/a", "shop/b", "greedy/b")
    h.add("shop/first", priority=1)
    h.add("greedy/first", priority=2)
    h.queue.owe("greedy/x", 1.0)

    assert h.popped(1) == ["shop/first"]
    h.tick(9.0)
    h.add("greedy/late", priority=1)

    order = ["greedy/first", "greedy/late", "shop/a", "greedy/a", "shop/b", "greedy/b"]
    assert h.popped(6) == order


def test_of_two_that_owe_the_one_that_is_free_first_goes_first() -> None:
    h = Fair("greedy/a", "vast/a", "greedy/b")
    h.queue.owe("greedy/x", 5.0)
    h.queue.owe("vast/x", 1.0)

    assert h.popped(3) == ["vast/a", "greedy/a", "greedy/b"]


def test_a_shorter_attempt_does_not_shorten_a_debt() -> None:
    h = Fair("greedy/a", "shop/a")
    h.queue.owe("greedy/x", 5.0)
    h.queue.owe("greedy/y", 0.1)
    h.tick(30.0)

    assert h.popped(2) == ["shop/a", "greedy/a"]


def test_it_is_told_once_per_debt_and_only_of_pods_that_would_have_gone() -> None:
    h = Fair("shop/a", "greedy/a", "greedy/b", "shop/b", "shop/c")
    h.queue.owe("greedy/x", 1.0)

    h.popped(1)
    assert h.told == []  # It was the turn of shop/a anyway.
    h.popped(2)
    assert h.told == [("greedy/a", "greedy/x")]
    h.popped(1)
    h.queue.owe("greedy/a", 2.0)
    h.add("shop/d", priority=-1)
    h.popped(1)
    assert h.told[1:] == [("greedy/b", "greedy/a")]


def test_pods_that_lie_aside_can_change_and_go() -> None:
    h = Fair("shop/a")
    infos = [h.add(f"greedy/{name}", priority=1) for name in "abc"]
    h.queue.owe("greedy/x", 1.0)
    h.popped(1)
    h.add("shop/b")

    h.queue.delete(infos[0])
    h.queue.update(infos[1], annotated(infos[1]))
    h.queue.update(infos[2], urgent := pod("c", uid="greedy/c", namespace="greedy", priority=9))

    assert h.queue.get("greedy/a") is None
    assert h.queue.pending_counts()["active"] == 3
    assert h.popped(3) == ["shop/b", urgent.key, "greedy/b"]


def test_leftovers_of_pods_that_change_while_they_lie_aside_do_not_pile_up() -> None:
    h = Fair("greedy/a", "greedy/b")
    h.queue.owe("greedy/x", 1000.0)
    active, info = h.queue._active, pod("a", uid="greedy/a", namespace="greedy")

    for priority in range(1, 2000):
        h.queue.update(
            info, info := pod("a", uid="greedy/a", namespace="greedy", priority=priority)
        )
        h.add("shop/x", priority=-1)
        assert h.popped(1) == ["shop/x"]
        h.queue.done("shop/x")

    kept = len(active._heap) + sum(len(debt.aside) for debt in active.debts.values())
    assert kept < 200
    assert h.popped(2) == ["greedy/a", "greedy/b"]


def test_how_long_and_how_many_are_held_back_is_counted() -> None:
    h = Fair("greedy/a", "greedy/b", "shop/a", "shop/b")
    h.queue.owe("greedy/x", 1.0)
    assert h.queue.held_back_count() == 2
    assert h.queue.held_back_seconds() == {}

    h.popped(1)
    h.tick(4.0)
    assert h.queue.held_back_seconds() == pytest.approx({"greedy": 4.0})
    h.popped(2)  # shop/b, and greedy/a, with nobody else there.
    h.tick(3.0)
    assert h.queue.held_back_seconds() == pytest.approx({"greedy": 4.0})
    h.tick(3.0)
    assert h.queue.held_back_count() == 0
    assert h.queue.owing() == {}


def test_only_so_many_namespaces_are_told_apart() -> None:
    held_back_s = Harness().queue.metrics.held_back_s
    for number in range(NAMES_MAX + 50):
        held_back_s[f"n{number}"] += 2.0
    held_back_s["n0"] += 1.0

    assert len(held_back_s) == NAMES_MAX + 1
    assert held_back_s[OTHER_NAMES] == 100.0
    assert held_back_s["n0"] == 3.0


def test_a_clock_that_is_set_back_makes_nobody_wait_longer() -> None:
    h = Fair("greedy/a", "shop/a", "shop/b")
    h.queue.owe("greedy/x", 1.0)
    h.tick(-3600.0)
    assert h.popped(1) == ["shop/a"]
    h.tick(9.0)

    assert h.popped(2) == ["greedy/a", "shop/b"]


# -- over any history -----------------------------------------------------------------------


@dataclass
class Attempt:
    namespace: str
    began_s: float
    seconds: float


def histories() -> st.SearchStrategy[list[tuple[str, int, list[float]]]]:
    """Namespaces that are greedy: name, priority, and how long their pods take."""
    seconds = st.sampled_from([0.02, 0.1, 0.5, 1.0, 3.0, 10.0])
    takes = st.lists(seconds, min_size=1, max_size=12)
    greedy = st.tuples(st.integers(0, 2), takes)
    return st.lists(greedy, min_size=1, max_size=3).map(
        lambda found: [(f"greedy-{n}", *some) for n, some in enumerate(found)]
    )


@given(greedy=histories(), polite_s=st.sampled_from([0.001, 0.01, 0.019]))
def test_no_namespace_has_more_than_a_tenth_while_others_wait(
    greedy: list[tuple[str, int, list[float]]], polite_s: float
) -> None:
    """A polite namespace always has a pod ready, of no importance; everybody else wants it all."""
    h = Fair()
    takes = {"polite": polite_s}
    for namespace, priority, seconds in greedy:
        for number, each_s in enumerate(seconds):
            takes[h.add(f"{namespace}/{number}", priority).key] = each_s
    attempts: list[Attempt] = []
    left = len(takes) - 1
    while left:
        if "polite/p" not in h.queue._active:
            h.add("polite/p", priority=-1)
        queued = h.pop()
        h.queue.done(queued.info.uid)
        namespace = queued.info.pod.metadata.namespace
        each_s = polite_s if namespace == "polite" else takes[queued.info.key]
        attempts.append(Attempt(namespace, h.clock.now_s, each_s))
        h.tick(each_s)
        if namespace != "polite":
            left -= 1
            h.queue.owe(queued.info.key, each_s)
        else:
            # Decisions without end would be as good, and take longer.
            h.tick(0.1)

    for namespace, _, seconds in greedy:
        own = [attempt for attempt in attempts if attempt.namespace == namespace]
        assert len(own) == len(seconds), "a pod is lost, or was there twice"
        for first, attempt in enumerate(own):
            used_s = 0.0
            for later in own[first:]:
                window_s = later.began_s - attempt.began_s
                assert used_s <= window_s / 10 + 1e-6, "more than a tenth, before this attempt"
                used_s += later.seconds
        others_s = max((a.seconds for a in attempts if a.namespace != namespace), default=0.0)
        for attempt, later in pairwise(own):
            wait_s = later.began_s - attempt.began_s
            longest_s = (len(greedy) - 1) * others_s + 1.0
            assert wait_s <= 10 * attempt.seconds + longest_s, "it starves"


STEPS = st.one_of(
    st.tuples(st.just("add"), st.sampled_from("abc"), st.integers(0, 2)),
    st.tuples(st.just("owe"), st.sampled_from("abc"), st.sampled_from([1, 2, 8])),
    st.tuples(st.just("tick"), st.none(), st.sampled_from([1, 4, 9, 30])),
    st.tuples(st.sampled_from(["pop", "pop", "delete", "raise"]), st.none(), st.integers(0, 20)),
)


@given(steps=st.lists(STEPS, min_size=10, max_size=60))
def test_the_plain_model_pops_the_same_pods(steps: list[tuple[str, str, int]]) -> None:
    """Fewer things happen than in `test_machine`, so debts meet each other more often."""
    h = Fair()
    model = Model(h.clock.now, [], {}, lambda key: None)
    waiting: list[PodInfo] = []
    serial = count()

    def pop() -> None:
        expected, queued = model.pop(), h.queue.pop()
        assert (queued and queued.info.key) == (expected and expected.info.key)
        if queued is not None:
            waiting.remove(queued.info)

    for what, namespace, number in steps:
        if what == "add":
            info = pod(str(next(serial)), namespace=namespace, priority=number)
            waiting.append(info)
            h.queue.add(info)
            model.add(info)
        elif what == "owe":
            h.queue.owe(f"{namespace}/x", number)
            model.owe(namespace, number)
        elif what == "tick":
            h.tick(number)
        elif what == "pop":
            pop()
        elif waiting:
            old = waiting.pop(number % len(waiting))
            if what == "delete":
                h.queue.delete(old)
                model.delete(old)
            else:
                new = pod(old.pod.metadata.name, namespace=old.key[0], uid=old.uid, priority=3)
                waiting.append(new)
                h.queue.update(old, new)
                model.update(old, new)
    while waiting:
        pop()
    pop()
