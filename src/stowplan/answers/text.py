"""The answer as text: lines of a given width, for people.

What others wrote is made fit for a terminal by whoever prints the lines (`cli._output`), or here
where a notebook shows them.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from stowplan.answers.words import count_of, some_of

if TYPE_CHECKING:
    from stowplan.answers.causes import Cause
    from stowplan.answers.proving import Fix
    from stowplan.answers.why import Why

WIDTH = 80
VALUE_MAX = 200
NO_CLAIMS = "no new claims to deallocate, "


def lines_of(why: Why, width: int = WIDTH) -> Iterator[str]:
    yield from wrapped(_headline(why), width)
    yield from (line for text in _standing(why) for line in wrapped(text, width, "  "))
    if why.group is not None:
        headline, *lines = why.group.lines()
        yield ""
        yield from wrapped(f"Its {headline}:", width)
        yield from (part for line in lines for part in wrapped(line, width, "  "))
    if why.causes:
        yield ""
        yield from wrapped("Why not, near misses first:", width)
        for cause in why.causes:
            yield from _of_cause(cause, width)
    preemption = _preemption(why)
    if preemption:
        yield from wrapped(preemption, width, "  ")
    if why.node:
        return
    yield ""
    if not why.fixes:
        yield from _nothing_helps(why, width)
        return
    yield from wrapped("What would help, each tried on a fork:", width)
    for number, fix in enumerate(why.fixes, 1):
        yield from _of_fix(number, fix, width)


def wrapped(text: str, width: int, indent: str = "", hang: str = "  ") -> list[str]:
    found = textwrap.wrap(
        text,
        width,
        initial_indent=indent,
        subsequent_indent=indent + hang,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return found or [""]


def _headline(why: Why) -> str:
    if why.node:
        return f"{why.pod} has a node: {why.node}"
    if why.place is not None and why.place.place == "permit":
        return f"{why.pod} has a node in view and waits at Permit"
    if why.group is not None:
        return f"{why.pod} has no node: its group was not placed"
    return f"{why.pod} has no node: 0/{why.node_count} nodes are available"


def _standing(why: Why) -> Iterator[str]:
    """Where it stands, and how the verdict changed."""
    place = why.place
    if place is not None and place.place not in ("", "bound"):
        where = f"{place.place}, number {place.position} in the queue"
        tried = f", tried {'once' if place.attempts == 1 else f'{place.attempts} times'}"
        waits = f", {place.backoff_s:g} s of backoff left" if place.backoff_s else ""
        yield where + (tried if place.attempts else ", not tried yet") + waits
    if place is not None and place.place == "":
        yield "not in the queue: this scheduler does not decide on it"
    if place is not None and place.nominated_node:
        yield f"nominated to {place.nominated_node}"
    for plugin, reason in ((place and place.waits_for) or {}).items():
        yield f"{plugin} lets it wait: {reason}"
    if why.evicted:
        yield f"evicts {', '.join(why.evicted)}"
    before = ""
    told = []
    for decision in why.history:
        said = decision.message or f"goes to {decision.node}"
        if said != before:
            told.append(f"attempt {decision.attempt}: {said}")
        before = said
    if len(told) > 1:
        yield from told


def _of_cause(cause: Cause, width: int) -> Iterator[str]:
    yield ""
    if not cause.nodes:
        yield from wrapped(f"{cause.plugin}: {cause.reason}", width, "  ")
    else:
        count = count_of(len(cause.nodes), "node")
        names = some_of(cause.nodes)
        yield from wrapped(f"{cause.plugin} turns down {count}: {names}", width, "  ")
        yield from wrapped(cause.reason, width, "    ")
    if cause.detail:
        yield from wrapped(cause.detail, width, "    ")
    if cause.alone and len(cause.alone) < len(cause.nodes):
        yield from wrapped(f"nobody else turns down {some_of(cause.alone)}", width, "    ")


def _preemption(why: Why) -> str:
    message = why.history[-1].post_filter_message if why.history and not why.node else ""
    text = message.removeprefix(NO_CLAIMS).removeprefix("preemption: ")
    return f"Preemption: {text}" if text else ""


def _nothing_helps(why: Why, width: int) -> Iterator[str]:
    if not why.tried:
        yield from wrapped("Nothing was found that could be tried.", width)
        return
    yield from wrapped("Nothing that was tried helps:", width)
    for title in why.tried[:10]:
        yield from wrapped(f"- {title}", width, "  ")
    if len(why.tried) > 10:
        yield f"  and {len(why.tried) - 10} more"


def _of_fix(number: int, fix: Fix, width: int) -> Iterator[str]:
    yield ""
    yield from wrapped(f"{number}. {fix.title}", width, "  ", "   ")
    for change in fix.changes:
        for operation in change["patch"]:
            yield from wrapped(f"{_reference(change)}: {_operation(operation)}", width, "     ")
    for created in fix.create:
        namespace = created["metadata"].get("namespace")
        reference = {**created, "name": created["metadata"]["name"], "namespace": namespace}
        yield from wrapped(f"create {_reference(reference)}", width, "     ")
    for deleted in fix.delete:
        yield from wrapped(f"delete {_reference(deleted)}", width, "     ")
    yield from wrapped(f"then it goes to {fix.node}", width, "     ")
    if fix.evicts:
        yield from wrapped(f"evicts {some_of(fix.evicts, 5)}", width, "     ")
    for moved in fix.moves[:5]:
        yield from wrapped(moved, width, "     ")


def _reference(data: dict[str, Any]) -> str:
    namespace = f"{data['namespace']}/" if data.get("namespace") else ""
    return f"{data['kind']} {namespace}{data['name']}"


def _operation(operation: dict[str, Any]) -> str:
    if "value" not in operation:
        return f"{operation['op']} {operation['path']}"
    value = json.dumps(operation["value"])
    shown = value if len(value) <= VALUE_MAX else f"{value[:VALUE_MAX]}…"
    return f"{operation['op']} {operation['path']} {shown}"
