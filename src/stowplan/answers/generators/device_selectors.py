"""Expressions that select devices: a word that looks misspelt, or an amount no device has."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from stowplan.answers.changes import Sort
from stowplan.answers.situation import Situation
from stowplan.answers.words import likeness, nearest
from stowplan.objects.quantity import parse_quantity

EXPRESSION_MAX = 2000
"""Longer ones are left alone."""
DEVICES_MAX = 2000

_TEXT = re.compile(r"""(["'])((?:(?!\1)[^\\])*)\1""")
_NAME = re.compile(r"(?<=\]\.)([A-Za-z_]\w*)")
_QUANTITY = re.compile(r"[0-9]{1,15}(?:\.[0-9]{1,9})?(?:[kMGTPE]|[KMGTPE]i)?")


def corrected_expressions(s: Situation, text: str) -> Iterator[tuple[str, float, Sort]]:
    """Expressions that differ in one word, how much, and in what sense."""
    if len(text) > EXPRESSION_MAX:
        return
    known = _Known(s)
    for found in _TEXT.finditer(text):
        word, start, end = found[2], found.start(2), found.end(2)
        if _QUANTITY.fullmatch(word) and known.amounts:
            wanted = parse_quantity(word)
            most = max((amount for amount in known.amounts if amount < wanted), default=None)
            if most is not None:
                new = f"{text[:start]}{known.amounts[most]}{text[end:]}"
                yield new, 1 - most / wanted, Sort.LESS
            continue
        yield from _other_word(text, word, known.words, (start, end))
    for found in _NAME.finditer(text):
        yield from _other_word(text, found[1], known.names, found.span(1))


def _other_word(
    text: str, word: str, known: set[str], span: tuple[int, int]
) -> Iterator[tuple[str, float, Sort]]:
    right = nearest(word, known) if word not in known else None
    if right is not None:
        new = f"{text[: span[0]]}{right}{text[span[1] :]}"
        yield new, 1 - likeness(word, right), Sort.CORRECT


class _Known:
    """What devices say of themselves."""

    def __init__(self, s: Situation) -> None:
        self.words: set[str] = set()
        """Drivers, and texts of attributes."""
        self.names: set[str] = set()
        """Of attributes and capacities."""
        self.amounts: dict[int, str] = {}
        """Amounts of capacities, and how each is written."""
        for each in list(s.objects("ResourceSlice"))[:DEVICES_MAX]:
            self.words.add(each.spec.driver)
            for device in (each.spec.devices or ())[:DEVICES_MAX]:
                self._take(device)

    def _take(self, device: Any) -> None:
        for name, attribute in (device.attributes or {}).items():
            self.names.add(name.rpartition("/")[2])
            if attribute.string is not None:
                self.words.add(attribute.string)
        for name, capacity in (device.capacity or {}).items():
            self.names.add(name.rpartition("/")[2])
            self.amounts[parse_quantity(capacity.value)] = str(capacity.value)
