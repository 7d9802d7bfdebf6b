"""Health checks answer word for word what kubelets and people know of Kubernetes."""

from __future__ import annotations

import io

import pytest

from stowplan.clock import VirtualClock
from stowplan.runtime.health import PING, Check, Health, HealthReport
from stowplan.runtime.log import Log, Verbosity


class Checks:
    def __init__(self) -> None:
        self.problem = ""
        self.out = io.StringIO()
        log = Log(VirtualClock(), verbosity=Verbosity(2), stream=self.out)
        sick = Check("shutdown", lambda: self.problem)
        self.health = Health({"livez": (PING,), "readyz": (PING, sick)}, log)

    def ask(
        self, path: str, *, verbose: bool = False, exclude: tuple[str, ...] = ()
    ) -> HealthReport:
        answer = self.health.answer(path, verbose=verbose, exclude=exclude)
        assert answer is not None
        return answer


def test_well() -> None:
    assert Checks().ask("/readyz") == HealthReport(200, "ok")


def test_well_at_length() -> None:
    text = "[+]ping ok\n[+]shutdown ok\nreadyz check passed\n"

    assert Checks().ask("/readyz", verbose=True) == HealthReport(200, text)


@pytest.mark.parametrize("verbose", [False, True])
def test_not_well_says_which_but_not_why(verbose: bool) -> None:
    checks = Checks()
    checks.problem = "process is shutting down"

    text = "[+]ping ok\n[-]shutdown failed: reason withheld\nreadyz check failed\n"

    assert checks.ask("/readyz", verbose=verbose) == HealthReport(500, text)
    assert "process is shutting down" in checks.out.getvalue(), "the log does say why"


def test_a_check_can_be_left_out() -> None:
    checks = Checks()
    checks.problem = "process is shutting down"

    answer = checks.ask("/readyz", verbose=True, exclude=("shutdown",))

    assert answer == HealthReport(
        200, "[+]ping ok\n[+]shutdown excluded: ok\nreadyz check passed\n"
    )


def test_leaving_out_what_is_not_there_is_remarked_on() -> None:
    answer = Checks().ask("/livez", verbose=True, exclude=("b", "a"))

    assert answer.status == 200
    warning = 'warn: some health checks cannot be excluded: no matches for "a", "b"\n'
    assert answer.text == f"[+]ping ok\n{warning}livez check passed\n"


def test_one_check_alone() -> None:
    checks = Checks()
    assert checks.ask("/readyz/shutdown") == HealthReport(200, "ok")

    checks.problem = "process is shutting down"

    answer = checks.ask("/readyz/shutdown")
    assert answer == HealthReport(500, "internal server error: process is shutting down\n")
    assert checks.ask("/readyz/ping") == HealthReport(200, "ok")


@pytest.mark.parametrize("path", ["/healthz", "/readyz/nothing", "/livezz", "/readyz/ping/more"])
def test_what_is_not_there(path: str) -> None:
    assert Checks().health.answer(path, verbose=False, exclude=()) is None
