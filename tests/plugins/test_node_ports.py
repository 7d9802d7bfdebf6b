"""NodePorts turns down nodes where a wanted host port is taken."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.framework.events import Action, Hint, Resource
from stowplan.framework.status import SKIP, unschedulable
from stowplan.objects.pod import Pod
from stowplan.plugins.node_ports import NodePorts
from tests.builders import World, info, node, pod
from tests.plugins.asking import filtered, hint

PLUGIN = NodePorts()
REFUSED = unschedulable("node(s) didn't have free ports for the requested pod ports")

Port = tuple[str, str, int]


def with_ports(*ports: Port, where: str = "containers", on: str = "", **container: Any) -> Pod:
    """Ports as (hostIP, protocol, hostPort)."""
    listed = [{"hostIP": ip, "protocol": proto, "hostPort": port} for ip, proto, port in ports]
    return pod(node=on, spec={where: [{"name": "x", "ports": listed, **container}]})


@pytest.mark.parametrize(
    ("used", "wanted", "refused"),
    [
        pytest.param(("", "TCP", 80), ("", "TCP", 80), True, id="same"),
        pytest.param(("", "TCP", 80), ("", "TCP", 81), False, id="other-port"),
        pytest.param(("", "TCP", 80), ("", "UDP", 80), False, id="other-protocol"),
        pytest.param(("", "", 80), ("", "TCP", 80), True, id="no-protocol-is-tcp"),
        pytest.param(("10.0.0.1", "TCP", 80), ("10.0.0.2", "TCP", 80), False, id="other-ip"),
        pytest.param(("10.0.0.1", "TCP", 80), ("0.0.0.0", "TCP", 80), True, id="any-ip-wanted"),
        pytest.param(("", "TCP", 80), ("10.0.0.2", "TCP", 80), True, id="any-ip-used"),
        pytest.param(("::", "TCP", 80), ("10.0.0.2", "TCP", 80), False, id="ipv6-any-is-not"),
        pytest.param(("::", "TCP", 80), ("", "TCP", 80), True, id="but-clashes-with-any"),
    ],
)
def test_conflicts(used: Port, wanted: Port, refused: bool) -> None:
    world = World(node("a"), node("b"), with_ports(used, on="a"))

    found = filtered(PLUGIN, world, with_ports(wanted))

    assert found == {"a": REFUSED if refused else None, "b": None}


def test_pods_without_host_ports_are_not_asked_about() -> None:
    def answer(wanting: Pod) -> Any:
        return PLUGIN.pre_filter(World().cycle(), info(wanting))

    init = "initContainers"
    assert answer(pod()) is SKIP
    assert answer(with_ports(("", "TCP", 0))) is SKIP
    assert answer(with_ports(("", "TCP", 80), where=init)) is SKIP
    assert answer(with_ports(("", "TCP", 80), where=init, restartPolicy="Always")) is None


def test_events() -> None:
    ours = with_ports(("10.0.0.1", "TCP", 80))

    def deleted(other: Pod) -> Any:
        return hint(PLUGIN, Resource.POD, Action.DELETE, ours, other)

    nominated = {"nominatedNodeName": "a"}
    anywhere = pod(spec=ours_spec(), status=nominated)
    assert deleted(with_ports(("", "TCP", 80), on="a")) == Hint.QUEUE
    assert deleted(anywhere) == Hint.QUEUE
    assert deleted(with_ports(("", "TCP", 80))) == Hint.SKIP
    assert deleted(with_ports(("10.0.0.2", "TCP", 80), on="a")) == Hint.SKIP
    assert deleted(pod(node="a")) == Hint.SKIP
    assert hint(PLUGIN, Resource.NODE, Action.ADD, ours, None, node("n")) == Hint.QUEUE


def ours_spec() -> dict[str, Any]:
    return {"containers": [{"name": "x", "ports": [{"hostIP": "10.0.0.1", "hostPort": 80}]}]}


ports = st.tuples(
    st.sampled_from(["", "0.0.0.0", "10.0.0.1", "10.0.0.2", "::"]),
    st.sampled_from(["TCP", "UDP"]),
    st.sampled_from([80, 81]),
)


def clash(one: Port, other: Port) -> bool:
    ips = {one[0] or "0.0.0.0", other[0] or "0.0.0.0"}
    return one[1:] == other[1:] and (len(ips) == 1 or "0.0.0.0" in ips)


@given(st.lists(st.lists(ports, max_size=3), min_size=1, max_size=4), st.lists(ports, max_size=3))
def test_same_answer_as_the_definition(used: list[list[Port]], wanted: list[Port]) -> None:
    running = [with_ports(*taken, on=f"n{n}") for n, taken in enumerate(used)]
    world = World(*(node(f"n{n}") for n in range(len(used))), *running)

    found = filtered(PLUGIN, world, with_ports(*wanted))

    expected = [any(clash(w, u) for w in wanted for u in taken) for taken in used]
    assert [found[f"n{n}"] is not None for n in range(len(used))] == expected
