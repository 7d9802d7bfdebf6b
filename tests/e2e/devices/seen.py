"""What can be seen of pods and claims from outside, without what differs from run to run."""

from __future__ import annotations

import json
import re
from typing import Any

from tests.e2e.devices.stage import Stage

Data = dict[str, Any]

_UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_GENERATED = re.compile(r"(-extended-resources-)[a-z0-9]{5}\b")
_IN_MAP = re.compile(r"map\[[^]]*\]")

_LEFT_OUT = frozenset(
    {"uid", "resourceVersion", "creationTimestamp", "managedFields", "generation", "namespace"}
)
_WRITTEN_WHEN = frozenset({"deletionTimestamp"})


def seen(stage: Stage) -> Data:
    """By kind and name."""
    found = {
        "pods": {it["metadata"]["name"]: _pod(it) for it in stage.items("Pod")},
        "claims": {it["metadata"]["name"]: _claim(it) for it in stage.items("ResourceClaim")},
        "events": _events(stage),
    }
    text = json.dumps(found).replace(stage.run, "RUN").replace(stage.side.profile, "PROFILE")
    for pattern, instead in ((_UID, "UID"), (_TIME, "TIME"), (_GENERATED, r"\1*****")):
        text = pattern.sub(instead, text)
    made: Data = json.loads(text)
    return made


def _pod(it: Data) -> Data:
    status = it.get("status", {})
    conditions = [
        {key: value for key, value in condition.items() if not key.startswith("last")}
        for condition in status.get("conditions", [])
    ]
    return {
        "node": it["spec"].get("nodeName", ""),
        "nominated": status.get("nominatedNodeName", ""),
        "conditions": [it for it in conditions if it["type"] == "PodScheduled"],
        "claims": status.get("resourceClaimStatuses"),
        "extended": status.get("extendedResourceClaimStatus"),
        "deleted": "deletionTimestamp" in it["metadata"],
    }


def _claim(it: Data) -> Data:
    metadata = {key: value for key, value in it["metadata"].items() if key not in _LEFT_OUT}
    for key in _WRITTEN_WHEN & metadata.keys():
        metadata[key] = True
    # The order of keys counts in what is opaque, so nothing is sorted: it is text.
    opaque = json.dumps([it["spec"]["devices"].get("config"), _allocation(it).get("config")])
    return {"metadata": metadata, "spec": it["spec"], "status": it.get("status"), "opaque": opaque}


def _allocation(it: Data) -> Data:
    devices: Data = ((it.get("status") or {}).get("allocation") or {}).get("devices") or {}
    return devices


def _events(stage: Stage) -> list[list[str]]:
    """Each once, sorted: how often one is repeated is a matter of time."""
    said = {
        (it["regarding"]["name"], it["type"], it["reason"], it["action"], it["note"])
        for it in stage.items("Event")
    }
    return sorted(list(it) for it in said)
