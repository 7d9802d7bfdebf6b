"""DynamicResources: claims and classes that are misspelt or missing, more devices than there are,
constraints, taints of devices.  What is wrong with selectors is in `device_selectors`."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from stowplan.answers.changes import Candidate, Data, Edit, ObjectEdit, Sort
from stowplan.answers.generators.device_selectors import corrected_expressions
from stowplan.answers.generators.resources import edits_to_fit
from stowplan.answers.situation import Situation
from stowplan.answers.words import likeness, nearest
from stowplan.plugins._shared.device_classes import IMPLICIT_PREFIX

CLAIM, TEMPLATE = "ResourceClaim", "ResourceClaimTemplate"
FIELDS = {"resourceClaimName": CLAIM, "resourceClaimTemplateName": TEMPLATE}
CLASSES_MAX = 3
FEWER_MAX = 16
"""Smaller numbers of devices that are tried."""


def devices(s: Situation, rows: list[int]) -> Iterator[Candidate]:
    for place, entry in enumerate(s.manifest["spec"].get("resourceClaims") or ()):
        for field, kind in FIELDS.items():
            name = entry.get(field)
            if not name:
                continue
            known = {each.name for each in s.objects(kind) if each.namespace == s.pod.namespace}
            if entry.get("name"):
                yield _without(place, entry["name"])
            if name in known:
                yield from _Claim(s, kind, name, entry.get("name", "")).candidates()
            else:
                yield from _missing(s, place, field, name, known)

    yield from _fewer_extended(s)


def _fewer_extended(s: Situation) -> Iterator[Candidate]:
    """Devices that the pod asks for as an extended resource, by the name a class gives them."""
    names = {f"{IMPLICIT_PREFIX}{name}" for name in _classes(s)}
    names |= {each.spec.extended_resource_name for each in s.objects("DeviceClass")}
    for name, asked in s.requests.items():
        for fewer in range(asked - 1, max(0, asked - 1 - FEWER_MAX), -1) if name in names else ():
            for edits, words in edits_to_fit(s, {name: fewer}):
                yield Candidate(f"request {words}", Sort.LESS, 1 - fewer / asked, pod=edits)


def _missing(
    s: Situation, place: int, field: str, name: str, known: set[str]
) -> Iterator[Candidate]:
    kind, right = FIELDS[field], nearest(name, known)
    if right is not None:
        title = f"correct the name of the {kind}: {right} instead of {name}"
        edit = partial(_set_entry, place, field, right)
        amount = 1 - likeness(name, right)
        # Of a template a claim is made first: the search alone cannot tell.
        yield Candidate(title, Sort.CORRECT, amount, pod=(edit,), is_indirect=kind == TEMPLATE)
    for class_name in _classes(s)[:CLASSES_MAX]:
        request = {"name": "device", "exactly": {"deviceClassName": class_name}}
        spec: Data = {"devices": {"requests": [request]}}
        body: Data = {
            "apiVersion": "resource.k8s.io/v1",
            "kind": kind,
            "metadata": {"name": name, "namespace": s.pod.namespace},
            "spec": spec if kind == CLAIM else {"spec": spec},
        }
        title = f"create the {kind} {name}, for a device of class {class_name}"
        yield Candidate(title, Sort.PROVIDE, create=(body,))


def _new_classes(s: Situation, name: str) -> Iterator[Candidate]:
    """The class that is asked for, of the devices of a driver that has some."""
    for driver in sorted({each.spec.driver for each in s.objects("ResourceSlice")})[:2]:
        made = {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "DeviceClass",
            "metadata": {"name": name},
            "spec": {"selectors": [{"cel": {"expression": f'device.driver == "{driver}"'}}]},
        }
        title = f"create the device class {name}, of the devices of {driver}"
        yield Candidate(title, Sort.PROVIDE, create=(made,))


def _without(place: int, name: str) -> Candidate:
    """Its containers do without it too."""

    def edit(pod: Data) -> None:
        spec = pod["spec"]
        del spec["resourceClaims"][place]
        if not spec["resourceClaims"]:
            del spec["resourceClaims"]
        for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
            own = (container.get("resources") or {}).get("claims")
            if own is not None:
                container["resources"]["claims"] = [each for each in own if each["name"] != name]

    title = f"do without the device claim {name}"
    return Candidate(title, Sort.DROP, 1, pod=(edit,), last_resort=True)


def _classes(s: Situation) -> list[str]:
    return sorted(each.name for each in s.objects("DeviceClass"))


def _set_entry(place: int, field: str, name: str, pod: Data) -> None:
    pod["spec"]["resourceClaims"][place][field] = name


class _Claim:
    """A claim of the pod, or the template it is made of."""

    def __init__(self, s: Situation, kind: str, name: str, entry: str) -> None:
        self._s = s
        self._kind = kind
        self._key = f"{s.pod.namespace}/{name}"
        self._entry = entry
        """What the pod calls it."""
        data = s.cluster.get(kind, self._key)
        spec = data["spec"] if kind == CLAIM else data["spec"]["spec"]
        self._devices: Data = spec.get("devices") or {}

    def candidates(self) -> Iterator[Candidate]:
        for number, request in enumerate(self._devices.get("requests") or ()):
            name = request.get("name", "")
            at: Path = ("requests", number)
            if request.get("exactly"):
                yield from self._of_ask((*at, "exactly"), request["exactly"], name)
            for place, each in enumerate(request.get("firstAvailable") or ()):
                path = (*at, "firstAvailable", place)
                yield from self._of_ask(path, each, f"{name}/{each.get('name', '')}")
        for number, constraint in enumerate(self._devices.get("constraints") or ()):
            what = constraint.get("matchAttribute") or constraint.get("distinctAttribute") or ""
            title = f"drop the constraint on {what} in {self._key}"
            yield self._change(title, Sort.DROP, 0, partial(_drop, ("constraints",), number))

    def _of_ask(self, path: Path, ask: Data, request: str) -> Iterator[Candidate]:
        yield from self._of_class(path, ask.get("deviceClassName", ""))
        count = int(ask.get("count") or 1)
        for fewer in range(count - 1, max(0, count - 1 - FEWER_MAX), -1):
            device = "device" if fewer == 1 else "devices"
            title = f"ask for {fewer} {device} instead of {count} in {self._key}"
            edit = partial(_set, path, "count", fewer)
            yield self._change(title, Sort.LESS, 1 - fewer / count, edit)
        yield from self._of_taints(path, ask, request)
        for number, selector in enumerate(ask.get("selectors") or ()):
            old = (selector.get("cel") or {}).get("expression", "")
            for text, amount, sort in corrected_expressions(self._s, old):
                title = f"change a selector of the request {request} in {self._key} to {text}"
                edit = partial(_set_expression, path, number, text)
                yield self._change(title, sort, amount, edit)
            title = f"drop a selector of the request {request} in {self._key}"
            yield self._change(title, Sort.DROP, 0, partial(_drop, (*path, "selectors"), number))

    def _of_class(self, path: Path, name: str) -> Iterator[Candidate]:
        classes = _classes(self._s)
        if name in classes:
            yield from self._selectors_of(name)
            return
        right = nearest(name, classes)
        if right is None:
            yield from _new_classes(self._s, name)
        for other in [right] if right is not None else classes[:CLASSES_MAX]:
            sort = Sort.CORRECT if right is not None else Sort.OTHER
            title = f"correct the device class: {other} instead of {name}"
            if right is None:
                title = f"ask for the device class {other} instead of {name}"
            edit = partial(_set, path, "deviceClassName", other)
            yield self._change(title, sort, 1 - likeness(name, other), edit)

    def _selectors_of(self, name: str) -> Iterator[Candidate]:
        """What the class selects; a word of it may be misspelt."""
        selectors = self._s.cluster.get("DeviceClass", name)["spec"].get("selectors") or ()
        for number, selector in enumerate(selectors):
            old = (selector.get("cel") or {}).get("expression", "")
            for text, amount, sort in corrected_expressions(self._s, old):
                title = f"change a selector of the device class {name} to {text}"
                edit = ObjectEdit("DeviceClass", name, partial(_set_selector, number, text))
                yield Candidate(title, sort, amount, objects=(edit,))

    def _of_taints(self, path: Path, ask: Data, request: str) -> Iterator[Candidate]:
        """Taints of devices, each once."""
        taints = {
            (taint.key, taint.value, taint.effect)
            for each in self._s.objects("ResourceSlice")
            for device in each.spec.devices or ()
            for taint in device.taints or ()
            if taint.effect in ("NoSchedule", "NoExecute")
        }
        for key, value, effect in sorted(taints)[:4]:
            toleration = {"key": key, "operator": "Exists", "effect": effect}
            if value:
                toleration = {"key": key, "operator": "Equal", "value": value, "effect": effect}
            text = f"{key}={value}:{effect}" if value else f"{key}:{effect}"
            title = f"tolerate the device taint {text} in the request {request} of {self._key}"
            yield self._change(title, Sort.TOLERATE, 0, partial(_tolerate, path, toleration))

    def _change(self, title: str, sort: Sort, amount: float, edit: ClaimEdit) -> Candidate:
        return Candidate(title, sort, amount, objects=tuple(self._everywhere(edit)))

    def _everywhere(self, edit: ClaimEdit) -> Iterator[ObjectEdit]:
        """The object, and the claim that was made of it for this pod if it is a template."""
        yield ObjectEdit(self._kind, self._key, partial(_in_object, self._kind, edit))
        if self._kind == CLAIM:
            return
        for each in self._s.pod.status.resource_claim_statuses or ():
            if each.name == self._entry and each.resource_claim_name:
                made = f"{self._s.pod.namespace}/{each.resource_claim_name}"
                yield ObjectEdit(CLAIM, made, partial(_in_object, CLAIM, edit))


Path = tuple[str | int, ...]
ClaimEdit = Edit
"""Changes `spec.devices` of a claim."""


def _in_object(kind: str, edit: ClaimEdit, data: Data) -> None:
    spec = data["spec"] if kind == CLAIM else data["spec"]["spec"]
    edit(spec["devices"])


def _at(devices_of: Data, path: Path) -> Any:
    found: Any = devices_of
    for step in path:
        found = found[step]
    return found


def _set(path: Path, field: str, value: str | int, devices_of: Data) -> None:
    _at(devices_of, path)[field] = value


def _set_expression(path: Path, number: int, text: str, devices_of: Data) -> None:
    _at(devices_of, path)["selectors"][number]["cel"]["expression"] = text


def _set_selector(number: int, text: str, device_class: Data) -> None:
    device_class["spec"]["selectors"][number]["cel"]["expression"] = text


def _tolerate(path: Path, toleration: Data, devices_of: Data) -> None:
    _at(devices_of, path).setdefault("tolerations", []).append(toleration)


def _drop(path: Path, number: int, devices_of: Data) -> None:
    """One of a list, and the list when nothing is left of it."""
    *above, last = path
    items = _at(devices_of, path)
    del items[number]
    if not items:
        del _at(devices_of, tuple(above))[last]
