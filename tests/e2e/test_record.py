"""A live cluster is recorded with a reader's rights, and replays to the same placements."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import stowplan as sp
from stowplan.sim.files import read_trace
from stowplan.sim.trace import Trace
from tests.e2e import first_of_all
from tests.e2e.harness.cluster import STOWPLAN
from tests.e2e.harness.objects import ZONE, anti_affinity, node, pod, spread
from tests.e2e.harness.processes import Process, eventually
from tests.e2e.harness.rights import READER, grant_reader
from tests.e2e.harness.scheduler import Scheduler
from tests.e2e.harness.world import World

PODS = 60

PLUGIN = Path(first_of_all.__file__)

WEIGHTS = {
    "NodeResourcesFit": 10,
    "NodeResourcesBalancedAllocation": 10,
    "PodTopologySpread": 20,
    "InterPodAffinity": 20,
    "NodeAffinity": 20,
    "TaintToleration": 30,
    "ImageLocality": 10,
    "FirstOfAll": 1,
}
"""Ten times the usual ones: the last decides between equals only."""


def _config() -> dict[str, Any]:
    enabled = [{"name": name, "weight": weight} for name, weight in WEIGHTS.items()]
    score = {"enabled": enabled, "disabled": [{"name": "*"}]}
    return {"profiles": [{"schedulerName": "default-scheduler", "plugins": {"score": score}}]}


def _replayed(trace: Trace, config: dict[str, Any]) -> dict[str, str]:
    """Everything at its time, one after the other."""
    kind = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    cluster = sp.Cluster({**kind, **config}, plugins=[first_of_all.FirstOfAll])
    steps: list[tuple[float, int, Any]] = [(it.time_s, 1, it) for it in trace.changes]
    steps += [(float(trace.node_joins_s[n]), 0, trace.node(n)) for n in range(trace.node_count)]
    for n in range(trace.pod_count):
        steps.append((float(trace.pod_arrival_s[n]), 2, trace.pod(n)))
        if trace.pod_end_s[n] == trace.pod_end_s[n]:
            steps.append((float(trace.pod_end_s[n]), 3, f"default/{trace.pod_name(n)}"))
    nodes: dict[str, str] = {}
    for _, sort, step in sorted(steps, key=lambda it: it[:2]):
        if sort == 1:
            if step.verb == "apply":
                cluster.apply(dict(step.object))
            continue
        if sort == 3:
            cluster.delete(step)
            continue
        cluster.apply(step)
        cluster.run(0.0)
        for found in cluster.pods(pending=False, namespace="default"):
            nodes[found.name] = found.spec.node_name
    return nodes


def test_a_recorded_cluster_replays_to_the_same_placements(
    world: World, new_scheduler: Callable[..., Scheduler], tmp_path: Path
) -> None:
    grant_reader(world.cluster)
    world.add_nodes(
        *(node(f"node-{n}", cpu=str(8 + 4 * (n % 3)), labels={ZONE: f"z{n % 2}"}) for n in range(6))
    )
    scheduler = new_scheduler(arguments=("--plugin-path", str(PLUGIN)), **_config())
    scheduler.start()
    file = tmp_path / "live.recording"
    kubeconfig = world.cluster.kubeconfig(READER)
    command = [str(STOWPLAN), "record", "--kubeconfig", str(kubeconfig), "-o", str(file)]
    recorder = Process("stowplan record", command, tmp_path / "record.log", {})
    eventually("it records", lambda: "recording to" in recorder.text(), must_live=recorder)

    random, placed, alive = Random(5), {}, []
    for number in range(PODS):
        labels = {"app": f"a{number % 3}"}
        # Here and there: who is deleted is gone at once.
        spec: dict[str, Any] = {"terminationGracePeriodSeconds": 0}
        if number % 4 == 1:
            spec["topologySpreadConstraints"] = [spread(labels, ZONE)]
        elif number % 4 == 2 and number < 24:
            labels = {"app": "alone"}
            spec["affinity"] = anti_affinity(labels)
        name = f"p-{number}"
        cpu = random.choice(["100m", "250m", "500m", "1"])
        world.create(pod(name, cpu=cpu, labels=labels, **spec))
        placed |= world.until_bound(name)
        alive.append(name)
        if number % 3 == 2:
            world.delete("Pod", alive.pop(random.randrange(len(alive))))
    if_killed = number_of_pods(file)
    recorder.signal(signal.SIGINT)
    assert recorder.wait(30.0) == 0, recorder.text()

    trace = read_trace(file)
    assert trace.pod_count == PODS >= if_killed
    assert trace.pod_node is not None
    recorded = {
        trace.pod_name(n): trace.node_names[trace.pod_node[n]] for n in range(trace.pod_count)
    }
    assert recorded == placed
    assert _replayed(trace, _config()) == placed


def number_of_pods(file: Path) -> int:
    """What can be read while it is written."""
    return read_trace(file).pod_count
