"""NodeAffinity: selectors and affinity of pods, and the affinity a profile adds."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.errors import ConfigError
from stowplan.framework.events import Action, Hint, Resource
from stowplan.framework.plugin import PreFilterResult
from stowplan.framework.status import SKIP, Code, unresolvable
from stowplan.objects.node import Node
from stowplan.objects.pod import NodeAffinity as Affinity
from stowplan.objects.pod import Pod
from stowplan.plugins.node_affinity import NodeAffinity
from tests.builders import World, info, node, pod
from tests.plugins.asking import filtered, hint, raw_scores, scores

OTHER = unresolvable("node(s) didn't match Pod's node affinity/selector")
ENFORCED = unresolvable("node(s) didn't match scheduler-enforced node affinity")
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"

JSON = dict[str, Any]


def plugin(added: JSON | None = None) -> NodeAffinity:
    affinity = None if added is None else msgspec.convert(added, Affinity)
    return NodeAffinity(SimpleNamespace(added_affinity=affinity), World().handle)


def label(key: str, operator: str, *values: str) -> JSON:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


def named(*values: str, operator: str = "In") -> JSON:
    field = {"key": "metadata.name", "operator": operator, "values": list(values)}
    return {"matchFields": [field]}


def required(*terms: JSON) -> JSON:
    return {REQUIRED: {"nodeSelectorTerms": list(terms)}}


def preferred(*terms: tuple[int, JSON]) -> JSON:
    return {PREFERRED: [{"weight": weight, "preference": term} for weight, term in terms]}


def wanting(affinity: JSON | None = None, selector: dict[str, str] | None = None) -> Pod:
    spec: JSON = {}
    if affinity is not None:
        spec["affinity"] = {"nodeAffinity": affinity}
    if selector is not None:
        spec["nodeSelector"] = selector
    return pod(spec=spec)


def three_nodes() -> World:
    return World(
        node("a", labels={"disk": "ssd", "cores": "8"}),
        node("b", labels={"disk": "hdd", "cores": "16"}),
        node("c", labels={"cores": "many"}),
    )


@pytest.mark.parametrize(
    ("asking", "passed"),
    [
        pytest.param(wanting(selector={"disk": "ssd"}), "a", id="node-selector"),
        pytest.param(wanting(selector={"disk": "ssd", "cores": "9"}), "", id="all-of-it"),
        pytest.param(wanting(required(label("disk", "In", "ssd", "hdd"))), "ab", id="in"),
        pytest.param(wanting(required(label("disk", "In", "nvme"))), "", id="unknown-value"),
        pytest.param(wanting(required(label("disk", "NotIn", "ssd"))), "bc", id="not-in-or-absent"),
        pytest.param(wanting(required(label("disk", "Exists"))), "ab", id="exists"),
        pytest.param(wanting(required(label("disk", "DoesNotExist"))), "c", id="does-not-exist"),
        pytest.param(wanting(required(label("cores", "Gt", "8"))), "b", id="gt-numbers-only"),
        pytest.param(wanting(required(label("cores", "Lt", "16"))), "a", id="lt"),
        pytest.param(wanting(required(named("b", operator="NotIn"))), "ac", id="not-this-node"),
        pytest.param(
            wanting(required({**label("disk", "Exists"), **named("a")})),
            "a",
            id="within-a-term-and",
        ),
        pytest.param(
            wanting(required(label("disk", "In", "ssd"), named("c"))), "ac", id="between-terms-or"
        ),
        pytest.param(wanting(required()), "", id="no-terms-match-nothing"),
        pytest.param(wanting(required({})), "", id="an-empty-term-matches-nothing"),
        pytest.param(
            wanting(required(label("disk", "In"), label("disk", "In", "hdd"))), "b", id="bad-term"
        ),
        pytest.param(
            wanting(required(label("disk", "Exists")), {"cores": "8"}), "a", id="selector-and-terms"
        ),
    ],
)
def test_filter(asking: Pod, passed: str) -> None:
    found = filtered(plugin(), three_nodes(), asking)

    assert found == {name: None if name in passed else OTHER for name in "abc"}


def test_added_affinity_is_asked_first() -> None:
    enforcing = plugin(required(label("disk", "Exists")))

    assert filtered(enforcing, three_nodes(), pod()) == {"a": None, "b": None, "c": ENFORCED}
    assert filtered(enforcing, three_nodes(), wanting(selector={"disk": "hdd"})) == {
        "a": OTHER,
        "b": None,
        "c": ENFORCED,
    }


def narrowed(*names: str) -> PreFilterResult:
    return PreFilterResult(frozenset(names))


@pytest.mark.parametrize(
    ("asking", "answer"),
    [
        pytest.param(pod(), SKIP, id="nothing-asked"),
        pytest.param(wanting(preferred((1, named("a")))), SKIP, id="preferred-only"),
        pytest.param(wanting(selector={"a": "b"}), None, id="node-selector"),
        pytest.param(wanting(required(named("a"), named("b", "c"))), narrowed(*"abc"), id="union"),
        pytest.param(
            wanting(required({"matchFields": named("a", "b")["matchFields"] * 2})),
            narrowed("a", "b"),
            id="intersection-in-a-term",
        ),
        pytest.param(wanting(required(named("a"), label("x", "Exists"))), None, id="one-term-open"),
        pytest.param(wanting(required(named("a", operator="NotIn"))), None, id="only-in-narrows"),
        pytest.param(wanting(required()), None, id="no-terms"),
        pytest.param(
            wanting(
                required({"matchFields": [*named("a")["matchFields"], *named("b")["matchFields"]]})
            ),
            unresolvable("pod affinity terms conflict"),
            id="conflict",
        ),
    ],
)
def test_pre_filter(asking: Pod, answer: Any) -> None:
    assert plugin().pre_filter(World().cycle(), info(asking)) == answer


def test_pre_filter_does_not_skip_under_added_affinity() -> None:
    added = required(label("x", "Exists"))

    assert plugin(added).pre_filter(World().cycle(), info(pod())) is None


DISK, CORES, MANY = label("disk", "Exists"), label("cores", "Gt", "8"), label("cores", "Exists")


@pytest.mark.parametrize(
    ("terms", "expected"),
    [
        pytest.param([(3, DISK), (5, CORES)], [37, 100, 0], id="in-proportion-to-the-best"),
        pytest.param([(9, label("no", "Exists"))], [0, 0, 0], id="nothing-matches"),
        pytest.param([(50, MANY), (50, CORES), (25, DISK)], [60, 100, 40], id="several"),
        pytest.param([(0, DISK), (7, {})], [0, 0, 0], id="weight-0-and-empty-terms-are-left-out"),
        pytest.param([], [0, 0, 0], id="an-empty-list-is-no-skip"),
    ],
)
def test_score(terms: list[tuple[int, JSON]], expected: list[int]) -> None:
    found = scores(plugin(), three_nodes(), wanting(preferred(*terms)))

    assert found == dict(zip("abc", expected, strict=True))


def test_added_preferences_count_for_every_pod() -> None:
    adding = plugin(preferred((2, CORES)))

    assert raw_scores(adding, three_nodes(), pod()) == {"a": 0, "b": 2, "c": 0}
    assert raw_scores(adding, three_nodes(), wanting(preferred((1, DISK)))) == {
        "a": 1,
        "b": 3,
        "c": 0,
    }


def test_pre_score() -> None:
    rows = three_nodes().table.order

    def answer(asking: Pod, asked: NodeAffinity) -> Any:
        return asked.pre_score(World().cycle(), info(asking), rows)

    bad = wanting(preferred((1, label("disk", "In"))))
    assert answer(pod(), plugin()) is SKIP
    assert answer(pod(), plugin(preferred((1, DISK)))) is None
    assert answer(wanting(preferred()), plugin()) is None
    assert answer(bad, plugin()).code == Code.ERROR
    assert answer(wanting(preferred((0, label("disk", "In")))), plugin()) is None


@pytest.mark.parametrize("bad", [required(label("x", "In")), preferred((1, label("x", "Gt", "y")))])
def test_added_affinity_that_cannot_be_parsed_is_a_config_error(bad: JSON) -> None:
    with pytest.raises(ConfigError, match="addedAffinity"):
        plugin(bad)


def test_events() -> None:
    enforcing = plugin(required(label("team", "Exists")))
    asking = wanting(required(label("disk", "In", "ssd")))

    def changed(old: Node | None, new: Node) -> Hint | None:
        action = Action.ADD if old is None else Action.UPDATE_NODE_LABEL
        return hint(enforcing, Resource.NODE, action, asking, old, new)

    right = node("n", labels={"team": "x", "disk": "ssd"})
    other_disk = node("n", labels={"team": "x", "disk": "hdd"})
    no_team = node("n", labels={"disk": "ssd"})
    assert changed(None, right) == Hint.QUEUE
    assert changed(None, other_disk) == Hint.SKIP
    assert changed(None, no_team) == Hint.SKIP
    assert changed(other_disk, right) == Hint.QUEUE
    assert changed(no_team, right) == Hint.QUEUE
    assert changed(right, right) == Hint.SKIP
    assert hint(plugin(), Resource.NODE, Action.UPDATE_NODE_TAINT, asking, right, right) is None


def test_signature_is_what_the_pod_says_about_nodes() -> None:
    asked = plugin()

    def signature(asking: Pod) -> Any:
        return asked.signature(info(asking))

    assert signature(pod(cpu=1)) == signature(pod(cpu=2)) == signature(wanting(selector={}))
    asking = [
        pod(),
        wanting(selector={"a": "b"}),
        wanting(required(DISK)),
        wanting(preferred((1, DISK))),
        wanting(preferred((2, DISK))),
    ]
    assert len({signature(one) for one in asking}) == len(asking)


OPERATORS = ["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]
values = st.sampled_from(["0", "1", "2", "x"])
requirements = st.fixed_dictionaries(
    {
        "key": st.sampled_from(["p", "q"]),
        "operator": st.sampled_from(OPERATORS),
        "values": st.lists(values, max_size=2),
    }
)
fields = st.fixed_dictionaries(
    {
        "key": st.sampled_from(["metadata.name", "metadata.other"]),
        "operator": st.sampled_from(["In", "NotIn", "Exists"]),
        "values": st.lists(st.sampled_from(["n0", "n1", "gone", ""]), max_size=2),
    }
)
terms = st.fixed_dictionaries(
    {
        "matchExpressions": st.lists(requirements, max_size=2),
        "matchFields": st.lists(fields, max_size=2),
    }
)
label_maps = st.dictionaries(st.sampled_from(["p", "q"]), values, max_size=2)


@given(
    st.lists(label_maps, min_size=1, max_size=5),
    st.none() | st.lists(terms, max_size=3),
    st.lists(st.tuples(st.integers(0, 3), terms), max_size=3),
    label_maps,
    st.none() | st.lists(terms, max_size=2),
)
def test_both_forms_agree_on_any_selector(
    nodes: list[dict[str, str]],
    wanted: list[JSON] | None,
    liked: list[tuple[int, JSON]],
    selector: dict[str, str],
    added: list[JSON] | None,
) -> None:
    world = World(*(node(f"n{n}", labels=labels) for n, labels in enumerate(nodes)))
    world.cache.remove_node("n0")
    world.table.refresh(world.cache)
    affinity = preferred(*liked) | ({} if wanted is None else required(*wanted))
    try:
        asked = plugin(None if added is None else required(*added))
    except ConfigError:
        asked = plugin()

    filtered(asked, world, wanting(affinity, selector))

    status = asked.pre_score(world.cycle(), info(wanting(affinity, selector)), world.table.order)
    if status is None:
        raw_scores(asked, world, wanting(affinity, selector))
