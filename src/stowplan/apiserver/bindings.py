"""Bind pods to nodes: the write that a scheduler is all about.

A pod that is bound gets its node, the zone and region of it as labels, and its first condition.
Replicas share what they have in common: pods that are bound within one second have the same status
object.  `writes.Writer` calls it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from stowplan.apiserver import answers
from stowplan.apiserver.admission import Admission
from stowplan.apiserver.identity import Identity
from stowplan.apiserver.kubelet_status import RUNNING
from stowplan.apiserver.ledger import NOBODY, Ledger
from stowplan.apiserver.pod_writes import PENDING
from stowplan.cluster.port import Answer
from stowplan.errors import ApiError, Invalid
from stowplan.objects.api import Bind
from stowplan.objects.base import Condition
from stowplan.objects.kinds import POD
from stowplan.objects.node import Node
from stowplan.objects.pod import Pod, PodStatus

BINDING_RESOURCE = "pods/binding"


class Binder:
    def __init__(self, ledger: Ledger, identity: Identity, admission: Admission) -> None:
        self._ledger = ledger
        self._identity = identity
        self._topology_labels = admission.topology_labels
        self._pods = ledger.tables[Pod]
        self._nodes = ledger.tables[Node].objects[""]
        self._status = _BoundStatus()
        self.pods_run_at_once = False

    def run_pods_at_once(self) -> None:
        """There is no kubelet: pods run when they are bound, and end when they are deleted."""
        self.pods_run_at_once = self._status.runs = True

    def fork(self, ledger: Ledger, identity: Identity, admission: Admission) -> Binder:
        other = Binder(ledger, identity, admission)
        if self.pods_run_at_once:
            other.run_pods_at_once()
        return other

    def bind(self, requests: Sequence[Bind]) -> list[Answer]:
        """For each of them None, or why the pod is not bound."""
        ledger, table, nodes = self._ledger, self._pods, self._nodes
        pods, now = table.objects, self._identity.now()
        fresh = self._status.of(PENDING, now)
        told: list[Answer] = []
        for request in requests:
            node, uid = request.node, request.uid
            pod: Any = pods.get(request.namespace, NOBODY).get(request.name)
            if pod is None:
                told.append(answers.not_found(POD, request.name))
                continue
            meta, spec, status = pod.metadata, pod.spec, pod.status
            if (
                (uid and uid != meta.uid)
                or not node
                or spec.node_name
                or spec.scheduling_gates
                or meta.deletion_timestamp is not None
            ):
                told.append(_why_not(pod, request))
                continue
            version = f"{ledger.version + 1}"
            labels = self._topology_labels(meta.labels, nodes.get(node), overwrite=True)
            meta = replace(meta, resource_version=version, labels=labels)
            if request.annotations:
                annotations = {**(meta.annotations or {}), **request.annotations}
                meta = replace(meta, annotations=annotations)
            new = Pod(
                api_version="v1",
                kind="Pod",
                metadata=meta,
                spec=replace(spec, node_name=node),
                status=fresh if status is PENDING else self._status.of(status, now),
            )
            ledger.modify(table, pod, new)
            told.append(None)
        return told


def _why_not(pod: Pod, request: Bind) -> ApiError:
    """Why this pod cannot be bound: any more, not yet, or not by this request."""
    name, meta = request.name, pod.metadata
    if request.uid and request.uid != meta.uid:
        return answers.wrong_uid(POD, meta.namespace, name, request.uid, meta.uid)
    if not request.node:
        return Invalid(f'Binding "{name}" is invalid: target.name: Required value')
    if meta.deletion_timestamp is not None:
        why = f"pod {name} is being deleted, cannot be assigned to a host"
    elif pod.spec.node_name:
        why = f'pod {name} is already assigned to node "{pod.spec.node_name}"'
    else:
        why = f"pod {name} has non-empty .spec.schedulingGates"
    return answers.conflict(POD, name, why, called=BINDING_RESOURCE)


class _BoundStatus:
    """The status of a pod that is bound now."""

    def __init__(self) -> None:
        self.runs = False
        self._now = ""
        self._scheduled = Condition()
        self._fresh = PodStatus()

    def of(self, status: PodStatus, now: str) -> PodStatus:
        if now != self._now:
            self._now = now
            self._scheduled = Condition(
                type="PodScheduled", status="True", last_transition_time=now
            )
            self._fresh = PodStatus(phase="Pending", conditions=[self._scheduled])
            if self.runs:
                self._fresh = self._running(self._fresh)
        if status is PENDING or status == PENDING:
            return self._fresh
        conditions = list(status.conditions or ())
        for n, condition in enumerate(conditions):
            if condition.type == "PodScheduled":
                since = condition.last_transition_time if condition.status == "True" else now
                conditions[n] = replace(self._scheduled, last_transition_time=since)
                break
        else:
            conditions.append(self._scheduled)
        bound = replace(status, conditions=conditions, nominated_node_name="")
        return self._running(bound) if self.runs else bound

    def _running(self, status: PodStatus) -> PodStatus:
        """What a kubelet would report as soon as it hears of the pod."""
        now = self._now
        ready = [Condition(type=name, status="True", last_transition_time=now) for name in RUNNING]
        known = [one for one in status.conditions or () if one.type not in RUNNING]
        return replace(status, phase="Running", start_time=now, conditions=[*known, *ready])
