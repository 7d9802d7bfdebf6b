"""What happens to nodes, and to the pods on them.

A node that is cordoned gets the taint that says so; pods that do not tolerate a NoExecute taint
go, at once or when their time is up; pods of a node that was deleted go with it.  Mirrors
`pkg/controller/nodelifecycle`, `tainteviction` and `podgc`.
"""

from __future__ import annotations

from stowplan.apiserver.controllers.calls import Calls
from stowplan.apiserver.controllers.reporting import Reporter
from stowplan.apiserver.controllers.shared import Shared
from stowplan.objects.api import Delete, Patch
from stowplan.objects.base import KubeObject
from stowplan.objects.kinds import NODE, POD
from stowplan.objects.node import Node, Taint
from stowplan.objects.pod import Pod
from stowplan.objects.taints import NO_EXECUTE, NO_SCHEDULE, tolerates

QUARANTINE_S = 40.0
"""How long a node may be away before its pods are given up."""

UNSCHEDULABLE = "node.kubernetes.io/unschedulable"


class NodeController:
    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self.queue = shared.queue("node", self.sync)
        self.calls = Calls(shared, self.queue)
        self._reporter = Reporter(shared, "taint-eviction-controller")
        self._since_s: dict[str, dict[Taint, float]] = shared.memory["pods: tainted since"]
        """When a pod, by its uid, came under a taint: its toleration may run out."""
        self._missing_since_s: dict[str, float] = shared.memory["nodes: missing since"]
        self._known: set[str] = set()
        """Nodes that were ever seen: a copy of a cluster may lack some that pods are on."""
        shared.listen(NODE, self._node_changed)
        shared.listen(POD, self._pod_changed)

    def _node_changed(self, old: KubeObject | None, new: KubeObject | None) -> None:
        if isinstance(old, Node) and isinstance(new, Node) and old.spec == new.spec:
            return
        some = new if new is not None else old
        if some is not None:
            self._known.add(some.name)
            self.queue.add(some.name)

    def _pod_changed(self, old: KubeObject | None, new: KubeObject | None) -> None:
        if isinstance(new, Pod) and new.spec.node_name:
            if isinstance(old, Pod) and old.spec == new.spec:
                return
            node = self._shared.get(NODE, new.spec.node_name)
            if not isinstance(node, Node) or _no_execute(node):
                self.queue.add(new.spec.node_name)
        elif new is None and isinstance(old, Pod):
            self._since_s.pop(old.uid, None)

    def sync(self, name: str) -> None:
        node = self._shared.get(NODE, name)
        if not self.calls.settled(name):
            return
        if not isinstance(node, Node):
            self._sweep(name)
            return
        self._missing_since_s.pop(name, None)
        self._keep_taint(node)
        taints = _no_execute(node)
        for pod in self._shared.pods_on(name):
            if pod.metadata.deletion_timestamp is None:
                self._judge(node, pod, taints)

    def _sweep(self, name: str) -> None:
        """Delete the pods of a node that is not there, unless it comes back soon."""
        pods = self._shared.pods_on(name)
        if not pods or (self._shared.is_copy and name not in self._known):
            self._missing_since_s.pop(name, None)
            return
        now_s = self._shared.clock.now()
        left_s = self._missing_since_s.setdefault(name, now_s) + QUARANTINE_S - now_s
        if left_s > 0:
            self.queue.add_after(name, left_s)
            return
        for pod in pods:
            self._delete(name, pod, grace_s=0)

    def _keep_taint(self, node: Node) -> None:
        taints = node.spec.taints or []
        has = any(taint.key == UNSCHEDULABLE for taint in taints)
        if has == node.spec.unschedulable:
            return
        wanted = [taint for taint in taints if taint.key != UNSCHEDULABLE]
        if node.spec.unschedulable:
            wanted.append(Taint(key=UNSCHEDULABLE, effect=NO_SCHEDULE))
        listed = [{key: text for key, text in _fields(taint).items() if text} for taint in wanted]
        # The list is written whole, so it must be about the node as we know it.
        version = {"resourceVersion": node.metadata.resource_version}
        body = {"metadata": version, "spec": {"taints": listed or None}}
        self.calls.send(node.name, Patch(NODE, "", node.name, body, "merge"))

    def _judge(self, node: Node, pod: Pod, taints: list[Taint]) -> None:
        """Delete a pod that does not tolerate a taint, now or when its time is up."""
        now_s = self._shared.clock.now()
        if not taints:
            self._since_s.pop(pod.uid, None)
            return
        known = self._since_s.get(pod.uid, {})
        since_s_by_taint = {taint: known[taint] for taint in taints if taint in known}
        self._since_s[pod.uid] = since_s_by_taint
        for taint in taints:
            matching = [one for one in pod.spec.tolerations or () if tolerates(one, taint)]
            if not matching:
                self._evict(node, pod)
                return
            limits = [one.toleration_seconds for one in matching]
            if any(limit is None for limit in limits):
                continue
            since_s = since_s_by_taint.setdefault(taint, now_s)
            left_s = since_s + min(limit for limit in limits if limit is not None) - now_s
            if left_s <= 0:
                self._evict(node, pod)
                return
            self.queue.add_after(node.name, left_s)

    def _evict(self, node: Node, pod: Pod) -> None:
        self._delete(node.name, pod, grace_s=None)
        note = f"Marking for deletion Pod {pod.key}"
        self._reporter.report(pod, "TaintManagerEviction", note)

    def _delete(self, node: str, pod: Pod, grace_s: int | None) -> None:
        request = Delete(POD, pod.namespace, pod.name, uid=pod.uid, grace_period_seconds=grace_s)
        self.calls.send(node, request)


def _no_execute(node: Node) -> list[Taint]:
    return [taint for taint in node.spec.taints or () if taint.effect == NO_EXECUTE]


def _fields(taint: Taint) -> dict[str, str | None]:
    return {
        "key": taint.key,
        "value": taint.value,
        "effect": taint.effect,
        "timeAdded": taint.time_added,
    }
