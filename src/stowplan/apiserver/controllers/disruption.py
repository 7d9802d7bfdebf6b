"""PodDisruptionBudget: how many of its pods may go right now.

Preemption, evictions and `kubectl drain` read what is written here.  Mirrors
`pkg/controller/disruption`.
"""

from __future__ import annotations

from stowplan.apiserver.controllers.readiness import ready_since, scaled_value
from stowplan.apiserver.controllers.shared import Shared
from stowplan.apiserver.controllers.statuses import Statuses
from stowplan.objects.base import KubeObject
from stowplan.objects.kinds import (
    DEPLOYMENT,
    KIND_BY_NAME,
    POD,
    POD_DISRUPTION_BUDGET,
    REPLICA_SET,
    STATEFUL_SET,
)
from stowplan.objects.labels import SelectorError, compile_selector
from stowplan.objects.pod import ENDED_PHASES, Pod
from stowplan.objects.times import format_time
from stowplan.objects.workloads import PodDisruptionBudget

_SCALED = frozenset({REPLICA_SET, STATEFUL_SET, DEPLOYMENT})


class DisruptionController:
    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self.queue = shared.queue("disruption", self.sync)
        self._statuses = Statuses(shared.cluster, POD_DISRUPTION_BUDGET)
        self._since: dict[str, tuple[str, str]] = shared.memory["budgets: since"]
        self._namespaces: dict[str, set[str]] = {}
        """The budgets of a namespace that has any."""
        shared.listen(POD_DISRUPTION_BUDGET, self._changed)
        shared.listen(POD, self._pod_changed)
        for kind in sorted(_SCALED, key=str):
            shared.listen(kind, self._pod_changed)

    def _changed(self, old: KubeObject | None, new: KubeObject | None) -> None:
        if new is not None:
            self._namespaces.setdefault(new.namespace, set()).add(new.key)
            self.queue.add(new.key)
        elif old is not None:
            self._namespaces.get(old.namespace, set()).discard(old.key)
            self._statuses.forget(old.uid)
            self._since.pop(old.uid, None)

    def _pod_changed(self, old: KubeObject | None, new: KubeObject | None) -> None:
        some = new if new is not None else old
        if self._shared.is_copy and isinstance(some, Pod) and not some.spec.node_name:
            return  # What the copied status says still holds.
        if some is not None:
            for key in sorted(self._namespaces.get(some.namespace, ())):
                self.queue.add(key)

    def sync(self, key: str) -> None:
        budget = self._shared.get(POD_DISRUPTION_BUDGET, key)
        if not isinstance(budget, PodDisruptionBudget):
            return
        pods = self._pods(budget)
        expected, desired = self._numbers(budget, pods)
        healthy = sum(1 for pod in pods if self._is_healthy(pod))
        allowed = max(0, healthy - desired) if expected > 0 else 0
        word = "SufficientPods" if allowed else "InsufficientPods"
        status = "True" if allowed else "False"
        since = self._since.get(budget.uid, ("", ""))
        if since[0] != status:
            since = self._since[budget.uid] = (status, format_time(self._shared.clock.now()))
        condition = {
            "type": "DisruptionAllowed",
            "status": status,
            "reason": word,
            "message": "",
            "lastTransitionTime": since[1],
            "observedGeneration": budget.metadata.generation,
        }
        if budget.status.disruptions_allowed != allowed:
            # An eviction has taken one off since we wrote last.
            self._statuses.forget(budget.uid)
        self._statuses.write(
            budget,
            {
                "observedGeneration": budget.metadata.generation,
                "disruptionsAllowed": allowed,
                "currentHealthy": healthy,
                "desiredHealthy": desired,
                "expectedPods": expected,
                "conditions": [condition],
            },
        )

    def _is_healthy(self, pod: Pod) -> bool:
        if pod.metadata.deletion_timestamp is not None:
            return False
        # Who writes down a cluster by hand does not say that its pods are well.
        untold = self._shared.is_copy and pod.spec.node_name and not pod.status.conditions
        return bool(untold) or ready_since(pod) is not None

    def _pods(self, budget: PodDisruptionBudget) -> list[Pod]:
        if budget.spec.selector is None:
            return []
        try:
            matches = compile_selector(budget.spec.selector).matches
        except SelectorError:
            return []
        return [
            pod
            for pod in self._shared.in_namespace(POD, budget.namespace)
            if isinstance(pod, Pod)
            and pod.status.phase not in ENDED_PHASES
            and matches(pod.metadata.labels or {})
        ]

    def _numbers(self, budget: PodDisruptionBudget, pods: list[Pod]) -> tuple[int, int]:
        """Pods that should be there, and how many of them must stay healthy."""
        spec = budget.spec
        if spec.max_unavailable is not None:
            expected = self._expected(pods)
            away = scaled_value(spec.max_unavailable, expected, round_up=True, default=0)
            return expected, max(0, expected - away)
        if isinstance(spec.min_available, str):
            expected = self._expected(pods)
            return expected, scaled_value(spec.min_available, expected, round_up=True, default=0)
        return len(pods), spec.min_available or 0

    def _expected(self, pods: list[Pod]) -> int:
        """What the controllers of the pods want, each counted once."""
        wanted: dict[str, int] = {}
        for pod in pods:
            owner = self._top_owner(pod)
            if owner is None:
                wanted[pod.uid] = 1
            else:
                replicas = getattr(owner, "spec", None) and owner.spec.replicas  # type: ignore[attr-defined]
                wanted[owner.uid] = 1 if replicas is None else replicas
        return sum(wanted.values())

    def _top_owner(self, thing: KubeObject) -> KubeObject | None:
        found = None
        for _ in range(2):
            owner = thing.metadata.controller()
            kind = None if owner is None else KIND_BY_NAME.get((owner.api_version, owner.kind))
            if owner is None or kind not in _SCALED:
                break
            above = self._shared.get(kind, f"{thing.namespace}/{owner.name}")
            if above is None:
                break
            found = thing = above
        return found
