"""DynamicResources: misspelt claims and classes, more devices than there are, selectors."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from stowplan.answers.changes import Candidate, Data, Edit, ObjectEdit, Sort
from stowplan.answers.situation import Situation
from stowplan.answers.words import likeness, nearest

CLAIM, TEMPLATE = "ResourceClaim", "ResourceClaimTemplate"
FIELDS = {"resourceClaimName": CLAIM, "resourceClaimTemplateName": TEMPLATE}


def devices(s: Situation, rows: list[int]) -> Iterator[Candidate]:
    for place, entry in enumerate(s.manifest["spec"].get("resourceClaims") or ()):
        for field, kind in FIELDS.items():
            name = entry.get(field)
            if not name:
                continue
            known = {each.name for each in s.objects(kind) if each.namespace == s.pod.namespace}
            if name in known:
                yield from _requests(s, kind, f"{s.pod.namespace}/{name}", entry.get("name", ""))
                continue
            right = nearest(name, known)
            if right is not None:
                title = f"correct the name of the {kind}: {right} instead of {name}"
                edit = partial(_set_entry, place, field, right)
                yield Candidate(title, Sort.CORRECT, 1 - likeness(name, right), pod=(edit,))


def _set_entry(place: int, field: str, name: str, pod: Data) -> None:
    pod["spec"]["resourceClaims"][place][field] = name


def _requests(s: Situation, kind: str, key: str, entry: str) -> Iterator[Candidate]:
    data = s.cluster.get(kind, key)
    spec = data["spec"] if kind == CLAIM else data["spec"]["spec"]
    classes = {each.name for each in s.objects("DeviceClass")}
    for place, request in enumerate((spec.get("devices") or {}).get("requests") or ()):
        exactly = request.get("exactly") or {}
        name = exactly.get("deviceClassName", "")

        def change(edit: Edit) -> tuple[ObjectEdit, ...]:
            return tuple(_everywhere(s, kind, key, entry, edit))

        right = nearest(name, classes) if name not in classes else None
        if right is not None:
            edit = partial(_set, kind, place, "deviceClassName", right)
            title = f"correct the device class: {right} instead of {name}"
            yield Candidate(title, Sort.CORRECT, 1 - likeness(name, right), objects=change(edit))
        count = int(exactly.get("count") or 1)
        for fewer in range(count - 1, 0, -1):
            edit = partial(_set, kind, place, "count", fewer)
            title = f"ask for {fewer} devices instead of {count} in {key}"
            yield Candidate(title, Sort.LESS, 1 - fewer / count, objects=change(edit))
        for number in range(len(exactly.get("selectors") or ())):
            edit = partial(_drop, kind, place, number)
            title = f"drop a selector of the request {request.get('name', '')} in {key}"
            yield Candidate(title, Sort.DROP, objects=change(edit))


def _everywhere(s: Situation, kind: str, key: str, entry: str, edit: Edit) -> Iterator[ObjectEdit]:
    """The object, and the claim that was made of it for this pod if it is a template."""
    yield ObjectEdit(kind, key, edit)
    if kind == CLAIM:
        return
    for each in s.pod.status.resource_claim_statuses or ():
        if each.name == entry and each.resource_claim_name:
            made = f"{s.pod.namespace}/{each.resource_claim_name}"
            yield ObjectEdit(CLAIM, made, partial(_as_claim, edit))


def _as_claim(edit: Edit, claim: Data) -> None:
    edit({"spec": claim})


def _exactly(kind: str, place: int, data: Data) -> Any:
    spec = data["spec"] if kind == CLAIM else data["spec"]["spec"]
    return spec["devices"]["requests"][place]["exactly"]


def _set(kind: str, place: int, field: str, value: str | int, data: Data) -> None:
    _exactly(kind, place, data)[field] = value


def _drop(kind: str, place: int, number: int, data: Data) -> None:
    exactly = _exactly(kind, place, data)
    del exactly["selectors"][number]
    if not exactly["selectors"]:
        del exactly["selectors"]
