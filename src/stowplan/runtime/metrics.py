"""Counts what the scheduler does, under kube-scheduler's names.

It listens at four places: the machine's attempts (`AttemptObserver`), the time its parts take
(`Recorder`), changes that came in (`handled`), and requests that were sent (`sent`).  On the way
of a pod it only appends to lists, a few microseconds an attempt; what can be read off the machine
(`metric_readings`) or the process is read when somebody asks for the text.

Made by `runtime.live`, shown by `runtime.server`.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from itertools import groupby
from operator import attrgetter
from random import Random
from time import perf_counter
from typing import Any

from stowplan.cluster.http_request import HttpRequest
from stowplan.core.attempts import AttemptObserver, Bound, Failed, GroupEnded
from stowplan.core.cluster_changes import RESOURCES
from stowplan.core.decision import Decision
from stowplan.core.machine import Machine
from stowplan.core.messages import Added, Deleted, Event, Updated
from stowplan.framework.events import Resource
from stowplan.framework.histogram import Histogram
from stowplan.framework.status import Status
from stowplan.framework.timing import BUFFER_MAX, WAIT_ON_PERMIT
from stowplan.objects.base import KubeObject
from stowplan.objects.node import Node
from stowplan.objects.pod import Pod
from stowplan.queue import QueuedPod
from stowplan.runtime.exposition import Family, Spec, text_of
from stowplan.runtime.metric_choice import MetricChoice
from stowplan.runtime.metric_readings import (
    describe_choice,
    forget_counts,
    read_machine,
    read_process,
)
from stowplan.runtime.metric_table import ATTEMPT_S, POINT_S, SLI_S, SPECS

SAMPLED_SHARE = 0.1
"""Of the cycles, those in which plugins are timed one by one."""

DEFAULT_PREEMPTION = "DefaultPreemption"

_MANY_ATTEMPTS = 15

_Key = tuple[str, str, str]

_RESOURCES: dict[Any, str] = {
    True: Resource.ASSIGNED_POD,
    False: Resource.UNSCHEDULABLE_POD,
    Node: Resource.NODE,
    **RESOURCES,
}
"""What an object is to the queue; of pods, whether they have a node says it.  Changes of other
kinds wake nobody, and are not counted upstream."""

_ACTIONS: dict[type, str] = {Added: "Add", Updated: "Update", Deleted: "Delete"}
_THINGS: dict[type, Callable[[Any], KubeObject]] = {
    Added: attrgetter("object"),
    Updated: attrgetter("new"),
    Deleted: attrgetter("object"),
}
_node_name = attrgetter("spec.node_name")

# Of an attempt that went well.
_sort = attrgetter("queued.info.pod.spec.scheduler_name", "queued.attempts")
_uid, _tries, _start, _was_flushed, _seconds = (
    attrgetter(name)
    for name in (
        "queued.info.uid",
        "queued.attempts",
        "queued.initial_attempt_s",
        "queued.was_flushed",
        "seconds",
    )
)

_VOLUME_STAGES = {"PreFilter": "predicate", "Filter": "predicate", "Reserve": "assume"}
_VOLUME_STAGES |= {"PreBind": "bind"}
_VOLUME_ERROR = re.compile(r'(\w+) plugin "VolumeBinding"')

_CALL_TYPES = {"/binding": "pod_binding", "/status": "pod_status_patch"}


class Metrics(AttemptObserver):
    now = staticmethod(perf_counter)

    def __init__(self, random: Random, choice: MetricChoice | None = None) -> None:
        self.families = {spec.name: Family(spec) for spec in SPECS}
        self.sampled = False
        self.catch_up: Callable[[], None] = lambda: None
        self.before_text: list[Callable[[], None]] = []
        """Called before the text is made, to set what only they know."""
        self._choice = choice or MetricChoice()
        self._chance = random.random
        self._binding: set[str] = set()
        """The uids of pods on their way to a node."""
        self._start()

    def _start(self) -> None:
        """Begin to count, from nothing."""
        self.families |= {spec.name: Family(spec) for spec in SPECS if _is_counted(spec)}
        self._points: dict[_Key, Histogram] = {}
        self._attempts: dict[tuple[str, str], Histogram] = {}
        self._algorithm = self._scheduler("scheduling_algorithm_duration_seconds").histogram()
        self._tries = self._scheduler("pod_scheduling_attempts").histogram()
        self._victims = self._scheduler("preemption_victims").histogram()
        self._scheduler("podgroup_scheduling_algorithm_duration_seconds").histogram()
        self._sli = [Histogram(SLI_S) for _ in range(_MANY_ATTEMPTS + 1)]
        self._flushed = 0
        self._algorithm_s: list[float] = []
        self._attempts_s: dict[tuple[str, str], list[float]] = {}
        self._tries_made: list[float] = []
        self._sli_s: list[list[float]] = [[] for _ in self._sli]
        self._handled_s: defaultdict[tuple[type, type[KubeObject] | bool], list[float]]
        self._handled_s = defaultdict(list)
        self._plugins_s: defaultdict[_Key, list[float]] = defaultdict(list)
        """Not counted yet, these six: on the way of a pod there is only an append."""

    def _scheduler(self, name: str) -> Family:
        return self.families[f"scheduler_{name}"]

    # -- the machine's attempts -------------------------------------------------------------

    def begin(self, queued: QueuedPod, now_s: float) -> None:
        self.sampled = self._chance() < SAMPLED_SHARE

    def decided(self, queued: QueuedPod, decision: Decision, now_s: float, seconds: float) -> None:
        self._algorithm_s.append(seconds)
        if decision.node:
            self._binding.add(queued.info.uid)

    def bound(self, attempts: Sequence[Bound], now_s: float) -> None:
        self._binding.difference_update(map(_uid, attempts))
        self._tries_made.extend(map(_tries, attempts))
        self._flushed += sum(map(_was_flushed, attempts))
        for (profile, tries), alike in groupby(attempts, _sort):
            group = list(alike)
            self._times("scheduled", profile).extend(map(_seconds, group))
            waits_s = (now_s - start_s for start_s in map(_start, group) if start_s is not None)
            self._sli_s[min(tries, _MANY_ATTEMPTS)].extend(waits_s)
        self._count_if_many()

    def failed(self, attempt: Failed, now_s: float) -> None:
        queued, status = attempt.queued, attempt.status
        self._binding.discard(queued.info.uid)
        self._note_failure(attempt.decision, status)
        result = "unschedulable" if status.is_rejected else "error"
        self._times(result, queued.profile).append(attempt.seconds)
        self._count_if_many()

    def group_ended(self, attempt: GroupEnded, now_s: float) -> None:
        labels = attempt.result, attempt.profile
        self._scheduler("podgroup_schedule_attempts_total").add(*labels)
        durations = self._scheduler("podgroup_scheduling_attempt_duration_seconds")
        durations.observe(*labels, value=attempt.seconds)
        searches = self._scheduler("podgroup_scheduling_algorithm_duration_seconds")
        searches.observe(value=attempt.search_seconds)

    def _times(self, result: str, profile: str) -> list[float]:
        return self._attempts_s.setdefault((result, profile), [])

    def _count_if_many(self) -> None:
        if len(self._algorithm_s) >= BUFFER_MAX:
            self._catch_up()

    def _count_attempts(self) -> None:
        for key, seconds in self._attempts_s.items():
            self._attempts.setdefault(key, Histogram(ATTEMPT_S)).take(seconds)
        for histogram, seconds in zip(self._sli, self._sli_s, strict=True):
            histogram.take(seconds)
        self._tries.take(self._tries_made)
        self._algorithm.take(self._algorithm_s)
        self._count_plugins()
        self._count_handled()

    def _count_plugins(self) -> None:
        family = self._scheduler("plugin_execution_duration_seconds")
        for labels, seconds in self._plugins_s.items():
            family.histogram(*labels).take(seconds)

    def _note_failure(self, decision: Decision, status: Status) -> None:
        if decision.victims:
            self._victims.observe(len(decision.victims))
            # Upstream takes the time when the eviction starts, and counts it as done.
            self._scheduler("preemption_goroutines_execution_total").add("success")
            self._scheduler("preemption_goroutines_duration_seconds").observe("success", value=0.0)
        if not status.is_rejected:
            found = _VOLUME_ERROR.search(status.message)
            stage = _VOLUME_STAGES.get(found.group(1)) if found is not None else None
            if stage is not None:
                self._scheduler("volume_scheduling_stage_error_total").add(stage)

    # -- where the time goes ----------------------------------------------------------------

    def points(self, point: str, profile: str, status: str, seconds: list[float]) -> None:
        key = (point, status, profile)
        histogram = self._points.get(key)
        if histogram is None:
            bounds = ATTEMPT_S if point == WAIT_ON_PERMIT else POINT_S
            histogram = self._points[key] = Histogram(bounds)
        histogram.observe_many(seconds)

    def plugin(self, plugin: str, point: str, status: str, seconds: float) -> None:
        collected = self._plugins_s[plugin, point, status]
        collected.append(seconds)
        if len(collected) >= BUFFER_MAX:
            # Gates are asked without an attempt, too.
            self._count_plugins()

    def handled(self, events: Sequence[Event], seconds: float) -> None:
        """Events of one type were taken in, in so much time altogether."""
        action = type(events[0])
        thing_of = _THINGS.get(action)
        if thing_of is None:
            return
        each_s = seconds / len(events)
        things = [*map(thing_of, events)]
        for place, count in _places(things).items():
            collected = self._handled_s[action, place]
            collected += [each_s] * count
            if len(collected) >= BUFFER_MAX:
                self._count_handled()

    def _count_handled(self) -> None:
        family = self._scheduler("event_handling_duration_seconds")
        for (action, place), seconds in self._handled_s.items():
            resource = _RESOURCES.get(place)
            if resource is not None:
                family.histogram(resource + _ACTIONS[action]).take(seconds)
        self._handled_s.clear()

    # -- calls ------------------------------------------------------------------------------

    def sender(self, host: str) -> Callable[[HttpRequest, int, float | None, float], None]:
        """What a client of this host tells about its requests."""

        def sent(request: HttpRequest, code: int, seconds: float | None, held_s: float) -> None:
            families, method = self.families, request.method
            requests = families["rest_client_requests_total"]
            requests.add(str(code) if code else "<error>", host, method)
            if seconds is None:
                return
            durations = families["rest_client_request_duration_seconds"]
            durations.observe(host, method, value=seconds)
            delays = families["rest_client_rate_limiter_duration_seconds"]
            delays.observe(host, method, value=held_s)
            call_type = _CALL_TYPES.get(request.path[request.path.rfind("/") :])
            if call_type is not None and method in ("POST", "PATCH"):
                self._called(call_type, "success" if 200 <= code < 400 else "error", seconds)

        return sent

    def _called(self, call_type: str, result: str, seconds: float) -> None:
        self._scheduler("async_api_call_execution_total").add(call_type, result)
        durations = self._scheduler("async_api_call_execution_duration_seconds")
        durations.observe(call_type, result, value=seconds)

    # -- the text ---------------------------------------------------------------------------

    def text(self, machine: Machine) -> str:
        self._catch_up()
        self._collect_attempts()
        self._collect_points(machine)
        self._scheduler("pending_async_api_calls").set("pod_binding", value=len(self._binding))
        read_machine(self.families, machine)
        read_process(self.families)
        for action in self.before_text:
            action()
        shown = list(self._choice.shown(self.families.values()))
        describe_choice(self.families, self._choice)
        return text_of(shown)

    def reset(self, machine: Machine) -> None:
        """As DELETE /metrics: every count starts from nothing."""
        self._catch_up()
        self._start()
        forget_counts(machine)

    def _catch_up(self) -> None:
        self.catch_up()
        self._count_attempts()

    def _collect_attempts(self) -> None:
        totals = self._scheduler("schedule_attempts_total")
        durations = self._scheduler("scheduling_attempt_duration_seconds")
        for labels, histogram in self._attempts.items():
            durations.histograms[labels] = histogram
            totals.set(*labels, value=histogram.count)
        sli = self._scheduler("pod_scheduling_sli_duration_seconds")
        for attempts, histogram in enumerate(self._sli):
            if any(histogram.counts):
                label = str(attempts) if attempts < _MANY_ATTEMPTS else f"{_MANY_ATTEMPTS}+"
                sli.histograms[label,] = histogram
        self._scheduler("pod_scheduled_after_flush_total").set(value=self._flushed)

    def _collect_points(self, machine: Machine) -> None:
        points = self._scheduler("framework_extension_point_duration_seconds")
        waits = self._scheduler("permit_wait_duration_seconds")
        waits.histograms.clear()
        preemptions = 0
        preempting = _preempting_profiles(machine)
        for (point, status, profile), histogram in self._points.items():
            if point == WAIT_ON_PERMIT:
                waits.histogram(status).merge(histogram)
                continue
            points.histograms[point, status, profile] = histogram
            if point == "PostFilter" and profile in preempting:
                preemptions += histogram.count
        self._scheduler("preemption_attempts_total").set(value=preemptions)


def _preempting_profiles(machine: Machine) -> set[str]:
    return {
        profile
        for profile, framework in machine.frameworks.items()
        if any(
            getattr(plugin, "name", "") == DEFAULT_PREEMPTION
            for plugin in framework.plugins.post_filter
        )
    }


def _places(things: list[KubeObject]) -> Counter[type[KubeObject] | bool]:
    """How many there are of each key of `_RESOURCES`."""
    places: Counter[type[KubeObject] | bool] = Counter(map(type, things))
    if pod_count := places.pop(Pod, 0):
        pods = things if pod_count == len(things) else [t for t in things if type(t) is Pod]
        unassigned = [*map(_node_name, pods)].count("")
        places += Counter({False: unassigned, True: pod_count - unassigned})
    return places


def _is_counted(spec: Spec) -> bool:
    """Whether it can start again from nothing; the rest says how things are."""
    return spec.name.startswith("scheduler_")
