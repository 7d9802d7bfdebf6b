"""The stage a workload is played on: a cluster behind the port, time, and a tally of its pods.

Nobody waits in a loop here.  Whatever takes time is a generator that yields how many seconds it
wants to pause (0: let the others have their turn), and `Stage.play` resumes it through
`call_later`, between the turns of the scheduler.  So creating pods and scheduling them go on side
by side, on the embedded cluster as on a real one, in real time as in virtual time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from random import Random
from typing import Any, Protocol, TypeVar

from stowplan.clock import Clock
from stowplan.cluster.port import Answer, Cluster, ListOptions, ListResult, WatchEvent, call_one
from stowplan.cluster.reflector import CallLater, Reflector
from stowplan.errors import ApiError, StowplanError
from stowplan.objects.api import Request
from stowplan.objects.base import KubeObject
from stowplan.objects.kinds import POD, Kind
from stowplan.objects.pod import Pod

_T = TypeVar("_T")

Steps = Generator[float, None, _T]
"""Yields seconds to pause; returns what it was for."""

WORKERS_MAX = 30
"""Requests in flight for the pods of one op, as upstream's creators."""
POLL_S = 0.001
STALLED_S_MAX = 60.0
"""The rest is waited for while one pod after another finds its node, and so long after the last."""
NAMES_SHOWN = 3

_SHOWN = frozenset({"ADDED", "MODIFIED"})


class Placed(Protocol):
    """Told of every pod that got its node, once: of all that the watch shows together."""

    def __call__(self, pods: Sequence[Pod]) -> None: ...


class PodTally:
    """Which pods wait and which have a node, as a watch shows them; all by uid.

    It runs beside the scheduler that is being measured, so a pod costs a few look-ups here.
    """

    def __init__(self) -> None:
        self.waiting: dict[str, Pod] = {}
        self.settled: set[str] = set()
        """Has a node, or is gone."""
        self.placed_count = 0
        self.on_placed: list[Placed] = []

    def replace(self, items: list[KubeObject], resource_version: str) -> None:
        self.apply([WatchEvent("ADDED", thing, resource_version) for thing in items])

    def apply(self, events: Sequence[WatchEvent]) -> None:
        waiting, settled = self.waiting, self.settled
        placed: list[Pod] = []
        for event in events:
            pod: Any = event.object
            uid = pod.metadata.uid
            if event.type in _SHOWN:
                if not pod.spec.node_name:
                    waiting[uid] = pod
                elif uid not in settled:
                    waiting.pop(uid, None)
                    settled.add(uid)
                    placed.append(pod)
            elif event.type == "DELETED":
                waiting.pop(uid, None)
                settled.add(uid)
        if placed:
            self.placed_count += len(placed)
            for tell in self.on_placed:
                tell(placed)

    def key_of(self, uid: str) -> str:
        """Namespace and name of a pod that waits."""
        pod = self.waiting.get(uid)
        return f"{pod.namespace}/{pod.name}" if pod is not None else uid


@dataclass(slots=True)
class Stage:
    cluster: Cluster
    clock: Clock
    call_later: CallLater
    random: Random
    whole_objects: bool = False
    """Send objects as the template has them, not only what scheduling reads: a real cluster."""
    scheduler_name: str = ""
    """Whom the pods are for; empty: the default scheduler."""
    explain: Callable[[str], str] = lambda key: ""
    """Why a pod (namespace/name) is still without a node."""
    tally: PodTally = field(default_factory=PodTally)
    ended: bool = False
    """The workload is over: background ops stop."""
    abandoned: bool = False
    """Nothing goes on: somebody interrupted it."""
    failure: Exception | None = None
    """What went wrong in the background."""
    node_count: int = 0
    recorded: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    """Namespace -> uids of pods that no op has waited for yet: barriers do."""
    at_rest: Callable[[], bool] = lambda: True
    """Whether the scheduler has seen all its bindings confirmed, and has nothing left to send."""
    known: set[tuple[str, str]] = field(default_factory=set)
    """(kind, name) of namespaces and classes that are there."""
    created: list[tuple[Kind, str]] = field(default_factory=list)
    """Objects outside namespaces, and namespaces: what has to be removed from a real cluster."""

    def open(self) -> None:
        """Start to follow the pods."""
        reflector = Reflector(
            self.cluster,
            POD,
            self.tally,
            clock=self.clock,
            call_later=self.call_later,
            random=self.random,
        )
        reflector.start()

    # -- running ----------------------------------------------------------------------------

    def play(self, steps: Steps[Any], done: Callable[[Exception | None], None]) -> None:
        """Run these steps, among everything else that goes on."""

        def step() -> None:
            if self.abandoned:
                return
            try:
                pause_s = next(steps)
            except StopIteration:
                done(None)
            except Exception as error:
                done(error)
            else:
                self.call_later(pause_s, step)

        self.call_later(0.0, step)

    def play_in_background(self, steps: Steps[Any]) -> None:
        def done(error: Exception | None) -> None:
            if error is not None and self.failure is None:
                self.failure = error

        self.play(steps, done)

    # -- asking the cluster -----------------------------------------------------------------

    def ask(self, request: Request) -> Steps[KubeObject | None]:
        """Send one request and wait for its answer; a failure is raised."""
        answers: list[Answer] = []
        call_one(self.cluster, request, answers.append)
        while not answers:
            yield POLL_S
        if isinstance(answers[0], ApiError):
            raise answers[0]
        return answers[0]

    def send(
        self,
        requests: Iterable[Request],
        *,
        workers: int = WORKERS_MAX,
        on_answers: Callable[[Sequence[KubeObject | None]], None] = lambda answers: None,
    ) -> Steps[None]:
        """Send many, so many at a time, a turn for the others after each handful."""
        answers: list[Answer] = []
        rest = iter(requests)
        in_flight = 0
        while batch := list(islice(rest, workers - in_flight)):
            self.cluster.call(batch, lambda _, told: answers.extend(told))
            in_flight += len(batch)
            pause_s = 0.0
            while in_flight >= workers:
                yield pause_s
                in_flight -= _take(answers, on_answers)
                pause_s = POLL_S
        while in_flight := in_flight - _take(answers, on_answers):
            yield POLL_S

    def list_pods(self, namespace: str, labels: Mapping[str, str]) -> Steps[list[Pod]]:
        answers: list[ListResult | ApiError] = []
        selector = ",".join(f"{key}={value}" for key, value in labels.items())
        options = ListOptions(namespace=namespace, label_selector=selector)
        self.cluster.list(POD, options, answers.append)
        while not answers:
            yield POLL_S
        answer = answers[0]
        if isinstance(answer, ApiError):
            raise answer
        return [pod for pod in answer.items if isinstance(pod, Pod)]

    # -- waiting ----------------------------------------------------------------------------

    def wait(self, holds: Callable[[], bool], left: Callable[[], list[str]]) -> Steps[None]:
        """Until it holds; `left` names the pods that are missing, for the complaint."""
        started_s = moved_s = self.clock.now()
        settled_count = len(self.tally.settled)
        while not holds():
            if self.failure is not None:
                raise self.failure
            now_s = self.clock.now()
            if settled_count != len(self.tally.settled):
                settled_count, moved_s = len(self.tally.settled), now_s
            if now_s - moved_s > STALLED_S_MAX:
                raise self._stalled(left())
            # The longer it takes, the less a moment matters: a thousandth of it, at most.
            yield max(POLL_S, (now_s - started_s) / 1000)

    def wait_placed(self, uids: Sequence[str]) -> Steps[None]:
        """Until all of these pods have their nodes."""
        settled = self.tally.settled
        rest = iter(uids)
        first = next(rest, "")

        def all_settled() -> bool:
            nonlocal first
            while first in settled:
                first = next(rest, "")
            return not first

        def left() -> list[str]:
            return sorted(self.tally.key_of(uid) for uid in uids if uid not in settled)

        yield from self.wait(all_settled, left)

    def _stalled(self, keys: list[str]) -> StowplanError:
        count = f"{len(keys)} pod is" if len(keys) == 1 else f"{len(keys)} pods are"
        shown = ", ".join(keys[:NAMES_SHOWN])
        why = self.explain(keys[0]) if keys else ""
        return StowplanError(
            f"{count} without a node, and none found one in {STALLED_S_MAX:.0f} s: {shown}",
            hint=f"the first one: {why}" if why else "",
        )


def _take(answers: list[Answer], on_answers: Callable[[Sequence[KubeObject | None]], None]) -> int:
    """Hand over the answers that have come, and count them; a failure is raised."""
    things: list[KubeObject | None] = []
    for answer in answers:
        if isinstance(answer, ApiError):
            raise answer
        things.append(answer)
    answers.clear()
    on_answers(things)
    return len(things)
