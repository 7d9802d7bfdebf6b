"""A live cluster, looked at through the scheduler that follows it: `stowplan run`, or one that only
watches (`stowplan ui --kubeconfig`).

Nothing is copied and nothing is written: objects are those that the driver's informers hold, queue
and decisions are the machine's own.  Events are those that were recorded since somebody looks.
`engine` treats it as a cluster that somebody else runs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping

from stowplan.apiserver.watches import UntypedFields
from stowplan.clock import Clock
from stowplan.cluster.informer import Informer
from stowplan.core.attempts import AttemptObserver
from stowplan.core.bottlenecks import Bottlenecks
from stowplan.core.messages import Effect, RecordEvent
from stowplan.errors import NotFound
from stowplan.objects.base import KubeObject, ObjectMeta
from stowplan.objects.coordination import Event
from stowplan.objects.kinds import EVENT, Kind
from stowplan.objects.times import format_micro_time
from stowplan.runtime.driver import Driver
from stowplan.runtime.event_recorder import reference

EVENTS_MAX = 2000
"""Of those that the scheduler records while somebody looks; the oldest go first."""


class Watched:
    def __init__(
        self,
        driver: Driver,
        clock: Clock,
        *,
        times: Bottlenecks | None = None,
        others: Mapping[Kind, Informer] | None = None,
    ) -> None:
        """`others`: kinds that are followed beside those that scheduling reads."""
        self.scheduler = driver
        self.clock = clock
        self.times = times
        self._others = others or {}
        self._recorded: deque[Event] = deque(maxlen=EVENTS_MAX)
        self._number = 0

    # -- objects ----------------------------------------------------------------------------

    def things(self, kind: Kind, namespace: str = "") -> list[KubeObject]:
        """As a store does, in order of keys."""
        found: Iterable[KubeObject]
        informer = self._informer(kind)
        if informer is None:
            found = self._recorded if kind is EVENT else ()
        elif namespace:
            found = informer.in_namespace(namespace)
        else:
            found = informer.list()
        return sorted(found, key=lambda thing: (thing.namespace, thing.name))

    def read(self, kind: Kind, namespace: str, name: str) -> tuple[KubeObject, UntypedFields]:
        informer = self._informer(kind)
        found = None
        if informer is not None:
            found = informer.get(f"{namespace}/{name}" if namespace else name)
        if found is None:
            raise NotFound(f'{kind.plural} "{name}" not found')
        return found, None

    def _informer(self, kind: Kind) -> Informer | None:
        return self._others.get(kind) or self.scheduler.informers.get(kind)

    def objects(self) -> list[KubeObject]:
        """All but events; a list of its own, of objects that never change."""
        followed = {**self._others, **self.scheduler.informers}
        followed.pop(EVENT, None)
        return [thing for informer in followed.values() for thing in informer.list()]

    # These two may be read from any thread.

    @property
    def version(self) -> int:
        """Another one after every change."""
        return sum(informer.version for informer in self._followed)

    @property
    def problem(self) -> str:
        """Why nothing is heard of the cluster now; empty while all is well."""
        found = (informer for informer in self._followed if informer.problem)
        return next((f"{each.kind.plural}: {each.problem}" for each in found), "")

    @property
    def _followed(self) -> tuple[Informer, ...]:
        return (*self.scheduler.informers.values(), *self._others.values())

    # -- who looks --------------------------------------------------------------------------

    def observe(self, observer: AttemptObserver) -> None:
        """Tell of every attempt from now on; who explains them goes on as before."""
        self.scheduler.machine.log.observe(observer)
        if EVENT not in self._others:
            self.scheduler.on_effect = self._note

    def ignore(self, observer: AttemptObserver) -> None:
        self.scheduler.machine.log.ignore(observer)
        self.scheduler.on_effect = None
        self._recorded.clear()

    def _note(self, effect: Effect) -> None:
        if not isinstance(effect, RecordEvent):
            return
        self._number += 1
        regarding = effect.regarding
        self._recorded.append(
            Event(
                metadata=ObjectMeta(
                    name=f"{regarding.name}.{self._number}", namespace=regarding.namespace
                ),
                event_time=format_micro_time(self.clock.now()),
                reporting_controller=effect.controller,
                action=effect.action,
                reason=effect.reason,
                regarding=reference(regarding),
                note=effect.note,
                type=effect.type,
            )
        )


__all__ = ["Watched"]
