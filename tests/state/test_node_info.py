"""NodeInfo: the sums follow the pods, one by one or many at once."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from stowplan.state.node_info import NodeInfo
from stowplan.state.pod_info import PodInfo
from tests.builders import node, pod


def resident(n: int, cpu: int, port: int, claim: str) -> PodInfo:
    container: dict[str, Any] = {"name": "c", "resources": {"requests": {"cpu": cpu, "x.y/z": 1}}}
    if port:
        container["ports"] = [{"containerPort": port, "hostPort": port}]
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": claim}}] if claim else []
    return PodInfo(pod(f"pod-{n}", spec={"containers": [container], "volumes": volumes}))


def sums(info: NodeInfo) -> tuple[Any, ...]:
    return (
        list(info.pods),
        info.requested,
        (info.nonzero_milli_cpu, info.nonzero_memory),
        info.used_ports,
        info.claim_refs,
    )


traits = st.tuples(st.integers(0, 2), st.sampled_from([0, 80, 81]), st.sampled_from(["", "a", "b"]))


@given(pods=st.lists(traits, max_size=6), data=st.data())
def test_many_leave_as_one_by_one(pods: list[tuple[int, int, str]], data: st.DataObject) -> None:
    infos = [resident(n, *of_pod) for n, of_pod in enumerate(pods)]
    leaving = data.draw(st.lists(st.sampled_from(infos), unique_by=id) if infos else st.just([]))
    together = NodeInfo("node-1")
    together.set_node(node("node-1"))
    for info in infos:
        together.add_pod(info)
    one_by_one, before = together.clone(), sums(together.clone())

    for info in leaving:
        one_by_one.remove_pod(info)
    assert sums(together) == before, "a clone shares no sums"
    together.remove_pods(leaving)

    assert sums(together) == sums(one_by_one)
