"""What happened, line by line; its hash tells two runs apart."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from hashlib import sha256

TAIL_LINES = 40


class Trace:
    def __init__(self, now: Callable[[], float], echo: Callable[[str], None] | None = None) -> None:
        self._now = now
        self._start_s = now()
        self._echo = echo
        self._hash = sha256()
        self.tail: deque[str] = deque(maxlen=TAIL_LINES)
        self.line_count = 0

    def __call__(self, who: str, what: str) -> None:
        line = f"{self._now() - self._start_s:10.4f}  {who:<12}  {what}"
        self._hash.update(line.encode() + b"\n")
        self.line_count += 1
        self.tail.append(line)
        if self._echo is not None:
            self._echo(line)

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()
