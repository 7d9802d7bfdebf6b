"""One simulated cluster: built from a seed, run through a storm, and looked at in the calm after.

Everything that happens is a planned action of one virtual clock, and every choice comes from
generators that are seeded with the seed and a name: the same seed gives the same run.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any

from stowplan.apiserver.controllers.bundle import Controllers
from stowplan.apiserver.kubelet import Kubelet
from stowplan.apiserver.store import Store
from stowplan.clock import VirtualClock
from stowplan.cluster.port import Answer, ListOptions
from stowplan.core.messages import RecordEvent
from stowplan.errors import ApiError, NotFound
from stowplan.objects.api import Bind, Create, Patch, Request
from stowplan.objects.base import KubeObject
from stowplan.objects.kinds import NODE, POD, PRIORITY_CLASS, STORAGE_CLASS, Kind
from stowplan.objects.node import Node
from stowplan.objects.pod import Pod
from stowplan.state.pod_info import PodInfo
from tests.simulation import ending, storage, things
from tests.simulation.clocks import DriftingClock
from tests.simulation.invariants import Broken, overcommitted
from tests.simulation.network import Line
from tests.simulation.process import Process
from tests.simulation.profile import scheduler_config
from tests.simulation.trace import Trace
from tests.simulation.users import Users
from tests.simulation.weather import Weather, weather_of

START_S = 1_700_000_000.0
CALM_S_MIN = 60.0
CALM_S_MAX = 600.0
KICK_PERIOD_S = 10.0
BOOKMARK_PERIOD_S = 7.0
NEVER_S = 1e9
ACTIONS_MAX = 40_000
"""Of a whole storm; a run takes some thousands, and a loop without end any number."""


@dataclass(frozen=True, slots=True)
class Report:
    seed: int
    weather: Weather
    digest: str
    line_count: int
    attempt_count: int
    bind_count: int
    process_count: int
    simulated_s: float


class World:
    def __init__(self, seed: int, *, echo: Callable[[str], None] | None = None) -> None:
        self.seed = seed
        self.random = Random(f"{seed}/world")
        self.weather = weather_of(seed)
        self.clock = VirtualClock(START_S)
        self.trace = Trace(self.clock.now, echo)
        self.store = Store(self.clock, seed=seed, create_namespaces=True)
        self.calm = False
        self.nodes_max, self.pods_max = 8, self.random.choice((12, 20, 30))
        # Mostly nothing but an event may wake a pod, so that a wake-up which is missed shows.
        self.unschedulable_max_s = 60.0 if self.random.random() < 0.2 else NEVER_S
        self.config = scheduler_config(self.weather)
        self.processes: list[Process] = []
        self._clocks = [self._host_clock() for _ in range(self.weather.replicas)]
        self._process_count = 0
        self._lines: list[Line] = []
        self._excuses: defaultdict[tuple[str, str], dict[str, int]] = defaultdict(dict)
        self.resized_on_the_way: set[str] = set()
        """Uids of pods that became larger before they were bound."""
        self.doubled_ports: set[str] = set()
        """Nodes on which somebody else put two pods with one port.  Once one of them goes, the
        port is taken for free, as upstream does: it keeps a set."""
        self.bound_by: dict[str, str] = {}
        """Whose binding arrived: uid -> process."""
        self.bind_count = 0
        self.attempt_count = 0
        self.announced: dict[str, str] = {}
        """Pods whose binding was announced with an event: uid -> `namespace/name`."""
        self.users = Users(self)

    def _host_clock(self) -> DriftingClock:
        drift = self.weather.drift
        rate = 1.0 + self.random.uniform(-drift, drift)
        return DriftingClock(self.clock, rate, self.random.uniform(-drift, drift) * 10, START_S)

    # -- the run ----------------------------------------------------------------------------

    def run(self) -> Report:
        self.trace("world", f"seed {self.seed}: {self.weather.names}")
        self._set_up()
        storm_s = self.random.choice((15.0, 30.0, 60.0))
        self.clock.run(until_s=START_S + storm_s, actions_max=ACTIONS_MAX)
        self._calm_down()
        self._come_to_rest()
        ending.check(self)
        self.trace("world", "the end")
        return Report(
            self.seed,
            self.weather,
            self.trace.digest,
            self.trace.line_count,
            self.attempt_count + sum(p.notes.attempt_count for p in self.processes),
            self.bind_count,
            self._process_count,
            self.clock.now_s - START_S,
        )

    def _set_up(self) -> None:
        clock, store, random = self.clock, self.store, self.random
        for body in things.priority_classes():
            store.execute(Create(PRIORITY_CLASS, "", body))
        for body in things.storage_classes():
            store.execute(Create(STORAGE_CLASS, "", body))
        Kubelet(store, clock=clock, call_later=clock.at, random=Random(self.seed)).start()
        Controllers(store, clock=clock, call_later=clock.at, random=Random(self.seed)).start()
        self.users.settle()
        for number in range(self.weather.replicas):
            clock.at(random.uniform(0.0, 1.0), partial(self._start_process, number))
        self._plan_storm()

    def _plan_storm(self) -> None:
        weather = self.weather
        self._repeat(self.random.choice((0.4, 0.8, 1.5)), self.users.act)
        self._repeat(weather.drop_period_s, self._break_a_watch)
        self._repeat(weather.compact_period_s, self._compact)
        self._repeat(weather.crash_period_s, self._crash)
        self._repeat(weather.stop_period_s, self._stop)
        self._repeat(weather.reconfigure_period_s, self._reconfigure)
        self._forever(BOOKMARK_PERIOD_S, self.store.send_bookmarks)
        if weather.volumes:
            self._forever(storage.PERIOD_S, storage.VolumeController(self).work)

    def _repeat(self, mean_s: float, action: Callable[[], None]) -> None:
        """Again and again at random intervals, until it is calm."""
        if not mean_s:
            return

        def run() -> None:
            if not self.calm:
                action()
                self.clock.at(self.random.expovariate(1.0 / mean_s), run)

        self.clock.at(self.random.expovariate(1.0 / mean_s), run)

    def _forever(self, period_s: float, action: Callable[[], None]) -> None:
        def run() -> None:
            action()
            self.clock.at(period_s, run)

        self.clock.at(period_s, run)

    def _calm_down(self) -> None:
        self.trace("world", "calm")
        self.calm = True
        for line in self._lines:
            line.calm = True
        if not self.nodes():
            # Without any node pods are tried for ever, as upstream does.
            self.users.create_node()
        self._forever(KICK_PERIOD_S, self._kick)

    def _kick(self) -> None:
        """Pods that only the simulated plugins turned away get another chance."""
        nodes = self.nodes()
        if nodes and self.clock.now_s < self._rest_by_s:
            body = {"metadata": {"annotations": {"kick": str(self.clock.now_s)}}}
            self.store.execute(Patch(NODE, "", nodes[0].name, body, "merge"))

    def _come_to_rest(self) -> None:
        calm_s = self.clock.now_s
        self._rest_by_s = calm_s + CALM_S_MIN
        self.clock.run(until_s=calm_s + CALM_S_MIN + KICK_PERIOD_S, actions_max=ACTIONS_MAX)
        while (busy := ending.unrest(self)) and self.clock.now_s < calm_s + CALM_S_MAX:
            self.clock.run(until_s=self.clock.now_s + 20.0, actions_max=ACTIONS_MAX)
        if busy:
            raise Broken(f"never comes to rest: {busy}")

    _rest_by_s = NEVER_S

    # -- processes --------------------------------------------------------------------------

    def _start_process(self, number: int) -> None:
        self._process_count += 1
        name = f"replica-{number}.{self._process_count}"
        process = Process(self, name, self._clocks[number], self.config)
        process.number = number
        self.processes.append(process)
        self.trace(name, "starts")
        process.start()

    def process_ended(self, process: Process) -> None:
        self.processes.remove(process)
        self._lines = [line for line in self._lines if line.open]
        self.attempt_count += process.notes.attempt_count
        self.clock.at(self.random.uniform(0.1, 6.0), partial(self._start_process, process.number))

    def line(self, who: str) -> Line:
        random = Random(f"{self.seed}/{who}/line")
        line = Line(self.store, self.clock, self.weather, random, self.trace)
        line.who, line.calm = who, self.calm
        self._lines.append(line)
        return line

    def _crash(self) -> None:
        if self.processes:
            self.random.choice(self.processes).end("crash")

    def _stop(self) -> None:
        if self.processes:
            process = self.random.choice(self.processes)
            self.trace(process.name, "is asked to stop")
            process.stop()

    def _reconfigure(self) -> None:
        if self.processes:
            self.config = scheduler_config(self.weather, spread_weight=self.random.randrange(1, 5))
            process = self.random.choice(self.processes)
            self.trace(process.name, "loads its configuration anew")
            process.driver.reconfigure(self.config)

    def _break_a_watch(self) -> None:
        if self._lines:
            self.random.choice(self._lines).break_a_watch()

    def _compact(self) -> None:
        self.trace("world", "the history is forgotten")
        self.store.compact()

    # -- what the server sees ---------------------------------------------------------------

    def carried_out(self, process: Process, request: Request, answer: Answer) -> None:
        if not isinstance(request, Bind) or isinstance(answer, ApiError):
            return
        self.bind_count += 1
        self.bound_by[request.uid] = process.name
        if not process.leads or not process.has_assumed(request):
            # It was given up long ago: whoever decides now cannot know of it.
            self.excuse(request.node, by="nobody")
            return
        self._check_landing(process, request)
        # What an assumed pod asks for is not looked at again before it is seen on its node.
        grown = request.uid in self.resized_on_the_way
        self.excuse(request.node, by="users" if grown else process.name)

    def gave_up(self, process: Process, key: str) -> None:
        """An attempt has failed, perhaps without knowing that its binding has arrived."""
        namespace, _, name = key.rpartition("/")
        pod = self.find(POD, namespace, name)
        if not isinstance(pod, Pod) or not pod.spec.node_name:
            return
        weather = self.weather
        puzzling = weather.refused or weather.conflicts or weather.late
        if self.bound_by.get(pod.uid) == process.name and not puzzling:
            process.problems.append(f"{key} is given up, and bound all the same")
        self.excuse(pod.spec.node_name, by="nobody")

    def excuse(self, node: str, kind: Kind = POD, by: str = "users") -> None:
        """Somebody changed what is on a node: who has not seen it yet may put too much there.

        No node: a pod that waits became larger.
        """
        self._excuses[node, kind.name][by] = int(self.store.resource_version)
        ports = Counter(
            port
            for pod in self.pods()
            if pod.spec.node_name == node
            for port in PodInfo(pod).kind.host_ports
        )
        if ports and max(ports.values()) > 1:
            self.doubled_ports.add(node)

    def _check_landing(self, process: Process, bind: Bind) -> None:
        """No node is overcommitted by a binding whose decider could have known."""
        node = self.find(NODE, "", bind.node)
        if not isinstance(node, Node):
            return
        pods = [pod for pod in self.pods() if pod.spec.node_name == bind.node]
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

    def recorded(self, process: Process, event: RecordEvent) -> None:
        self.trace(process.name, f"{event.reason} {event.regarding.key}: {event.note}")
        if event.reason == "Scheduled":
            self.announced[event.regarding.metadata.uid] = event.regarding.key

    # -- the cluster ------------------------------------------------------------------------

    def every(self, kind: Kind) -> list[KubeObject]:
        return [thing for thing, _ in self.store.select(kind, ListOptions())[0]]

    def pods(self) -> list[Pod]:
        """Those that are not finished."""
        pods: list[Any] = self.every(POD)
        return [pod for pod in pods if pod.status.phase not in ("Succeeded", "Failed")]

    def nodes(self) -> list[Node]:
        nodes: list[Any] = self.every(NODE)
        return nodes

    def find(self, kind: Kind, namespace: str, name: str) -> KubeObject | None:
        try:
            return self.store.read(kind, namespace, name)[0]
        except NotFound:
            return None
