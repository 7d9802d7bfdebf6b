"""The defaults of the fields that only clients see: probes, strategies, pull policies and so on.

Works on JSON data and leaves what it is given alone.  An object made from JSON gets these when it
is created; one made from structs by the process itself has none of these fields, and gets them
when somebody reads it over the API (`Store.view`).  Those that are always the same are in the table
`client_defaults.txt`; what depends on other fields is here.  Mirrors `pkg/apis/*/v1/defaults.go`.
"""

from __future__ import annotations

import base64
import json
from collections import defaultdict
from collections.abc import Callable, Iterator
from copy import deepcopy
from functools import cache
from importlib.resources import files
from typing import Any

from stowplan.objects.kinds import Kind

Data = dict[str, Any]
Row = tuple[list[str], Data]

_TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"
POD_SPECS = {
    "Pod": "spec",
    "CronJob": "spec.jobTemplate.spec.template.spec",
    **dict.fromkeys(
        (
            "Deployment", "StatefulSet", "DaemonSet", "Job", "ReplicaSet", "ReplicationController",
        ),
        "spec.template.spec",
    ),
}  # fmt: skip
"""Where the spec of pods is."""


def with_defaults(kind: Kind, data: Data) -> Data:
    """`data` with every default that does not depend on other objects; idempotent."""
    name = kind.name
    rows, more, template = _table().get(name, ()), _MORE.get(name), POD_SPECS.get(name)
    if not (rows or more or template):
        return data
    data = dict(data)
    if template is not None:
        for spec in _places(data, template.split(".")):
            _apply(spec, _table()["Template"])
            _pod_spec(spec)
    _apply(data, rows)
    if more is not None:
        more(data)
    return data


@cache
def _table() -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = defaultdict(list)
    for line in files(__package__).joinpath("client_defaults.txt").read_text().splitlines():
        if not line.startswith("#"):
            kind, path, defaults = line.split(maxsplit=2)
            found[kind].append(([] if path == "." else path.split("."), json.loads(defaults)))
    return dict(found)


def _apply(data: Data, rows: list[Row] | tuple[()]) -> None:
    for path, defaults in rows:
        for place in _places(data, path):
            for key, value in defaults.items():
                if place.get(key) is None:
                    # Nobody shares it: some are filled further.
                    place[key] = deepcopy(value) if isinstance(value, dict | list) else value


def _places(data: Data, path: list[str]) -> Iterator[Data]:
    """The mappings that the path leads to, copied so that they may be filled in place."""
    if not path:
        yield data
        return
    first, rest = path[0], path[1:]
    names, _, wanted = first.rstrip("?[]").partition("@")
    for name in names.split("|"):
        found = data.get(name)
        if first.endswith("[]"):
            if isinstance(found, list):
                data[name] = [dict(item) if isinstance(item, dict) else item for item in found]
                for item in data[name]:
                    if isinstance(item, dict):
                        yield from _places(item, rest)
        # What is there but is no mapping stays: the decoder has its say on it.
        elif isinstance(found, dict) or (found is None and not first.endswith("?")):
            child = data[name] = dict(found or {})
            if not wanted or child.get("type") == wanted:
                yield from _places(child, rest)


def _pod_spec(spec: Data) -> None:
    if spec.get("serviceAccountName") and spec.get("serviceAccount") is None:
        spec["serviceAccount"] = spec["serviceAccountName"]
    for container in _places(spec, ["containers|initContainers|ephemeralContainers[]"]):
        image = container.get("image")
        if container.get("imagePullPolicy") is None:
            container["imagePullPolicy"] = pull_policy(image if isinstance(image, str) else "")
    for volume in _places(spec, ["volumes[]"]):
        if not volume.keys() - {"name"}:
            volume["emptyDir"] = {}


def pull_policy(image: str) -> str:
    """
    >>> pull_policy("nginx"), pull_policy("reg:5000/app:1.2"), pull_policy("a:latest")
    ('Always', 'IfNotPresent', 'Always')
    """
    if "@" in image:
        return "IfNotPresent"
    _, _, last = image.rpartition("/")
    _, colon, tag = last.partition(":")
    return "IfNotPresent" if colon and tag != "latest" else "Always"


def _daemon_set(data: Data) -> None:
    """What the first version of the API had as a field."""
    for metadata in _places(data, ["metadata?"]):
        if metadata.get("generation"):
            generation = {_TEMPLATE_GENERATION: str(metadata["generation"])}
            _apply(metadata, [(["annotations"], generation)])


def _service(data: Data) -> None:
    for port in _places(data, ["spec", "ports[]"]):
        if port.get("targetPort") is None:
            port["targetPort"] = port.get("port")


def _namespace(data: Data) -> None:
    (deleting,) = [it.get("deletionTimestamp") for it in _places(data, ["metadata"])] or [None]
    for status in _places(data, ["status"]):
        status["phase"] = "Active" if deleting is None else "Terminating"


def _persistent_volume(data: Data) -> None:
    for metadata in _places(data, ["metadata"]):
        since = metadata.get("creationTimestamp")
        if since is not None:
            _apply(data, [(["status"], {"lastPhaseTransitionTime": since})])


def _secret(data: Data) -> None:
    plain = data.pop("stringData", None)
    if isinstance(plain, dict):
        encoded = {key: base64.b64encode(text.encode()).decode() for key, text in plain.items()}
        data["data"] = {**(data.get("data") or {}), **encoded}


def _claim_template(data: Data) -> None:
    if _lacks_defaults(_dig(data, "spec")):
        _requests(data, ["spec?", "spec?"])


def _claim(data: Data) -> None:
    if _lacks_defaults(data):
        _requests(data, ["spec?"])
    results = _dig(data, "status", "allocation", "devices", "results")
    if any(isinstance(it, dict) and it.get("tolerations") for it in results or ()):
        _apply(data, [(_TOLERATED, {"operator": "Equal"})])


def _lacks_defaults(claim: Any) -> bool:
    """Claims are read far more often than they lack anything, so this is asked first."""
    for request in _dig(claim, "spec", "devices", "requests") or ():
        asks = [request.get("exactly"), *(request.get("firstAvailable") or ())]
        for ask in asks:
            if ask is None:
                continue
            mode = ask.get("allocationMode")
            if not mode or (mode == "ExactCount" and not ask.get("count")):
                return True
            if any(not it.get("operator") for it in ask.get("tolerations") or ()):
                return True
    return False


def _requests(data: Data, above: list[str]) -> None:
    """One device, unless a request says how many."""
    for request in _places(data, [*above, "devices?", "requests[]"]):
        for asks in ("exactly?", "firstAvailable[]"):
            for ask in _places(request, [asks]):
                ask["allocationMode"] = ask.get("allocationMode") or "ExactCount"
                if ask["allocationMode"] == "ExactCount":
                    ask["count"] = ask.get("count") or 1
                for toleration in _places(ask, ["tolerations[]"]):
                    toleration["operator"] = toleration.get("operator") or "Equal"


def _dig(data: Any, *path: str) -> Any:
    for name in path:
        data = data.get(name) if data is not None else None
    return data


_GATED = frozenset({"ints", "bools", "strings", "versions"})
"""Of attributes: they are behind a gate that is off by default."""


def filled_slice(data: Data, now: str) -> Data:
    """A slice in which every taint says since when, without what gates keep out."""
    data = dict(data)
    for device in _places(data, ["spec", "devices[]"]):
        device.pop("nodeAllocatableResourceMappings", None)
        _apply(device, [(["taints[]"], {"timeAdded": now})])
        attributes = device.get("attributes") or {}
        if any(not _GATED.isdisjoint(it) for it in attributes.values()):
            device["attributes"] = {
                name: {key: it[key] for key in it.keys() - _GATED}
                for name, it in attributes.items()
            }
    return data


_TOLERATED = ["status?", "allocation?", "devices?", "results[]", "tolerations[]"]
_MORE: dict[str, Callable[[Data], None]] = {
    "DaemonSet": _daemon_set,
    "Service": _service,
    "Namespace": _namespace,
    "PersistentVolume": _persistent_volume,
    "Secret": _secret,
    "ResourceClaim": _claim,
    "ResourceClaimTemplate": _claim_template,
}
