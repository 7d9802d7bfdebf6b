"""Small words: amounts as people write them, names that look alike, lists that stay short."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from difflib import SequenceMatcher

from stowplan.printable import count_of as count_of
from stowplan.printable import some_of as some_of

Tell = Callable[[str], None]
"""Told how far it is, whoever shows that to people."""


def tell_nobody(text: str) -> None:
    pass


NEAR = 0.6
"""How alike two words must be for one to be a misspelling of the other."""


def likeness(word: str, other: str) -> float:
    """From 0 to 1; who misspells a word usually has its beginning right.  Of keys with a prefix
    both parts must be alike, unless it is the same name under another prefix.

    >>> likeness("sdd", "ssd") > likeness("sdd", "hdd") > NEAR, likeness("ssd", "ssd")
    (True, 1.0)
    >>> likeness("a.io/zone", "a.io/zoen") > NEAR > likeness("a.io/zone", "a.io/host")
    True
    """
    if "/" not in word and "/" not in other:
        return _likeness(word, other)
    prefix, _, name = word.rpartition("/")
    other_prefix, _, other_name = other.rpartition("/")
    both = min(_likeness(prefix, other_prefix), _likeness(name, other_name))
    return max(NEAR, both) if name == other_name else both


def _likeness(word: str, other: str) -> float:
    word, other = word.lower(), other.lower()
    alike = SequenceMatcher(None, word, other).ratio()
    pairs = enumerate(zip(word, other, strict=False))
    same = next((n for n, (one, two) in pairs if one != two), min(len(word), len(other)))
    same_part = same / max(len(word), len(other), 1)
    return alike + (1 - alike) * 0.1 * same_part


def nearest(word: str, known: Iterable[str], at_least: float = NEAR) -> str | None:
    """The known word that is most like it, but is not it."""
    scored = [(likeness(word, each), each) for each in known if each != word]
    best = max(scored, key=lambda pair: (pair[0], _reversed(pair[1])), default=(0.0, ""))
    return best[1] if best[0] >= at_least else None


def _reversed(text: str) -> tuple[int, ...]:
    """Of words that are equally near, the first by name."""
    return tuple(-ord(letter) for letter in text)


def quantity(resource: str, amount: int) -> str:
    """As a manifest would say it, exactly.

    >>> quantity("cpu", 3900), quantity("cpu", 2000), quantity("memory", 3 << 29)
    ('3900m', '2', '1536Mi')
    """
    if resource == "cpu":
        return str(amount // 1000) if amount % 1000 == 0 else f"{amount}m"
    if resource in ("memory", "ephemeral-storage", "storage") or resource.startswith("hugepages-"):
        for unit, shift in (("Gi", 30), ("Mi", 20), ("Ki", 10)):
            if amount and amount % (1 << shift) == 0:
                return f"{amount >> shift}{unit}"
    return str(amount)


def shown(resource: str, amount: int) -> str:
    """The same for people: rounded where nobody counts.

    >>> shown("cpu", 3900), shown("memory", 3 * 2**30 + 5)
    ('3.9', '3.0Gi')
    """
    if resource == "cpu":
        return f"{amount / 1000:g}"
    exact = quantity(resource, amount)
    if exact != str(amount) or abs(amount) < 10_000:
        return exact
    for unit, shift in (("Ti", 40), ("Gi", 30), ("Mi", 20), ("Ki", 10)):
        if abs(amount) >= 1 << shift:
            return f"{amount / (1 << shift):.1f}{unit}"
    return exact
