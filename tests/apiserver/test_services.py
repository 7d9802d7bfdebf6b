"""Services get addresses and node ports, and keep them."""

from __future__ import annotations

from typing import Any

import pytest

from stowplan.apiserver.services import ADDRESSES, NODE_PORTS, keep_addresses, with_addresses

Data = dict[str, Any]


def service(**spec: Any) -> Data:
    return {"metadata": {"name": "web"}, "spec": spec}


def test_numbers_that_differ_make_addresses_that_differ() -> None:
    made = [with_addresses(service(), number)["spec"]["clusterIP"] for number in range(500)]

    assert len(set(made)) == 500
    network, broadcast = str(ADDRESSES.network_address), str(ADDRESSES.broadcast_address)
    around = ADDRESSES.num_addresses
    made += [
        with_addresses(service(), n)["spec"]["clusterIP"] for n in range(around - 5, around + 5)
    ]
    assert not {network, broadcast} & set(made)
    assert made[0] == str(ADDRESSES[1])


def test_a_new_service_gets_one_address_of_one_family() -> None:
    assert with_addresses(service(type="ClusterIP"), 7)["spec"] == {
        "type": "ClusterIP",
        "clusterIP": str(ADDRESSES[8]),
        "clusterIPs": [str(ADDRESSES[8])],
        "ipFamilies": ["IPv4"],
        "ipFamilyPolicy": "SingleStack",
    }


@pytest.mark.parametrize(
    ("asked", "family"),
    [
        ({"clusterIP": "10.96.1.1"}, "IPv4"),
        ({"clusterIP": "fd00::1"}, "IPv6"),
        ({"clusterIP": "None"}, "IPv4"),
        ({"clusterIPs": ["10.96.1.1"]}, "IPv4"),
    ],
)
def test_an_address_that_is_asked_for_is_taken(asked: Data, family: str) -> None:
    spec = with_addresses(service(**asked), 7)["spec"]

    wanted = asked.get("clusterIP") or asked["clusterIPs"][0]
    assert (spec["clusterIP"], spec["clusterIPs"]) == (wanted, [wanted])
    assert spec["ipFamilies"] == [family]


def test_a_name_elsewhere_needs_no_address() -> None:
    elsewhere = service(type="ExternalName", externalName="db.example")
    local = service(type="ClusterIP", clusterIP="10.96.1.1")

    assert with_addresses(elsewhere, 7) == elsewhere
    assert with_addresses({"metadata": {}}, 7) == {"metadata": {}}
    assert keep_addresses(elsewhere, local) == elsewhere
    assert keep_addresses(local, elsewhere) == local


@pytest.mark.parametrize("type_", ["NodePort", "LoadBalancer"])
def test_ports_of_nodes(type_: str) -> None:
    ports = [{"port": 80}, {"port": 443, "nodePort": 30443}, {"port": 53}]
    count = len(NODE_PORTS)

    first = with_addresses(service(type=type_, ports=ports), 0)["spec"]["ports"]
    last = with_addresses(service(type=type_, ports=ports), count - 1)["spec"]["ports"]

    assert [port["nodePort"] for port in first] == [NODE_PORTS[0], 30443, NODE_PORTS[2]]
    assert [port["nodePort"] for port in last] == [NODE_PORTS[-1], 30443, NODE_PORTS[1]]
    assert "nodePort" not in with_addresses(service(ports=ports), 0)["spec"]["ports"][0]
    assert with_addresses(service(type=type_), 0)["spec"]["ports"] == []


def test_an_update_gives_no_address_back() -> None:
    ports = [{"port": 80}, {"port": 53, "nodePort": 30053}]
    before = with_addresses(service(type="NodePort", ports=ports), 5)
    body = service(type="NodePort", selector={"a": "b"}, ports=[{"port": 80}, {"port": 90}])

    after = keep_addresses(body, before)["spec"]

    for name in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"):
        assert after[name] == before["spec"][name]
    assert after["selector"] == {"a": "b"}
    assert after["ports"] == [{"port": 80, "nodePort": NODE_PORTS[5]}, {"port": 90}]
    said = service(type="NodePort", ports=[{"port": 80, "nodePort": 31000}], clusterIP="10.96.9.9")
    kept = keep_addresses(said, before)["spec"]
    assert (kept["ports"], kept["clusterIP"]) == ([{"port": 80, "nodePort": 31000}], "10.96.9.9")
    inner = keep_addresses(service(type="ClusterIP", ports=[{"port": 80}]), before)["spec"]
    assert inner["ports"] == [{"port": 80}]
