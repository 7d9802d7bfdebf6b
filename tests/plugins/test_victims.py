"""Who has to go is what upstream's one-by-one way finds, however replicas are dealt with."""

from __future__ import annotations

from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from stowplan.core.dry_run import DryRun
from stowplan.framework.cycle import Cycle
from stowplan.objects.pod import Pod
from stowplan.plugins._shared.victims import Candidate, importance, select_victims
from stowplan.state.pod_info import PodInfo
from tests.builders import node, pod

ROOM = 8

sizes = st.integers(1, 4)
residents = st.lists(
    st.tuples(sizes, st.sampled_from([0, 0, 1, 9]), st.sampled_from(["", "a"]), st.integers(0, 3)),
    max_size=6,
)


def resident(n: int, size: int, priority: int, app: str, minute: int) -> Pod:
    return pod(
        f"resident-{n}",
        cpu=size,
        node="node-1",
        labels={"app": app} if app else {},
        spec={"priority": priority},
        status={"startTime": f"2026-01-01T00:0{minute}:00Z", "phase": "Running"},
    )


def one_by_one(pods: list[PodInfo], size: int) -> list[str] | None:
    """The victims, most important first; None when evicting all of them is not enough."""
    cpu = {info.key: info.kind.requests["cpu"] // 1000 for info in pods}
    staying = sum(cpu[info.key] for info in pods if info.priority >= 5)
    if staying + size > ROOM:
        return None
    victims = []
    for info in sorted((info for info in pods if info.priority < 5), key=importance):
        if staying + cpu[info.key] + size <= ROOM:
            staying += cpu[info.key]
        else:
            victims.append(info.key)
    return victims


@settings(deadline=None, max_examples=40)
@given(residents=residents, size=sizes, spread=st.booleans())
def test_the_fewest_and_least_important_have_to_go(
    residents: list[tuple[int, int, str, int]], size: int, spread: bool
) -> None:
    there = [resident(n, *traits) for n, traits in enumerate(residents)]
    spec: dict[str, Any] = {"priority": 5}
    if spread:
        # A cluster-wide filter with extensions, which never objects.
        spec["topologySpreadConstraints"] = [
            {
                "maxSkew": 99,
                "topologyKey": "kubernetes.io/hostname",
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": "a"}},
            }
        ]
    incoming = PodInfo(pod("incoming", cpu=size, spec=spec))
    run = DryRun([node("node-1", cpu=ROOM), *there], random=Random(0))
    run.table.refresh(run.cache)
    framework = run.framework_of(incoming)
    cycle = Cycle(framework.handle)
    framework.pre_filter(cycle, incoming)
    assert framework.has_extensions(cycle) == spread
    info = cycle.nodes.info(cycle.nodes.row_of["node-1"])
    before = (dict(info.pods), dict(info.requested))

    found = select_victims(framework, cycle, incoming, info, [])

    expected = one_by_one([PodInfo(pod) for pod in there], size)
    victims = [victim.key for victim in found.victims] if isinstance(found, Candidate) else None
    assert victims == (expected or None)
    assert (dict(info.pods), dict(info.requested)) == before, "it was only tried"
