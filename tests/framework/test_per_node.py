"""State per node follows the pods on it, and is worked out as a node is given."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from stowplan.framework import NodeInfo, PerNode
from stowplan.state.pod_info import PodInfo
from tests.builders import World, node, pod


class Ones(PerNode):
    """How many pods there are, and what they ask for."""

    width = 2

    def work_out(self, node: NodeInfo) -> Sequence[int]:
        asked = sum(pod.kind.requests["cpu"] for pod in node.pods.values())
        return [len(node.pods), asked]


STEPS = st.tuples(st.sampled_from(["pod", "gone", "node", "no node"]), st.integers(0, 5))


@given(st.lists(STEPS, max_size=40))
def test_what_followed_equals_what_is_worked_out_anew(steps: list[tuple[str, int]]) -> None:
    world = World(node("n0"))
    followed = world.handle.shared(Ones)
    assert world.handle.shared(Ones) is followed
    for number, (step, about) in enumerate(steps):
        name = f"n{about}"
        there = [it for info in world.table.infos if info for it in info.pods.values()]
        if step == "pod" and name in world.table.row_of:
            world.add(pod(f"p{number}", cpu=about, node=name))
        elif step == "gone" and there:
            world.cache.remove_pod(there[about % len(there)].pod)
        elif step == "node":
            world.add(node(name))
        elif step == "no node" and name in world.table.row_of:
            world.cache.remove_node(name)
        world.table.refresh(world.cache)
        assert followed.columns().tolist() == Ones(world.table).columns().tolist()
        for row in world.table.row_of.values():
            info = world.table.info(row)
            assert followed.of(info) == Ones(world.table).work_out(info)


def test_a_node_without_some_of_its_pods_is_worked_out_as_it_is_given() -> None:
    world = World(node("n"), pod("a", cpu=1, node="n"), pod("b", cpu=2, node="n"))
    kept = world.handle.shared(Ones)
    whole = world.table.info(0)
    tried = whole.emptied()
    tried.add_pod(PodInfo(pod("b", cpu=2, node="n")))
    assert (kept.of(whole), kept.of(tried)) == ([2, 3000], [1, 2000])
