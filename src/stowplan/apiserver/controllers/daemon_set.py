"""DaemonSet: one pod on every node that suits.

Mirrors `pkg/controller/daemon`.  The scheduler binds the pods; each is pinned to its node by
affinity (`objects.daemons`).
"""

from __future__ import annotations

from typing import Any

from stowplan.apiserver.controllers.readiness import is_available, ready_since, scaled_value
from stowplan.apiserver.controllers.revisions import Revisions, revision_of
from stowplan.apiserver.controllers.shared import Shared
from stowplan.apiserver.controllers.workload import WorkloadController
from stowplan.objects.api import Create, Delete
from stowplan.objects.base import KubeObject
from stowplan.objects.daemons import node_of, pin_to_node, suits
from stowplan.objects.kinds import DAEMON_SET, NODE, POD
from stowplan.objects.node import Node
from stowplan.objects.pod import Pod
from stowplan.objects.workload_pods import daemon_pod, is_active, template_hash
from stowplan.objects.workloads import DaemonSet, RollingUpdate, UpdateStrategy

BURST_MAX = 250


class DaemonSetController(WorkloadController):
    def __init__(self, shared: Shared) -> None:
        super().__init__(shared, DAEMON_SET)
        self._revisions = Revisions(shared)
        shared.listen(DAEMON_SET, self._note_revision)
        shared.listen(NODE, self._node_changed)

    def _note_revision(self, old: KubeObject | None, new: KubeObject | None) -> None:
        if isinstance(new, DaemonSet):
            self._revisions.note(new, template_hash(new.spec.template))

    def forget(self, uid: str) -> None:
        super().forget(uid)
        self._revisions.forget(uid)

    def _node_changed(self, old: KubeObject | None, new: KubeObject | None) -> None:
        if isinstance(old, Node) and isinstance(new, Node):
            same = old.metadata.labels == new.metadata.labels and old.spec == new.spec
            if same:
                return
        for thing in self._shared.every(DAEMON_SET):
            self.queue.add(thing.key)

    def sync(self, key: str) -> None:
        owner = self._shared.get(DAEMON_SET, key)
        if not isinstance(owner, DaemonSet) or not self.calls.settled(key):
            return
        revision = template_hash(owner.spec.template)
        body = daemon_pod(owner, revision)
        by_node: dict[str, list[Pod]] = {}
        for child in self._claims.of(owner):
            if isinstance(child, Pod):
                by_node.setdefault(node_of(child), []).append(child)
        nodes = [node for node in self._shared.every(NODE) if isinstance(node, Node)]
        suits_node = suits(body)
        desired = [node for node in nodes if suits_node(node, node.name in by_node)]
        if owner.metadata.deletion_timestamp is None:
            kept = self._keep(owner, by_node, {node.name for node in desired})
            self._create(owner, body, [node.name for node in desired if node.name not in by_node])
            self._update(owner, kept, revision, len(desired))
        self._write_status(owner, by_node, desired, revision)
        if self.calls.settled(key):
            self.queue.forget(key)

    def _keep(
        self, owner: DaemonSet, by_node: dict[str, list[Pod]], desired: set[str]
    ) -> list[Pod]:
        """Delete what is not wanted, what ended, and all but the oldest on each node."""
        kept = []
        for node, pods in by_node.items():
            if self._shared.is_copy and self._shared.get(NODE, node) is None:
                continue  # A node that the copy does not show.
            alive = sorted(
                (pod for pod in pods if is_active(pod)),
                key=lambda pod: (not pod.spec.node_name, pod.metadata.creation_timestamp or ""),
            )
            if node in desired:
                kept += alive[:1]
                unwanted = alive[1:]
            else:
                unwanted = alive
            ended = [
                pod
                for pod in pods
                if not is_active(pod) and pod.metadata.deletion_timestamp is None
            ]
            for pod in [*unwanted, *ended]:
                self._delete(owner, pod)
        return kept

    def _create(self, owner: DaemonSet, body: dict[str, Any], nodes: list[str]) -> None:
        for number, node in enumerate(nodes[:BURST_MAX]):
            pinned = {**body, "spec": pin_to_node(body["spec"], node)}
            request = Create(POD, owner.namespace, pinned)
            self.calls.send(owner.key, request, self._reporter.creation(owner, number))

    def _update(self, owner: DaemonSet, pods: list[Pod], revision: str, desired: int) -> None:
        strategy = owner.spec.update_strategy or UpdateStrategy()
        if strategy.type == "OnDelete":
            return
        rolling = strategy.rolling_update or RollingUpdate()
        allowed = max(1, scaled_value(rolling.max_unavailable, desired, round_up=True, default=1))
        now_s, min_ready_s = self._shared.clock.now(), owner.spec.min_ready_seconds
        available = [pod for pod in pods if is_available(pod, min_ready_s, now_s)]
        missing = desired - len(available)
        outdated = [p for p in pods if not self._revisions.is_current(p, owner, revision)]
        for pod in outdated:
            if pod in available:
                if missing >= allowed:
                    continue
                missing += 1
            # One that does not run is no loss.
            self._delete(owner, pod)

    def _delete(self, owner: DaemonSet, pod: Pod) -> None:
        self.calls.send(owner.key, Delete(POD, pod.namespace, pod.name, uid=pod.uid))

    def _write_status(
        self,
        owner: DaemonSet,
        by_node: dict[str, list[Pod]],
        desired: list[Node],
        revision: str,
    ) -> None:
        now_s, min_ready_s = self._shared.clock.now(), owner.spec.min_ready_seconds
        names = {node.name for node in desired}
        running = [
            pods[0]
            for node, found in by_node.items()
            if node in names and (pods := [pod for pod in found if is_active(pod)])
        ]
        available = sum(1 for pod in running if is_available(pod, min_ready_s, now_s))
        ready = sum(1 for pod in running if ready_since(pod) is not None)
        status = {
            "observedGeneration": owner.metadata.generation,
            "desiredNumberScheduled": len(desired),
            "currentNumberScheduled": len(running),
            "numberMisscheduled": len(by_node.keys() - names),
            "numberReady": ready,
            "numberAvailable": available,
            "numberUnavailable": len(desired) - available,
            "updatedNumberScheduled": sum(1 for pod in running if revision_of(pod) == revision),
        }
        self._statuses.write(owner, status)
        if available < ready:
            self.queue.add_after(owner.key, float(min_ready_s))
