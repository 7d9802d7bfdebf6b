"""When a watched cluster counts as lost, and when as back."""

from __future__ import annotations

from stowplan.web.outage import QUIET_S, Outage

DOWN = "pods: connection refused"


def test_silence_between_two_tries_is_no_good_news() -> None:
    outage = Outage()

    assert outage.look(DOWN, 7, 100.0)
    assert not outage.look("", 7, 101.0)
    assert not outage.look(DOWN, 7, 102.0)
    assert not outage.look("", 7, 102.0 + QUIET_S)

    assert outage.to_dict() == {"problem": DOWN, "since": 100.0}


def test_it_is_back_when_something_is_heard_or_nobody_complains() -> None:
    heard, silent = Outage(), Outage()
    heard.look(DOWN, 7, 100.0)
    silent.look(DOWN, 7, 100.0)

    assert heard.look("", 8, 101.0)
    assert silent.look("", 7, 100.1 + QUIET_S)

    well = {"problem": "", "since": 0.0}
    assert heard.to_dict() == silent.to_dict() == well
