"""`stowplan up -v`: a line for each change that people watch for, as it happens.

Pods, nodes, claims and workloads: what came, what became of it, where it was bound, what went.
Names are others' text, so they are made printable by whoever says the line.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from stowplan.apiserver.store import Store
from stowplan.apiserver.watches import Seen
from stowplan.cluster.port import ListOptions
from stowplan.objects.base import KubeObject
from stowplan.objects.kinds import (
    DAEMON_SET,
    DEPLOYMENT,
    JOB,
    NODE,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    REPLICA_SET,
    STATEFUL_SET,
    Kind,
)
from stowplan.objects.pod import Pod
from stowplan.printable import printable

TOLD = (
    NODE, DEPLOYMENT, REPLICA_SET, STATEFUL_SET, DAEMON_SET, JOB, PERSISTENT_VOLUME_CLAIM, POD,
)  # fmt: skip


def tell_changes(store: Store, say: Callable[[str], None]) -> None:
    """Say every change from now on; the watches end with the store."""
    for kind in TOLD:
        last: dict[str, str] = {}
        store.follow(
            kind,
            ListOptions(),
            store.resource_version,
            partial(_tell, kind, last, say),
            lambda _: None,
            bookmarks=False,
        )


def _tell(kind: Kind, last: dict[str, str], say: Callable[[str], None], seen: list[Seen]) -> None:
    for event, _ in seen:
        thing = event.object
        key = printable(f"{thing.namespace}/{thing.name}" if thing.namespace else thing.name)
        state = "deleted" if event.type == "DELETED" else _state(thing)
        # Most writes change nothing that anybody looks for.
        if last.get(key) != state or event.type != "MODIFIED":
            say(f"  {kind.name} {key}: {'created' if event.type == 'ADDED' else state}")
        last[key] = state
        if event.type == "DELETED":
            del last[key]


def _state(thing: KubeObject) -> str:
    if thing.metadata.deletion_timestamp is not None:
        return "is being deleted"
    if isinstance(thing, Pod):
        node = f" on {printable(thing.spec.node_name)}" if thing.spec.node_name else ""
        return f"{thing.status.phase}{node}"
    phase = getattr(getattr(thing, "status", None), "phase", "")
    return phase or "changed"
