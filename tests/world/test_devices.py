"""Claims in a dry run: templates are expanded, devices shown, and what cannot be met explained."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from click.testing import CliRunner

import stowplan as sp
from stowplan.cli import main

Data = dict[str, Any]

EXAMPLE = Path(__file__).parents[2] / "examples" / "devices" / "cluster.yaml"
DRIVER = "gpu.example.com"
API = "resource.k8s.io/v1"


def node(name: str) -> Data:
    room = {"cpu": "8", "memory": "32Gi", "pods": "110"}
    body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
    return {**body, "status": {"allocatable": room}}


def offered(where: str, *devices: Data) -> Data:
    pool = {"name": where, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": where, "pool": pool, "devices": list(devices)}
    metadata = {"name": f"{where}-gpus"}
    return {"apiVersion": API, "kind": "ResourceSlice", "metadata": metadata, "spec": spec}


def gpu_class() -> Data:
    selectors = [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]
    metadata = {"name": "gpu"}
    return {
        "apiVersion": API,
        "kind": "DeviceClass",
        "metadata": metadata,
        "spec": {"selectors": selectors},
    }


def claim(name: str, *requests: Data, held: tuple[str, str] | None = None) -> Data:
    spec = {"devices": {"requests": list(requests)}}
    made = {"apiVersion": API, "kind": "ResourceClaim", "metadata": {"name": name}, "spec": spec}
    if held is not None:
        pool, device = held
        result = {"request": "r", "driver": DRIVER, "pool": pool, "device": device}
        made["status"] = {"allocation": {"devices": {"results": [result]}}}
    return made


def wanted(count: int = 1, **fields: Any) -> Data:
    return {"name": "r", "exactly": {"deviceClassName": "gpu", "count": count, **fields}}


def pod(name: str, *claims: str) -> Data:
    references = [{"name": it, "resourceClaimName": it} for it in claims]
    spec = {"containers": [{"name": "c", "image": "i"}], "resourceClaims": references}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


CLUSTER = [
    node("a"),
    node("b"),
    gpu_class(),
    offered("a", {"name": "gpu-0"}, {"name": "gpu-1"}),
    offered("b", {"name": "gpu-0"}),
    claim("running", wanted(), held=("a", "gpu-0")),
]
SICK = {"name": "gpu-9", "taints": [{"key": "sick", "effect": "NoSchedule"}]}
MODEL = {"cel": {"expression": f'device.attributes["{DRIVER}"].?model == optional.of("x")'}}


def unmet(*objects: Data) -> list[Data]:
    (decision,) = sp.dry_run([*CLUSTER, *objects, pod("p", "c")], seed=1)
    assert not decision
    assert decision.to_dict()["unmetRequests"] == decision.unmet_requests
    return decision.unmet_requests


def test_devices_that_are_free_but_nowhere_together() -> None:
    [told] = unmet(claim("c", wanted(2)))

    assert told == {
        "claim": "default/c",
        "request": "r",
        "class": "gpu",
        "wanted": 2,
        "matching": 3,
        "free": 2,
        "where": {"a": {"matching": 2, "free": 1}, "b": {"matching": 1, "free": 1}},
    }


def test_a_selector_that_nothing_matches() -> None:
    [told] = unmet(claim("c", wanted(selectors=[MODEL])))

    assert (told["matching"], told["free"], told["where"]) == (0, 0, {})


def test_tainted_devices_are_not_free_to_those_who_do_not_tolerate_it() -> None:
    [told] = unmet(node("c"), offered("c", SICK), claim("c", wanted(3)))

    assert (told["matching"], told["free"], told["tainted"]) == (4, 2, 1)
    assert told["where"]["c"] == {"matching": 1, "free": 0}


def test_parts_of_what_others_hold_are_not_free() -> None:
    def part(name: str, amount: str) -> Data:
        taken = {"counterSet": "card", "counters": {"memory": {"value": amount}}}
        return {"name": name, "consumesCounters": [taken]}

    cards = [{"name": "card", "counters": {"memory": {"value": "40Gi"}}}]
    parts = offered("c", part("large", "40Gi"), part("half", "20Gi"), part("rest", "20Gi"))
    counters = offered("c")
    counters["metadata"]["name"] = "c-counters"
    del counters["spec"]["devices"]
    counters["spec"]["sharedCounters"] = cards
    for it in (parts, counters):
        it["spec"]["pool"]["resourceSliceCount"] = 2
    held = claim("held", wanted(), held=("c", "half"))
    [told] = unmet(node("c"), parts, counters, held, claim("c", wanted(5)))

    assert told["where"]["c"] == {"matching": 3, "free": 1}


def test_devices_of_a_pool_that_contradicts_itself_are_not_free() -> None:
    [told] = unmet(node("c"), offered("c", {"name": "x"}, {"name": "x"}), claim("c", wanted(5)))

    assert told["where"]["c"]["free"] == 0


def test_only_the_request_that_cannot_be_met_is_told_of() -> None:
    [told] = unmet(claim("c", wanted(1), {**wanted(5), "name": "many"}))

    assert told["request"] == "many"


def test_where_each_could_be_met_alone_all_are_told_of() -> None:
    told = unmet(claim("c", wanted(1), {**wanted(1), "name": "other"}))

    assert [it["request"] for it in told] == ["r", "other"]
    assert all("can_be_met" not in it for it in told)


def test_all_devices_of_a_node_are_not_there_while_one_is_taken() -> None:
    everything = {"name": "r", "exactly": {"deviceClassName": "gpu", "allocationMode": "All"}}
    cluster = [it for it in CLUSTER if it["metadata"]["name"] not in ("b", "b-gpus")]
    (decision,) = sp.dry_run([*cluster, claim("c", everything), pod("p", "c")], seed=1)

    [told] = decision.unmet_requests
    assert (told["wanted"], told["matching"], told["free"]) == ("All", 2, 1)


def test_pods_that_fit_show_their_devices() -> None:
    (decision,) = sp.dry_run([*CLUSTER, claim("c", wanted(1)), pod("p", "c")], seed=1)

    assert decision.unmet_requests == []
    [device] = decision.claims["c"]["devices"]
    assert device["device"] == ("gpu-1" if decision.node == "a" else "gpu-0")
    assert device["pool"] == decision.node
    assert decision.claims["c"]["reservedFor"] == ["p"]


def test_the_text_fits_a_terminal_and_says_who_gets_what() -> None:
    command = ["dry-run", "-f", str(EXAMPLE), "--tie-break", "name", "--seed", "1"]
    result = CliRunner().invoke(main, command)

    assert result.exit_code == 0, result.output
    assert max(map(len, result.output.splitlines())) <= 80
    assert "claim pair, request large: gpu-0, gpu-1 (gpu.example.com, pool node-a)" in result.output
    assert "request gpu: 1 device of class gpu; 3 devices match" in result.output
