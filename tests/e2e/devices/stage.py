"""What a case acts on: a cluster, one of two schedulers, a namespace and a driver of its own.

Nobody runs controllers or drivers here; a case does what they would do.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any, Protocol, Self

import pytest

from tests.e2e.devices.objects import FINALIZER, GROUP, claim, named, slice_of
from tests.e2e.harness.api import Api, Refused
from tests.e2e.harness.objects import node, pod
from tests.e2e.harness.processes import eventually

Data = dict[str, Any]

SETTLE_S = 0.4
"""How long a watch may take to tell a scheduler of something."""
WAIT_S = 25.0
QUIET_S = 2.2
"""Nothing happens for so long: nothing will.  Failed pods are tried again after a second."""

NAMESPACED = {
    "Pod": ("api/v1", "pods"),
    "ResourceClaim": (f"apis/{GROUP}/v1", "resourceclaims"),
    "ResourceClaimTemplate": (f"apis/{GROUP}/v1", "resourceclaimtemplates"),
    "PersistentVolumeClaim": ("api/v1", "persistentvolumeclaims"),
    "Event": ("apis/events.k8s.io/v1", "events"),
}
CLUSTER_WIDE = {
    "ResourceSlice": f"/apis/{GROUP}/v1/resourceslices",
    "DeviceClass": f"/apis/{GROUP}/v1/deviceclasses",
    "PersistentVolume": "/api/v1/persistentvolumes",
    "StorageClass": "/apis/storage.k8s.io/v1/storageclasses",
    "PriorityClass": "/apis/scheduling.k8s.io/v1/priorityclasses",
    "Node": "/api/v1/nodes",
}


class Side(Protocol):
    """One of the two schedulers."""

    profile: str
    """The `schedulerName` of its pods."""
    is_stock: bool

    def kill(self) -> None: ...

    def start(self) -> None: ...


class Stage:
    def __init__(self, api: Api, side: Side, run: str) -> None:
        """`run` tells the names of this playing of a case from those of others."""
        self.api = api
        self.side = side
        self.run = run
        self.namespace = f"ns-{run}"
        self.driver = f"gpu.{run}.example.com"
        body = {"metadata": {"name": self.namespace}}
        self.api.post("/api/v1/namespaces", body)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *problem: object) -> None:
        self.sweep()

    # -- writing ----------------------------------------------------------------------------

    def path(self, kind: str, name: str = "") -> str:
        if kind in CLUSTER_WIDE:
            base = CLUSTER_WIDE[kind]
        else:
            group, plural = NAMESPACED[kind]
            base = f"/{group}/namespaces/{self.namespace}/{plural}"
        return f"{base}/{name}" if name else base

    def create(self, *objects: Data) -> None:
        for it in objects:
            self.api.post(self._collection(it), it)

    def _collection(self, it: Data) -> str:
        """Of the version in which it is written."""
        return self.path(it["kind"]).replace(f"{GROUP}/v1/", f"{it['apiVersion']}/")

    def create_text(self, kind: str, text: str) -> None:
        """As it stands there, blanks and all."""
        code, answer = self.api.send_text("POST", self.path(kind), text)
        assert code == 201, answer

    def nodes(self, *names: str, **fields: Any) -> None:
        self.create(*(node(name, **fields) for name in names))

    def on_nodes(self, *names: str, made: Callable[[], list[Data]]) -> None:
        """Each with a pool of such devices."""
        self.nodes(*names)
        for name in names:
            self.create(slice_of(f"{self.run}-{name}", self.driver, made(), pool=name))

    def slice(self, name: str, made: list[Data], **fields: Any) -> None:
        driver = fields.pop("driver", self.driver)
        self.create(slice_of(f"{self.run}-{name}", driver, made, **fields))

    def pod(self, name: str, *claims: str | Data, **spec: Any) -> None:
        """With these claims; waits first until the scheduler knows what was written before."""
        self.settle()
        cpu = spec.pop("cpu", "100m")
        references = [named(it) if isinstance(it, str) else it for it in claims]
        body = pod(name, cpu=cpu, schedulerName=self.side.profile, **spec)
        del body["metadata"]["namespace"]
        if references:
            body["spec"]["resourceClaims"] = references
            body["spec"]["containers"][0]["resources"]["claims"] = [
                {"name": it["name"]} for it in references
            ]
        self.create(body)

    def claim(self, name: str, *requests: Data, **devices: Any) -> None:
        self.create(claim(name, *requests, **devices))

    def patch(self, kind: str, name: str, body: Data, subresource: str = "") -> Data:
        path = self.path(kind, name)
        return self.api.patch(f"{path}/{subresource}" if subresource else path, body)

    def replace(self, kind: str, name: str, change: Callable[[Data], None]) -> None:
        path = self.path(kind, name)
        body = self.api.get(path)
        change(body)
        self.api.put(path, body)

    def delete(self, kind: str, name: str) -> None:
        self.api.delete(self.path(kind, name), gracePeriodSeconds="0")

    def settle(self) -> None:
        time.sleep(SETTLE_S)

    def until_next_second(self) -> None:
        """What is made from now on is younger than what there is."""
        time.sleep(1.1)

    # -- as controllers and drivers do ------------------------------------------------------

    def made_for(self, pod_name: str, reference: str, made: Data, *, tell: bool = True) -> None:
        """The claim controller's part: a claim that belongs to the pod, and the pod told of it."""
        owner = self.get("Pod", pod_name)["metadata"]
        made["metadata"]["ownerReferences"] = [
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "name": pod_name,
                "uid": owner["uid"],
                "controller": True,
            }
        ]
        self.create(made)
        if tell:
            self.tell_claim(pod_name, reference, made["metadata"]["name"])

    def tell_claim(self, pod_name: str, reference: str, claim_name: str | None) -> None:
        entry: Data = {"name": reference}
        if claim_name is not None:
            entry["resourceClaimName"] = claim_name
        self.patch("Pod", pod_name, {"status": {"resourceClaimStatuses": [entry]}}, "status")

    def allocate(self, name: str, *chosen: str, pool: str = "n1", **fields: Any) -> None:
        """As somebody else's scheduler would have done it; `fields` are those of the status."""
        body = self.get("ResourceClaim", name)
        body["metadata"]["finalizers"] = [FINALIZER]
        self.api.put(self.path("ResourceClaim", name), body)
        request = body["spec"]["devices"]["requests"][0]["name"]
        results = [
            {"request": request, "driver": self.driver, "pool": pool, "device": it} for it in chosen
        ]
        on_pool = {"key": "metadata.name", "operator": "In", "values": [pool]}
        allocation = {
            "devices": {"results": results},
            "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [on_pool]}]},
            "allocationTimestamp": "2026-11-01T00:00:00Z",
            **fields.pop("allocation", {}),
        }
        allocation = {key: it for key, it in allocation.items() if it is not None}
        self.patch(
            "ResourceClaim", name, {"status": {"allocation": allocation, **fields}}, "status"
        )

    def release(self, name: str) -> None:
        """The claim controller's part when the last pod is gone."""
        self.patch("ResourceClaim", name, {"status": None}, "status")

    def report(self, name: str, device_name: str, pool: str, **conditions: str) -> None:
        """A driver's part: what it says of a device of a claim."""
        said = [
            {
                "type": kind,
                "status": status,
                "reason": "Because",
                "message": f"{kind} is {status}",
                "lastTransitionTime": "2026-11-01T00:00:00Z",
            }
            for kind, status in conditions.items()
        ]
        entry = {"driver": self.driver, "pool": pool, "device": device_name, "conditions": said}
        self.patch("ResourceClaim", name, {"status": {"devices": [entry]}}, "status")

    # -- reading and waiting ----------------------------------------------------------------

    def get(self, kind: str, name: str) -> Data:
        return self.api.get(self.path(kind, name))

    def items(self, kind: str) -> list[Data]:
        return self.api.items(self.path(kind))

    def until(self, what: str, check: Callable[[], Any]) -> Any:
        return eventually(f"{self.run}: {what}", check, timeout_s=WAIT_S)

    def bound(self, *names: str) -> None:
        for name in names:
            self.until(
                f"{name} is bound; it says {self.condition(name)}",
                lambda it=name: self.get("Pod", it)["spec"].get("nodeName"),
            )
            self.event(name, "Scheduled")

    def rejected(self, name: str, text: str = "", *, by_event: bool = True) -> None:
        """It has a condition with this in it, and an event.

        Who is tried again at once may be bound before anybody looks: then the event has to do.
        """

        def told() -> bool:
            condition = self.condition(name)
            said.update(condition=condition, events=[it["note"] for it in self.items("Event")])
            reads_so = condition.get("status") == "False" and text in condition.get("message", "")
            if not by_event:
                return reads_so
            has_event = any(text in note for note in said["events"])
            return has_event and (reads_so or condition.get("status") == "True")

        said: Data = {}
        try:
            self.until(f"{name} is rejected with {text!r}", told)
        except pytest.fail.Exception as failure:
            pytest.fail(f"{failure}\n{json.dumps(said, indent=2)}")

    def condition(self, name: str) -> Data:
        found = self.get("Pod", name).get("status", {}).get("conditions", [])
        return next((it for it in found if it["type"] == "PodScheduled"), {})

    def event(self, name: str, reason: str) -> None:
        self.until(
            f"{name} has an event {reason}",
            lambda: any(
                it["reason"] == reason and it["regarding"]["name"] == name
                for it in self.items("Event")
            ),
        )

    def allocated(self, name: str) -> None:
        self.until(
            f"{name} is allocated",
            lambda: self.get("ResourceClaim", name).get("status", {}).get("allocation"),
        )

    def unallocated(self, name: str) -> None:
        self.until(
            f"{name} is not allocated",
            lambda: not self.get("ResourceClaim", name).get("status", {}).get("allocation"),
        )

    def quiet(self) -> None:
        """Wait until nothing happens any more."""
        before, since_s = self._everything(), time.monotonic()
        deadline_s = since_s + WAIT_S
        while time.monotonic() < min(since_s + QUIET_S, deadline_s):
            time.sleep(0.2)
            now = self._everything()
            if now != before:
                before, since_s = now, time.monotonic()

    def _everything(self) -> str:
        return json.dumps([self.items(kind) for kind in ("Pod", "ResourceClaim", "Event")])

    # -- afterwards -------------------------------------------------------------------------

    def sweep(self) -> None:
        """What JSON cannot take a finalizer off stays: names are not used twice."""
        for kind in ("Pod", "ResourceClaim", "ResourceClaimTemplate", "PersistentVolumeClaim"):
            self.api.delete(self.path(kind), gracePeriodSeconds="0")
        for it in self.items("ResourceClaim"):
            if it["metadata"].get("finalizers"):
                try:
                    self.patch(
                        "ResourceClaim", it["metadata"]["name"], {"metadata": {"finalizers": None}}
                    )
                except Refused as refusal:
                    if refusal.code not in (404, 422):
                        raise
        for kind, path in CLUSTER_WIDE.items():
            for it in self.api.items(path):
                name = it["metadata"]["name"]
                if not name.startswith("system-"):
                    self.delete(kind, name)
