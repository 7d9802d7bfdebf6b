"""Nodes without machines: what `--nodes` makes, and what `--nodes-file` says of others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stowplan.apiserver.simulated_nodes import read_nodes, simulated_node, with_defaults_of_a_node
from stowplan.errors import InputError

NOW = "2026-01-01T00:00:00Z"
ZONE = "topology.kubernetes.io/zone"


def test_nodes_are_alike_but_for_their_names_and_zones() -> None:
    nodes = [simulated_node(number, NOW) for number in range(1, 8)]

    assert [node["metadata"]["name"] for node in nodes] == [f"node-{n}" for n in range(1, 8)]
    zones = [node["metadata"]["labels"][ZONE] for node in nodes]
    assert zones == [f"zone-{letter}" for letter in "abcabca"]
    addresses = {address["address"] for node in nodes for address in node["status"]["addresses"]}
    assert len(addresses) == 2 * len(nodes)


def test_a_node_is_as_its_kubelet_would_register_it() -> None:
    node = simulated_node(2, NOW, "mine", gpus=4)

    assert (node["apiVersion"], node["kind"]) == ("v1", "Node")
    assert node["metadata"] == {
        "name": "mine",
        "labels": {
            "kubernetes.io/hostname": "mine",
            "kubernetes.io/os": "linux",
            "kubernetes.io/arch": "amd64",
            "node.kubernetes.io/instance-type": "simulated",
            "topology.kubernetes.io/region": "simulated",
            ZONE: "zone-b",
        },
        "annotations": {"stowplan/gpus": "4"},
    }
    status = node["status"]
    amounts = {"cpu": "8", "memory": "32Gi", "pods": "110", "ephemeral-storage": "100Gi"}
    assert status["capacity"] == status["allocatable"] == amounts
    conditions = {one.pop("type"): one for one in status["conditions"]}
    assert {name: one["status"] for name, one in conditions.items()} == {
        "MemoryPressure": "False",
        "DiskPressure": "False",
        "PIDPressure": "False",
        "Ready": "True",
    }
    for one in conditions.values():
        assert one["lastHeartbeatTime"] == one["lastTransitionTime"] == NOW
    assert [it["type"] for it in status["addresses"]] == ["InternalIP", "Hostname"]
    assert "annotations" not in simulated_node(2, NOW)["metadata"]


@pytest.mark.parametrize(
    ("status", "capacity", "allocatable"),
    [
        ({}, "8", "8"),
        ({"capacity": {"cpu": "64"}}, "64", "64"),
        ({"allocatable": {"cpu": "60"}}, "60", "60"),
        ({"capacity": {"cpu": "64"}, "allocatable": {"cpu": "60"}}, "64", "60"),
    ],
)
def test_what_a_manifest_says_stays_and_the_rest_is_filled_in(
    status: dict[str, Any], capacity: str, allocatable: str
) -> None:
    taint = {"key": "k", "effect": "NoSchedule"}
    metadata = {"name": "big", "labels": {"kubernetes.io/arch": "arm64", "disk": "ssd"}}
    made = with_defaults_of_a_node(
        {"metadata": metadata, "spec": {"taints": [taint]}, "status": status}, NOW
    )

    assert made["kind"] == "Node"
    assert made["spec"] == {"providerID": "stowplan://big", "taints": [taint]}
    labels = made["metadata"]["labels"]
    assert (labels["kubernetes.io/arch"], labels["disk"]) == ("arm64", "ssd")
    assert labels["kubernetes.io/hostname"] == "big"
    assert ZONE not in labels
    assert made["status"]["capacity"] == {**simulated_node(1, NOW)["status"]["capacity"],
                                          "cpu": capacity}  # fmt: skip
    assert made["status"]["allocatable"]["cpu"] == allocatable
    assert made["status"]["allocatable"]["memory"] == "32Gi"


def test_a_file_has_nodes_alone_and_in_lists(tmp_path: Path) -> None:
    path = tmp_path / "nodes.yaml"
    path.write_text(
        "metadata: {name: a}\n---\nkind: List\nitems:\n- metadata: {name: b}\n"
        "- {kind: Node, metadata: {name: c}}\n---\nkind: Node\nmetadata: {name: d}\n"
    )

    assert [node["metadata"]["name"] for node in read_nodes(path)] == ["a", "b", "c", "d"]


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        ("metadata: {name: a}\n---\nmetadata: {labels: {}}\n", 3, "a node needs metadata.name"),
        ("metadata: {name: ''}\n", 1, "a node needs metadata.name"),
        ("metadata: a\n", 1, "a node needs metadata.name"),
        ("just text\n", 1, "a node needs metadata.name"),
        ("items: [3]\n", 1, "a node needs metadata.name"),
        ("kind: Pod\nmetadata: {name: a}\n", 1, "a Pod is no Node"),
    ],
)
def test_what_is_no_node_is_named(tmp_path: Path, text: str, line: int, problem: str) -> None:
    path = tmp_path / "nodes.yaml"
    path.write_text(text)

    with pytest.raises(InputError) as failed:
        read_nodes(path)
    assert (failed.value.problem, failed.value.where) == (problem, f"{path}:{line}")


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError) as failed:
        read_nodes(tmp_path / "none.yaml")
    assert failed.value.problem == "No such file or directory"
    assert failed.value.where == str(tmp_path / "none.yaml")
