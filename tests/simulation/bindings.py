"""What bindings do to the cluster, judged from the server's side: no node gets too much.

A process decides by what its informers have shown it, which is never quite what there is.  So
whatever changes a node behind its back is noted here as an excuse, with the version at which it
happened: it counts for decisions that were made before that version was seen, and no others.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from stowplan.cluster.port import Answer
from stowplan.errors import ApiError
from stowplan.objects.api import Bind, Request
from stowplan.objects.kinds import NODE, POD, Kind
from stowplan.objects.node import Node
from stowplan.objects.pod import Pod
from stowplan.state.pod_info import PodInfo
from tests.simulation.invariants import Broken, overcommitted

if TYPE_CHECKING:
    from tests.simulation.process import Process
    from tests.simulation.world import World


class Bindings:
    def __init__(self, world: World) -> None:
        self._world = world
        self.count = 0
        self.doubled_ports: set[str] = set()
        """Nodes on which somebody else put two pods with one port.  Once one of them goes, the
        port is taken for free, as upstream does: it keeps a set."""
        self._excuses: defaultdict[tuple[str, str], dict[str, int]] = defaultdict(dict)
        """(node, kind of object) -> who changed something there -> the version."""
        self._resized: set[str] = set()
        """Uids of pods that became larger before they were bound."""
        self._bound_by: dict[str, str] = {}
        """Whose binding arrived: uid -> process."""

    def carried_out(self, process: Process, request: Request, answer: Answer) -> None:
        if not isinstance(request, Bind) or isinstance(answer, ApiError):
            return
        self.count += 1
        self._bound_by[request.uid] = process.name
        if not process.leads or not process.has_assumed(request):
            # It was given up long ago: whoever decides now cannot know of it.
            self.excuse(request.node, by="nobody")
            return
        self._check_landing(process, request)
        # What an assumed pod asks for is not looked at again before it is seen on its node.
        grown = request.uid in self._resized
        self.excuse(request.node, by="users" if grown else process.name)

    def gave_up(self, process: Process, key: str) -> None:
        """An attempt has failed, perhaps without knowing that its binding has arrived."""
        namespace, _, name = key.rpartition("/")
        pod = self._world.find(POD, namespace, name)
        if not isinstance(pod, Pod) or not pod.spec.node_name:
            return
        weather = self._world.weather
        puzzling = weather.refused or weather.conflicts or weather.late
        if self._bound_by.get(pod.uid) == process.name and not puzzling:
            process.problems.append(f"{key} is given up, and bound all the same")
        self.excuse(pod.spec.node_name, by="nobody")

    def resized(self, pod: Pod) -> None:
        """Somebody changed what a pod asks for."""
        self.excuse(pod.spec.node_name)
        if not pod.spec.node_name:
            self._resized.add(pod.uid)

    def excuse(self, node: str, kind: Kind = POD, by: str = "users") -> None:
        """Somebody changed what is on a node: who has not seen it yet may put too much there.

        No node: a pod that waits became larger.
        """
        self._excuses[node, kind.name][by] = int(self._world.store.resource_version)
        ports = Counter(
            port
            for pod in self._world.pods()
            if pod.spec.node_name == node
            for port in PodInfo(pod).kind.host_ports
        )
        if ports and max(ports.values()) > 1:
            self.doubled_ports.add(node)

    def _check_landing(self, process: Process, bind: Bind) -> None:
        """No node is overcommitted by a binding whose decider could have known."""
        node = self._world.find(NODE, "", bind.node)
        if not isinstance(node, Node):
            return
        pods = [pod for pod in self._world.pods() if pod.spec.node_name == bind.node]
        newcomer = next(pod for pod in pods if pod.uid == bind.uid)
        too_much = overcommitted(node, pods, newcomer)
        if too_much.startswith("port") and bind.node in self.doubled_ports:
            return
        if too_much and not self._is_excused(process, bind):
            raise Broken(f"{process.name} puts {bind.name} on {bind.node}: {too_much}")

    def _is_excused(self, process: Process, bind: Bind) -> bool:
        return any(
            version > process.seen_versions[bind.uid][kind]
            for kind in (POD.name, NODE.name)
            for node in (bind.node, "")
            for by, version in self._excuses[node, kind].items()
            if by != process.name
        )
