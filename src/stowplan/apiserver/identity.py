"""Names, uids and timestamps of new objects, all of them repeatable.

Every object is created at a version of its own, so the version makes its uid and, where it asked
for a generated name, the suffix; the seed keeps two clusters apart.  Times come from the clock.
"""

from __future__ import annotations

from stowplan.clock import Clock
from stowplan.objects.times import format_time

GENERATED_NAME_BASE_MAX = 58
"""A generated name is a label of at most 63 characters, five of them the suffix."""

# No vowels and no digits that look like letters: no words, no misreadings.  As upstream.
_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX_LENGTH = 5
_SUFFIX_COUNT: int = len(_ALPHABET) ** _SUFFIX_LENGTH
_PAIRS = [first + second for second in _ALPHABET for first in _ALPHABET]
_PAIR_COUNT = len(_PAIRS)
_PAIRS_COUNT = _PAIR_COUNT**2
_STRIDE = 7_368_787
"""Coprime to the number of suffixes: they repeat only after all others have been used."""


class Identity:
    def __init__(self, clock: Clock, seed: int) -> None:
        self.now_s = clock.now
        self.seed = seed
        self._uid_prefix = f"{seed & 0xFFFFFFFF:08x}-0000-4000-8000-"
        self._second = -1
        self._text = ""

    def uid(self, version: str) -> str:
        return self._uid_prefix + version.zfill(12)

    def now(self) -> str:
        """The time as Kubernetes writes it: whole seconds, so nearly always the last answer."""
        second = int(self.now_s())
        if second != self._second:
            self._second = second
            self._text = format_time(second)
        return self._text

    def suffix(self, number: int) -> str:
        """
        >>> from stowplan.clock import VirtualClock
        >>> Identity(VirtualClock(), 0).suffix(1), Identity(VirtualClock(), 0).suffix(2)
        ('cdn6r', 'dg2zb')
        """
        place = (number * _STRIDE + self.seed) % _SUFFIX_COUNT
        first, second = place % _PAIR_COUNT, place // _PAIR_COUNT % _PAIR_COUNT
        return _PAIRS[first] + _PAIRS[second] + _ALPHABET[place // _PAIRS_COUNT]
