"""All controllers, over one view of the cluster: what `kube-controller-manager` is to a cluster.

`stowplan up` starts them, and tests run them under the virtual clock.
"""

from __future__ import annotations

from copy import deepcopy
from random import Random

from stowplan.apiserver.controllers.daemon_set import DaemonSetController
from stowplan.apiserver.controllers.deployment import DeploymentController
from stowplan.apiserver.controllers.disruption import DisruptionController
from stowplan.apiserver.controllers.job import JobController
from stowplan.apiserver.controllers.nodes import NodeController
from stowplan.apiserver.controllers.replica_set import ReplicaSetController
from stowplan.apiserver.controllers.shared import Memory, Shared
from stowplan.apiserver.controllers.stateful_set import StatefulSetController
from stowplan.apiserver.controllers.volumes import VolumeController
from stowplan.clock import Clock
from stowplan.cluster.port import Cluster
from stowplan.cluster.reflector import CallLater
from stowplan.objects.kinds import (
    DAEMON_SET,
    DEPLOYMENT,
    JOB,
    NODE,
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    POD_DISRUPTION_BUDGET,
    REPLICA_SET,
    STATEFUL_SET,
    STORAGE_CLASS,
)

# Owners before what they own, so that a pod finds its owner known.
KINDS = (
    NODE,
    DEPLOYMENT,
    REPLICA_SET,
    STATEFUL_SET,
    DAEMON_SET,
    JOB,
    POD_DISRUPTION_BUDGET,
    STORAGE_CLASS,
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    POD,
)


class Controllers:
    def __init__(
        self,
        cluster: Cluster,
        *,
        clock: Clock,
        call_later: CallLater,
        random: Random,
        memory: Memory | None = None,
    ) -> None:
        self._shared = Shared(
            cluster, KINDS, clock=clock, call_later=call_later, random=random, memory=memory
        )
        workloads = (
            DeploymentController(self._shared),
            ReplicaSetController(self._shared),
            StatefulSetController(self._shared),
            DaemonSetController(self._shared),
            JobController(self._shared),
            NodeController(self._shared),
            VolumeController(self._shared),
        )
        self._calls = [one.calls for one in workloads]
        disruption = DisruptionController(self._shared)
        self._queues = [*(one.queue for one in workloads), disruption.queue]

    def start(self) -> None:
        self._shared.start()

    def stop(self) -> None:
        self._shared.stop()
        for queue in self._queues:
            queue.stop()

    def remembered(self) -> Memory:
        """What they know that no object says: for those of a fork of the cluster."""
        return deepcopy(self._shared.memory)

    @property
    def synced(self) -> bool:
        return self._shared.synced()

    @property
    def busy(self) -> bool:
        """Something waits to be looked at, or for an answer."""
        return any(queue.busy for queue in self._queues) or any(it.busy for it in self._calls)
