"""New events, many at a time: there is one for each pod, and they are sent in crowds.

What `writes.Writer.create` finds out for every object (that the namespace is there, what time it
is, whether it is of a kind with this or that) is found out once for all of them.  That holds for
events of which nothing is special; one that is, or that must be refused, is left to `Writer`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import repeat

from msgspec.structs import replace

from stowplan.apiserver.identity import Identity
from stowplan.apiserver.ledger import Ledger, names_in
from stowplan.apiserver.retention import EventRetention
from stowplan.apiserver.validation import subdomain_problem
from stowplan.objects.api import Create
from stowplan.objects.base import KubeObject, ObjectMeta
from stowplan.objects.coordination import Event
from stowplan.objects.kinds import EVENT


def create_events(
    requests: Sequence[Create],
    ledger: Ledger,
    identity: Identity,
    namespaces: Mapping[str, KubeObject],
    retention: EventRetention,
) -> Sequence[KubeObject] | None:
    """Write them all, or nothing (None) where one of them must be looked at on its own."""
    now_s, now, version = identity.now_s(), identity.now(), ledger.version
    if ledger.refusal is not None or not 0 < len(requests) <= retention.room(now_s):
        return None
    table = ledger.tables[Event]
    namespace, names = "", names_in(table, namespaces, "")
    new: dict[tuple[str, str], Event] = {}
    for request in requests:
        event = request.body
        if request.kind is not EVENT or not isinstance(event, Event):
            return None
        if request.namespace != namespace or not namespace:
            namespace = request.namespace
            names = names_in(table, namespaces, namespace)
        if names is None:
            return None
        name = event.metadata.name
        bare = ObjectMeta(name=name, namespace=namespace)
        if event.metadata != bare or name in names or subdomain_problem(name):
            return None
        version += 1
        text = f"{version}"
        new[namespace, name] = replace(
            event,
            api_version=EVENT.api_version,
            kind=EVENT.name,
            metadata=replace(
                bare,
                uid=identity.uid(text),
                resource_version=text,
                creation_timestamp=now,
            ),
        )
    if len(new) < len(requests):
        return None
    events = [*new.values()]
    ledger.write_all(table, "ADDED", zip(repeat(None), events))
    retention.keep_all(events, now_s)
    return events
