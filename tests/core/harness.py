"""A whole cluster under virtual time: store, scheduler, and whatever should go wrong in between."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from stowplan.apiserver.kubelet import Kubelet
from stowplan.apiserver.store import Store
from stowplan.clock import VirtualClock
from stowplan.cluster.port import (
    AllDone,
    Done,
    ListOptions,
    ListResult,
    Watch,
    WatchHandlers,
    call_one,
    separately,
)
from stowplan.config import SchedulerConfig, load_config
from stowplan.core.attempts import AttemptLog, AttemptObserver, Bound, Failed
from stowplan.core.extender import CallExtender, ExtenderAnswer
from stowplan.core.machine import Machine
from stowplan.core.messages import Effect
from stowplan.errors import ApiError, Conflict
from stowplan.objects.api import Bind, Delete, Patch, Request
from stowplan.objects.base import Condition, KubeObject
from stowplan.objects.coordination import Event
from stowplan.objects.kinds import EVENT, NODE, POD, Kind
from stowplan.objects.pod import Pod
from stowplan.plugins import IN_TREE
from stowplan.queue import QueuedPod
from stowplan.runtime.driver import Driver
from stowplan.runtime.event_recorder import EventRecorder
from tests.core.replay import Recording

START_S = 1_700_000_000.0
PROFILE = "default-scheduler"

Matches = Callable[[Request], bool]


def is_a(kind: type, name: str = "") -> Matches:
    """Requests of this sort, perhaps only those about one object."""
    return lambda request: isinstance(request, kind) and name in ("", getattr(request, "name", ""))


def status_patches(name: str = "") -> Matches:
    return lambda request: (
        isinstance(request, Patch)
        and request.subresource == "status"
        and name in ("", request.name)
    )


class Api:
    """The store as the scheduler reaches it: requests can be made to fail or to take time."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.requests: list[Request] = []
        self._faults: list[list[Any]] = []
        self._holds: list[Matches] = []
        self.held: deque[tuple[Request, Done]] = deque()

    def fail(self, matches: Matches, error: ApiError | None = None, times: int = 1_000_000) -> None:
        self._faults.append([matches, error or Conflict("injected"), times])

    def mend(self) -> None:
        self._faults.clear()

    def hold(self, matches: Matches) -> None:
        self._holds.append(matches)

    def release(self) -> None:
        """Let what was held back arrive, in order."""
        self._holds.clear()
        while self.held:
            call_one(self.store, *self.held.popleft())

    def call(self, requests: Sequence[Request], done: AllDone) -> None:
        for request, answered in separately(requests, done):
            self.call_one(request, answered)

    def call_one(self, request: Request, done: Done) -> None:
        if getattr(request, "kind", None) is not EVENT:
            self.requests.append(request)
        for fault in self._faults:
            if fault[2] > 0 and fault[0](request):
                fault[2] -= 1
                done(fault[1])
                return
        if any(matches(request) for matches in self._holds):
            self.held.append((request, done))
        else:
            call_one(self.store, request, done)

    def list(
        self, kind: Kind, options: ListOptions, done: Callable[[ListResult | ApiError], None]
    ) -> None:
        self.store.list(kind, options, done)

    def watch(
        self, kind: Kind, options: ListOptions, resource_version: str, handlers: WatchHandlers
    ) -> Watch:
        return self.store.watch(kind, options, resource_version, handlers)


class Notes(AttemptObserver):
    """An observer that writes everything down."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.ended: list[tuple[str, str]] = []
        self.plugin_errors: list[tuple[str, str, Exception]] = []
        self.problems: list[str] = []

    def begin(self, queued: QueuedPod, now_s: float) -> None:
        self.begun.append(queued.info.pod.metadata.name)

    def bound(self, attempts: Sequence[Bound], now_s: float) -> None:
        self.ended += [
            (attempt.queued.info.pod.metadata.name, attempt.decision.node) for attempt in attempts
        ]

    def failed(self, attempt: Failed, now_s: float) -> None:
        self.ended.append((attempt.queued.info.pod.metadata.name, attempt.status.message))

    def plugin_error(self, plugin: str, point: str, cause: Exception) -> None:
        self.plugin_errors.append((plugin, point, cause))

    def problem(self, text: str) -> None:
        self.problems.append(text)


class FakeExtender:
    """Answers for all extenders: by verb, after a while if told so."""

    def __init__(self, clock: VirtualClock, **verbs: Any) -> None:
        self._clock = clock
        self.verbs = verbs
        self.calls: list[CallExtender] = []
        self.delay_s = 0.0

    def call(self, call: CallExtender, done: Callable[[ExtenderAnswer], None]) -> None:
        self.calls.append(call)
        answer = self.verbs[call.verb](call.body)
        if not isinstance(answer, ExtenderAnswer):
            answer = ExtenderAnswer(answer)
        self._clock.at(self.delay_s, lambda: done(answer))


def make_plugin(plugin_name: str, **members: Any) -> type:
    """A plugin class from its methods; `self.handle` is there."""

    def init(self: Any, args: Any, handle: Any) -> None:
        self.args, self.handle = args, handle

    return type(plugin_name, (), {"name": plugin_name, "__init__": init, **members})


class Cluster:
    def __init__(
        self,
        *objects: KubeObject,
        plugins: tuple[type, ...] = (),
        kubelet: bool = False,
        extender: Callable[[VirtualClock], FakeExtender] | None = None,
        seed: int = 0,
        log: AttemptLog | None = None,
        recorder: Any = None,
        profile: dict[str, Any] | None = None,
        **config: Any,
    ) -> None:
        self.clock = VirtualClock(START_S)
        self.store = Store(self.clock, create_namespaces=True)
        self.api = Api(self.store)
        self.plugins = plugins
        self.notes = Notes()
        self.log = log or AttemptLog(self.notes)
        self.extender = extender(self.clock) if extender is not None else None
        for thing in objects:
            self.store.put(thing)
        self.config = self.load(profile=profile, **config)
        self.machine = Machine(
            self.config,
            random=Random(seed),
            registry={**IN_TREE, **{plugin.name: plugin for plugin in plugins}},  # type: ignore[attr-defined]
            log=self.log,
            recorder=recorder,
        )
        self.recording = Recording(self.machine)
        self.driver = Driver(
            self.machine,
            self.api,
            clock=self.clock,
            call_later=self.clock.at,
            recorder=EventRecorder(
                self.store, self.clock, call_later=self.clock.at, random=Random(seed)
            ),
            random=Random(seed),
            extender_client=self.extender,
        )
        self.effects: list[Effect] = []
        self.driver.on_effect = self.effects.append
        self.kubelet = Kubelet(
            self.store, clock=self.clock, call_later=self.clock.at, random=Random(seed)
        )
        if kubelet:
            self.kubelet.start()
        self.driver.start()
        self.settle()

    def load(self, profile: dict[str, Any] | None = None, **fields: Any) -> SchedulerConfig:
        enabled = [{"name": plugin.name} for plugin in self.plugins]  # type: ignore[attr-defined]
        profiles = [{"schedulerName": PROFILE, "plugins": {"multiPoint": {"enabled": enabled}}}]
        if profile is not None:
            profiles = [{"schedulerName": PROFILE, **profile}]
        return load_config(
            {
                "apiVersion": "kubescheduler.config.k8s.io/v1",
                "kind": "KubeSchedulerConfiguration",
                "profiles": profiles,
                **fields,
            }
        )

    # -- time -------------------------------------------------------------------------------

    def settle(self) -> Cluster:
        """Let everything happen that needs no time."""
        self.clock.advance(0.0)
        return self

    def run(self, seconds: float) -> Cluster:
        self.clock.advance(seconds)
        return self

    # -- the cluster's side -----------------------------------------------------------------

    def add(self, *objects: KubeObject) -> Cluster:
        for thing in objects:
            self.store.put(thing)
        return self.settle()

    def delete(self, name: str, grace_s: int = 0, namespace: str = "default") -> None:
        self.store.execute(Delete(POD, namespace, name, grace_period_seconds=grace_s))
        self.settle()

    def patch(self, kind: Kind, name: str, body: dict[str, Any], subresource: str = "") -> None:
        namespace = "default" if kind.namespaced else ""
        self.store.execute(Patch(kind, namespace, name, body, "merge", subresource))
        self.settle()

    def patch_node(self, name: str, body: dict[str, Any]) -> None:
        self.patch(NODE, name, body)

    def pod(self, name: str, namespace: str = "default") -> Pod:
        found = self.store.read(POD, namespace, name)[0]
        assert isinstance(found, Pod)
        return found

    def exists(self, name: str) -> bool:
        return any(pod.metadata.name == name for pod in self.pods())

    def pods(self) -> list[Pod]:
        return [thing for thing, _ in self.store.select(POD, ListOptions())[0]]  # type: ignore[misc]

    def node_of(self, name: str) -> str:
        return self.pod(name).spec.node_name

    def nominated(self, name: str) -> str:
        return self.pod(name).status.nominated_node_name

    def condition(self, name: str, type_: str = "PodScheduled") -> Condition:
        conditions = self.pod(name).status.conditions or ()
        return next(c for c in conditions if c.type == type_)

    def events(self, name: str = "", reason: str = "") -> list[Event]:
        things = [thing for thing, _ in self.store.select(EVENT, ListOptions())[0]]
        found = [thing for thing in things if isinstance(thing, Event)]
        return [
            event
            for event in found
            if name in ("", event.regarding.name if event.regarding else "")
            and reason in ("", event.reason)
        ]

    def notes_of(self, name: str, reason: str = "") -> list[str]:
        return [event.note for event in self.events(name, reason)]

    # -- the scheduler's side ---------------------------------------------------------------

    def place(self, name: str) -> str:
        """The one place where the pod is: a queue, in flight, assumed, or bound."""
        machine = self.machine
        info = machine.pods.get(f"default/{name}")
        if info is None:
            return "nowhere"
        places: list[str] = [place for uid, place in machine.queue.places() if uid == info.uid]
        cached = machine.cache.pod(info.uid)
        if cached is not None:
            places.append("assumed" if machine.cache.is_assumed(info.uid) else "bound")
        if places == ["in flight", "assumed"]:
            return "assumed"
        assert len(places) == 1, f"{name} is {places}"
        return places[0]

    def sent(self, matches: Matches) -> list[Request]:
        return [request for request in self.api.requests if matches(request)]

    @property
    def binds(self) -> list[tuple[str, str]]:
        return [(r.name, r.node) for r in self.api.requests if isinstance(r, Bind)]

    def rejectors(self, name: str) -> set[str]:
        """Who turned the waiting pod down, as the queue has it."""
        queued = self.machine.queue.get(f"default/{name}")
        assert queued is not None, f"{name} does not wait"
        return set(queued.unschedulable_plugins)
