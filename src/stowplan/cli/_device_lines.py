"""Devices in the text of `stowplan dry-run`: who gets which, and why somebody gets none."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from stowplan.cli._output import count_of, some_of

if TYPE_CHECKING:
    from stowplan.world.decision import Decision

WIDTH = 80


def devices_of(decision: Decision) -> list[str]:
    """The devices of a pod that has a node; nothing for one that has no claims."""
    lines = [
        line
        for name, claim in decision.claims.items()
        for line in _claim_lines(name, claim["devices"])
    ]
    return [f"{decision.pod} gets on {decision.node}:", *lines] if lines else []


def _claim_lines(name: str, devices: list[dict[str, Any]]) -> Iterator[str]:
    found: dict[tuple[str, str, str], list[str]] = {}
    for it in devices:
        found.setdefault((it["request"], it["driver"], it["pool"]), []).append(_shown(it))
    for (request, driver, pool), chosen in found.items():
        text = f"claim {name}, request {request}: {', '.join(chosen)} ({driver}, pool {pool})"
        yield from _wrapped(text, "  ")


def _shown(device: dict[str, Any]) -> str:
    marks = []
    if device.get("adminAccess"):
        marks.append("admin access")
    marks += [f"{amount} {name}" for name, amount in device.get("consumedCapacity", {}).items()]
    return f"{device['device']} [{', '.join(marks)}]" if marks else device["device"]


def unmet_lines(decision: Decision) -> Iterator[str]:
    """Which requests of a pod that fits nowhere cannot be met, for whom it stands for."""
    own = decision.pod.partition("/")[2]
    for it in decision.unmet_requests:
        claim = it["claim"].partition("/")[2]
        # Pods with claims from one template are told of together: their names do not matter.
        whose = "" if claim.startswith((f"{own}-", "<")) else f"claim {claim}, "
        wanted = "all devices" if it["wanted"] == "All" else count_of(it["wanted"], "device")
        head = f"{whose}request {it['request']}: {wanted} of class {it['class']};"
        yield from _wrapped(f"{head} {_counted(it)}", "")


def _counted(it: dict[str, Any]) -> str:
    places = it["where"]
    if not it["matching"]:
        return "no device matches"
    matching = f"{count_of(it['matching'], 'device')} match" + ("es" if it["matching"] == 1 else "")
    tainted = f", {it['tainted']} tainted" if it.get("tainted") else ""
    if not it["free"]:
        return f"{matching} ({some_of(list(places))}){tainted}, none is free"
    free = [f"{counts['free']} on {node}" for node, counts in places.items() if counts["free"]]
    return f"{matching}{tainted}, {it['free']} free: {some_of(free)}"


def _wrapped(text: str, indent: str) -> list[str]:
    """Two columns are for what comes before it."""
    return textwrap.wrap(
        text,
        WIDTH - 2,
        initial_indent=indent,
        subsequent_indent=f"{indent}  ",
        break_long_words=False,
        break_on_hyphens=False,
    )
