"""Limits and narrowings, on both sides of the edge: what is just allowed, and what is not."""

from __future__ import annotations

from typing import Any

import pytest

from stowplan.apiserver.store import Store
from stowplan.clock import VirtualClock
from stowplan.errors import ApiError, Invalid
from stowplan.objects.api import Create, Patch
from stowplan.objects.kinds import POD

ANNOTATIONS_BYTES = 256 * 1024
ZONE, DISK = ({"key": key, "operator": "In", "values": ["a", "b"]} for key in ("zone", "disk"))


def _store() -> Store:
    return Store(VirtualClock(1_000.0), create_namespaces=True)


def _pod(**more: Any) -> dict[str, Any]:
    spec = {"containers": [{"name": "main", "image": "web:1"}], **more.pop("spec", {})}
    return {"metadata": {"name": "web", **more}, "spec": spec}


@pytest.mark.parametrize("key", ["k", "k" * 60], ids=["short key", "long key"])
def test_keys_and_values_of_annotations_count_together(key: str) -> None:
    others = {f"other-{number}": "x" * 100 for number in range(10)}
    used = len(key) + sum(len(name) + len(text) for name, text in others.items())
    fits = {**others, key: "x" * (ANNOTATIONS_BYTES - used)}

    _store().execute(Create(POD, "default", _pod(annotations=fits)))
    more = {**fits, key: fits[key] + "x"}
    with pytest.raises(Invalid, match="Too long"):
        _store().execute(Create(POD, "default", _pod(annotations=more)))


def _terms(*expressions: dict[str, Any]) -> dict[str, Any]:
    terms = [{"matchExpressions": [*expressions]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return {"affinity": {"nodeAffinity": required}}


@pytest.mark.parametrize(
    ("before", "after", "allowed"),
    [
        ([ZONE, DISK], [ZONE, DISK], True),
        ([ZONE], [ZONE, DISK], True),
        ([ZONE, DISK], [ZONE], False),
        ([ZONE, DISK], [DISK], False),
        ([ZONE], [DISK], False),
        ([ZONE], [{**ZONE, "values": ["a"]}], False),
    ],
    ids=["same", "one more", "one less", "the other less", "another", "narrower values"],
)
def test_a_gated_pod_may_only_ask_for_more_of_its_node(
    before: list[Any], after: list[Any], allowed: bool
) -> None:
    store, gates = _store(), [{"name": "example.com/wait"}]
    store.execute(Create(POD, "default", _pod(spec={**_terms(*before), "schedulingGates": gates})))
    request = Patch(POD, "default", "web", {"spec": _terms(*after)}, "merge")
    if allowed:
        store.execute(request)
    else:
        with pytest.raises(ApiError):
            store.execute(request)
