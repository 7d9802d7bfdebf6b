"""A hundred thousand pods come and go, and leave nothing behind."""

from __future__ import annotations

import gc
import tracemalloc

import pytest

from stowplan.framework.plugin import Nominate
from stowplan.objects.base import ObjectMeta
from stowplan.objects.pod import Pod, PodSpec
from stowplan.queue import SchedulingQueue
from stowplan.state.pod_info import PodInfo, kind_of
from tests.queue.builders import NODE_ADD, PROFILE, Harness, annotated, pod

POD_COUNT = 100_000
BATCH = 10_000


def replicas(first: int, count: int) -> list[PodInfo]:
    spec = PodSpec(scheduler_name=PROFILE)
    kind = kind_of(Pod(metadata=ObjectMeta(namespace="default"), spec=spec))
    return [
        PodInfo(
            Pod(metadata=ObjectMeta(namespace="default", name=f"r-{n}", uid=f"u-{n}"), spec=spec),
            kind,
        )
        for n in range(first, first + count)
    ]


def come_and_go(h: Harness, first: int, count: int) -> None:
    """Pods take every way through the queue there is."""
    infos = replicas(first, count)
    for info in infos:
        h.queue.add(info)
    for n in range(count):
        queued = h.pop()
        h.queue.move_all(NODE_ADD, None, None)
        if n % 7 == 0:
            h.queue.nominator.add(queued.info, Nominate(f"node-{n % 100}"))
        if n % 5 == 0:
            h.fail(queued, *(["Fit"], ["Deaf"], [])[n % 3])
        else:
            h.queue.nominator.delete(queued.info.uid)
            h.queue.done(queued.info.uid)
    for info in infos[::10]:
        h.queue.update(info, annotated(info))
    h.tick(400)
    h.queue.flush()
    while (queued_or_none := h.queue.pop()) is not None:
        h.queue.nominator.delete(queued_or_none.info.uid)
        h.queue.done(queued_or_none.info.uid)
    for info in infos:
        h.queue.delete(info)


def assert_empty(queue: SchedulingQueue) -> None:
    assert list(queue.places()) == []
    assert queue.next_wakeup_s() is None
    assert not queue.nominator
    assert not queue.nominator.on_node
    assert not queue._active._heap
    assert not queue._backoff._pods._heap
    assert not queue._backoff._errors._heap
    assert not queue._unschedulable.groups
    assert not queue._unschedulable._joined
    assert not queue._unschedulable._pods._heap
    assert queue._in_flight.event_count == 0
    assert queue._in_flight._first is queue._in_flight._last
    assert set(queue.metrics.unschedulable_pods.values()) == {0}
    assert set(queue.metrics.inflight_events.values()) == {0}
    for table in (*queue._entries, queue._in_flight.pods, queue._unschedulable._joined):
        assert table.__sizeof__() == {}.__sizeof__(), "an empty dict that keeps a large table"


@pytest.mark.slow
def test_a_hundred_thousand_pods_leave_nothing_behind() -> None:
    h = Harness()

    for first in range(0, POD_COUNT, BATCH):
        come_and_go(h, first, BATCH)

    assert_empty(h.queue)


@pytest.mark.slow
def test_memory_returns_to_its_starting_level() -> None:
    h = Harness()
    come_and_go(h, 0, 1000)
    gc.collect()
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()

    come_and_go(h, 0, BATCH)

    gc.collect()
    after, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak - before > 1_000_000, "the measurement sees the queue"
    assert after - before < 20_000


def test_a_long_chain_of_events_is_freed_in_one_go() -> None:
    h = Harness()
    stuck = pod(priority=9)
    h.queue.add(stuck)
    h.pop()
    for info in replicas(0, 5000):
        h.queue.add(info)
        h.pop()
        h.queue.move_all(NODE_ADD, None, None)
        h.queue.done(info.uid)
    assert h.queue._in_flight.event_count == 5000

    h.queue.done(stuck.uid)

    assert h.queue._in_flight.event_count == 0
