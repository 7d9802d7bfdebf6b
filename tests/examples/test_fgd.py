"""examples/fgd: the paper's curves come out of the real scheduler, and GPUs are counted right."""

from __future__ import annotations

import gzip
import json
import math
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import stowplan as sp
from tests.builders import World, node, pod
from tests.plugins.asking import filtered, raw_scores

FGD = Path(__file__).parents[2] / "examples" / "fgd"
OPENB = Path(__file__).parent / "openb"
EXPECTED = json.loads(gzip.decompress((OPENB / "expected_allocation.json.gz").read_bytes()))
STANDARD_DEVIATION = {100: 0.33, 130: 0.32}
"""Of the policy that throws dice, over the paper's ten seeds."""


@pytest.fixture(scope="module")
def fgd() -> Any:
    sys.path.insert(0, str(FGD))
    try:
        import reproduce

        yield reproduce
    finally:
        sys.path.remove(str(FGD))


def _curve(policy: str) -> list[float]:
    files = {
        "--nodes": OPENB / "nodes_gpu_node.csv.gz",
        "--pods": OPENB / "pods_default.csv.gz",
        "--arrivals": OPENB / "arrivals.json.gz",
    }
    options = [str(part) for item in files.items() for part in item]
    command = [sys.executable, str(FGD / "reproduce.py"), *options, "--policy", policy]
    done = subprocess.run([*command, "-o", "json"], capture_output=True, text=True, check=True)
    curve: list[float] = json.loads(done.stdout)["allocation"]
    return curve


@pytest.mark.parametrize("policy", sorted(EXPECTED["default"]["42"]))
def test_the_published_curve_comes_out(policy: str) -> None:
    curve, published = _curve(policy), EXPECTED["default"]["42"][policy]
    if policy == "Random":
        off = {x: abs(curve[x] - published[x]) for x in STANDARD_DEVIATION}
        assert all(off[x] <= 3 * deviation for x, deviation in STANDARD_DEVIATION.items()), off
    else:
        off = {x: round(abs(curve[x] - published[x]), 3) for x in range(131)}
        assert max(off.values()) <= 0.02, off


def _row(cpu: int, milli: int, count: int) -> dict[str, str]:
    size = {"cpu_milli": cpu, "gpu_milli": milli, "num_gpu": count, "memory_mib": 10}
    return {"name": "p", "gpu_spec": "", **{key: str(value) for key, value in size.items()}}


ASKS = st.sampled_from(
    [(100, 0, 0), (1000, 300, 1), (2000, 700, 1), (500, 1000, 1), (500, 1000, 2), (9000, 50, 1)]
)
STEPS = st.one_of(
    st.tuples(st.just("come"), ASKS),
    st.tuples(st.just("go"), st.integers(0, 30)),
    st.tuples(st.just("fork"), st.none()),
)


@given(st.lists(STEPS, max_size=20), st.sampled_from(["FGD", "GpuPacking", "Random"]))
@settings(max_examples=30)
def test_no_gpu_is_given_away_twice(
    fgd: ModuleType, steps: list[tuple[str, Any]], policy: str
) -> None:
    """Whatever comes and goes, and in forks too, which know nothing but what stands on the pods."""
    sizes = iter([fgd.Size(1000, 300, 1, ""), fgd.Size(500, 1000, 2, "")])
    config = fgd.configuration(policy, sizes)
    plugins = [fgd.GpuShare, fgd.POLICY[policy]]
    shape = {"cpu_milli": "16000", "memory_mib": "1024", "gpu": "2", "model": "A"}
    cluster = sp.Cluster(config, plugins=plugins, strict=True)
    cluster.apply([fgd.node_of({"sn": name, **shape}, 1) for name in ("a", "b")])
    for number, (step, about) in enumerate(steps):
        if step == "come":
            cluster.apply(fgd.pod_of(_row(*about), number))
        elif step == "go" and cluster.pods():
            cluster.delete(cluster.pods()[about % len(cluster.pods())].key)
        elif step == "fork":
            cluster = cluster.fork()
        cluster.run()
        given_away: Counter[tuple[str, str]] = Counter()
        for it in cluster.pods(pending=False):
            labels = it.metadata.labels or {}
            if "gpu-count" not in labels:
                continue
            gpus = (it.metadata.annotations or {})["example.com/gpus"].split(",")
            assert len(set(gpus)) == int(labels["gpu-count"])
            for gpu in gpus:
                given_away[it.spec.node_name, gpu] += int(labels["gpu-milli"])
        assert max(given_away.values(), default=0) <= 1000
        assert {gpu for _, gpu in given_away} <= {"0", "1"}
    cluster.close()


TYPICAL = ((1000, 300, 1), (2000, 700, 1), (4000, 1000, 1), (500, 0, 0))
"""Cpu, parts of each GPU, GPUs; each as frequent as the others."""


def _fragment(cpu: int, left: list[int]) -> float:
    """What is of no use to a typical pod, on average, by the paper's definition."""
    useless = 0
    for wanted, milli, count in TYPICAL:
        can_run = count and cpu >= wanted and sum(gpu >= milli for gpu in left) >= count
        useless += sum(gpu for gpu in left if gpu < milli or not can_run)
    return useless / len(TYPICAL)


def _best_gpu(cpu: int, left: list[int], wanted: int, milli: int) -> int | None:
    ratings = {}
    for n, gpu in enumerate(left):
        if gpu >= milli and cpu >= wanted:
            after = [*left[:n], gpu - milli, *left[n + 1 :]]
            grown = _fragment(cpu - wanted, after) - _fragment(cpu, left)
            ratings[n] = int(100 / (1 + math.exp(grown / 1000)))
    return max(ratings, key=lambda n: (ratings[n], -n), default=None)


@given(st.lists(st.tuples(st.sampled_from([500, 1500, 2500]), st.sampled_from([150, 300, 450]))))
@settings(max_examples=50)
def test_a_share_gets_the_gpu_that_its_node_was_rated_with(
    fgd: ModuleType, shares: list[tuple[int, int]]
) -> None:
    config = fgd.configuration("FGD", (fgd.Size(*size, "") for size in TYPICAL))
    plugins = [fgd.GpuShare, fgd.POLICY["FGD"]]
    shape = {"cpu_milli": "12000", "memory_mib": "1024", "gpu": "3", "model": "A"}
    cpu, left = 12000, [1000] * 3
    with sp.Cluster(config, plugins=plugins, strict=True) as cluster:
        cluster.apply(fgd.node_of({"sn": "a", **shape}, 1))
        for number, (wanted, milli) in enumerate(shares):
            cluster.apply(fgd.pod_of(_row(wanted, milli, 1), number))
            cluster.run()
            found = {it.name: it.metadata.annotations for it in cluster.pods(pending=False)}
            best = _best_gpu(cpu, left, wanted, milli)
            assert (best is None) == (f"p-{number}" not in found)
            if best is not None:
                assert (found[f"p-{number}"] or {})["example.com/gpus"] == str(best)
                cpu, left[best] = cpu - wanted, left[best] - milli


def test_preemption_reckons_with_the_gpus_that_victims_give_back(fgd: ModuleType) -> None:
    config = fgd.configuration("BestFit", iter([]))
    del config["profiles"][0]["plugins"]["postFilter"]
    plugins = [fgd.GpuShare, fgd.POLICY["BestFit"]]
    shape = {"cpu_milli": "16000", "memory_mib": "1024", "gpu": "2", "model": "A"}
    with sp.Cluster(config, plugins=plugins, strict=True) as cluster:
        cluster.apply(fgd.node_of({"sn": "a", **shape}, 1))
        cluster.apply([fgd.pod_of(_row(100, 1000, 1), 1), fgd.pod_of(_row(100, 600, 1), 2)])
        cluster.run()
        urgent = fgd.pod_of(_row(100, 500, 1), 3)
        kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
        cluster.apply({**kind, "metadata": {"name": "urgent"}, "value": 10})
        urgent["spec"]["priorityClassName"] = "urgent"
        cluster.apply(urgent)
        cluster.run()

        victims = cluster.decision("default/p-3").history[0].victims
        assert len(victims) == 1
        placed = {it.name: it.metadata.annotations for it in cluster.pods(pending=False)}
        assert set(placed) == {"p-1", "p-2", "p-3"} - {key.split("/")[1] for key in victims}


@given(
    st.lists(st.integers(0, 8), min_size=1, max_size=5),
    st.lists(st.tuples(st.integers(0, 4), ASKS), max_size=8),
    ASKS,
)
def test_the_two_forms_of_every_policy_agree(
    fgd: ModuleType,
    gpus: list[int],
    placed: list[tuple[int, tuple[int, int, int]]],
    asked: tuple[int, int, int],
) -> None:
    nodes = [
        node(f"n{n}", cpu=64, allocatable={"example.com/gpu": str(count)})
        for n, count in enumerate(gpus)
    ]
    there = []
    for number, (where, (cpu, milli, count)) in enumerate(placed):
        on = where % len(gpus)
        if count <= gpus[on]:
            labels = {"gpu-count": str(count), "gpu-milli": str(milli)} if count else {}
            there.append(pod(f"p{number}", cpu=f"{cpu}m", labels=labels, node=f"n{on}"))
    world = World(*nodes, *there)
    args = {"typicalPods": [[[1000, 300, 1, ""], 3], [[500, 1000, 2, "A"], 1], [[0, 0, 0, ""], 1]]}
    cpu, milli, count = asked
    labels = {"gpu-count": str(count), "gpu-milli": str(milli)} if count else {}
    wanted = pod("wanted", cpu=f"{cpu}m", labels=labels)
    filtered(fgd.GpuShare(None, world.handle), world, wanted)
    for name in ("DotProd", "GpuClustering", "GpuPacking", "BestFit", "FGD"):
        raw_scores(fgd.POLICY[name](args, world.handle), world, wanted)
