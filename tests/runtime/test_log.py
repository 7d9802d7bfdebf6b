"""The log as klog writes it, in text and in JSON, and how much of it."""

from __future__ import annotations

import errno
import io
import json
import logging
import os
from typing import Any

import pytest

from stowplan.clock import VirtualClock
from stowplan.errors import InputError, NotFound
from stowplan.runtime.log import JSON, Block, Bridge, KObj, Log, Verbosity

NOON_S = 1_700_049_600.25
"""2023-11-15 12:00:00.25 UTC"""


class Paper:
    def __init__(self, level: int = 0, vmodule: str = "", format_: str = "text") -> None:
        self.out = io.StringIO()
        verbosity = Verbosity.parse(level, vmodule)
        clock = VirtualClock(NOON_S)
        self.log = Log(clock, verbosity=verbosity, format_=format_, stream=self.out)

    @property
    def text(self) -> str:
        return self.out.getvalue()

    @property
    def last(self) -> dict[str, Any]:
        return json.loads(self.text.splitlines()[-1])  # type: ignore[no-any-return]


def test_a_line_of_text() -> None:
    paper = Paper(2)

    paper.log.info(2, "Bound", pod=KObj("default", "a"), node=KObj("", "n1"), count=3, done=True)

    head, _, rest = paper.text.partition("] ")
    severity, time, pid, caller = head.split()
    assert (severity, time, int(pid)) == ("I1115", "12:00:00.250000", os.getpid())
    assert caller.startswith("test_log.py:")
    assert rest == '"Bound" pod="default/a" node="n1" count=3 done=true\n'


def test_a_line_of_json() -> None:
    paper = Paper(2, format_=JSON)

    paper.log.info(2, "Bound", pod=KObj("default", "a"), node=KObj("", "n1"), count=3)

    caller = paper.last.pop("caller")
    assert caller.startswith("test_log.py:")
    assert {name: value for name, value in paper.last.items() if name != "caller"} == {
        "ts": NOON_S * 1000,
        "v": 2,
        "msg": "Bound",
        "pod": {"name": "a", "namespace": "default"},
        "node": {"name": "n1"},
        "count": 3,
    }


def test_only_what_is_asked_for_is_written() -> None:
    paper = Paper(2)

    for level in range(5):
        paper.log.info(level, f"level {level}")

    assert [line.rpartition("] ")[2] for line in paper.text.splitlines()] == [
        '"level 0"',
        '"level 1"',
        '"level 2"',
    ]


def test_vmodule_raises_the_level_of_some_files() -> None:
    paper = Paper(0, "test_l*=3,other=9")

    paper.log.info(3, "here")
    paper.log.info(4, "too much")

    assert paper.text.count("\n") == 1
    assert paper.log.enabled(9, "other")
    assert not paper.log.enabled(1, "another")


@pytest.mark.parametrize("setting", ["x", "x=", "x=a", "a=1,b"])
def test_a_wrong_vmodule_is_named(setting: str) -> None:
    with pytest.raises(InputError, match="not of the form pattern=N"):
        Verbosity.parse(0, setting)


def test_the_level_can_change_while_it_runs() -> None:
    paper = Paper(0)
    paper.log.info(4, "before")

    paper.log.verbosity.level = 4
    paper.log.info(4, "after")

    assert '"after"' in paper.text
    assert "before" not in paper.text


def test_an_error_of_somebody_else_has_no_traceback() -> None:
    paper = Paper()

    paper.log.error("Failed", NotFound("pods a not found"), pod="a")

    assert paper.text.startswith("E1115 ")
    assert paper.text.endswith('"Failed" err="pods a not found" pod="a"\n')


def test_a_bug_has_its_traceback() -> None:
    paper = Paper()
    try:
        {}["no such key"]  # type: ignore[index]
    except KeyError as error:
        paper.log.error("Failed", error)

    assert "Traceback" in paper.text
    assert "test_a_bug_has_its_traceback" in paper.text


def test_no_value_can_forge_a_line() -> None:
    forged = 'a\nI1115 12:00:00.000000 1 x.go:1] "Bound" pod="x"'
    text, data = Paper(), Paper(format_=JSON)

    for paper in (text, data):
        paper.log.info(0, "Seen", name=forged)

    assert text.text.count("\n") == 1
    assert data.text.count("\n") == 1
    assert data.last["name"] == forged


HOSTILE = "a\x1b[2J\x9b31m\x85b\x7f\u202ec\u2028d\ud800"


@pytest.mark.parametrize("format_", ["text", JSON])
def test_no_value_can_do_anything_to_a_terminal(format_: str) -> None:
    paper = Paper(format_=format_)

    paper.log.info(0, HOSTILE, name=HOSTILE, pod=KObj(HOSTILE, HOSTILE), all=[HOSTILE])
    paper.log.info(0, "Report", report=Block(f"{HOSTILE}\n{HOSTILE}"))
    paper.log.error("Failed", ValueError(f"{HOSTILE}\nI1115 forged"))
    paper.log.foreign("E", HOSTILE, HOSTILE, HOSTILE)

    allowed = "\n\t" if format_ == "text" else "\n"
    bad = [c for c in paper.text if not c.isprintable() and c not in allowed]
    assert not bad
    assert not any(line.startswith("I1115 forged") for line in paper.text.splitlines())
    if format_ == JSON:
        assert json.loads(paper.text.split("\n")[0])["name"] == HOSTILE


def test_a_report_of_ours_keeps_its_lines() -> None:
    paper = Paper()

    paper.log.info(0, "Report", report=Block("one\ntwo\n"))

    assert paper.text.endswith('"Report" report=<\n\tone\n\ttwo\n >\n')


def test_other_libraries_write_in_the_same_form() -> None:
    paper = Paper(format_=JSON)
    logger = logging.getLogger("a.library")
    logger.propagate = False
    logger.addHandler(Bridge(paper.log))
    logger.setLevel(logging.INFO)

    logger.info("not at this level")
    logger.warning("lost %s", "a watch")

    assert paper.text.count("\n") == 1
    assert paper.last["msg"] == "lost a watch"
    assert paper.last["severity"] == "warning"


def test_nothing_is_formatted_for_a_line_that_is_not_written() -> None:
    class Costly:
        def __str__(self) -> str:
            raise AssertionError("formatted")

    Paper(1).log.info(2, "no", value=Costly())


def test_a_log_that_cannot_be_written_stops_nobody() -> None:
    """The disk of the log is full, or whoever read it has gone."""

    class Full(io.StringIO):
        def write(self, text: str) -> int:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    log = Log(VirtualClock(), stream=Full())

    log.info(0, "Seen")
    log.error("Failed", OSError("why"))
