"""What this server serves, told to clients: groups, versions, resources, verbs.

kubectl asks for all of it in one aggregated document (apidiscovery.k8s.io); older clients ask for
one group after the other.  Made from `resources` once and kept.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from stowplan.apiserver.http.resources import (
    OBJECT_VERBS,
    SUBRESOURCE_SHAPES,
    VIRTUAL,
    Gates,
    Resource,
    served,
)

Data = dict[str, Any]


def versions_of(gates: Gates, group: str) -> list[str]:
    return [version for group_, version in served(gates) if group_ == group]


@cache
def groups(gates: Gates) -> tuple[str, ...]:
    """Every named group, the core group aside."""
    return tuple(dict.fromkeys(group for group, _ in served(gates) if group))


def api_versions(host: str) -> Data:
    address = [{"clientCIDR": "0.0.0.0/0", "serverAddress": host}]
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": address}


def api_group_list(gates: Gates) -> Data:
    listed = [api_group(gates, group) for group in groups(gates)]
    return {
        "kind": "APIGroupList",
        "apiVersion": "v1",
        "groups": [{key: group[key] for key in group if key != "kind"} for group in listed],
    }


def api_group(gates: Gates, group: str) -> Data:
    listed = [
        {"groupVersion": f"{group}/{version}", "version": version}
        for version in versions_of(gates, group)
    ]
    return {
        "kind": "APIGroup",
        "apiVersion": "v1",
        "name": group,
        "versions": listed,
        "preferredVersion": listed[0],
    }


@cache
def _resource_list(gates: Gates, group: str, version: str) -> Data:
    listed: list[Data] = []
    for resource in served(gates)[group, version].values():
        listed += _entries(resource)
    for plural, (kind, namespaced) in VIRTUAL.get((group, version), {}).items():
        listed.append(
            {
                "name": plural,
                "singularName": kind.lower(),
                "namespaced": namespaced,
                "kind": kind,
                "verbs": ["create"],
            }
        )
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": f"{group}/{version}" if group else version,
        "resources": sorted(listed, key=lambda entry: str(entry["name"])),
    }


def resource_list(gates: Gates, group: str, version: str) -> Data | None:
    found = (group, version) in served(gates)
    return _resource_list(gates, group, version) if found else None


def _entries(resource: Resource) -> list[Data]:
    kind = resource.kind
    entry: Data = {
        "name": kind.plural,
        "singularName": resource.singular,
        "namespaced": kind.namespaced,
        "kind": kind.name,
        "verbs": list(resource.verbs),
    }
    if resource.short_names:
        entry["shortNames"] = list(resource.short_names)
    if resource.categories:
        entry["categories"] = list(resource.categories)
    entries = [entry]
    for name in resource.subresources:
        shape = SUBRESOURCE_SHAPES.get(name)
        sub: Data = {
            "name": f"{kind.plural}/{name}",
            "singularName": "",
            "namespaced": kind.namespaced,
            "kind": shape.kind if shape else kind.name,
            "verbs": list(shape.verbs if shape else OBJECT_VERBS),
        }
        if shape is not None:
            sub |= {"group": shape.group, "version": shape.version}
        entries.append(sub)
    return entries


@cache
def aggregated(gates: Gates, core: bool, document_version: str) -> Data:
    """Everything below /api (`core`) or /apis, in one document."""
    names = ("",) if core else groups(gates)
    items = []
    for group in names:
        listed = [
            {
                "version": version,
                "freshness": "Current",
                "resources": _aggregated_resources(gates, group, version),
            }
            for version in versions_of(gates, group)
        ]
        metadata: Data = {"name": group} if group else {}
        metadata["creationTimestamp"] = None
        items.append({"metadata": metadata, "versions": listed})
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": f"apidiscovery.k8s.io/{document_version}",
        "metadata": {},
        "items": items,
    }


def _aggregated_resources(gates: Gates, group: str, version: str) -> list[Data]:
    by_name: dict[str, Data] = {}
    for entry in _resource_list(gates, group, version)["resources"]:
        name, _, subresource = entry["name"].partition("/")
        kind = {
            "group": entry.get("group", group),
            "version": entry.get("version", version),
            "kind": entry["kind"],
        }
        if subresource:
            owner = by_name[name]
            sub = {"subresource": subresource, "responseKind": kind, "verbs": entry["verbs"]}
            owner.setdefault("subresources", []).append(sub)
            continue
        by_name[name] = {
            "resource": name,
            "responseKind": kind,
            "scope": "Namespaced" if entry["namespaced"] else "Cluster",
            "singularResource": entry["singularName"],
            "verbs": entry["verbs"],
        }
        for field in ("shortNames", "categories"):
            if field in entry:
                by_name[name][field] = entry[field]
    return list(by_name.values())
