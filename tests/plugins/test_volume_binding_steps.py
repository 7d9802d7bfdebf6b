"""VolumeBinding after the choice of a node: Reserve, PreBind, and the score that goes before."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from stowplan.errors import Conflict
from stowplan.framework.cycle import Cycle
from stowplan.framework.effects import Sleep
from stowplan.framework.plugin import PreFlight
from stowplan.framework.status import SKIP, SKIP_ALWAYS, Status, error
from stowplan.objects.api import Patch
from stowplan.objects.base import KubeObject
from stowplan.objects.kinds import PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM
from stowplan.objects.pod import Pod
from stowplan.objects.storage import PersistentVolume, PersistentVolumeClaim
from stowplan.plugins.volume_binding import VolumeBinding
from stowplan.state.pod_info import PodInfo
from tests.builders import World, info, node, pod
from tests.plugins.asking import filtered
from tests.plugins.volume_objects import (
    BOUND,
    claim,
    csi_driver,
    mounting,
    pool,
    storage_class,
    volume,
)

SELECTED = "volume.kubernetes.io/selected-node"
REFERENCE = {"namespace": "default", "name": "c", "uid": "uid-c"}


def plugin(world: World, **args: Any) -> VolumeBinding:
    given = {"bind_timeout_seconds": 600, "shape": None, **args}
    return VolumeBinding(SimpleNamespace(**given), world.handle)


def waiting(name: str = "c", **rest: Any) -> PersistentVolumeClaim:
    return claim(name, storage_class="s", **rest)


def free(name: str = "v", **rest: Any) -> PersistentVolume:
    return volume(name, storage_class="s", **rest)


def dynamic(*objects: KubeObject, provisioner: str = "csi.example.com") -> World:
    nodes = node("a", labels={"zone": "z1"}), node("b", labels={"zone": "z2"})
    return World(*nodes, storage_class("s", provisioner=provisioner), *objects)


def static(*objects: KubeObject) -> World:
    return dynamic(*objects, provisioner="kubernetes.io/no-provisioner")


# -- Reserve, PreBind ------------------------------------------------------------------------


class Attempt:
    """One pod on its way through the plugin, past Reserve."""

    def __init__(self, world: World, binding: VolumeBinding, asking: Pod, on: str) -> None:
        self.world, self.binding, self.on = world, binding, on
        self.pod: PodInfo = info(asking)
        self.cycle: Cycle = world.cycle()
        known = {self.pod.key: self.pod}
        world.handle.pod_by_key = known.get
        assert binding.pre_filter(self.cycle, self.pod) is None
        assert binding.reserve(self.cycle, self.pod, on) is None

    def steps(self) -> Any:
        return self.binding.pre_bind(self.cycle, self.pod, self.on)

    def undo(self) -> None:
        self.binding.unreserve(self.cycle, self.pod, self.on)


def fits(world: World, binding: VolumeBinding, asking: Pod) -> str:
    found = filtered(binding, world, asking)
    return "".join(name for name, status in found.items() if status is None)


def test_a_reserved_volume_is_not_free_until_it_is_given_back() -> None:
    world = static(waiting("c"), waiting("d"), free("v"))
    binding = plugin(world)

    attempt = Attempt(world, binding, mounting("c"), on="a")
    assert fits(world, binding, mounting("d")) == ""
    assert fits(world, binding, mounting("c")) == "ab"
    attempt.undo()
    assert fits(world, binding, mounting("d")) == "ab"


def test_a_reserved_new_volume_ties_its_claim_to_the_node() -> None:
    world = dynamic(waiting("c"))
    binding = plugin(world)

    attempt = Attempt(world, binding, mounting("c"), on="a")
    assert fits(world, binding, mounting("c")) == "a"
    attempt.undo()
    assert fits(world, binding, mounting("c")) == "ab"


def test_what_the_cluster_shows_next_is_the_truth() -> None:
    world = static(waiting("c"), waiting("d"), free("v"))
    binding = plugin(world)
    Attempt(world, binding, mounting("c"), on="a")

    world.add(free("v", metadata={"resourceVersion": "2"}))

    assert fits(world, binding, mounting("d")) == "ab"


def test_reserve_refuses_a_choice_that_was_made_on_an_older_volume() -> None:
    world = static(waiting("c"), waiting("d"), free("v"))
    binding, cycle, asking = plugin(world), world.cycle(), info(mounting("c"))
    binding.pre_filter(cycle, asking)
    world.add(free("v", metadata={"resourceVersion": "2"}))

    status = binding.reserve(cycle, asking, "a")

    assert status == error("a volume or claim of the pod changed since it was looked at")
    assert binding.pre_bind_pre_flight(cycle, asking, "a") == SKIP
    assert fits(world, binding, mounting("d")) == "ab"


def test_nothing_to_bind() -> None:
    world = World(node("a", labels={"zone": "z1"}), claim("c", volume="v"))
    world.add(volume("v", on={"zone": ["z1"]}))
    attempt = Attempt(world, plugin(world), mounting("c"), on="a")

    assert attempt.binding.pre_bind_pre_flight(attempt.cycle, attempt.pod, "a") == SKIP
    assert list(attempt.steps()) == []
    skipped = world.cycle()
    assert attempt.binding.pre_bind_pre_flight(skipped, info(pod()), "a") == SKIP
    assert attempt.binding.reserve(skipped, info(pod()), "a") is None


def binding_world() -> World:
    world = static(waiting("c", metadata={"resourceVersion": "5", "annotations": {}}))
    world.add(storage_class("made"), claim("d", storage_class="made", annotations={"mine": "x"}))
    return world.add(free("v", metadata={"resourceVersion": "7"}))


def written(obj: KubeObject, version: str, **changes: Any) -> Any:
    metadata = msgspec.structs.replace(obj.metadata, resource_version=version)
    return msgspec.structs.replace(obj, metadata=metadata, **changes)


def write_all(steps: Any, world: World) -> None:
    """Answer the two patches, and let the watch show them."""
    bound = written(free(claimRef=REFERENCE), "8")
    selected = written(claim("d", storage_class="made", annotations={SELECTED: "a"}), "9")
    next(steps)
    steps.send(bound)
    assert steps.send(selected) == Sleep(1.0)
    world.add(bound, selected)


def finish(steps: Any) -> Status | None:
    """What the generator returns on its next step."""
    with pytest.raises(StopIteration) as stop:
        steps.send(None)
    status: Status | None = stop.value.value
    return status


def test_volumes_are_written_then_waited_for() -> None:
    world = binding_world()
    attempt = Attempt(world, plugin(world), mounting("c", "d"), on="a")
    flight = attempt.binding.pre_bind_pre_flight(attempt.cycle, attempt.pod, "a")
    assert flight == PreFlight(allow_parallel=True)

    steps = attempt.steps()
    reference = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", **REFERENCE}
    assert next(steps) == Patch(
        PERSISTENT_VOLUME,
        "",
        "v",
        {
            "metadata": {
                "resourceVersion": "7",
                "annotations": {"pv.kubernetes.io/bound-by-controller": "yes"},
            },
            "spec": {"claimRef": {**reference, "resourceVersion": "5"}},
        },
        "merge",
    )
    assert steps.send(None) == Patch(
        PERSISTENT_VOLUME_CLAIM,
        "default",
        "d",
        {"metadata": {"annotations": {SELECTED: "a"}}},
        "merge",
    )
    assert steps.send(None) == Sleep(1.0)
    world.add(free(claimRef=REFERENCE), claim("d", annotations={SELECTED: "a"}))
    assert steps.send(None) == Sleep(1.0)
    world.add(claim("c", volume="v"), claim("d", volume="w", annotations={**BOUND, SELECTED: "a"}))
    assert steps.send(None) == Sleep(1.0), "volume w is yet to be seen"
    world.add(volume("w", on={"zone": ["z1"]}))
    assert finish(steps) is None


def test_a_lost_race_ends_the_binding() -> None:
    world = binding_world()
    steps = Attempt(world, plugin(world), mounting("c"), on="a").steps()
    next(steps)

    with pytest.raises(StopIteration) as stop:
        steps.send(Conflict("the object has been modified"))
    assert stop.value.value == error("the object has been modified")


def test_the_answer_counts_only_once_the_watch_has_shown_it() -> None:
    world = binding_world()
    steps = Attempt(world, plugin(world), mounting("c"), on="a").steps()
    next(steps)
    assert steps.send(written(free(claimRef=REFERENCE), "8")) == Sleep(1.0)
    world.add(claim("c", volume="v"))

    assert steps.send(None) == Sleep(1.0), "the volume is still the one of version 7"
    world.add(written(free(claimRef=REFERENCE), "8"))
    assert finish(steps) is None


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        pytest.param(written(free(), "9"), 'ClaimRef got reset for pv "v"', id="volume-taken-back"),
        pytest.param(
            written(free(claimRef=REFERENCE, on={"zone": ["z2"]}), "9"),
            'pv "v" node affinity doesn\'t match node "a": no matching NodeSelectorTerms',
            id="volume-elsewhere",
        ),
        pytest.param(
            claim("d", storage_class="made", annotations={"other": ""}),
            'provisioning failed for PVC "d"',
            id="provisioning-failed",
        ),
        pytest.param(
            claim("d", storage_class="made", metadata={"annotations": None}),
            'selectedNode annotation reset for PVC "d"',
            id="annotations-gone",
        ),
    ],
)
def test_bindings_that_cannot_succeed(change: KubeObject, problem: str) -> None:
    world = binding_world()
    steps = Attempt(world, plugin(world), mounting("c", "d"), on="a").steps()
    write_all(steps, world)
    world.add(claim("c", volume="v"), change)

    assert finish(steps) == error(f"binding volumes: {problem}")


@pytest.mark.parametrize(
    ("gone", "problem"),
    [
        pytest.param(
            free(), 'failed to check binding: could not find v1.PersistentVolume "v"', id="volume"
        ),
        pytest.param(
            claim("c"),
            'failed to check binding: could not find v1.PersistentVolumeClaim "default/c"',
            id="claim",
        ),
    ],
)
def test_objects_that_vanish(gone: KubeObject, problem: str) -> None:
    world = binding_world()
    steps = Attempt(world, plugin(world), mounting("c", "d"), on="a").steps()
    write_all(steps, world)
    world.objects.remove(gone)

    assert finish(steps) == error(f"binding volumes: {problem}")


def test_a_deleted_pod_is_not_waited_for() -> None:
    world = binding_world()
    attempt = Attempt(world, plugin(world), mounting("c", "d", name="p"), on="a")
    steps = attempt.steps()
    write_all(steps, world)
    world.handle.pod_by_key = lambda key: None

    gone = 'binding volumes: pod does not exist any more: pod "p" not found'
    assert finish(steps) == error(gone)


def test_waiting_has_an_end() -> None:
    world = binding_world()
    binding = plugin(world, bind_timeout_seconds=3)
    steps = Attempt(world, binding, mounting("c"), on="a").steps()
    next(steps)
    world.add(free(claimRef=REFERENCE))

    pauses = [steps.send(None) for _ in range(3)]

    assert pauses == [Sleep(1.0)] * 3
    assert finish(steps) == error("binding volumes: context deadline exceeded")


# -- Score -----------------------------------------------------------------------------------

SHAPE = [SimpleNamespace(utilization=0, score=10), SimpleNamespace(utilization=100, score=0)]


def scored(world: World, *claims: str) -> dict[str, int]:
    binding = plugin(world, shape=SHAPE)
    cycle, asking, table = world.cycle(), info(mounting(*claims)), world.table
    assert binding.pre_filter(cycle, asking) is None
    passed = binding.filter_nodes(cycle, asking, table, slice(0, table.size)).passed
    rows = passed.nonzero()[0]
    assert binding.pre_score(cycle, asking, rows) is None
    whole = binding.score_nodes(cycle, asking, table, rows).tolist()
    assert whole == [binding.score_node(cycle, asking, table.info(row)) for row in rows.tolist()]
    return dict(zip([table.names[row] for row in rows], whole, strict=True))


def test_no_score_without_the_gate() -> None:
    world = static(waiting(), free())
    binding, cycle, asking = plugin(world), world.cycle(), info(mounting("c"))
    binding.pre_filter(cycle, asking)

    assert binding.pre_score(cycle, asking, world.table.order) == SKIP_ALWAYS


@pytest.mark.parametrize(
    ("objects", "claims", "expected"),
    [
        pytest.param([waiting("c", size="30Gi"), free(size="100Gi")], "c", 70, id="30-of-100"),
        pytest.param([waiting("c", size="100Gi"), free(size="100Gi")], "c", 0, id="all-of-it"),
        pytest.param(
            [
                waiting("c", size="30Gi"),
                free(size="100Gi"),
                claim("d", storage_class="t", size="65Gi"),
                volume("w", storage_class="t", size="100Gi"),
            ],
            "cd",
            53,
            id="mean-over-classes-rounds-up",
        ),
        pytest.param(
            [
                waiting("c", size="10Gi"),
                waiting("d", size="20Gi"),
                free("v", size="50Gi"),
                free("w", size="50Gi"),
            ],
            "cd",
            70,
            id="one-class-adds-up",
        ),
    ],
)
def test_scores_of_free_volumes(objects: list[KubeObject], claims: str, expected: int) -> None:
    world = static(*objects, storage_class("t", provisioner="kubernetes.io/no-provisioner"))

    assert scored(world, *claims) == {"a": expected, "b": expected}


def test_scores_of_pools() -> None:
    world = dynamic(waiting("c", size="20Gi"), waiting("d", size="20Gi"), csi_driver())
    world.add(pool("p", "s", "100Gi", on={"zone": "z1"}), pool("q", "s", "50Gi", on={}))

    assert scored(world, "c") == {"a": 80, "b": 60}
    assert scored(world, "c", "d") == {"a": 60, "b": 20}


def test_pools_do_not_count_beside_a_free_volume() -> None:
    world = dynamic(waiting("c", size="20Gi"), waiting("d", size="20Gi"), csi_driver())
    world.add(pool("p", "s", "100Gi", on={}), free("v", size="40Gi", on={"zone": ["z1"]}))

    assert scored(world, "c", "d") == {"a": 50, "b": 60}
