"""DefaultBinder: asks the API server to bind the pod to the node that was chosen.

It only says what to ask; the runtime sends the request and turns a failure into an error of this
attempt.  Mirrors kube-scheduler's `defaultbinder/default_binder.go`.
"""

from __future__ import annotations

from stowplan.framework.cycle import Cycle
from stowplan.objects.api import Bind
from stowplan.state.pod_info import PodInfo


class DefaultBinder:
    name = "DefaultBinder"

    def bind(self, cycle: Cycle, pod: PodInfo, node: str) -> Bind:
        metadata = pod.pod.metadata
        return Bind(metadata.namespace, metadata.name, metadata.uid, node)
