"""Recordings with devices: what PreBind writes is carried out, pod by pod.

A pod that a PreEnqueue plugin would hold back is decided on all the same, as it was recorded; what
that plugin says is noted.  Pods are not tried again.
"""

from __future__ import annotations

from collections import deque
from random import Random
from typing import Any

from stowplan.config import load_config
from stowplan.core.attempts import AttemptLog, Failed
from stowplan.core.decision import Decision
from stowplan.core.machine import Machine
from stowplan.core.messages import Added, Answered, Call, Effect, ScheduleNext
from stowplan.framework.status import Status
from stowplan.objects.api import Bind
from stowplan.objects.base import KubeObject
from stowplan.objects.devices import ResourceClaim
from stowplan.objects.pod import Pod
from stowplan.objects.times import parse_time
from stowplan.queue import QueuedPod
from tests.conformance.claim_server import MADE, Claim, ClaimServer
from tests.conformance.following import Decisions

NOW_S = parse_time("2026-11-17T00:00:00Z")

_PLUGIN = "DynamicResources"


class DeviceDecisions(Decisions):
    """Notes what the plugin would have said before the queue, and what became of PreBind."""

    machine: Machine

    def __init__(self) -> None:
        super().__init__()
        self.held_back: Status | None = None
        self.bind_problem = ""
        self.pod: Pod | None = None

    def decided(self, queued: QueuedPod, decision: Decision, now_s: float, seconds: float) -> None:
        super().decided(queued, decision, now_s, seconds)
        framework = self.machine.frameworks[queued.info.pod.spec.scheduler_name]
        self.held_back = framework.plugins.instances[_PLUGIN].pre_enqueue(queued.info)
        self.bind_problem, self.pod = "", queued.info.pod

    def failed(self, attempt: Failed, now_s: float) -> None:
        if self.made[-1].node:
            self.bind_problem = attempt.status.message


class Replay:
    def __init__(self, scenario: dict[str, Any]) -> None:
        self.decisions = DeviceDecisions()
        self.machine = self.decisions.machine = Machine(
            load_config(_config(scenario["config"])),
            random=Random(0),
            tie_break="name",
            log=AttemptLog(self.decisions),
        )
        self.server = ClaimServer(scenario["cluster"]["items"])
        self.now_s = NOW_S
        self.actual: list[dict[str, Any]] = []

    def add(self, objects: list[KubeObject]) -> None:
        claims = {claim.key: claim for claim in self.server.objects()}
        for obj in objects:
            self.now_s += 1.0
            shown = claims[obj.key] if isinstance(obj, ResourceClaim) else obj
            self.machine.handle(Added(shown), self.now_s)

    def decide_next(self) -> None:
        self._carry_out(self.machine.handle(ScheduleNext(), self.now_s))
        self.actual.append(self._described(self.decisions.made[-1]))

    def _carry_out(self, effects: list[Effect]) -> None:
        waiting = deque(effects)
        while waiting:
            effect = waiting.popleft()
            if not isinstance(effect, Call) or isinstance(effect.request, Bind):
                continue  # Nobody answers bindings, so that pods stay where they were sent.
            answer, changes = self.server.answer(effect.request)
            for change in changes:
                waiting.extend(self.machine.handle(change, self.now_s))
            waiting.extend(self.machine.handle(Answered(effect.token, answer), self.now_s))

    # -- what is compared -------------------------------------------------------------------

    def _described(self, decision: Decision) -> dict[str, Any]:
        shown = decision.to_dict()
        heard = self.decisions
        pod = heard.pod
        assert pod is not None
        if heard.held_back is not None:
            shown["preEnqueue"] = {
                "plugin": _PLUGIN,
                "code": heard.held_back.code.label,
                "reasons": list(heard.held_back.reasons),
            }
        if "errors" in shown:
            assert decision.error in shown["errors"].values(), decision.error
            return {name: value for name, value in shown.items() if name in ("pod", "errors")}
        if heard.bind_problem:
            shown["preBindError"] = heard.bind_problem
        if decision.node:
            stored, mapped = self._stored_claims(pod), self._mapped(pod)
            if decision.details and not heard.bind_problem:
                for name, there in (("claims", stored), ("requestMappings", mapped)):
                    if shown.get(name, type(there)()) != there:
                        shown["problem"] = f"{shown.get(name)} is shown, {there} is stored"
            shown |= {"claims": stored, "requestMappings": mapped}
        return shown

    def _mapped(self, pod: Pod) -> list[str]:
        return [
            f"{it['containerName']}:{it['resourceName']}={it['requestName']}"
            for it in self.server.mappings.get(pod.key, ())
        ]

    def _stored_claims(self, pod: Pod) -> dict[str, Any]:
        own = {status.name: status for status in pod.status.resource_claim_statuses or ()}
        names = []
        for reference in pod.spec.resource_claims or ():
            status = own.get(reference.name)
            made = status.resource_claim_name if status is not None else None
            names.append(reference.resource_claim_name or made)
        namespace = pod.metadata.namespace
        found = {n: _shown(self.server.claims[f"{namespace}/{n}"]) for n in names if n}
        prefix = f"{pod.metadata.name}-extended-resources-"
        for key, claim in self.server.claims.items():
            if not claim["metadata"]["uid"].startswith(MADE):
                continue  # Left over: the pod has another one, or none.
            owners = claim["metadata"].get("ownerReferences") or ()
            if key.startswith(f"{namespace}/{prefix}") and any(
                owner["uid"] == pod.metadata.uid for owner in owners
            ):
                found[f"{prefix}*"] = _shown(claim)
        return found


def _shown(claim: Claim) -> dict[str, Any]:
    status = claim.get("status") or {}
    allocation = status.get("allocation") or {}
    return {
        "devices": (allocation.get("devices") or {}).get("results") or [],
        "nodeSelector": allocation.get("nodeSelector"),
        "reservedFor": [it["name"] for it in status.get("reservedFor") or ()],
    }


def _config(given: dict[str, Any] | None) -> dict[str, Any]:
    """With nobody who keeps pods out of the queue for their claims."""
    assert not given, "recordings with devices have the default configuration"
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [
            {
                "schedulerName": "default-scheduler",
                "plugins": {"preEnqueue": {"disabled": [{"name": _PLUGIN}]}},
            }
        ],
    }
