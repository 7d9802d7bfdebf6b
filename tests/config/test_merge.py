"""Merge step 1: the user's plugin sets over the default ones."""

from __future__ import annotations

from typing import Any

import pytest

from stowplan.config import PluginRef
from stowplan.config.merge import merge_plugin_set, merge_plugins
from stowplan.config.types import Plugins, PluginSet
from tests.config.builders import load


def refs(text: str) -> list[PluginRef]:
    """`A B:3` -> A without a weight and B with weight 3."""
    parts = [word.partition(":") for word in text.split()]
    return [PluginRef(name=name, weight=int(weight or 0)) for name, _, weight in parts]


def shown(plugins: list[PluginRef]) -> str:
    return " ".join(f"{p.name}:{p.weight}" if p.weight else p.name for p in plugins)


@pytest.mark.parametrize(
    ("enabled", "disabled", "expected"),
    [
        pytest.param("", "", "A:3 B C", id="nothing-said"),
        pytest.param("", "B", "A:3 C", id="one-disabled"),
        pytest.param("", "*", "", id="all-disabled"),
        pytest.param("X Y:2", "*", "X Y:2", id="only-these"),
        pytest.param("X", "", "A:3 B C X", id="new-ones-go-last"),
        pytest.param("B:5", "", "A:3 B:5 C", id="replaced-in-place"),
        pytest.param("A", "", "A B C", id="an-omitted-weight-loses-the-default"),
        pytest.param("C B X A:1", "", "A:1 B C X", id="the-default-order-stays"),
        pytest.param("B:7", "B", "A:3 C B:7", id="enabled-beats-disabled-at-the-end"),
        pytest.param("", "Unknown", "A:3 B C", id="unknown-disabled-is-ignored"),
        pytest.param("B:1 B:2", "", "A:3 B:2 C B:1", id="twice-is-left-for-expand-to-refuse"),
        pytest.param("B A", "* B", "B A", id="star-among-others"),
    ],
)
def test_over_a_default_set(enabled: str, disabled: str, expected: str) -> None:
    default = PluginSet(enabled=refs("A:3 B C"))

    merged = merge_plugin_set(default, PluginSet(enabled=refs(enabled), disabled=refs(disabled)))

    assert shown(merged.enabled) == expected


def test_disabled_is_the_users_then_the_defaults_without_weights() -> None:
    default = PluginSet(enabled=refs("A B"), disabled=refs("D B"))

    merged = merge_plugin_set(default, PluginSet(disabled=refs("U:4")))

    assert shown(merged.disabled) == "U D B"
    assert shown(merged.enabled) == "A"


def test_each_point_is_merged_by_itself() -> None:
    custom = Plugins(
        score=PluginSet(enabled=refs("A:9"), disabled=refs("*")),
        multi_point=PluginSet(disabled=refs("B")),
    )

    merged = merge_plugins(Plugins(multi_point=PluginSet(enabled=refs("A:3 B"))), custom)

    assert shown(merged.multi_point.enabled) == "A:3"
    assert shown(merged.score.enabled) == "A:9"
    assert shown(merged.score.disabled) == "*"
    assert merged.filter == PluginSet()


@pytest.mark.parametrize(
    "point",
    [
        "preEnqueue",
        "queueSort",
        "preFilter",
        "filter",
        "postFilter",
        "preScore",
        "score",
        "reserve",
        "permit",
        "preBind",
        "bind",
        "postBind",
        "placementGenerate",
        "placementScore",
    ],
)
def test_every_point_of_a_file_reaches_the_profile(point: str) -> None:
    given: dict[str, Any] = {"enabled": [{"name": "Mine"}], "disabled": [{"name": "Other"}]}

    (profile,) = load(profiles=[{"plugins": {point: given}}]).profiles

    expected = PluginSet(enabled=refs("Mine"), disabled=refs("Other"))
    assert profile.plugins.at(point) == expected
