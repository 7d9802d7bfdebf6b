"""A cluster without its names decides the same, and nobody can tell whose it is."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.world.anonymise import anonymise, words_of, words_of_all
from stowplan.world.expressions import replaced
from stowplan.world.well_known import PREFIXES, TEXTS, WORDS
from tests.conformance import compare_devices
from tests.conformance.compare import differences
from tests.conformance.run_golden import (
    GOLDEN,
    Scenario,
    decide,
    decide_with_devices,
    families,
    has_devices,
    scenarios,
)

FAMILIES = [(folder, name) for folder in (GOLDEN, GOLDEN / "dra") for name in families(folder)]

_KNOWN = WORDS.union(*map(words_of, (*TEXTS, *PREFIXES)))
_API = {"v1", "counters", "devices", "resources"}
"""Fields and versions that recorded clusters also have as names."""
_STAND_IN = re.compile(r"[adehmpsx][0-9]+")


def _decisions(scenario: Scenario) -> list[dict[str, Any]]:
    if has_devices(scenario):
        return decide_with_devices(scenario, "explained")
    return [decision.to_dict() for decision in decide(scenario)]


def _back(data: Any, originals: dict[str, str]) -> Any:
    if isinstance(data, str):
        return _STAND_IN.sub(lambda match: originals.get(match[0], match[0]), data)
    if isinstance(data, dict):
        return {_back(key, originals): _back(value, originals) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_back(item, originals) for item in data]
    return data


def _kept(scenario: Scenario) -> set[str]:
    """What the recording says beside the cluster: the configuration, and what makes
    its driver fail."""
    told = {key: value for key, value in scenario.items() if key not in ("cluster", "expected")}
    return words_of_all(told) | words_of("test/binding fail")


def _plain(data: Any) -> Any:
    return json.loads(json.dumps(data))


@pytest.mark.slow
@pytest.mark.parametrize(("folder", "family"), FAMILIES, ids=lambda it: getattr(it, "name", it))
def test_decisions_stay_the_same(folder: Any, family: str) -> None:
    for scenario in scenarios(family, folder):
        items = scenario["cluster"]["items"]
        kept = _kept(scenario)
        hidden = anonymise(items, kept)
        renamed = {**scenario, "cluster": {**scenario["cluster"], "items": hidden.objects}}

        told = _back(_plain(_decisions(renamed)), hidden.originals)

        compare = compare_devices.differences if has_devices(scenario) else differences
        assert not compare(scenario["expected"], told), scenario["name"]
        assert len(words_of_all(hidden.objects) & hidden.originals.keys()) > 0


@pytest.mark.slow
@pytest.mark.parametrize(("folder", "family"), FAMILIES, ids=lambda it: getattr(it, "name", it))
def test_no_word_of_a_name_is_left(folder: Any, family: str) -> None:
    for scenario in scenarios(family, folder):
        items = scenario["cluster"]["items"]
        hidden = anonymise(items)
        left = words_of_all(hidden.objects)
        names = {word for item in items for word in _named(item)}
        if hidden.kept:
            continue
        assert not {it for it in left & names if not it.isdigit()} - _KNOWN - _API, scenario["name"]


def _named(item: dict[str, Any]) -> set[str]:
    meta, spec = item["metadata"], item.get("spec") or {}
    labels = {**(meta.get("labels") or {}), **(meta.get("annotations") or {})}
    images = [it.get("image", "") for it in spec.get("containers") or ()]
    texts = [meta["name"], meta.get("namespace", ""), *labels, *labels.values(), *images]
    return set().union(*map(words_of, texts)) - {"true", "false"}


WORD = st.text("abcdefghijklmnopqrstuvwxyz", min_size=3, max_size=9).filter(
    lambda it: it not in _KNOWN and it not in {"api", "spec", "Pod", "NoSchedule"}
)
NAME = st.lists(WORD, min_size=1, max_size=3).map("-".join)


@st.composite
def pods(draw: st.DrawFn) -> dict[str, Any]:
    key, value = f"{draw(NAME)}.{draw(WORD)}/{draw(NAME)}", draw(NAME)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": draw(NAME),
            "namespace": draw(NAME),
            "uid": draw(NAME),
            "labels": {key: value},
            "annotations": {draw(NAME): f"{draw(WORD)} {draw(WORD)}: {draw(WORD)}"},
            "ownerReferences": [{"kind": "ReplicaSet", "name": draw(NAME), "uid": draw(NAME)}],
        },
        "spec": {
            "containers": [
                {
                    "name": draw(NAME),
                    "image": f"{draw(NAME)}/{draw(NAME)}:{draw(WORD)}",
                    "resources": {"requests": {f"{draw(WORD)}.com/{draw(WORD)}": "1", "cpu": "2"}},
                }
            ],
            "nodeName": draw(NAME),
            "nodeSelector": {key: value},
            "tolerations": [{"key": key, "operator": "Exists", "effect": "NoSchedule"}],
            "schedulingGates": [{"name": draw(NAME)}],
        },
        "status": {"message": draw(NAME), "conditions": [{"type": "Ready", "message": draw(NAME)}]},
    }


@given(st.lists(pods(), min_size=1, max_size=3))
def test_nothing_that_somebody_named_is_left(items: list[dict[str, Any]]) -> None:
    hidden = anonymise(items)
    fields = words_of_all(json.loads(re.sub(r'"(\w+)": "[^"]*"', r'"\1": ""', json.dumps(items))))
    words = {it for it in words_of_all(items) if it.islower()} - _KNOWN - _API - fields
    left = words_of_all(hidden.objects)

    assert not words & left
    for item, made in zip(items, hidden.objects, strict=True):
        selector = made["spec"]["nodeSelector"]
        assert selector == made["metadata"]["labels"], "they still match"
        assert made["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "2"
        assert _back(made["metadata"]["name"], hidden.originals) == item["metadata"]["name"]


@given(st.lists(NAME, min_size=2, max_size=20, unique=True))
def test_stand_ins_sort_as_names_do(names: list[str]) -> None:
    items = [{"kind": "Node", "metadata": {"name": name}} for name in sorted(names)]
    made = [it["metadata"]["name"] for it in anonymise(items).objects]
    assert made == sorted(made)


def test_amounts_and_numbers_stay() -> None:
    item = {
        "kind": "Node",
        "metadata": {"name": "a", "labels": {"gen": "42", "speed": "fast"}},
        "status": {"allocatable": {"cpu": "8", "example.com/gpu": "2", "hugepages-2Mi": "4Mi"}},
    }
    [made] = anonymise([item]).objects
    assert list(made["status"]["allocatable"].values()) == ["8", "2", "4Mi"]
    assert next(iter(made["metadata"]["labels"].values())) == "42"
    assert "fast" not in json.dumps(made)


def test_an_expression_that_looks_into_texts_is_left_and_that_is_said() -> None:
    rule = 'device.attributes["gpu.acme.test"].model.startsWith("A1")'
    device_class = {
        "kind": "DeviceClass",
        "metadata": {"name": "fast"},
        "spec": {"selectors": [{"cel": {"expression": rule}}]},
    }
    hidden = anonymise([device_class])
    assert hidden.objects[0]["spec"]["selectors"][0]["cel"]["expression"] == rule
    assert hidden.kept
    simple = 'device.driver == "gpu.acme.test" && device.attributes["gpu.acme.test"].model == "A1"'
    assert replaced(simple, str.upper) == (
        'device.driver == "GPU.ACME.TEST" && device.attributes["GPU.ACME.TEST"].MODEL == "A1"'
    )
