"""TaintToleration: hard taints turn a node down, soft ones cost it points."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.framework.events import Action, Hint, Resource
from stowplan.framework.status import unresolvable
from stowplan.objects.node import Node
from stowplan.objects.pod import Pod
from stowplan.plugins.taint_toleration import TaintToleration
from tests.builders import World, info, node, pod
from tests.plugins.asking import filtered, hint, raw_scores, scores
from tests.small_limits import small_limits

REFUSED = unresolvable("node(s) had untolerated taint(s)")

Taint = dict[str, str]


def plugin() -> TaintToleration:
    return TaintToleration(None, World().handle)


def taint(effect: str, key: str = "k", value: str = "v") -> Taint:
    return {"key": key, "value": value, "effect": effect}


def tainted(name: str, *taints: Taint) -> Node:
    return node(name, taints=list(taints))


def tolerating(*tolerations: dict[str, Any]) -> Pod:
    return pod(spec={"tolerations": list(tolerations)})


EQUAL = {"key": "k", "operator": "Equal", "value": "v"}


@pytest.mark.parametrize(
    ("tolerations", "effect", "refused"),
    [
        pytest.param([], "NoSchedule", True, id="none"),
        pytest.param([], "PreferNoSchedule", False, id="soft-taints-do-not-refuse"),
        pytest.param([EQUAL], "NoSchedule", False, id="equal"),
        pytest.param([{"key": "k", "value": "v"}], "NoExecute", False, id="no-operator-is-equal"),
        pytest.param([{**EQUAL, "value": "w"}], "NoSchedule", True, id="other-value"),
        pytest.param([{**EQUAL, "effect": "NoExecute"}], "NoSchedule", True, id="other-effect"),
        pytest.param([{"operator": "Exists"}], "NoExecute", False, id="everything"),
        pytest.param([{**EQUAL, "operator": "Gt", "value": "0"}], "NoSchedule", True, id="gate"),
    ],
)
def test_filter(tolerations: list[dict[str, Any]], effect: str, refused: bool) -> None:
    world = World(tainted("a", taint(effect)), tainted("b"))

    found = filtered(plugin(), world, tolerating(*tolerations))

    assert found == {"a": REFUSED if refused else None, "b": None}


SOFT = [taint("PreferNoSchedule", key) for key in "abc"]


@pytest.mark.parametrize(
    ("taints", "expected"),
    [
        ([[], SOFT[:1], SOFT], [100, 67, 0]),
        ([[], []], [100, 100]),
        ([SOFT[:2], SOFT[1:]], [0, 0]),
        ([[taint("NoSchedule")], SOFT[:1]], [100, 0]),
    ],
)
def test_score(taints: list[list[Taint]], expected: list[int]) -> None:
    world = World(*(tainted(f"n{n}", *given) for n, given in enumerate(taints)))

    assert scores(plugin(), world, pod()) == {f"n{n}": s for n, s in enumerate(expected)}


def test_only_tolerations_of_soft_or_any_effect_count_in_scores() -> None:
    world = World(tainted("n", *SOFT))
    exists = [{"key": key, "operator": "Exists"} for key in "abc"]
    wanting = tolerating({**exists[0], "effect": "NoSchedule"}, exists[1], exists[2])

    assert raw_scores(plugin(), world, wanting) == {"n": 1}


def test_a_taint_list_that_is_new_is_seen() -> None:
    asked, world, wanting = plugin(), World(tainted("a")), pod()
    filtered(asked, world, wanting)

    world.add(tainted("b", taint("NoSchedule"), SOFT[0]))

    assert filtered(asked, world, wanting) == {"a": None, "b": REFUSED}
    assert raw_scores(asked, world, wanting) == {"a": 0, "b": 1}


def test_signature_is_the_set_of_tolerations() -> None:
    asked = plugin()
    one, other = EQUAL, {"operator": "Exists", "effect": "NoExecute"}
    lasting = {**other, "tolerationSeconds": 3}

    same = {asked.signature(info(tolerating(*ts))) for ts in ([one, other], [lasting, one])}

    assert len(same) == 1
    assert asked.signature(info(tolerating(one))) not in same


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (None, [], Hint.QUEUE),
        (None, [taint("NoSchedule")], Hint.SKIP),
        ([taint("NoExecute")], [], Hint.QUEUE),
        ([taint("NoExecute")], [taint("NoSchedule")], Hint.SKIP),
        ([], [], Hint.SKIP),
        ([taint("PreferNoSchedule")], [], Hint.SKIP),
        ([taint("NoSchedule")], [taint("PreferNoSchedule")], Hint.QUEUE),
    ],
)
def test_node_events(old: list[Taint] | None, new: list[Taint], expected: Hint) -> None:
    before = None if old is None else tainted("n", *old)
    action = Action.ADD if old is None else Action.UPDATE_NODE_TAINT

    assert hint(plugin(), Resource.NODE, action, pod(), before, tainted("n", *new)) == expected


def test_pod_events() -> None:
    own, changed = pod(), Action.UPDATE_POD_TOLERATION

    assert hint(plugin(), Resource.POD, changed, own, own, own) == Hint.QUEUE
    assert hint(plugin(), Resource.POD, changed, own, pod(), pod()) == Hint.SKIP


EFFECTS = ["NoSchedule", "NoExecute", "PreferNoSchedule"]
some_taints = st.lists(
    st.builds(taint, st.sampled_from(EFFECTS), st.sampled_from("ab"), st.sampled_from("xy")),
    max_size=3,
)
some_tolerations = st.lists(
    st.fixed_dictionaries(
        {
            "key": st.sampled_from(["", "a", "b"]),
            "operator": st.sampled_from(["", "Equal", "Exists", "Lt", "?"]),
            "value": st.sampled_from(["", "x", "y"]),
            "effect": st.sampled_from(["", *EFFECTS]),
        }
    ),
    max_size=3,
)


def covers(toleration: Taint, taint: Taint) -> bool:
    operator = toleration["operator"]
    return (
        toleration["effect"] in ("", taint["effect"])
        and toleration["key"] in ("", taint["key"])
        and (
            operator == "Exists"
            or (operator in ("", "Equal") and toleration["value"] == taint["value"])
        )
    )


@given(st.lists(some_taints, min_size=1, max_size=5), some_tolerations)
def test_same_answers_as_the_definition(
    per_node: list[list[Taint]], tolerations: list[Taint]
) -> None:
    world = World(*(tainted(f"n{n}", *given) for n, given in enumerate(per_node)))
    asked, wanting = plugin(), tolerating(*tolerations)

    found, counted = filtered(asked, world, wanting), raw_scores(asked, world, wanting)

    def open_taints(taints: list[Taint], *effects: str) -> int:
        soft = "PreferNoSchedule" in effects
        given = [t for t in tolerations if not soft or t["effect"] in ("", "PreferNoSchedule")]
        return sum(t["effect"] in effects and not any(covers(g, t) for g in given) for t in taints)

    assert [status is not None for status in found.values()] == [
        open_taints(taints, "NoSchedule", "NoExecute") > 0 for taints in per_node
    ]
    assert counted is not None
    assert list(counted.values()) == [open_taints(t, "PreferNoSchedule") for t in per_node]


def test_answers_follow_when_the_lists_of_taints_are_numbered_anew() -> None:
    """The table forgets lists that no node has any more, and numbers the others from the start."""
    with small_limits():
        world = World(tainted("a"), tainted("b"))
        asked = TaintToleration(None, world.handle)
        asking = tolerating(*({"key": f"k{n}", "operator": "Exists"} for n in range(0, 20, 2)))
        for n in range(20):
            world.add(tainted("a", taint("NoSchedule", f"k{n}")))
            refused = filtered(asked, world, asking)
            assert [name for name, it in refused.items() if it is not None] == ["a"] * (n % 2)
