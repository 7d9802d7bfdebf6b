"""What the controllers of workloads have in common: a queue of keys, and whose children are whose.

Each kind of workload says in `sync` what is to be done about one of them.
"""

from __future__ import annotations

from stowplan.apiserver.controllers.calls import Calls
from stowplan.apiserver.controllers.claims import Claims
from stowplan.apiserver.controllers.reporting import Reporter
from stowplan.apiserver.controllers.shared import Shared
from stowplan.apiserver.controllers.statuses import Statuses
from stowplan.objects.base import KubeObject
from stowplan.objects.kinds import POD, Kind


class WorkloadController:
    def __init__(self, shared: Shared, kind: Kind, child_kind: Kind = POD) -> None:
        name = kind.name.lower()
        self._shared = shared
        self.queue = shared.queue(name, self.sync)
        self.calls = Calls(shared, self.queue)
        self._statuses = Statuses(shared.cluster, kind)
        self._reporter = Reporter(shared, f"{name}-controller")
        shared.listen(kind, self._changed)
        self._claims = Claims(
            shared,
            self.calls,
            owner_kind=kind,
            child_kind=child_kind,
            look_again=self.queue.add,
        )

    def sync(self, key: str) -> None:
        raise NotImplementedError

    def forget(self, uid: str) -> None:
        """A workload is gone."""
        self._statuses.forget(uid)

    def _changed(self, old: KubeObject | None, new: KubeObject | None) -> None:
        if new is not None:
            self.queue.add(new.key)
        elif old is not None:
            self.forget(old.uid)
