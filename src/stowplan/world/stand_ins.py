"""Stand-ins for names: consistent, in the order of the originals, and none of them an original.

A name is made of words between `-`, `.`, `/` and the like, and each word has one stand-in wherever
it stands: so `web-0` and the claim `web-0-data` still belong together, and a key still has a
domain.  Numbers stay.  Stand-ins sort as the words they stand for.
"""

from __future__ import annotations

import re
from bisect import bisect
from collections.abc import Iterable

from stowplan.world.well_known import PREFIXES, TEXT_PREFIXES, TEXTS, WORDS

_WORD = re.compile(r"[A-Za-z0-9_\u0080-\U0010ffff]+")
_NUMBER = re.compile(r"[0-9]+")
_LETTERS = "adehmpsx"
_BOUNDS = ("cpu", "deviceclass", "ephemeral", "hugepages", "memory", "pods", "storage")
"""Words that stay and that scheduling sorts names among: a stand-in begins with the letter that
puts it between those its word lies between."""


class Words:
    """Hears of every word, and stands for it once all are known."""

    def __init__(self, kept: Iterable[str] = ()) -> None:
        """`kept`: texts whose words stay as they are."""
        self._kept = WORDS.union(*(words_of(text) for text in kept))
        self._heard: set[str] = set()
        self._stand_ins: dict[str, str] | None = None

    def settle(self) -> None:
        """From now on, words are replaced; no more may come."""
        heard = sorted(self._heard)
        taken = {word.lower() for word in heard} | {word.lower() for word in self._kept}
        width = len(str(2 * len(heard)))
        found: dict[str, str] = {}
        number = 0
        for word in heard:
            number += 1
            letter = _LETTERS[bisect(_BOUNDS, word)]
            while (stand_in := f"{letter}{number:0{width}d}") in taken:
                number += 1
            found[word] = stand_in
        self._stand_ins = found

    @property
    def originals(self) -> dict[str, str]:
        """Stand-in -> the word it stands for."""
        return {stand_in: word for word, stand_in in (self._stand_ins or {}).items()}

    def whole(self, text: str) -> str:
        """One stand-in for all of it: for texts whose parts mean nothing."""
        if not text or text in TEXTS or text in self._kept or _NUMBER.fullmatch(text):
            return text
        if self._stand_ins is None:
            self._heard.add(text)
            return text
        return self._stand_ins[text]

    def name(self, text: str) -> str:
        """Word by word."""
        if text in TEXTS or text.startswith(TEXT_PREFIXES):
            return text
        for prefix in PREFIXES:
            if text.startswith(prefix):
                return prefix + self._words(text.removeprefix(prefix))
        return self._words(text)

    def _words(self, text: str) -> str:
        return _WORD.sub(lambda match: self._word(match[0]), text)

    def _word(self, word: str) -> str:
        return word if word in self._kept else self.whole(word)


def words_of(text: str) -> set[str]:
    """
    >>> sorted(words_of("gpu.example.com/a-1"))
    ['1', 'a', 'com', 'example', 'gpu']
    """
    return set(_WORD.findall(text))
