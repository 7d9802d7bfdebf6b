"""SchedulingGates holds a pod back and names the gates."""

from __future__ import annotations

from msgspec.structs import replace

from stowplan.framework.events import Action, Hint, Resource
from stowplan.framework.status import unresolvable
from stowplan.plugins.scheduling_gates import SchedulingGates
from tests.builders import info, pod
from tests.plugins.asking import hint

PLUGIN = SchedulingGates()


def test_every_gate_is_named_in_the_order_of_the_spec() -> None:
    gated = pod(spec={"schedulingGates": [{"name": "b"}, {"name": "a"}]})

    assert PLUGIN.pre_enqueue(info(gated)) == unresolvable("waiting for scheduling gates: [b a]")
    assert PLUGIN.pre_enqueue(info(pod())) is None
    assert PLUGIN.pre_enqueue(info(pod(spec={"schedulingGates": []}))) is None


def test_only_the_pods_own_gates_matter() -> None:
    gated = pod(spec={"schedulingGates": [{"name": "a"}]})
    freed = replace(gated, spec=replace(gated.spec, scheduling_gates=None))
    gates_gone = Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED

    assert hint(PLUGIN, Resource.POD, gates_gone, gated, gated, freed) == Hint.QUEUE
    assert hint(PLUGIN, Resource.POD, gates_gone, gated, gated, pod()) == Hint.SKIP
    assert hint(PLUGIN, Resource.POD, Action.UPDATE_POD_LABEL, gated, gated, freed) is None
