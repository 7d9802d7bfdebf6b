"""Patches of claims, struct to struct, come to what the long way through JSON data comes to."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from stowplan.apiserver import writes
from stowplan.apiserver.store import Store, view
from stowplan.errors import ApiError
from stowplan.objects.api import Patch
from stowplan.objects.kinds import RESOURCE_CLAIM
from tests.apiserver.things import START, create, new_store

FINALIZER = "resource.kubernetes.io/delete-protection"
NODE = {"key": "metadata.name", "operator": "In", "values": ["node-1"]}
STATUS: dict[str, Any] = {
    "allocation": {
        "devices": {
            "results": [
                {"request": "r", "driver": "gpu.example.com", "pool": "node-1", "device": "gpu-0"}
            ]
        },
        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [NODE]}]},
        "allocationTimestamp": START,
    },
    "reservedFor": [{"resource": "pods", "name": "p", "uid": "u"}],
}


def changed(path: str, value: Any) -> dict[str, Any]:
    """The status with one thing in it that is otherwise."""
    status = deepcopy(STATUS)
    place: Any = status
    *way, last = (int(it) if it.isdecimal() else it for it in path.split("."))
    for step in way:
        place = place[step]
    place[last] = value
    return status


RESULT = "allocation.devices.results.0"
STATUSES = [
    STATUS,
    changed("allocation.nodeSelector", None),
    changed("allocation.devices.config", []),
    changed("allocation.allocationTimestamp", "yesterday"),
    changed("allocation.nodeSelector.nodeSelectorTerms.0.matchFields.0.operator", "NotIn"),
    changed("allocation.nodeSelector.nodeSelectorTerms", []),
    changed("allocation.devices.results", []),
    changed("allocation", None),
    changed("reservedFor", None),
    changed("reservedFor", [{"resource": "pods", "name": "p", "uid": "u"}] * 2),
    changed("reservedFor.0.name", ""),
    changed("reservedFor.0.resource", "nodes"),
    changed("devices", []),
    *(
        changed(f"{RESULT}.{field}", value)
        for field, value in (
            ("request", "nobody"),
            ("driver", "Not A Driver"),
            ("pool", ""),
            ("device", "a.b"),
            ("device", 7),
            ("adminAccess", True),
            ("shareID", "x"),
            ("tolerations", [{"operator": "Exists"}]),
        )
    ),
]


def store_with_claim() -> tuple[Store, Any]:
    store = new_store()
    requests = [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]
    body = {"metadata": {"name": "c"}, "spec": {"devices": {"requests": requests}}}
    header = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim"}
    return store, create(store, RESOURCE_CLAIM, {**header, **body})


def after(patches: list[tuple[dict[str, Any], str]], *, stale: bool) -> list[Any]:
    """What each patch came to, and what the claim is in the end."""
    store, claim = store_with_claim()
    found: list[Any] = []
    for body, subresource in patches:
        seen = {"uid": claim.metadata.uid, "resourceVersion": claim.metadata.resource_version}
        if stale:
            seen["resourceVersion"] = "1"
        whole = {**body, "metadata": {**seen, **body.get("metadata", {})}}
        try:
            claim = store.execute(
                Patch(RESOURCE_CLAIM, "default", "c", whole, "merge", subresource)
            )
            found.append(view(RESOURCE_CLAIM, claim, None))
        except ApiError as error:
            found.append((type(error), error.message))
    return found


@pytest.mark.parametrize("stale", [False, True])
@pytest.mark.parametrize("status", STATUSES)
def test_allocations_are_what_the_long_way_makes_of_them(
    status: dict[str, Any], stale: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    patches = [
        ({"metadata": {"finalizers": [FINALIZER]}}, ""),
        ({"status": status}, "status"),
        ({"status": STATUS}, "status"),
    ]
    short = after(patches, stale=stale)

    monkeypatch.setattr(writes, "patched_claim", lambda *_: None)

    assert short == after(patches, stale=stale)


def test_the_usual_patches_take_the_short_way(monkeypatch: pytest.MonkeyPatch) -> None:
    def long_way(*_: Any) -> Any:
        raise AssertionError("the long way")

    monkeypatch.setattr(writes, "apply_patch", long_way)

    after(
        [({"metadata": {"finalizers": [FINALIZER]}}, ""), ({"status": STATUS}, "status")],
        stale=False,
    )
