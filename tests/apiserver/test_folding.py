"""`matchLabelKeys` and `mismatchLabelKeys` become part of the selector of a new pod."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from stowplan.apiserver.folding import fold_label_keys, folds_label_keys
from stowplan.objects.pod import PodSpec

LABELS = {"app": "web", "hash": "1"}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
SAME = {"key": "hash", "operator": "In", "values": ["1"]}
OTHER = {"key": "app", "operator": "NotIn", "values": ["web"]}


def spec(where: str, term: dict[str, Any]) -> PodSpec:
    term = {"topologyKey": "zone", **term}
    if where == "spread":
        data: dict[str, Any] = {"topologySpreadConstraints": [{"maxSkew": 1, **term}]}
    else:
        part, _, how = where.partition(" ")
        weighted = {"weight": 7, "podAffinityTerm": term}
        terms = {REQUIRED: [term]} if how == "required" else {PREFERRED: [weighted]}
        data = {"affinity": {part: terms}}
    return msgspec.convert(data, PodSpec)


def expressions(found: PodSpec) -> Any:
    """Of the selector, wherever it is."""
    data = msgspec.to_builtins(found)
    while isinstance(data, dict | list):
        if isinstance(data, dict) and data.get("labelSelector"):
            return data["labelSelector"].get("matchExpressions")
        inner = data.values() if isinstance(data, dict) else data
        data = next((it for it in inner if isinstance(it, dict | list) and it), None)
    return None


EVERYWHERE = pytest.mark.parametrize(
    "where",
    [
        "podAffinity required",
        "podAffinity preferred",
        "podAntiAffinity required",
        "podAntiAffinity preferred",
    ],
)


@EVERYWHERE
@pytest.mark.parametrize(
    ("keys", "added"),
    [
        ({"matchLabelKeys": ["hash", "missing"]}, [SAME]),
        ({"mismatchLabelKeys": ["app"]}, [OTHER]),
        ({"matchLabelKeys": ["hash"], "mismatchLabelKeys": ["app"]}, [SAME, OTHER]),
    ],
)
def test_keys_that_the_pod_has_are_added(where: str, keys: Any, added: Any) -> None:
    known = {"key": "tier", "operator": "Exists"}
    before = spec(where, {"labelSelector": {"matchExpressions": [known]}, **keys})
    assert folds_label_keys(before)

    after = fold_label_keys(before, LABELS)

    first, *rest = expressions(after)
    assert (first["key"], rest) == ("tier", added)
    assert len(expressions(before)) == 1, "what it was made from stays"
    assert fold_label_keys(before, {}) == before


def test_a_spread_constraint_has_keys_too() -> None:
    before = spec("spread", {"labelSelector": {}, "matchLabelKeys": ["hash"]})

    assert folds_label_keys(before)
    (constraint,) = fold_label_keys(before, LABELS).topology_spread_constraints or ()
    assert msgspec.to_builtins(constraint.label_selector)["matchExpressions"] == [SAME]


@EVERYWHERE
def test_without_keys_or_a_selector_nothing_is_added(where: str) -> None:
    plain = spec(where, {"labelSelector": {"matchLabels": {"a": "b"}}})
    assert not folds_label_keys(plain)
    assert fold_label_keys(plain, LABELS) == plain
    none = spec(where, {"matchLabelKeys": ["hash"]})
    assert fold_label_keys(none, LABELS) == none
    assert not folds_label_keys(msgspec.convert({}, PodSpec))
