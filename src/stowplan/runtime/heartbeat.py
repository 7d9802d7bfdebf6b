"""For calls into C that hold Python's interpreter lock: no thread of this process can run then.

As long as `runtime.upkeep` gets its turns it calls `beat`, which winds up two clocks of the kernel.
Neither rings unless nobody has beaten for a while:

- the first rings after a quarter of a second, and then often, for a while.  Its handler does
  nothing, but being Python code it lets other threads run.  C code that looks for signals (regular
  expressions, arithmetic with huge numbers) is interrupted by it, and so keeps nobody from renewing
  leases;
- the second counts the time that this process computes, so that a machine that sleeps, a process
  that is stopped or one that gets no processor are none of its business.  After `SILENCE_MAX_S` it
  ends the process as a signal does (SIGPROF; shells say 155), and every thread's stack is on
  stderr: the first line of the main thread is where it was.  The lease then runs out by itself.

Only a whole process of ours uses it (`runtime.live.run`, `cli._up_serve`).
"""

from __future__ import annotations

import faulthandler
import signal
import time

STDERR = 2
RING_AFTER_S = 0.25
RING_EVERY_S = 0.02
RING_FOR_S = 2.0
"""After a beat that came late: the next one may be kept from coming in the same way."""
SILENCE_MAX_S = 4.0
"""Of computing.  Less than a process may take to end after SIGTERM."""


class Heartbeat:
    """To be made in the main thread; signal handlers belong to it."""

    def __init__(self) -> None:
        self._stopped = False
        self._beaten_s = time.monotonic()
        self._ringing_until_s = 0.0
        signal.signal(signal.SIGALRM, lambda number, frame: None)
        # Whatever was there before: by default, SIGPROF ends a process.
        signal.signal(signal.SIGPROF, signal.SIG_DFL)
        faulthandler.register(signal.SIGPROF, STDERR, all_threads=True, chain=True)

    def beat(self) -> None:
        now_s = time.monotonic()
        if now_s - self._beaten_s > RING_AFTER_S:
            self._ringing_until_s = now_s + RING_FOR_S
        self._beaten_s = now_s
        first_s = RING_EVERY_S if now_s < self._ringing_until_s else RING_AFTER_S
        signal.setitimer(signal.ITIMER_REAL, first_s, RING_EVERY_S)
        if not self._stopped:
            signal.setitimer(signal.ITIMER_PROF, SILENCE_MAX_S)

    def stop(self) -> None:
        self._stopped = True
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        faulthandler.unregister(signal.SIGPROF)
