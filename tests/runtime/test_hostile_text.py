"""Objects whose every text is hostile: nothing of it is raw in a log line, a page or a metric.

`tests/cli/test_hostile_text.py` asks the same of the commands.
"""

from __future__ import annotations

import json
import unicodedata
from typing import Any

import pytest

from stowplan.apiserver.store import Store
from stowplan.cli._output import note, say
from stowplan.cli._up_serve import tell_changes
from stowplan.clock import VirtualClock
from stowplan.errors import ApiError
from stowplan.objects.api import Bind
from stowplan.printable import logger
from stowplan.runtime.endpoints import Endpoints, Question
from stowplan.runtime.log import as_json, as_text
from tests.builders import node, pod
from tests.core.harness import START_S, is_a, make_plugin
from tests.runtime.prometheus import parse
from tests.runtime.surfaces import Served

EVIL = 'a\x1b]0;owned\x07\x1b[2J\x9b31m\x85b\nE1118 forged\r\x7f\u202egnp\u2028c"\\\t'
FORGED = "E1118 forged"
NODE, SMALL = f"node-{EVIL}", f"small-{EVIL}"


def objects() -> list[Any]:
    """Pods that are bound, preempt, fit nowhere, are gated, make a plugin fail or no sense."""
    taint = {"key": EVIL, "value": EVIL, "effect": "NoSchedule"}
    meta = {"annotations": {EVIL: EVIL}}
    claims = [{"name": "data", "persistentVolumeClaim": {"claimName": EVIL}}]

    def hostile(name: str, **parts: Any) -> Any:
        labels = {EVIL: EVIL}
        return pod(f"{name}-{EVIL}", namespace=EVIL, metadata=meta, labels=labels, **parts)

    return [
        node(NODE, taints=[taint], labels={EVIL: EVIL}),
        node(SMALL, cpu="1", allocatable={EVIL: "1"}),
        hostile("low", cpu="1", node=SMALL),
        hostile("fits"),
        hostile("high", cpu="1", spec={"priority": 9}),
        hostile("large", requests={EVIL: "9"}),
        hostile("fails"),
        hostile("claims", spec={"volumes": claims}),
        hostile("gated", spec={"schedulingGates": [{"name": EVIL}]}),
        hostile("unreadable", cpu=f"1{EVIL}"),
        hostile("foreign", spec={"schedulerName": EVIL}),
    ]


def raw(text: str) -> list[str]:
    """Controls (Cc), marks that turn text around (Cf), separators of lines (Zl, Zp), halves."""
    return [
        c for c in text if unicodedata.category(c) in ("Cc", "Cf", "Zl", "Zp", "Cs") and c != "\n"
    ]


def filter_node(self: Any, cycle: Any, info: Any, node: Any) -> None:
    if info.pod.metadata.name.startswith("fails"):
        raise ValueError(info.pod.metadata.annotations[EVIL])


def served(form: Any = as_text) -> Served:
    found = Served(verbosity=10, plugins=(make_plugin("Failing", filter_node=filter_node),))
    found.lines._form = form
    found.api.fail(is_a(Bind), ApiError(EVIL), times=1)
    found.endpoints = Endpoints(found.surface)
    found.add(*objects())
    found.run(400)
    return found


@pytest.mark.parametrize("form", [as_text, as_json])
def test_log_lines(form: Any) -> None:
    text = served(form).out.getvalue()

    for told in ("Plugin failed", "Successfully bound", "Unable to schedule", "Error scheduling"):
        assert told in text
    # A traceback is indented, so that its lines are not taken for others.
    assert not raw(text.replace("\n\t", "\n"))
    lines = text.splitlines()
    assert not any(line.startswith(FORGED) for line in lines)
    if form is as_json:
        assert all(json.loads(line)["msg"] for line in lines)


@pytest.mark.parametrize("accept", ["", "application/json"])
def test_pages_and_metrics(accept: str) -> None:
    endpoints = served().endpoints
    pages = sorted(endpoints._pages) + [
        f"/debug/decisions/{EVIL}/{name}-{EVIL}" for name in ("fits", "high", "large", "fails")
    ]

    texts = {
        path: "".join(endpoints.answer(Question("GET", path, accept=accept)).body) for path in pages
    }

    for path, text in texts.items():
        assert not raw(text), path
        assert not any(line.startswith(FORGED) for line in text.splitlines()), path
    assert any("x1b" in text or "u001b" in text for text in texts.values())
    assert parse(texts["/metrics"])
    assert "a\\\\x1b" in texts["/metrics/resources"], "a backslash is escaped in a label"


def test_what_other_programs_find_in_their_log(caplog: pytest.LogCaptureFixture) -> None:
    """Whoever imports Stowplan may write its records anywhere, with any handler."""
    served()  # Its namespaces are not there: events cannot be written.
    log = logger("stowplan.somewhere")
    try:
        raise ValueError(EVIL)
    except ValueError:
        log.exception("it failed: %s", EVIL)

    assert not raw(caplog.text.replace("\n\t", "\n"))
    assert "An event was not written" in caplog.text
    assert "Traceback" in caplog.text
    assert not any(line.startswith(FORGED) for line in caplog.text.splitlines())


def test_lines_of_up_about_what_changes(capsys: pytest.CaptureFixture[str]) -> None:
    store = Store(VirtualClock(START_S), create_namespaces=True)
    tell_changes(store, say)

    for thing in objects():
        store.put(thing)
    note(EVIL)

    told = capsys.readouterr()
    assert "low-a" in told.out + told.err
    assert not raw(told.out + told.err)
    assert not any(line.startswith(FORGED) for line in (told.out + told.err).splitlines())
