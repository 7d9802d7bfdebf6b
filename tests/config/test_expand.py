"""Merge step 2: which plugins run at which extension point, in which order."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.config import (
    ExpandedPlugins,
    PluginRef,
    SchedulerConfig,
    expand,
    expand_all,
    load_config,
)
from stowplan.config.merge import POINTS
from stowplan.config.types import PluginConfig, Plugins, PluginSet, Profile
from stowplan.errors import ConfigError
from tests.config.test_merge import refs

PREFIX = "initializing profiles: creating profile for scheduler name S: "

UPSTREAM = {
    "SchedulingGates": "preEnqueue",
    "PrioritySort": "queueSort",
    "NodeUnschedulable": "filter",
    "NodeName": "filter",
    "TaintToleration": "filter preScore score",
    "NodeAffinity": "preFilter filter preScore score",
    "NodePorts": "preFilter filter",
    "NodeResourcesFit": "preFilter filter preScore score placementScore",
    "VolumeRestrictions": "preFilter filter",
    "NodeVolumeLimits": "preFilter filter",
    "VolumeBinding": "preFilter filter preScore score reserve preBind",
    "VolumeZone": "preFilter filter",
    "PodTopologySpread": "preFilter filter preScore score",
    "InterPodAffinity": "preFilter filter preScore score",
    "DynamicResources": "preEnqueue preFilter filter postFilter score reserve preBind",
    "DefaultPreemption": "preEnqueue postFilter",
    "NodeResourcesBalancedAllocation": "preScore score",
    "ImageLocality": "score",
    "DefaultBinder": "bind",
    "NodeDeclaredFeatures": "preFilter filter",
}
"""What the default plugins of kube-scheduler implement."""


def registry(**plugins: str) -> Callable[[str], frozenset[str]]:
    points = {name: frozenset(text.split()) for name, text in plugins.items()}
    return points.__getitem__


SORT_AND_BIND = {"Sort": "queueSort", "Bind": "bind"}


def profile(
    *, multi: str = "Sort Bind", config: list[PluginConfig] | None = None, **sets: str
) -> Profile:
    """Sets by point: `score="A:3 -B"` enables A with weight 3 and disables B."""

    def plugin_set(text: str) -> PluginSet:
        words = text.split()
        return PluginSet(
            enabled=refs(" ".join(w for w in words if not w.startswith("-"))),
            disabled=refs(" ".join(w[1:] for w in words if w.startswith("-"))),
        )

    plugins = Plugins(
        multi_point=plugin_set(multi), **{name: plugin_set(text) for name, text in sets.items()}
    )
    return Profile(scheduler_name="S", plugins=plugins, plugin_config=config or [])


def refusal(of: Profile, plugins: dict[str, str], known: tuple[str, ...] = ()) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        expand(of, registry(**SORT_AND_BIND, **plugins), known=known)
    return caught.value


def test_the_default_profile_runs_what_upstream_runs() -> None:
    (default,) = load_config().profiles

    expanded = expand(default, registry(**UPSTREAM))

    pre_filter = (
        "NodeAffinity NodePorts NodeResourcesFit VolumeRestrictions NodeVolumeLimits "
        "VolumeBinding VolumeZone PodTopologySpread InterPodAffinity DynamicResources "
        "NodeDeclaredFeatures"
    )
    assert {point: " ".join(names) for point, names in expanded.points.items()} == {
        "preEnqueue": "SchedulingGates DynamicResources DefaultPreemption",
        "queueSort": "PrioritySort",
        "preFilter": pre_filter,
        "filter": f"NodeUnschedulable NodeName TaintToleration {pre_filter}",
        "postFilter": "DynamicResources DefaultPreemption",
        "preScore": (
            "TaintToleration NodeAffinity NodeResourcesFit VolumeBinding PodTopologySpread "
            "InterPodAffinity NodeResourcesBalancedAllocation"
        ),
        "score": (
            "TaintToleration NodeAffinity NodeResourcesFit VolumeBinding PodTopologySpread "
            "InterPodAffinity DynamicResources NodeResourcesBalancedAllocation ImageLocality"
        ),
        "reserve": "VolumeBinding DynamicResources",
        "permit": "",
        "preBind": "VolumeBinding DynamicResources",
        "bind": "DefaultBinder",
        "postBind": "",
        "placementGenerate": "",
        "placementScore": "NodeResourcesFit",
    }
    assert expanded.score_weights == {
        "TaintToleration": 3,
        "NodeAffinity": 2,
        "NodeResourcesFit": 1,
        "VolumeBinding": 1,
        "PodTopologySpread": 2,
        "InterPodAffinity": 2,
        "DynamicResources": 2,
        "NodeResourcesBalancedAllocation": 1,
        "ImageLocality": 1,
    }
    assert expanded.placement_score_weights == {"NodeResourcesFit": 1}
    assert set(expanded.instances) == set(UPSTREAM)


@pytest.mark.parametrize(
    ("multi", "score", "order"),
    [
        pytest.param("A B", "", "A B", id="multi-point-alone"),
        pytest.param("A B", "X", "A B X", id="a-new-one-goes-last"),
        pytest.param("A B", "B", "B A", id="a-reconfigured-one-moves-to-the-front"),
        pytest.param("A B C", "X C A", "C A B X", id="overrides-in-the-order-of-the-point"),
        pytest.param("A B", "-A", "B", id="disabled-here"),
        pytest.param("A B", "-*", "", id="all-disabled-here"),
        pytest.param("A B", "X B -*", "X B", id="only-these-here"),
        pytest.param("A B", "A -A", "B A", id="disabled-and-enabled-is-not-an-override"),
        pytest.param("A Filters", "", "A", id="only-where-it-is-implemented"),
        pytest.param("", "A", "A", id="no-multi-point"),
    ],
)
def test_order(multi: str, score: str, order: str) -> None:
    plugins = dict.fromkeys("ABCX", "score") | {"Filters": "filter"} | SORT_AND_BIND

    expanded = expand(profile(multi=f"Sort Bind {multi}", score=score), registry(**plugins))

    assert " ".join(expanded.at("score")) == order


@pytest.mark.parametrize(
    ("multi", "score", "weights"),
    [
        ("A:3 B", "", {"A": 3, "B": 1}),
        ("A:3 B", "A:7", {"A": 7, "B": 1}),
        ("A:3", "A", {"A": 1}),
        ("A:-3", "", {"A": -3}),
    ],
    ids=["unset-is-one", "the-point-wins", "even-without-a-weight", "negative-passes"],
)
def test_weights(multi: str, score: str, weights: dict[str, int]) -> None:
    plugins = registry(**SORT_AND_BIND, A="score", B="score")

    expanded = expand(profile(multi=f"Sort Bind {multi}", score=score), plugins)

    assert expanded.score_weights == weights


def test_weights_of_placements_are_kept_apart() -> None:
    plugins = registry(**SORT_AND_BIND, A="score placementScore")

    expanded = expand(profile(multi="Sort Bind A:3", placement_score="A:8"), plugins)

    assert expanded.score_weights == {"A": 3}
    assert expanded.placement_score_weights == {"A": 8}


def test_every_enabled_plugin_is_made_once_even_without_a_point() -> None:
    plugins = registry(**SORT_AND_BIND, A="score filter", Idle="")

    expanded = expand(profile(multi="Sort Bind A Idle", score="A"), plugins)

    assert expanded.instances == ("A", "Bind", "Idle", "Sort")


@pytest.mark.parametrize(
    ("broken", "problem"),
    [
        pytest.param(profile(score="Foo"), 'ScorePlugin "Foo" does not exist', id="unknown"),
        pytest.param(
            profile(pre_bind="Foo"), 'PreBindPlugin "Foo" does not exist', id="unknown-elsewhere"
        ),
        pytest.param(
            profile(multi="Sort Bind Foo"),
            'PreFilterPlugin "Foo" does not exist',
            id="unknown-in-multi-point-names-the-first-point",
        ),
        pytest.param(
            profile(score="Filters"),
            'plugin "Filters" does not extend ScorePlugin plugin',
            id="does-not-extend",
        ),
        pytest.param(
            profile(score="A A"),
            'plugin "A" already registered as "ScorePlugin"',
            id="twice-at-a-point",
        ),
        pytest.param(
            profile(multi="Sort Bind A A"),
            'plugin "A" already registered as "ScorePlugin"',
            id="twice-in-multi-point",
        ),
        pytest.param(
            profile(multi="Bind"),
            'only one queue sort plugin required for profile with scheduler name "S", but got 0',
            id="no-queue-sort",
        ),
        pytest.param(
            profile(multi="Sort Sort2 Bind"),
            'only one queue sort plugin required for profile with scheduler name "S", but got 2',
            id="two-queue-sorts",
        ),
        pytest.param(
            profile(multi="Sort"),
            'at least one bind plugin is needed for profile with scheduler name "S"',
            id="no-bind",
        ),
        pytest.param(
            profile(multi="Sort Bind G1 G2"),
            'at most one placement generate plugin is allowed for profile with scheduler name "S"',
            id="two-placement-generators",
        ),
        pytest.param(
            profile(config=[PluginConfig(name="A"), PluginConfig(name="A")]),
            "repeated config for plugin A",
            id="repeated-config",
        ),
        pytest.param(
            profile(multi=f"Sort Bind A:{2**62} B:{2**62}"),
            "score plugins: total score of Score plugins could overflow",
            id="overflow",
        ),
        pytest.param(
            profile(multi="Sort Bind A:-1 B:1"),
            "score plugins: total score of Score plugins could overflow",
            id="upstreams-sum-overflows-below-zero",
        ),
    ],
)
def test_refuses(broken: Profile, problem: str) -> None:
    plugins = {
        "A": "score",
        "B": "score",
        "Filters": "filter",
        "Sort2": "queueSort",
        "G1": "placementGenerate",
        "G2": "placementGenerate",
    }

    assert refusal(broken, plugins).problem == PREFIX + problem


def test_an_unknown_plugin_is_pointed_at_with_a_suggestion() -> None:
    error = refusal(
        profile(score="A NodeResourceFit"), {"A": "score"}, ("NodeResourcesFit", "NodeName")
    )

    assert error.where == "plugins.score.enabled[1]"
    assert error.hint == "did you mean 'NodeResourcesFit'?"


def test_an_unknown_plugin_of_multi_point_has_no_index_of_the_merged_list() -> None:
    error = refusal(profile(multi="Foo Sort Bind"), {})

    assert error.where == "plugins.multiPoint.enabled"
    assert "`--plugin-path`" in error.hint


def test_explicit_points_are_checked_before_multi_point() -> None:
    error = refusal(profile(multi="Unknown1 Sort Bind", score="Unknown2"), {})

    assert error.problem == PREFIX + 'ScorePlugin "Unknown2" does not exist'


def sorted_by(name: str, sort: str, args: object = None) -> Profile:
    return Profile(
        scheduler_name=name,
        plugins=Plugins(multi_point=PluginSet(enabled=refs(f"{sort} Bind"))),
        plugin_config=[PluginConfig(name=sort, args=args)],
    )


def test_all_profiles_are_expanded_by_name() -> None:
    config = SchedulerConfig(profiles=[sorted_by("a", "Sort"), sorted_by("b", "Sort")])

    expanded = expand_all(config, registry(**SORT_AND_BIND))

    assert list(expanded) == ["a", "b"]
    assert expanded["b"].at("bind") == ("Bind",)


@pytest.mark.parametrize(
    ("second", "problem"),
    [
        (
            sorted_by("b", "Sort2"),
            'different queue sort plugins for profile "b": "Sort2", first: "Sort"',
        ),
        (
            sorted_by("b", "Sort", {"order": "down"}),
            'different queue sort plugin args for profile "b"',
        ),
    ],
)
def test_profiles_must_sort_the_queue_alike(second: Profile, problem: str) -> None:
    config = SchedulerConfig(profiles=[sorted_by("a", "Sort"), second])

    with pytest.raises(ConfigError) as caught:
        expand_all(config, registry(**SORT_AND_BIND, Sort2="queueSort"))

    assert caught.value.problem == f"initializing profiles: {problem}"


NAMES = "ABCDEF"
names = st.sampled_from(NAMES)
unique_names = st.lists(names, unique=True)


def oracle(explicit: list[str], disabled: set[str], multi: list[str], able: set[str]) -> list[str]:
    """The rule as the specification states it, one sentence per line."""
    spread = [] if "*" in disabled else [n for n in multi if n in able and n not in disabled]
    overrides = [n for n in explicit if n in spread]
    only_multi_point = [n for n in spread if n not in explicit]
    others = [n for n in explicit if n not in spread]
    return overrides + only_multi_point + others


@given(
    multi=unique_names,
    explicit=unique_names,
    disabled=st.sets(st.sampled_from(NAMES + "*")),
    only_filter=st.sets(names),
)
def test_any_profile_is_ordered_as_the_rule_says(
    multi: list[str], explicit: list[str], disabled: set[str], only_filter: set[str]
) -> None:
    able = set(explicit) | (set(NAMES) - only_filter)
    plugins = {n: "score filter" if n in able else "filter" for n in NAMES}
    build = profile(
        multi=" ".join(["Sort", "Bind", *multi]),
        score=" ".join([*explicit, *(f"-{name}" for name in sorted(disabled))]),
    )

    expanded: ExpandedPlugins = expand(build, registry(**plugins, **SORT_AND_BIND))

    assert list(expanded.at("score")) == oracle(explicit, disabled, multi, able)
    assert list(expanded.at("filter")) == multi
    assert list(expanded.score_weights) == list(expanded.at("score"))


@given(st.lists(st.tuples(names, st.integers(0, 5)), unique_by=lambda pair: pair[0]))
def test_weights_follow_their_plugin(pairs: list[tuple[str, int]]) -> None:
    multi = [PluginRef(name=name, weight=weight) for name, weight in pairs]
    build = Profile(plugins=Plugins(multi_point=PluginSet(enabled=[*refs("Sort Bind"), *multi])))

    expanded = expand(build, registry(**dict.fromkeys(NAMES, "score"), **SORT_AND_BIND))

    assert expanded.score_weights == {name: weight or 1 for name, weight in pairs}


def test_points_cover_every_set_of_a_profile_but_multi_point() -> None:
    assert set(POINTS) == {point for point, _ in Plugins().sets()} - {"multiPoint"}
