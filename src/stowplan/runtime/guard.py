"""Watches the scheduler's thread from another one, and ends the process when it does not come back.

Once a second the scheduler's loop is asked for a sign of life.  While it answers nothing more is
done.  When it does not, `runtime.whereabouts` says what it is at:

- still the same decision (or the same call of a plugin) after the limit of --decision-timeout: the
  process cannot be trusted to lead any more.  It says what it was at, and steps down;
- asked to stop meanwhile, and not heard of for `STOP_WAIT_S`: it is not waited for any longer;
- asked twice: at once.

Everything here runs on the thread of `runtime.upkeep`, but for `hurry` and `_heard`, which set one
attribute each.  How to step down is up to `give_up` (`runtime.live`); `runtime.supervision` puts
the two threads together.
"""

from __future__ import annotations

from collections.abc import Callable

from stowplan.runtime.lifecycle import GIVEN_UP, STOPPED, TOO_LONG
from stowplan.runtime.log import Log
from stowplan.runtime.whereabouts import Doing

BEAT_S = 0.1
"""Between two looks."""
ASK_EVERY_S = 1.0
SILENT_S = 1.0
"""Without an answer for so long, the scheduler is looked at more closely."""
LONG_S = 5.0
"""A decision that takes so long is worth a line in the log."""
STOP_WAIT_S = 2.5
DECISION_TIMEOUT_S = 30.0
"""Twice as long as others wait for a leader that is silent."""

GiveUp = Callable[[int], None]
"""Told the exit code: step down and end, without the scheduler's thread."""


class Guard:
    def __init__(
        self,
        *,
        now: Callable[[], float],
        ask: Callable[[Callable[[], None]], None],
        look: Callable[[], Doing],
        give_up: GiveUp,
        log: Log,
        limit_s: float = DECISION_TIMEOUT_S,
        ask_every_s: float = ASK_EVERY_S,
    ) -> None:
        """`ask` has the function that it is given called by the scheduler's loop.  A `limit_s` of 0
        is none."""
        self._now = now
        self._ask = ask
        self._look = look
        self._give_up = give_up
        self._log = log
        self._limit_s = limit_s
        self._ask_every_s = ask_every_s
        self._asked_s: float | None = None
        """When the question was put that is not answered."""
        self._last_asked_s = now()
        self._hurries: list[float] = []
        """When the process was asked to stop."""
        self._mark: object = None
        self._mark_s = 0.0
        self._told = False
        self._gave_up = False

    def hurry(self) -> None:
        """The process was asked to stop."""
        self._hurries.append(self._now())

    def _heard(self) -> None:
        self._asked_s = None

    @property
    def silent_s(self) -> float:
        """For how long the scheduler's loop has not answered."""
        asked_s = self._asked_s
        return 0.0 if asked_s is None else self._now() - asked_s

    def beat(self) -> None:
        """To be called every `BEAT_S`."""
        if self._gave_up:
            return
        now_s = self._now()
        if self._asked_s is None:
            self._mark = None
            if self._hurries or now_s >= self._last_asked_s + self._ask_every_s:
                self._asked_s = self._last_asked_s = now_s
                self._ask(self._heard)
        elif self._must_go(now_s):
            self._end(GIVEN_UP if len(self._hurries) > 1 else STOPPED, "Stopping without it")
        elif self.silent_s >= SILENT_S:
            self._watch(now_s)

    def _must_go(self, now_s: float) -> bool:
        if len(self._hurries) > 1:
            return self.silent_s >= SILENT_S
        return bool(self._hurries) and (min(self.silent_s, now_s - self._hurries[0]) >= STOP_WAIT_S)

    def _watch(self, now_s: float) -> None:
        doing = self._look()
        # Not in the machine at all: whatever it is, it is one piece of work.
        mark = doing.mark if doing.mark is not None else ("question", self._asked_s)
        if mark != self._mark:
            self._mark, self._mark_s, self._told = mark, now_s, False
            return
        took_s = now_s - self._mark_s
        if self._limit_s and took_s >= self._limit_s:
            what = "A decision" if doing.fields else "What the scheduler is at"
            self._end(TOO_LONG, f"{what} does not end")
        elif took_s >= LONG_S and not self._told:
            self._told = True
            self._log.warning("A decision takes long", seconds=round(took_s, 1), **doing.fields)

    def _end(self, code: int, message: str) -> None:
        self._gave_up = True
        silent_s = round(self.silent_s, 1)
        self._log.error(message, None, silentSeconds=silent_s, **self._look().fields, exitCode=code)
        self._give_up(code)
