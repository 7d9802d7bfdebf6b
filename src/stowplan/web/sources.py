"""Where the page's cluster comes from: a dump that stands still, a run, a live one that is watched.

A cluster is nobody's but its thread's.  `Still` gives its own to one worker thread, which all
questions go through; `Running` and `Watching` ask theirs where it runs, and forks on the worker's.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol, TypeVar

from stowplan.answers.shadow import Shadow
from stowplan.answers.tally import Decided
from stowplan.errors import InputError, StowplanError
from stowplan.printable import logger
from stowplan.world.cluster import Cluster
from stowplan.world.watching import Watched

Answer = TypeVar("Answer")

log = logger(__name__)

OPINION_EVERY_S = 0.2
COPY_REST = 5.0
"""A copy of a live cluster is used for so many times what it took to make it."""

VIEWS: tuple[str, ...] = ("map", "queue", "pods", "what-if", "time", "events")
"""What can be seen of a cluster."""


class Line(Protocol):
    """Of a log."""

    @property
    def severity(self) -> str:
        """I, W, E or F."""

    @property
    def at_s(self) -> float: ...

    @property
    def message(self) -> str: ...

    @property
    def fields(self) -> Mapping[str, Any]: ...


class Source(Protocol):
    """What the page shows."""

    name: str
    """For people: the files, the context, the address."""
    kind: str
    """`dump`, `embedded`, `live`, `beside` or `simulation`."""
    views: tuple[str, ...]
    """Which views there are of it."""
    live: bool
    """Whether it changes by itself."""
    note: str
    """What a reader should know before trusting what is shown."""
    lines: Sequence[Line]
    """The latest of the scheduler's log, the newest last."""

    @property
    def problem(self) -> str:
        """Why nothing is heard of it now; empty while all is well."""

    @property
    def version(self) -> int:
        """Another one after every change."""

    async def start(self) -> None: ...

    async def close(self) -> None: ...


class ClusterSource(Source, Protocol):
    """A cluster.  Nobody writes to it: changes are made to forks."""

    asked: tuple[str, ...]
    """The options with which a command asks about it; a dump of it, where there are none."""

    async def read(self, question: Callable[[Cluster], Answer]) -> Answer:
        """A short question to the cluster as it is."""

    async def ask(self, question: Callable[[Cluster], Answer]) -> Answer:
        """A long one, of which the cluster itself notices nothing."""

    async def work(self, action: Callable[[], Answer]) -> Answer:
        """Something long about forks, on the thread where forks live."""


class Worker:
    """The thread on which clusters are asked, one question after the other."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(1, thread_name_prefix="stowplan-page")

    async def do(self, action: Callable[[], Answer]) -> Answer:
        return await asyncio.get_running_loop().run_in_executor(self._threads, action)

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


class Still:
    """A cluster that stays as it is: a dump, with our decisions on what waits there."""

    kind = "dump"
    views = VIEWS
    live = False
    lines: Sequence[Line] = ()
    asked: tuple[str, ...] = ("-f", "cluster.json")

    def __init__(self, cluster: Cluster, name: str, note: str = "") -> None:
        self.name = name
        self.note = note
        self._cluster = cluster
        self._worker = Worker()

    @property
    def problem(self) -> str:
        return ""

    @property
    def version(self) -> int:
        return 0

    async def read(self, question: Callable[[Cluster], Answer]) -> Answer:
        return await self._worker.do(lambda: question(self._cluster))

    async def ask(self, question: Callable[[Cluster], Answer]) -> Answer:
        return await self.read(question)

    async def work(self, action: Callable[[], Answer]) -> Answer:
        return await self._worker.do(action)

    async def start(self) -> None:
        await self._worker.do(self._cluster.run)

    async def close(self) -> None:
        self._worker.close()


class Running(Still):
    """The cluster of `stowplan up`, as it runs.

    It lives on the event loop's thread, where short questions are asked between two of its turns;
    long ones are asked of a fork, on the worker's.
    """

    kind = "embedded"
    live = True

    def __init__(self, look: Cluster, name: str, note: str, version: Callable[[], int]) -> None:
        super().__init__(look, name, note)
        self._read_version = version

    @property
    def version(self) -> int:
        return self._read_version()

    async def read(self, question: Callable[[Cluster], Answer]) -> Answer:
        return question(self._cluster)

    async def ask(self, question: Callable[[Cluster], Answer]) -> Answer:
        fork = self._cluster.fork()

        def answer() -> Answer:
            with fork:
                return question(fork)

        return await self._worker.do(answer)

    async def start(self) -> None:
        """It runs already."""


class Watching(Still):
    """A live cluster, through the scheduler that follows it, which runs on another thread.

    Short questions are asked there.  Long ones are asked of a copy that was run to its rest, on the
    worker's thread; it is made anew when something has changed, as far as that takes a small part
    of the time.
    """

    kind = "live"
    live = True

    def __init__(
        self,
        attach: Callable[[], Cluster],
        on_scheduler: Callable[[Callable[[], Any]], Awaitable[Any]],
        *,
        name: str,
        note: str,
        watched: Callable[[], Watched],
    ) -> None:
        self.name, self.note = name, note
        self._attach = attach
        self._on_scheduler = on_scheduler
        self._watched = watched
        self._worker = Worker()
        self._copy: Cluster | None = None
        self._copy_version = -1
        self._copied_s = self._copying_s = 0.0

    @property
    def version(self) -> int:
        return self._watched().version

    @property
    def problem(self) -> str:
        return self._watched().problem

    async def start(self) -> None:
        self._cluster = await self._on_scheduler(self._attach)

    async def close(self) -> None:
        self._worker.close()
        await self._on_scheduler(self._cluster.close)

    async def read(self, question: Callable[[Cluster], Answer]) -> Answer:
        answer: Answer = await self._on_scheduler(lambda: question(self._cluster))
        return answer

    async def ask(self, question: Callable[[Cluster], Answer]) -> Answer:
        try:
            return await self._ask(question)
        except InputError:
            if self._copy_version == self.version:
                raise
            # It may be about something that came after the copy was made.
            return await self._ask(question, anew=True)

    async def _ask(self, question: Callable[[Cluster], Answer], *, anew: bool = False) -> Answer:
        make, version = None, self.version
        if anew or self._is_stale(version):
            make = await self._on_scheduler(self._cluster.forking)
        return await self._worker.do(lambda: self._answer(question, make, version))

    def _is_stale(self, version: int) -> bool:
        if self._copy is None:
            return True
        rests_s = time.monotonic() - self._copied_s
        return version != self._copy_version and rests_s > COPY_REST * self._copying_s

    def _answer(
        self,
        question: Callable[[Cluster], Answer],
        make: Callable[[], Cluster] | None,
        version: int,
    ) -> Answer:
        if make is not None and (self._copy is None or version != self._copy_version):
            begun_s = time.monotonic()
            fresh = make()
            fresh.run()
            old, self._copy, self._copy_version = self._copy, fresh, version
            if old is not None:
                old.close()
            self._copied_s = time.monotonic()
            self._copying_s = self._copied_s - begun_s
        assert self._copy is not None, "the first one is always made"
        return question(self._copy)


class Beside(Watching):
    """A live cluster that another scheduler decides on: it is shown as it is.  What ours says of
    it is a second opinion: of pods that wait, by a copy that ours has run; of pods that were
    placed, at the moment that happened (`opinions`)."""

    kind = "beside"

    def __init__(
        self,
        follow: Follows,
        shadow: Shadow,
        opinions: Sequence[Decided],
        *,
        name: str,
        note: str,
    ) -> None:
        super().__init__(_nobody, _here, name=name, note=note, watched=lambda: follow.watched)
        self._follow = follow
        self._shadow = shadow
        self._opinions = opinions
        self._ticking: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._cluster = await self._follow.start()
        self._shadow.synced()
        self._ticking = asyncio.get_running_loop().create_task(self._tick())

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(OPINION_EVERY_S)
            try:
                self._shadow.tick(self._cluster.now)
            except StowplanError as error:
                log.error("there is no second opinion on a pod: %s", error)

    async def close(self) -> None:
        if self._ticking is not None:
            self._ticking.cancel()
            await super().close()
        await self._follow.close()

    @property
    def placed(self) -> int:
        """Pods that the other scheduler has given a node so far."""
        return self._shadow.tally.outcomes.total() + self._shadow.tally.others

    def opinions(self) -> dict[str, Any]:
        """How often the two agree, and the latest decisions, the newest last."""
        tally = self._shadow.tally
        return {
            "counts": {str(outcome): count for outcome, count in tally.outcomes.items()},
            "causes": {str(cause): count for cause, count in tally.causes.items()},
            "rows": [decided.to_dict() for decided in self._opinions],
        }


class Follows(Protocol):
    """`stowplan.world.beside.Beside`."""

    watched: Watched

    async def start(self) -> Cluster: ...

    async def close(self) -> None: ...


def _nobody() -> Cluster:
    raise AssertionError("whoever follows has the cluster")


async def _here(action: Callable[[], Any]) -> Any:
    return action()
