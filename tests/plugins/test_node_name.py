"""NodeName: a pod that names its node goes there or nowhere."""

from __future__ import annotations

from stowplan.framework.events import Action, Hint, Resource
from stowplan.framework.status import unresolvable
from stowplan.plugins.node_name import NodeName
from tests.builders import World, info, node, pod
from tests.plugins.asking import filtered, hint

PLUGIN = NodeName()
REFUSED = unresolvable("node(s) didn't match the requested node name")


def test_only_the_named_node_passes() -> None:
    world = World(node("a"), node("b"), node("c"))

    assert filtered(PLUGIN, world, pod()) == {"a": None, "b": None, "c": None}
    assert filtered(PLUGIN, world, pod(node="b")) == {"a": REFUSED, "b": None, "c": REFUSED}
    assert filtered(PLUGIN, world, pod(node="gone")) == dict.fromkeys("abc", REFUSED)


def test_the_name_is_the_signature_although_kinds_do_not_know_it() -> None:
    free, bound = info(pod()), info(pod(node="b"))

    assert (PLUGIN.signature(free), PLUGIN.signature(bound)) == ("", "b")


def test_a_new_node_is_always_worth_a_try() -> None:
    assert hint(PLUGIN, Resource.NODE, Action.ADD, pod(), None, node("n")) == Hint.QUEUE
    assert hint(PLUGIN, Resource.NODE, Action.UPDATE_NODE_LABEL, pod(), None, node("n")) is None
