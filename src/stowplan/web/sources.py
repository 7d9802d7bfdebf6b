"""Where the page's cluster comes from: a dump that stands still, a copy that is renewed, a run.

A cluster is nobody's but its thread's.  `Still` and `Copied` give theirs to one worker thread,
which all questions go through; forks are asked there too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

from stowplan.errors import StowplanError
from stowplan.world.cluster import Cluster

Answer = TypeVar("Answer")

EVERY_S = 10.0
"""How often a copy of a live cluster is renewed."""


VIEWS: tuple[str, ...] = ("map", "queue", "pods", "what-if", "time", "events")
"""What can be seen of a cluster."""


class Source(Protocol):
    """What the page shows."""

    name: str
    """For people: the files, the context, the address."""
    kind: str
    """`dump`, `copy`, `embedded` or `simulation`."""
    views: tuple[str, ...]
    """Which views there are of it."""
    live: bool
    """Whether it changes by itself."""
    note: str
    """What a reader should know before trusting what is shown."""
    problem: str
    """Why it could not be renewed, if it could not."""

    @property
    def version(self) -> int:
        """Another one after every change."""

    async def start(self) -> None: ...

    async def close(self) -> None: ...


class ClusterSource(Source, Protocol):
    """A cluster.  Nobody writes to it: changes are made to forks."""

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
    problem = ""

    def __init__(self, cluster: Cluster, name: str, note: str = "") -> None:
        self.name = name
        self.note = note
        self._cluster = cluster
        self._worker = Worker()

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


class Copied(Still):
    """A copy of a live cluster, made anew at intervals; the cluster itself is only ever listed.

    What its own scheduler did is shown as it is; what waits there is decided here, on the copy:
    a second opinion.
    """

    kind = "copy"
    live = True

    def __init__(
        self, copy: Callable[[], Cluster], name: str, note: str = "", every_s: float = EVERY_S
    ) -> None:
        super().__init__(copy(), name, note)
        self.problem = ""
        self._copy = copy
        self._every_s = every_s
        self._version = 0
        self._renewing: asyncio.Task[None] | None = None

    @property
    def version(self) -> int:
        return self._version

    async def start(self) -> None:
        await super().start()
        self._renewing = asyncio.get_running_loop().create_task(self._renew())

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(self._every_s)
            try:
                await self._worker.do(self._replace)
                self.problem = ""
            except StowplanError as error:
                # What was read last stays; the page says how old it is.
                self.problem = str(error)
            self._version += 1

    def _replace(self) -> None:
        fresh = self._copy()
        fresh.run()
        old, self._cluster = self._cluster, fresh
        old.close()

    async def close(self) -> None:
        if self._renewing is not None:
            self._renewing.cancel()
        await super().close()
