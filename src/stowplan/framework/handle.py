"""What a plugin may reach beyond the cycle it is in: the cluster's other objects, and the queue."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from stowplan.objects.pod import Pod
from stowplan.state.groups import Groups
from stowplan.state.node_info import NodeInfo
from stowplan.state.node_table import NodeTable
from stowplan.state.object_index import ObjectIndex
from stowplan.state.pod_info import KeptPer, PodInfo

if TYPE_CHECKING:
    from random import Random

    from stowplan.framework.runtime import Framework

Item = TypeVar("Item")


class Nominated(Protocol):
    """Pods that preemption promised a node to."""

    version: int
    node_of: dict[str, str]
    """Uid -> the node the pod is nominated to.  To be read only."""
    on_node: dict[str, dict[str, str]]
    """Node -> uid -> `namespace/name`.  To be read only."""

    def __len__(self) -> int: ...

    def pods_for_node(self, node: str, but: str = "") -> list[PodInfo]:
        """`but` is the uid of a pod to leave out."""

    def nodes(self) -> list[str]: ...

    def nodes_changed_since(self, version: int) -> list[str] | None:
        """Nodes of which something changed after `version`; None when that was too long ago."""


class NobodyNominated:
    version = 0

    def __init__(self) -> None:
        self.node_of: dict[str, str] = {}
        self.on_node: dict[str, dict[str, str]] = {}

    def __len__(self) -> int:
        return 0

    def pods_for_node(self, node: str, but: str = "") -> list[PodInfo]:
        return []

    def nodes(self) -> list[str]:
        return []

    def nodes_changed_since(self, version: int) -> list[str] | None:
        return []


class WaitingPod(Protocol):
    @property
    def pod(self) -> PodInfo: ...

    @property
    def node(self) -> str: ...

    @property
    def pending(self) -> Mapping[str, str]:
        """Plugins that have not allowed the pod yet -> why they want it to wait."""


class WaitingPods(Protocol):
    """Pods that wait at Permit; a plugin may look at them, let them go or turn them away."""

    def uids(self) -> list[str]: ...

    def get(self, uid: str) -> WaitingPod | None: ...

    def allow(self, uid: str, plugin: str) -> bool: ...

    def reject(self, uid: str, plugin: str, message: str) -> bool: ...


class NobodyWaiting:
    def uids(self) -> list[str]:
        return []

    def get(self, uid: str) -> WaitingPod | None:
        return None

    def allow(self, uid: str, plugin: str) -> bool:
        return False

    def reject(self, uid: str, plugin: str, message: str) -> bool:
        return False


def _no_time() -> float:
    return 0.0


def _tell_nobody(pod: Pod, type_: str, reason: str, action: str, note: str) -> None:
    return None


@dataclass(slots=True)
class Handle:
    nodes: NodeTable
    objects: ObjectIndex
    """Claims, volumes, services, namespaces and the rest, as last seen."""
    random: Random
    """Seeded; the only source of chance."""
    now: Callable[[], float] = _no_time
    nominated: Nominated = field(default_factory=NobodyNominated)
    waiting: WaitingPods = field(default_factory=NobodyWaiting)
    activate: Callable[[list[PodInfo]], None] = lambda pods: None
    """Move these pods to the active queue, whatever they wait for."""
    framework: Framework | None = None
    """The profile's own runtime, for plugins that run other plugins (preemption)."""
    kept: KeptPer = field(init=False, default_factory=KeptPer)
    """`kept[pod.kind.ref]`: a dict for what plugins remember about pods like this one, each under
    its own name.  Of one profile; it goes with the last such pod, and with the configuration."""
    _shared: dict[Any, Any] = field(init=False, default_factory=dict)
    start: Callable[[Generator[Any, Any, Any]], None] = lambda steps: None
    """Carry out steps that yield requests, beside whatever comes next."""
    record: Callable[[Pod, str, str, str, str], None] = _tell_nobody
    """Tell a pod's owner: (pod, type, reason, action, note)."""
    pod_by_key: Callable[[str], PodInfo | None] = lambda key: None
    """A pod as the cluster has it now, by `namespace/name`."""
    ties_by_name: bool = False
    """Whether the first by name is taken of what is equally good, and not any."""

    features: frozenset[str] = frozenset()
    """Feature gates that are on, of those that change what plugins do."""
    groups: Groups = field(default_factory=Groups)
    """Which pods belong together, and which of them have a node."""

    def shared(self, made_of_nodes: Callable[[NodeTable], Item]) -> Item:
        """What several plugins of the profile use: the first to ask has it made."""
        found: Item | None = self._shared.get(made_of_nodes)
        if found is None:
            found = self._shared[made_of_nodes] = made_of_nodes(self.nodes)
        return found

    def derived(self, made_of_objects: Callable[[ObjectIndex], Item]) -> Item:
        """What all profiles share, made of the cluster's objects: the first to ask has it made.

        A plugin that does not read the cluster may use what changes so rarely that everything kept
        is dropped when it does: which resources device classes stand for.
        """
        return self.objects.derived(made_of_objects)

    def node(self, name: str) -> NodeInfo | None:
        row = self.nodes.row_of.get(name)
        return None if row is None else self.nodes.infos[row]
