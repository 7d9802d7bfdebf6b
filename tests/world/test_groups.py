"""Groups in a whole cluster: what docs/groups.md says of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

import stowplan as sp
from stowplan.errors import ConfigError, InputError

Data = dict[str, Any]

EXAMPLES = Path(__file__).parents[2] / "examples" / "groups"
GANGS = {"GenericWorkload": True, "GangScheduling": True}
ALL = {**GANGS, "TopologyAwareWorkloadScheduling": True, "WorkloadAwarePreemption": True}


def example(name: str) -> list[Data]:
    return [*yaml.safe_load_all((EXAMPLES / f"{name}.yaml").read_text())]


def with_spec(objects: list[Data], **spec: Any) -> list[Data]:
    """The same with other fields in the spec of the group."""
    return [
        {**it, "spec": {**it["spec"], **spec}} if it["kind"] == "PodGroup" else it for it in objects
    ]


def nodes_of(cluster: sp.Cluster, prefix: str) -> list[str]:
    """Where the pods are whose names begin so; empty for those that wait."""
    found = [it for it in cluster.pods() if it.name.startswith(prefix)]
    return sorted(it.spec.node_name for it in found)


def state_of(cluster: sp.Cluster, name: str) -> list[str]:
    data = cluster.get("PodGroup", f"default/{name}")
    conditions = data.get("status", {}).get("conditions") or ()
    return [it["reason"] for it in conditions]


def test_all_of_a_gang_or_nobody() -> None:
    with sp.Cluster(seed=1, feature_gates=GANGS) as cluster:
        cluster.add_nodes(1, cpu=8)
        cluster.apply(example("gang"))
        cluster.run(5)
        assert nodes_of(cluster, "training") == ["", "", "", ""]
        assert state_of(cluster, "training") == ["Unschedulable"]

        cluster.add_nodes(1, cpu=8, prefix="more")
        cluster.run(0.5)
        assert "" not in nodes_of(cluster, "training")
        assert state_of(cluster, "training") == ["Scheduled"]


def test_without_gates_pods_go_one_by_one() -> None:
    with sp.Cluster(seed=1) as cluster:
        cluster.add_nodes(1, cpu=8)
        cluster.apply(example("gang"))
        cluster.run(0.5)

        assert nodes_of(cluster, "training").count("") == 2
        assert len(cluster.objects("PodGroup")) == 0


def test_who_fits_of_a_basic_group_is_bound() -> None:
    basic = with_spec(example("gang"), schedulingPolicy={"basic": {}})
    with sp.Cluster(seed=1, feature_gates=GANGS) as cluster:
        cluster.add_nodes(1, cpu=8)
        cluster.apply(basic)
        cluster.run(0.5)

        assert nodes_of(cluster, "training").count("") == 2


def test_members_without_a_group_wait_and_say_nothing() -> None:
    group, job = example("gang")
    with sp.Cluster(seed=1, feature_gates=GANGS) as cluster:
        cluster.add_nodes(2, cpu=8)
        cluster.apply(job)
        cluster.run(5)
        assert nodes_of(cluster, "training") == ["", "", "", ""]
        assert not any(it.status.conditions for it in cluster.pods())

        cluster.apply(group)
        cluster.run(0.5)
        assert "" not in nodes_of(cluster, "training")


@pytest.mark.parametrize(("mode", "left"), [("PodGroup", 0), ("Pod", 2)])
def test_a_group_evicts_for_all_its_members(mode: str, left: int) -> None:
    with sp.Cluster(seed=1, feature_gates=ALL) as cluster:
        cluster.add_nodes(4, cpu=8, zones=["a", "b", "c"])
        labels = {it.name: it.metadata.labels or {} for it in cluster.nodes()}
        cluster.apply(with_spec(example("zone"), disruptionMode=mode))
        cluster.run(1)
        places = nodes_of(cluster, "serving")
        assert {labels[it]["topology.kubernetes.io/zone"] for it in places} == {"a"}

        cluster.apply(example("urgent"))
        cluster.run(60)
        assert len(nodes_of(cluster, "serving")) == left
        assert "" not in nodes_of(cluster, "urgent")


def test_who_replaces_victims_does_not_take_their_places() -> None:
    """A Deployment makes new pods for those that were evicted, before the group is tried again."""
    group, *pods = example("zone")
    labels = {"app": "serving"}
    template = {"metadata": {"labels": labels}, "spec": pods[0]["spec"]}
    spec = {"replicas": 4, "selector": {"matchLabels": labels}, "template": template}
    serving = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "serving"}}
    with sp.Cluster(seed=1, feature_gates=ALL) as cluster:
        cluster.add_nodes(4, cpu=8, zones=["a", "b", "c"])
        cluster.apply([group, {**serving, "spec": spec}])
        cluster.run(1)
        cluster.apply(example("urgent"))
        cluster.run(60)

        assert "" not in nodes_of(cluster, "urgent")
        assert sum(event.reason == "Preempted" for event in cluster.events()) == 4


def test_nobody_is_evicted_in_vain() -> None:
    """For a group that would not fit all the same, or that has a topology constraint."""
    too_many = with_spec(example("urgent"), schedulingPolicy={"gang": {"minCount": 9}})
    too_many[-1]["spec"]["replicas"] = 9
    topology = {"topology": [{"key": "kubernetes.io/hostname"}]}
    for objects in (too_many, with_spec(example("urgent"), schedulingConstraints=topology)):
        with sp.Cluster(seed=1, feature_gates=ALL) as cluster:
            cluster.add_nodes(4, cpu=8, zones=["a", "b", "c"])
            cluster.apply(example("zone"))
            cluster.run(1)
            cluster.apply(objects)
            cluster.run(30)

            assert len(nodes_of(cluster, "serving")) == 4


def test_gates_are_checked() -> None:
    with pytest.raises(ConfigError, match=r"depends on features that are disabled: \[GenericWork"):
        sp.Cluster(feature_gates={"GangScheduling": True})
    loaded = sp.Cluster()._engine.setup.config
    with pytest.raises(InputError, match="feature_gates"):
        sp.Cluster(loaded, feature_gates=GANGS)


def test_the_face_shows_groups_and_decisions_name_theirs() -> None:
    with sp.Cluster(seed=1, feature_gates=GANGS) as cluster:
        cluster.add_nodes(1, cpu=8)
        cluster.apply([*example("gang"), {"apiVersion": "v1", "kind": "Pod",
                       "metadata": {"name": "alone"}, "spec": {"containers": [
                           {"name": "c", "image": "c"}]}}])  # fmt: skip
        cluster.run(5)
        groups = cluster.groups()
        assert groups.keys == ["default/training"]
        assert groups.table.row("default/training") == {
            "policy": "Gang",
            "minCount": 4,
            "members": 4,
            "placed": 0,
            "status": "Unschedulable",
            "message": "pod group is unschedulable",
        }
        assert cluster.decision("default/alone").group is None
        members = [pod.key for pod in cluster.pods(pending=True)]
        group = cluster.decision(members[0]).group
        assert group is not None
        assert (group.group, group.needed, group.is_placed) == ("default/training", 4, False)
        assert {*group.placed, *group.unplaced} == {*members}
        assert [*group.placed.values()] == ["node-1", "node-1"]
        assert {*group.unplaced.values()} == {"0/1 nodes are available: 1 Insufficient cpu."}

        cluster.add_nodes(1, cpu=8, prefix="more")
        cluster.run(0.5)
        group = cluster.decision(members[0]).group
        assert group is not None
        assert (group.is_placed, len(group.placed), group.scheduled_count) == (True, 4, 0)
        assert cluster.groups().table.row("default/training")["placed"] == 4


def test_a_member_outside_the_queue_names_its_group() -> None:
    group, job = example("gang")
    job["spec"] |= {"parallelism": 3, "completions": 3}
    with sp.Cluster(seed=1, feature_gates=GANGS) as cluster:
        cluster.add_nodes(2, cpu=8)
        cluster.apply([group, job])
        cluster.run(5)
        told = cluster.decision(cluster.pods()[0].key)
        assert told.gated
        assert told.group is not None
        assert (told.group.needed, told.group.member_count) == (4, 3)


def test_what_was_not_worth_a_trial_leaves_no_trace() -> None:
    """Looking for the domain that came closest changes nothing of the cluster."""
    with sp.Cluster(seed=1, feature_gates=ALL) as cluster:
        cluster.add_nodes(3, cpu=8, zones=["a", "b", "c"])
        cluster.apply(example("zone"))
        cluster.run(5)
        before = cluster.free()
        first = cluster.why("default/serving-0")
        assert "zone=" in str(first)
        assert str(cluster.why("default/serving-0")) == str(first)
        assert cluster.free() == before
