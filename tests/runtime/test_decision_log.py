"""One line per decision at -v 2, and none below."""

from __future__ import annotations

import json

import pytest

from stowplan.runtime.log import Log, Verbosity, as_json
from tests.builders import node, pod
from tests.core.harness import make_plugin
from tests.runtime.surfaces import Served


def lines(verbosity: int, *objects: object, **options: object) -> list[dict[str, object]]:
    """What is written about these objects, as JSON."""
    served = Served(verbosity=verbosity, **options)  # type: ignore[arg-type]
    served.lines._form = as_json
    served.add(*objects)  # type: ignore[arg-type]
    return [json.loads(line) for line in served.out.getvalue().splitlines()]


def test_a_placed_pod_is_one_line() -> None:
    (line,) = lines(2, node("n1"), node("n2"), pod("web", cpu="1"))

    assert line["msg"] == "Successfully bound pod to node"
    assert line["pod"] == {"name": "web", "namespace": "default"}
    assert line["node"] in ("n1", "n2")
    assert line["profile"] == "default-scheduler"
    assert (line["attempt"], line["evaluatedNodes"], line["feasibleNodes"]) == (1, 2, 2)
    assert isinstance(line["score"], int)
    assert line["v"] == 2


def test_a_pod_that_fits_nowhere_is_one_line_with_its_reasons() -> None:
    (line,) = lines(2, node("n1", cpu="1"), pod("web", cpu="8"))

    assert line["msg"] == "Unable to schedule pod; no fit; waiting"
    assert line["plugins"] == ["NodeResourcesFit"]
    assert str(line["err"]).startswith("0/1 nodes are available: 1 Insufficient cpu.")


def test_a_preemption_names_node_and_victims() -> None:
    low = pod("low", cpu="1", node="n1", spec={"terminationGracePeriodSeconds": 9})
    high = pod("high", cpu="1", spec={"priority": 10})

    (line,) = lines(2, node("n1", cpu="1"), low, high)

    assert (line["nominatedNode"], line["victims"]) == ("n1", ["default/low"])


@pytest.mark.parametrize("verbosity", [0, 1])
def test_decisions_are_not_written_at_lower_levels(verbosity: int) -> None:
    assert lines(verbosity, node("n1", cpu="1"), pod("a", cpu="1"), pod("b", cpu="8")) == []


def test_attempts_are_written_at_three() -> None:
    first, second = lines(3, node("n1"), pod("web"))

    assert (first["msg"], first["v"]) == ("Attempting to schedule pod", 3)
    assert second["msg"] == "Successfully bound pod to node"


@pytest.mark.parametrize("verbosity", [0, 2])
def test_a_plugin_that_fails_is_written_always_with_its_name_and_line(verbosity: int) -> None:
    def broken(*args: object) -> None:
        raise RuntimeError("disk on fire")

    plugins = (make_plugin("Broken", filter_node=broken),)
    found = lines(verbosity, node("n1"), pod("a"), plugins=plugins)

    failed = next(line for line in found if line["msg"] == "Plugin failed")
    assert (failed["plugin"], failed["extensionPoint"]) == ("Broken", "Filter")
    assert "disk on fire" in str(failed["err"])
    place = f"{__file__}:{broken.__code__.co_firstlineno + 1}"
    assert failed["at"] == place
    assert ("stacktrace" in failed) == (verbosity == 2)
    retrying = next(line for line in found if line["msg"] == "Error scheduling pod; retrying")
    assert place in str(retrying["err"])


def test_when_off_nothing_of_a_decision_is_looked_at() -> None:
    """Not even the names: the lines are made of fields only once one is to be written."""

    class Refusing(Log):
        def info(self, *args: object, **fields: object) -> None:
            raise AssertionError("asked to write")

    served = Served(node("n1"))
    log = Refusing(served.clock, verbosity=Verbosity(1))
    served.attempts._observers[-1]._log = log  # type: ignore[attr-defined]

    served.add(pod("a"), pod("b", cpu="999"))

    assert served.node_of("a") == "n1"
