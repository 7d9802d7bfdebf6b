"""Why claims cannot be met, in numbers: per request how many devices match, and how many are free.

For whoever asks about a decision; no decision depends on it.  The devices are counted as they are
when it is asked, which in a dry run is when everything has been decided.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from stowplan.objects.devices import ALL_DEVICES
from stowplan.plugins.dynamic_resources.capacity import amounts_taken
from stowplan.plugins.dynamic_resources.claim_cache import HeldDevices
from stowplan.plugins.dynamic_resources.counters import PoolCounters
from stowplan.plugins.dynamic_resources.device_entry import DeviceEntry, DeviceId
from stowplan.plugins.dynamic_resources.pool import Pool
from stowplan.plugins.dynamic_resources.pools import Slices
from stowplan.plugins.dynamic_resources.requests import AllocationError, Ask, ClaimAsk
from stowplan.plugins.dynamic_resources.tolerations import all_tolerated
from stowplan.state.node_info import NodeInfo


def unmet_requests(
    claims: Iterable[ClaimAsk], nodes: Sequence[NodeInfo], slices: Slices, held: HeldDevices
) -> list[dict[str, Any]]:
    """Each request, or alternative of one, of which no node has enough; all, if each has some.

    In the latter case it is their combination that no node has.
    """
    told = [
        _told(ask, nodes, slices, held)
        for claim in claims
        for alternatives in claim.requests
        for ask in alternatives
    ]
    return [it for it in told if not it.pop("can_be_met")] or told


def _told(ask: Ask, nodes: Sequence[NodeInfo], slices: Slices, held: HeldDevices) -> dict[str, Any]:
    matching: set[DeviceId] = set()
    free: set[DeviceId] = set()
    tainted: set[DeviceId] = set()
    where: dict[str, dict[str, int]] = {}
    takes_all = ask.ask.mode == ALL_DEVICES
    can_be_met = False
    for node in nodes:
        pools = slices.pools(node)
        here = [entry for pool in pools for entry in pool.devices]
        suits = {entry.id for entry in here if _matches(ask, entry, node)}
        spoilt = {it.id for it in here if not all_tolerated(it.taints, ask.tolerations)} & suits
        left = {it.id for it in here if it.id in suits - spoilt and _is_free(ask, it, held)}
        left -= _out_of_reach(pools, held)
        if suits:
            where[node.name] = {"matching": len(suits), "free": len(left)}
        matching |= suits
        free |= left
        tainted |= spoilt
        can_be_met |= bool(suits) and left == suits if takes_all else len(left) >= ask.count
    found: dict[str, Any] = {
        "claim": ask.claim_key,
        "request": ask.name,
        "class": ask.device_class.metadata.name,
        "wanted": "All" if takes_all else ask.count,
        "matching": len(matching),
        "free": len(free),
        "tainted": len(tainted),
        "where": where,
        "can_be_met": can_be_met,
    }
    return found if tainted else {key: it for key, it in found.items() if key != "tainted"}


def _matches(ask: Ask, entry: DeviceEntry, node: NodeInfo) -> bool:
    """One that an expression fails on is none that matches."""
    try:
        return ask.selects(entry) and (entry.places is None or entry.places.accept(node))
    except AllocationError:
        return False


def _is_free(ask: Ask, entry: DeviceEntry, held: HeldDevices) -> bool:
    if not ask.is_admin and entry.id in held.dedicated:
        return False
    return amounts_taken(entry, ask.capacity, held.consumed.get(entry.id), None) is not None


def _out_of_reach(pools: Iterable[Pool], held: HeldDevices) -> set[DeviceId]:
    """Of pools that cannot be used, and parts of something that others hold too much of."""
    found: set[DeviceId] = set()
    for pool in pools:
        if not pool.is_usable:
            found.update(it.id for it in pool.devices)
        elif counted := [it for it in pool.devices if it.consumes and not held.is_used(it.id)]:
            counters = PoolCounters(pool, held)
            found.update(it.id for it in counted if not counters.have(it))
    return found
