"""One simulated cluster: built from a seed, run through a storm, and looked at in the calm after.

Everything that happens is a planned action of one virtual clock, and every choice comes from
generators that are seeded with the seed and a name: the same seed gives the same run.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

from stowplan.apiserver.controllers.bundle import Controllers
from stowplan.apiserver.kubelet import Kubelet
from stowplan.apiserver.store import Store
from stowplan.clock import VirtualClock
from stowplan.cluster.port import ListOptions
from stowplan.core.messages import RecordEvent
from stowplan.errors import NotFound
from stowplan.objects.api import Create, Patch
from stowplan.objects.base import KubeObject
from stowplan.objects.kinds import NODE, POD, PRIORITY_CLASS, STORAGE_CLASS, Kind
from stowplan.objects.node import Node
from stowplan.objects.pod import Pod
from tests.simulation import ending, storage, things
from tests.simulation.allocations import Allocations
from tests.simulation.bindings import Bindings
from tests.simulation.clocks import DriftingClock
from tests.simulation.devices import PERIOD_S as DEVICES_PERIOD_S
from tests.simulation.devices import Devices
from tests.simulation.groups import GroupUsers
from tests.simulation.invariants import Broken
from tests.simulation.network import Line
from tests.simulation.process import Process
from tests.simulation.profile import scheduler_config
from tests.simulation.trace import Trace
from tests.simulation.users import Users
from tests.simulation.weather import weather_of

START_S = 1_700_000_000.0
CALM_S_MIN = 60.0
CALM_S_MAX = 600.0
KICK_PERIOD_S = 10.0
BOOKMARK_PERIOD_S = 7.0
NEVER_S = 1e9
ACTIONS_MAX = 40_000
"""Of a whole storm; a run takes some thousands, and a loop without end any number."""


class World:
    def __init__(self, seed: int, *, echo: Callable[[str], None] | None = None) -> None:
        self.seed = seed
        self.random = Random(f"{seed}/world")
        self.weather = weather_of(seed)
        self.clock = VirtualClock(START_S)
        self.trace = Trace(self.clock.now, echo)
        self.store = Store(self.clock, seed=seed, create_namespaces=True, gates=self.weather.gates)
        self.calm = False
        self.nodes_max, self.pods_max = 8, self.random.choice((12, 20, 30))
        # Mostly nothing but an event may wake a pod, so that a wake-up which is missed shows.
        self.unschedulable_max_s = 60.0 if self.random.random() < 0.2 else NEVER_S
        self.config = scheduler_config(self.weather)
        self.processes: list[Process] = []
        self._clocks = [self._host_clock() for _ in range(self.weather.replicas)]
        self._process_count = 0
        self._lines: list[Line] = []
        self.cut_short = False
        """A process ended at once, asked twice or its lease lost: what it had to tell is gone."""
        self.announced: dict[str, str] = {}
        """Pods whose binding was announced with an event: uid -> `namespace/name`."""
        self.bindings = Bindings(self)
        self.users = Users(self)
        self.allocations = Allocations(self)
        self.devices = Devices(self)
        self.groups = GroupUsers(self)
        self._rest_by_s = NEVER_S

    def _host_clock(self) -> DriftingClock:
        drift = self.weather.drift
        rate = 1.0 + self.random.uniform(-drift, drift)
        return DriftingClock(self.clock, rate, self.random.uniform(-drift, drift) * 10, START_S)

    # -- the run ----------------------------------------------------------------------------

    def run(self) -> None:
        self.trace("world", f"seed {self.seed}: {self.weather.names}")
        self._set_up()
        storm_s = self.random.choice((15.0, 30.0, 60.0))
        self.clock.run(until_s=START_S + storm_s, actions_max=ACTIONS_MAX)
        self._calm_down()
        self._come_to_rest()
        ending.check(self)
        self.trace("world", "the end")

    @property
    def simulated_s(self) -> float:
        return self.clock.now_s - START_S

    def _set_up(self) -> None:
        clock, store, random = self.clock, self.store, self.random
        for body in things.priority_classes():
            store.execute(Create(PRIORITY_CLASS, "", body))
        for body in things.storage_classes():
            store.execute(Create(STORAGE_CLASS, "", body))
        Kubelet(store, clock=clock, call_later=clock.at, random=Random(self.seed)).start()
        Controllers(
            store,
            clock=clock,
            call_later=clock.at,
            random=Random(self.seed),
            gates=self.weather.gates,
        ).start()
        self.users.settle()
        if self.weather.devices:
            self.devices.settle()
        if self.weather.groups:
            self.groups.settle()
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
        if weather.devices:
            self._repeat(1.0, self.devices.act)
            self._forever(DEVICES_PERIOD_S, self.devices.work)
        if weather.groups:
            self._repeat(1.5, self.groups.act)
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
        self.devices.complete()
        self.groups.complete()
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

    # -- the cluster ------------------------------------------------------------------------

    def recorded(self, process: Process, event: RecordEvent) -> None:
        self.trace(process.name, f"{event.reason} {event.regarding.key}: {event.note}")
        if event.reason == "Scheduled":
            self.announced[event.regarding.metadata.uid] = event.regarding.key

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
