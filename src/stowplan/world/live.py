"""A copy of a live cluster: everything that scheduling reads, listed once and never written to.

Whatever we may not list is left out, and the copy says so (`Cluster.missing`); without nodes and
pods there is nothing to copy.  The client is made for this alone: it only ever lists.
"""

from __future__ import annotations

import asyncio
import os
import threading
from random import Random
from typing import Any

from stowplan.clock import RealClock
from stowplan.cluster.client import KubernetesClient
from stowplan.cluster.kubeconfig import Connection, load_connection
from stowplan.cluster.port import ListOptions, ListResult
from stowplan.errors import ApiError, Forbidden, NotFound, StowplanError
from stowplan.objects.base import KubeObject
from stowplan.objects.kinds import EVENT, KINDS, LEASE, NODE, POD, Kind

READ = tuple(kind for kind in KINDS if kind not in (EVENT, LEASE))
"""What a copy is made of."""
_REQUIRED = (NODE, POD)

_HIDES = {
    "namespaces": "namespace selectors of affinity terms match nothing",
    "poddisruptionbudgets": "preemption and drains see no budgets",
    "priorityclasses": "new pods that name one are refused",
    "runtimeclasses": "new pods that name one are refused",
    "storageclasses": "new claims find no class",
}
"""What the answers lack without a kind; of the others, whatever refers to their objects."""


def read_cluster(
    kubeconfig: str = "", context: str | None = None
) -> tuple[list[KubeObject], tuple[str, ...]]:
    """The objects, and a line for each kind that we may not list."""
    connection = load_connection(kubeconfig, context=context or "", environment=os.environ)
    return _in_thread(connection)


def _in_thread(connection: Connection) -> tuple[list[KubeObject], tuple[str, ...]]:
    """On a thread of its own: a notebook has an event loop running already."""
    found: list[Any] = []

    def run() -> None:
        try:
            found.append(asyncio.run(_read(connection)))
        except StowplanError as error:
            found.append(error)

    thread = threading.Thread(target=run, name="stowplan-copy")
    thread.start()
    thread.join()
    if isinstance(found[0], StowplanError):
        raise found[0]
    objects, missing = found[0]
    return objects, missing


async def _read(connection: Connection) -> tuple[list[KubeObject], tuple[str, ...]]:
    client = KubernetesClient(
        connection,
        clock=RealClock(),
        random=Random(0),
        user_agent="stowplan/copy",
        may_call=lambda: False,
    )
    try:
        answers = await asyncio.gather(*(_list(client, kind) for kind in READ))
    finally:
        await client.close()
    objects: list[KubeObject] = []
    missing: list[str] = []
    for kind, answer in zip(READ, answers, strict=True):
        if isinstance(answer, ListResult):
            objects += answer.items
        elif kind in _REQUIRED or not isinstance(answer, Forbidden | NotFound):
            raise answer
        elif isinstance(answer, Forbidden):
            missing.append(what_is_hidden("list", kind))
    return objects, tuple(missing)


async def _list(client: KubernetesClient, kind: Kind) -> ListResult | ApiError:
    answered: asyncio.Future[ListResult | ApiError]
    answered = asyncio.get_running_loop().create_future()
    client.list(kind, ListOptions(), answered.set_result)
    return await answered


def what_is_hidden(verb: str, kind: Kind) -> str:
    """What answers lack without the right to do that with a kind."""
    group = f".{kind.group}" if kind.group else ""
    hidden = _HIDES.get(kind.plural, "what refers to them finds none")
    return f"no right to {verb} {kind.plural}{group}: {hidden}"
