"""Looks at the stack: where the time went, by phase and plugin, and as a flame graph."""

from __future__ import annotations

import re
import signal
import threading
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

import stowplan
from stowplan.bench import phases
from stowplan.bench.flame import flame_graph
from stowplan.bench.sampler import Sampler, Stack

SRC = Path(stowplan.__file__).parent


def stack(*frames: str) -> Stack:
    """Innermost first, each as `core/machine.py handle`; a file without a folder is not ours."""
    codes = []
    for frame in frames:
        file, _, name = frame.partition(" ")
        path = f"/opt/lib/stowplan/{file}" if "/" in file else f"/usr/lib/{file}"
        codes.append(
            stack.__code__.replace(
                co_filename=path,
                co_name=name,
                co_qualname=name,
                # Code objects are equal if all but the file is.
                co_firstlineno=sum(map(ord, frame)),
            )
        )
    return tuple(codes)


@pytest.mark.parametrize(
    ("frames", "phase"),
    [
        (("queue/heap.py pop", "core/machine.py handle"), "queue"),
        # A helper counts for whoever called it.
        (("fromnumeric.py amax", "objects/base.py x", "core/algorithm.py _pick"), "pick"),
        (("plugins/node_name.py filter_nodes", "framework/kept.py refresh"), "Filter"),
        (("plugins/node_name.py score_node", "framework/kept.py refresh"), "Score"),
        (("state/node_table.py refresh", "core/algorithm.py search"), "snapshot"),
        # The API server's time belongs to whoever asked it.
        (("apiserver/store.py call", "runtime/event_recorder.py _call"), "events: api server"),
        (
            ("apiserver/watches.py deliver", "apiserver/store.py call", "runtime/driver.py turn"),
            "binding: api server",
        ),
        (
            ("cluster/informer.py apply", "apiserver/store.py call", "bench/pod_ops.py _create"),
            "creating pods: informers",
        ),
        (("apiserver/store.py call", "core/failure.py _give_up"), "api server"),
        (("time.py sleep",), "other"),
        (("bench/engine.py _pause", "bench/engine.py run"), "waiting"),
        (("selectors.py select", "bench/cluster_run.py perform_on_cluster"), "waiting"),
        (("client.py read", "bench/cluster_run.py perform_on_cluster"), "event loop and HTTP"),
        (("fromnumeric.py amax", "bench/yardstick.py place", "bench/measure.py x"), "waiting"),
    ],
)
def test_a_look_belongs_to_the_innermost_phase(frames: tuple[str, ...], phase: str) -> None:
    assert phases.phases({stack(*frames): 3}) == {phase: 3}


def test_a_look_belongs_to_one_plugin_at_most() -> None:
    looks = {
        stack("plugins/node_resources_fit.py _used", "framework/kept.py refresh"): 2,
        stack("plugins/node_resources_fit.py filter_nodes", "core/machine.py handle"): 3,
        stack("core/machine.py handle"): 4,
    }

    assert phases.plugins(looks) == {"NodeResourcesFit": 5}


def test_looks_become_microseconds_per_pod_and_waiting_is_left_out() -> None:
    looks = {"Filter": 10, "Score": 30, phases.WAITING: 100}

    # 40 looks stand for 2 s of work on 1,000 pods: 50 us each.
    assert phases.per_pod_us(looks, 2.0, 1000, 40) == {"Score": 1500.0, "Filter": 500.0}
    assert phases.per_pod_us({}, 2.0, 1000, 0) == {}


def test_the_table_of_phases_names_functions_that_exist() -> None:
    for file, function in phases._PHASES:
        path = SRC / file
        assert path.exists(), file
        if function:
            assert re.search(rf"def {function}\(", path.read_text()), f"{file}: {function}"


# -- the flame graph ------------------------------------------------------------------------


def test_a_flame_graph_stacks_callees_on_their_callers() -> None:
    graph = flame_graph(
        {
            stack("queue/heap.py pop", "core/machine.py handle"): 1,
            stack("plugins/node_name.py filter_nodes", "core/machine.py handle"): 3,
        },
        "Basic <small>",
    )

    root = ET.fromstring(graph)
    boxes = {}
    for group in root.iter("{http://www.w3.org/2000/svg}g"):
        title = group.find("{http://www.w3.org/2000/svg}title")
        box = group.find("{http://www.w3.org/2000/svg}rect")
        assert title is not None
        assert box is not None
        boxes[title.text] = (float(box.attrib["y"]), float(box.attrib["width"]))
    assert set(boxes) == {
        "all: 100.0 %",
        "handle (core/machine.py): 100.0 %",
        "pop (queue/heap.py): 25.0 %",
        "filter_nodes (plugins/node_name.py): 75.0 %",
    }
    below, above = boxes["handle (core/machine.py): 100.0 %"], boxes["pop (queue/heap.py): 25.0 %"]
    assert above[0] < below[0]
    assert above[1] == pytest.approx(below[1] / 4, abs=0.1)


def test_a_flame_graph_of_nothing_is_still_a_picture() -> None:
    assert ET.fromstring(flame_graph({}, "empty")).tag.endswith("svg")


# -- the sampler ----------------------------------------------------------------------------


def test_the_sampler_sees_who_is_working_and_leaves_the_signal_as_it_was() -> None:
    before = signal.getsignal(signal.SIGALRM), signal.getsignal(signal.SIGPROF)
    sampler = Sampler(0.0005)

    sampler.start()
    try:
        # Until it has looked: how long that takes is the machine's business.
        while not sampler.stacks:
            sum(range(1000))
    finally:
        sampler.stop()

    seen = {code.co_name for codes in sampler.stacks for code in codes}
    this = test_the_sampler_sees_who_is_working_and_leaves_the_signal_as_it_was
    assert this.__name__ in seen
    assert (signal.getsignal(signal.SIGALRM), signal.getsignal(signal.SIGPROF)) == before
    assert signal.getitimer(signal.ITIMER_PROF) == (0.0, 0.0)


def test_in_another_thread_there_are_no_looks() -> None:
    sampler = Sampler()

    def work() -> None:
        sampler.start()
        sampler.stop()

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()

    assert not sampler.stacks
