"""Forks: another world from here on, which neither disturbs nor is disturbed."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import stowplan as sp
from stowplan.apiserver.kubelet import EXIT_CODE, RUN_SECONDS
from tests.world.things import deployment, pod, workload

Step = tuple[str, int]

STEPS = (
    "pod", "big", "deployment", "scale", "job", "delete", "nodes", "cordon", "uncordon", "drain",
    "remove node", "urgent", "affine", "gated", "ending", "failing", "taint", "run", "wait",
)  # fmt: skip


def start() -> sp.Cluster:
    cluster = sp.Cluster(seed=3)
    cluster.add_nodes(3, cpu="4", memory="8Gi", zones=2)
    cluster.apply(
        [
            {
                "apiVersion": "scheduling.k8s.io/v1",
                "kind": "PriorityClass",
                "metadata": {"name": "urgent"},
                "value": 1000,
            },
            deployment("web", 3),
        ]
    )
    return cluster


def act(cluster: sp.Cluster, step: Step, serial: int) -> None:
    """One operation, the same for the same cluster, step and serial number."""
    name, number = step
    pods, nodes = cluster.pods(), cluster.nodes()
    match name:
        case "pod":
            cluster.apply(pod(f"pod-{serial}", cpu=str(1 + number % 3)))
        case "big":
            cluster.apply(pod(f"big-{serial}", cpu="16"))
        case "urgent":
            cluster.apply(pod(f"urgent-{serial}", cpu="3", priorityClassName="urgent"))
        case "gated":
            cluster.apply(pod(f"gated-{serial}", schedulingGates=[{"name": "wait"}]))
        case "affine":
            term = {
                "labelSelector": {"matchLabels": {"app": "web"}},
                "topologyKey": "topology.kubernetes.io/zone",
            }
            rule = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
            where = "podAffinity" if number % 2 else "podAntiAffinity"
            cluster.apply(pod(f"affine-{serial}", affinity={where: rule}))
        case "deployment":
            cluster.apply(deployment(f"app-{serial}", number % 4))
        case "scale":
            cluster.apply(deployment("web", number % 9))
        case "job":
            cluster.apply(workload("Job", f"job-{serial}", completions=number % 3, parallelism=2))
        case "ending":
            brief = {"name": f"ending-{serial}", "annotations": {RUN_SECONDS: str(number)}}
            cluster.apply({**pod("", cpu="2"), "metadata": brief})
        case "failing":
            template = {"metadata": {"annotations": {EXIT_CODE: "1"}}}
            cluster.apply(workload("Job", f"failing-{serial}", template=template, backoffLimit=2))
        case "taint" if nodes:
            taints = [{"key": "broken", "effect": "NoExecute"}] if number % 2 else None
            name = nodes[number % len(nodes)].name
            cluster.apply(
                {
                    "apiVersion": "v1",
                    "kind": "Node",
                    "metadata": {"name": name},
                    "spec": {"taints": taints},
                }
            )
        case "delete" if pods:
            cluster.delete(pods[number % len(pods)].key)
        case "nodes":
            cluster.add_nodes(1 + number % 2, like=nodes[0].name if nodes else None)
        case "cordon" if nodes:
            cluster.cordon(nodes[number % len(nodes)].name)
        case "uncordon" if nodes:
            cluster.uncordon(nodes[number % len(nodes)].name)
        case "drain" if nodes:
            cluster.drain(nodes[number % len(nodes)].name)
        case "remove node" if nodes:
            cluster.delete(nodes[number % len(nodes)].name, "Node")
        case "run":
            cluster.run()
        case "wait":
            cluster.run(seconds=number * 7.0)
        case _:
            pass


def state(cluster: sp.Cluster) -> Any:
    """All that can be seen, down to resource versions and every score."""
    decided = {d.pod: [one.to_dict() for one in d.history] for d in cluster.decisions()}
    return (
        cluster.now,
        list(cluster.pods()),
        list(cluster.nodes()),
        list(cluster.events()),
        list(cluster.objects("ReplicaSet")),
        list(cluster.objects("Job")),
        decided,
    )


def replay(steps: list[Step]) -> sp.Cluster:
    cluster = start()
    for serial, step in enumerate(steps):
        act(cluster, step, serial)
    return cluster


steps = st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 30)), max_size=10)


@settings(max_examples=60, deadline=None)
@given(before=steps, mine=steps, theirs=steps, order=st.randoms(use_true_random=False))
def test_neither_disturbs_the_other(
    before: list[Step], mine: list[Step], theirs: list[Step], order: Any
) -> None:
    """Both end where a cluster ends that lived through the same alone, in every detail."""
    origin = replay(before)
    fork = origin.fork()
    turns = [0] * len(mine) + [1] * len(theirs)
    order.shuffle(turns)
    done = [0, 0]
    for turn in turns:
        act((origin, fork)[turn], (mine, theirs)[turn][done[turn]], len(before) + done[turn])
        done[turn] += 1
    for cluster in (origin, fork):
        cluster.run()

    for cluster, lived in ((origin, mine), (fork, theirs)):
        alone = replay([*before, *lived])
        alone.run()
        assert state(cluster) == state(alone)


def test_a_trial_and_its_difference() -> None:
    with sp.Cluster(seed=1) as cluster:
        cluster.add_nodes(1, cpu="2", labels={"pool": "a"}, taints=["team=x:PreferNoSchedule"])
        cluster.apply(deployment("web", 3))
        cluster.run()
        (waiting,) = cluster.pods(pending=True).keys
        with cluster.fork() as trial:
            assert trial.add_nodes(1, like="node-1") == ["node-2"]
            trial.run()
            diff = trial.diff(cluster)

        assert diff.placed == {waiting: "node-2"}
        assert diff.nodes_added == ("node-2",)
        assert [diff.moved, diff.pending, diff.evicted] == [{}, {}, {}]
        assert cluster.pods(pending=True).keys == [waiting]
        assert not cluster.diff(cluster)


def test_pods_that_wait_at_permit_begin_anew() -> None:
    class Patient:
        name = "Patient"

        def __init__(self, args: Any, handle: sp.plugin.Handle) -> None:
            pass

        def permit(self, cycle: Any, pod: Any, node: str) -> sp.plugin.Wait:
            return sp.plugin.Wait(60.0)

    with sp.Cluster(plugins=[Patient]) as cluster:
        cluster.add_nodes(1)
        cluster.apply(pod("p"))
        cluster.run(seconds=1)
        with cluster.fork() as fork:
            fork.run(seconds=1)

            assert [entry.node for entry in fork.decision("default/p").history] == ["node-1"] * 2
            assert len(cluster.decision("default/p").history) == 1


@pytest.mark.slow
def test_forks_leave_no_memory_behind() -> None:
    cluster = start()
    cluster.run()
    gone = []
    for number in range(1000):
        with cluster.fork() as fork:
            fork.apply(pod(f"p{number}"))
            if number % 100 == 0:
                fork.run()
                engine = fork._engine
                parts = (engine, engine.store, engine.driver, engine.driver.machine)
                frameworks = engine.driver.machine.frameworks.values()
                gone += [weakref.ref(part) for part in (fork, *parts, *frameworks)]
                del engine, parts, frameworks
    del fork
    gc.collect()

    assert [ref() for ref in gone if ref() is not None] == []
