"""The API server of recordings with devices: it holds the claims, and a driver that looks at them.

As where the recordings were made: lost races are conflicts, an allocation never changes, at most
256 pods hold a claim, and access for administration takes a label on the namespace.  The driver
makes devices ready as soon as their claim is reserved, unless the claim is annotated to fail.
"""

from __future__ import annotations

import copy
from typing import Any

import msgspec

from stowplan.apiserver.patch import apply_patch
from stowplan.errors import ApiError, Conflict, Invalid, NotFound
from stowplan.objects.api import Create, Delete, Get, Patch, Request
from stowplan.objects.base import KubeObject
from stowplan.objects.changes import Added, Change, Deleted, Updated
from stowplan.objects.codec import convert
from stowplan.objects.devices import ResourceClaim
from stowplan.objects.kinds import RESOURCE_CLAIM
from stowplan.objects.pod import Pod

Claim = dict[str, Any]

MADE = "made-"
"""What uids of claims begin with that were made here."""

_RESERVED_MAX = 256
_ADMIN_LABEL = "resource.kubernetes.io/admin-access"
_FAILING = "test/binding"


class ClaimServer:
    def __init__(self, items: list[dict[str, Any]]) -> None:
        self.claims: dict[str, Claim] = {}
        self._version = 1
        for item in items:
            if item["kind"] == "ResourceClaim":
                self.claims[_key(item)] = self._versioned(item)
        self._admin_namespaces = {
            item["metadata"]["name"]
            for item in items
            if item["kind"] == "Namespace"
            and (item["metadata"].get("labels") or {}).get(_ADMIN_LABEL) == "true"
        }
        self._pods = {_key(item): item for item in items if item["kind"] == "Pod"}
        self.mappings: dict[str, list[Any]] = {}
        """Pod -> what was written about its extended resources."""

    def objects(self) -> list[ResourceClaim]:
        return [convert(claim, ResourceClaim) for claim in self.claims.values()]

    def answer(self, request: Request) -> tuple[KubeObject | ApiError | None, list[Change]]:
        """And what a watch shows of it."""
        try:
            if isinstance(request, Create):
                return self._create(request)
            if isinstance(request, Patch) and request.kind is not RESOURCE_CLAIM:
                return self._patch_pod(request), []
            if isinstance(request, Patch):
                return self._patch(request)
            if isinstance(request, Get):
                return convert(self._claim(request), ResourceClaim), []
            if isinstance(request, Delete) and request.kind is RESOURCE_CLAIM:
                gone = convert(self._claim(request), ResourceClaim)
                del self.claims[gone.key]
                return gone, [Deleted(gone)]
        except ApiError as problem:
            return problem, []
        return None, []

    def _claim(self, request: Get | Patch | Delete) -> Claim:
        claim = self.claims.get(f"{request.namespace}/{request.name}")
        if claim is None:
            raise NotFound(f'resourceclaims.resource.k8s.io "{request.name}" not found')
        return claim

    def _create(self, request: Create) -> tuple[KubeObject, list[Change]]:
        claim: Claim = msgspec.to_builtins(request.body)
        metadata = claim["metadata"]
        metadata["name"] = f"{metadata['generateName']}{self._version}"
        metadata["uid"] = f"{MADE}{metadata['name']}"
        self.claims[_key(claim)] = self._versioned(claim)
        made = convert(self.claims[_key(claim)], ResourceClaim)
        return made, [Added(made)]

    def _patch_pod(self, request: Patch) -> Pod:
        key = f"{request.namespace}/{request.name}"
        status = request.body["status"].get("extendedResourceClaimStatus")
        if status is not None:
            self.mappings[key] = status["requestMappings"]
        return convert(self._pods[key], Pod)

    def _patch(self, request: Patch) -> tuple[KubeObject, list[Change]]:
        old = self._claim(request)
        given = request.body.get("metadata") or {}
        version = given.get("resourceVersion")
        if version and version != old["metadata"]["resourceVersion"]:
            raise Conflict(
                f"Operation cannot be fulfilled on resourceclaims.resource.k8s.io "
                f'"{request.name}": the object has been modified'
            )
        new = apply_patch(request.patch_type, "ResourceClaim", copy.deepcopy(old), request.body)
        if request.subresource == "status":
            new = {**old, "status": new.get("status") or {}}
            self._check(old, new)
        else:
            new = {**new, "status": old.get("status") or {}}
        return self._store(new)

    def _check(self, old: Claim, new: Claim) -> None:
        before, after = (claim.get("status") or {} for claim in (old, new))
        results = ((after.get("allocation") or {}).get("devices") or {}).get("results") or ()
        namespace, name = new["metadata"]["namespace"], new["metadata"]["name"]
        if before.get("allocation") and after.get("allocation"):
            is_wrong = before["allocation"] != after["allocation"]
        else:
            is_wrong = namespace not in self._admin_namespaces and any(
                result.get("adminAccess") for result in results
            )
        if is_wrong or len(after.get("reservedFor") or ()) > _RESERVED_MAX:
            raise Invalid(f'ResourceClaim.resource.k8s.io "{name}" is invalid: …')

    def _store(self, claim: Claim) -> tuple[KubeObject, list[Change]]:
        changes: list[Change] = []
        old = convert(self.claims[_key(claim)], ResourceClaim)
        self.claims[_key(claim)] = self._versioned(claim)
        new = convert(self.claims[_key(claim)], ResourceClaim)
        changes.append(Updated(old, new))
        prepared = _prepared(self.claims[_key(claim)])
        if prepared is not None:
            self.claims[_key(claim)] = self._versioned(prepared)
            changes.append(Updated(new, convert(self.claims[_key(claim)], ResourceClaim)))
        return new, changes

    def _versioned(self, claim: Claim) -> Claim:
        self._version += 1
        return {**claim, "metadata": {**claim["metadata"], "resourceVersion": str(self._version)}}


def _prepared(claim: Claim) -> Claim | None:
    """The claim with what its driver says of it; None if that was said, or nobody waits."""
    status = claim.get("status") or {}
    results = ((status.get("allocation") or {}).get("devices") or {}).get("results") or ()
    waiting = [result for result in results if result.get("bindingConditions")]
    if not waiting or status.get("devices") or not status.get("reservedFor"):
        return None
    fails = (claim["metadata"].get("annotations") or {}).get(_FAILING) == "fail"
    devices = [_device_status(result, fails=fails) for result in waiting]
    return {**claim, "status": {**status, "devices": devices}}


def _device_status(result: dict[str, Any], *, fails: bool) -> dict[str, Any]:
    failures = result.get("bindingFailureConditions") or []
    if fails and failures:
        broken = {"reason": "Broken", "message": "device did not attach"}
        conditions = [{"type": failures[0], "status": "True", **broken}]
    else:
        conditions = [{"type": it, "status": "True"} for it in result["bindingConditions"]]
    where = {name: result[name] for name in ("driver", "pool", "device")}
    return {**where, "conditions": conditions}


def _key(item: dict[str, Any]) -> str:
    metadata = item["metadata"]
    return f"{metadata.get('namespace') or 'default'}/{metadata['name']}"
