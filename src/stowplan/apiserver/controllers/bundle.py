"""All controllers, over one view of the cluster: what `kube-controller-manager` is to a cluster.

`stowplan up` starts them, and tests run them under the virtual clock.
"""

from __future__ import annotations

from copy import copy, deepcopy
from random import Random

from stowplan.apiserver.controllers.daemon_set import DaemonSetController
from stowplan.apiserver.controllers.deployment import DeploymentController
from stowplan.apiserver.controllers.device_driver import DeviceDriver
from stowplan.apiserver.controllers.disruption import DisruptionController
from stowplan.apiserver.controllers.job import JobController
from stowplan.apiserver.controllers.nodes import NodeController
from stowplan.apiserver.controllers.pod_groups import PodGroupController
from stowplan.apiserver.controllers.replica_set import ReplicaSetController
from stowplan.apiserver.controllers.reporting import Reporter
from stowplan.apiserver.controllers.resource_claims import ResourceClaimController
from stowplan.apiserver.controllers.shared import Memory, Shared
from stowplan.apiserver.controllers.stateful_set import StatefulSetController
from stowplan.apiserver.controllers.volumes import VolumeController
from stowplan.clock import Clock
from stowplan.cluster.port import Cluster
from stowplan.cluster.reflector import CallLater
from stowplan.objects.kinds import (
    DAEMON_SET,
    DEPLOYMENT,
    DEVICE_CLASS,
    JOB,
    NODE,
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    POD_DISRUPTION_BUDGET,
    POD_GROUP,
    REPLICA_SET,
    RESOURCE_CLAIM,
    RESOURCE_CLAIM_TEMPLATE,
    RESOURCE_SLICE,
    STATEFUL_SET,
    STORAGE_CLASS,
)
from stowplan.objects.pod_groups import GENERIC_WORKLOAD, WORKLOAD_CLAIMS

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
    DEVICE_CLASS,
    RESOURCE_SLICE,
    RESOURCE_CLAIM_TEMPLATE,
    POD,
    RESOURCE_CLAIM,
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
        is_copy: bool = False,
        gates: frozenset[str] = frozenset(),
    ) -> None:
        """`memory`: what those of another cluster remember, if this one goes on from it; `gates`:
        the feature gates that are on.
        """
        with_groups = GENERIC_WORKLOAD in gates
        self._shared = Shared(
            cluster,
            (*KINDS, POD_GROUP) if with_groups else KINDS,
            clock=clock,
            call_later=call_later,
            random=random,
            memory=memory,
            is_copy=is_copy,
        )
        self._workloads = workloads = (
            DeploymentController(self._shared),
            ReplicaSetController(self._shared),
            StatefulSetController(self._shared),
            DaemonSetController(self._shared),
            JobController(self._shared),
            NodeController(self._shared),
            VolumeController(self._shared),
            ResourceClaimController(self._shared, with_groups=WORKLOAD_CLAIMS in gates),
            DeviceDriver(self._shared),
            *((PodGroupController(self._shared),) if with_groups else ()),
        )
        self._calls = [one.calls for one in workloads]
        self._disruption = DisruptionController(self._shared)
        self._queues = [*(one.queue for one in workloads), self._disruption.queue]

    def start(self) -> None:
        self._shared.start()

    def resume(self, other: Controllers, resource_version: str) -> dict[int, object]:
        """Go on where others are, whose memory we have: on a fork of their cluster, made at this
        version.

        Returns who takes whose place in timers, by `id`.
        """
        self._shared.resume(other._shared, resource_version)
        ours = (*self._workloads, self._disruption)
        memory = other._shared.memory
        for one, twin in zip((*other._workloads, other._disruption), ours, strict=True):
            _go_on(twin, one, memory)
        queues = zip(other._queues, self._queues, strict=True)
        return {id(other._shared): self._shared, **{id(one): twin for one, twin in queues}}

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

    @property
    def has_plans(self) -> bool:
        """Something will be looked at later."""
        return any(queue.has_plans for queue in self._queues)


def _go_on(controller: object, other: object, memory: Memory) -> None:
    """What a controller knows beyond its memory is in plain dicts and sets, or in parts that can
    `resume`."""
    for name, part in vars(other).items():
        if isinstance(part, dict):
            if not any(part is section for section in memory.values()):
                setattr(controller, name, {key: copy(value) for key, value in part.items()})
        elif isinstance(part, set):
            setattr(controller, name, part.copy())
        elif not isinstance(part, Shared | Reporter):
            getattr(controller, name).resume(part)
