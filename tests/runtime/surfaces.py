"""A scheduler with everything the secure port shows, and a cluster that answers about users."""

from __future__ import annotations

import io
from collections.abc import Callable
from random import Random
from typing import Any

from stowplan.core.attempts import AttemptLog
from stowplan.core.bottlenecks import Bottlenecks
from stowplan.errors import Unavailable
from stowplan.framework.timing import Recorders
from stowplan.objects.base import KubeObject
from stowplan.runtime.auth import Access, User
from stowplan.runtime.decision_log import DecisionLog
from stowplan.runtime.health import PING, Check, Health
from stowplan.runtime.log import Log, Verbosity
from stowplan.runtime.metrics import Metrics
from stowplan.runtime.surface import Surface
from tests.core.harness import Cluster

ADMIN, VIEWER = "good-token-of-admin", "good-token-of-viewer"


class FakeReviews:
    """Two users, of whom one may do everything; counts what it is asked."""

    def __init__(self) -> None:
        self.users = {ADMIN: User("admin", "1", ("ops",)), VIEWER: User("viewer")}
        self.allowed: Callable[[User, str, str], bool] = lambda user, verb, path: (
            user.name == "admin"
        )
        self.asked: list[Any] = []
        self.broken = False

    async def user_of(self, token: str) -> User | None:
        self.asked.append(token)
        if self.broken:
            raise Unavailable("no answer")
        return self.users.get(token)

    async def may(self, user: User, verb: str, path: str) -> Access:
        self.asked.append((user, verb, path))
        if self.broken:
            raise Unavailable("no answer")
        return Access(self.allowed(user, verb, path))


class Served(Cluster):
    """A cluster under virtual time whose scheduler is watched by everything there is."""

    def __init__(self, *objects: KubeObject, verbosity: int = 0, **config: Any) -> None:
        self.metrics = Metrics(Random(0))
        # However busy this machine is, nothing takes long here.
        self.metrics.now = lambda: 0.0  # type: ignore[method-assign]
        self.out = io.StringIO()
        bottlenecks = Bottlenecks(lambda: 0.0)
        self.attempts = AttemptLog(self.metrics, bottlenecks)
        super().__init__(
            *objects, log=self.attempts, recorder=Recorders(self.metrics, bottlenecks), **config
        )
        self.lines = Log(self.clock, verbosity=Verbosity(verbosity), stream=self.out)
        self.attempts.observe(DecisionLog(self.lines))
        self.driver.on_handled = self.metrics.handled
        self.problem = ""
        failing = Check("shutdown", lambda: self.problem)
        self.reviews = FakeReviews()
        self.leading = True
        self.surface = Surface(
            clock=self.clock,
            log=self.lines,
            machine=self.machine,
            metrics=self.metrics,
            bottlenecks=bottlenecks,
            health=Health(
                {"healthz": (PING,), "livez": (PING,), "readyz": (PING, failing)}, self.lines
            ),
            is_leading=lambda: self.leading,
            reviews=self.reviews,
            flags={"secure-port": "10259", "v": "2"},
        )
