"""A cluster without its names: the same decisions, and nobody learns whose it is.

Objects are walked field by field.  What the API itself defines (operators, effects, phases, times,
amounts) stays; names, keys, values, images and annotations get stand-ins, texts for people go.  A
field that is not known here is taken for a name.

A name is made of words between `-`, `.`, `/` and the like, and each word has one stand-in wherever
it stands: so `web-0` and the claim `web-0-data` still belong together, and a key still has a
domain.  Numbers stay.  Stand-ins sort as the words they stand for, and none of them is an original.
"""

from __future__ import annotations

import re
from bisect import bisect
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from stowplan.world.expressions import parts, replaced
from stowplan.world.well_known import ANNOTATIONS, CONDITIONS, PREFIXES, TEXT_PREFIXES, TEXTS, WORDS

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


Data = dict[str, Any]

_DROPPED = frozenset({"message", "managedFields", "selfLink", "generateName", "fieldPath"})
_KEPT = frozenset(
    {
        "apiVersion", "kind", "apiGroup", "resource", "resourceVersion", "operator", "effect",
        "phase", "status", "protocol", "whenUnsatisfiable", "nodeAffinityPolicy",
        "nodeTaintsPolicy", "preemptionPolicy", "restartPolicy", "accessModes", "volumeMode",
        "volumeBindingMode", "persistentVolumeReclaimPolicy", "reclaimPolicy", "allocationMode",
        "podManagementPolicy", "completionMode", "action", "version", "schedulerName",
        "declaredFeatures", "unhealthyPodEvictionPolicy", "creationTimestamp",
        "deletionTimestamp", "startTime", "completionTime", "timeAdded", "allocationTimestamp",
        "lastProbeTime", "lastTransitionTime", "lastHeartbeatTime", "minAvailable",
        "maxUnavailable", "disruptionMode",
    }
)  # fmt: skip
_MAPS = frozenset(
    {
        "labels", "annotations", "matchLabels", "nodeSelector", "requests", "limits", "capacity",
        "allocatable", "overhead", "podFixed", "allocatedResources", "attributes", "counters",
        "consumedCapacity", "disruptedPods", "selector",
    }
)  # fmt: skip
_AMOUNTS = frozenset(
    {"requests", "limits", "capacity", "allocatable", "overhead", "podFixed",
     "allocatedResources", "counters", "consumedCapacity", "maximumVolumeSize"}
)  # fmt: skip
_WHOLE = frozenset({"uid", "shareID", "providerID", "nodeID", "volumeHandle"})
_FIELDS = {
    "selector": frozenset({"matchLabels", "matchExpressions"}),
    "allocatable": frozenset({"count"}),
    "capacity": frozenset({"requests"}),
    "nodeSelector": frozenset({"nodeSelectorTerms"}),
}
"""What a field of that name has in it where it is no map."""
_AMOUNT = re.compile(r"[+-]?[0-9.]+([eE][+-]?[0-9]+|[numkKMGTPE]i?)?")
_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z?")
_INTEGER = re.compile(r"[+-]?[0-9]+")
_EVERYWHERE = frozenset({"", "0.0.0.0", "::", "127.0.0.1", "::1"})
_DEPTH_MAX = 100


@dataclass(frozen=True, slots=True)
class Anonymised:
    objects: list[Data]
    originals: dict[str, str]
    """Stand-in -> the word that it stands for."""
    kept: tuple[str, ...]
    """Why some words were left as they are."""


def anonymise(objects: Iterable[Data], keep: Iterable[str] = ()) -> Anonymised:
    """The objects with stand-ins.  `keep`: texts whose words stay, such as a configuration's."""
    objects = list(objects)
    keep = list(keep)
    remarks = ["the words that the configuration names"] if keep else []
    looked_into = [text for text in _expressions(objects) if parts(text) is None]
    if looked_into:
        keep += [*_expressions(objects), *_device_words(objects)]
        remarks.append("drivers and attributes of devices, since a selector looks into their text")
    words = Words(keep)
    walk = _Walk(words)
    for data in objects:
        walk.object(data)
    words.settle()
    made = [walk.object(data) for data in objects]
    return Anonymised(made, words.originals, tuple(remarks))


class _Walk:
    def __init__(self, words: Words) -> None:
        self._words = words
        self._addresses: dict[str, str] = {}

    def object(self, data: Data) -> Data:
        return {key: self._value(key, value, _DEPTH_MAX) for key, value in _told(data)}

    def _value(self, key: str, value: Any, depth: int, *, amount: bool = False) -> Any:
        if depth == 0 or isinstance(value, bool | int | float) or value is None:
            return value if depth else None
        if isinstance(value, str):
            return self._text(key, value, amount=amount)
        if isinstance(value, list):
            # Of a list, the entries are objects of the API, whatever the list is called.
            return [
                self._value("" if isinstance(item, dict) else key, item, depth - 1, amount=amount)
                for item in value
            ]
        if _is_map(key, value):
            return self._map(key, value, depth)
        return {
            name: self._value(name, item, depth - 1, amount=amount) for name, item in _told(value)
        }

    def _map(self, key: str, value: Data, depth: int) -> Data:
        """Keys are names too."""
        name = self._words.name
        if key == "annotations":
            return {
                name(it): name(text) if it in ANNOTATIONS else self._words.whole(str(text))
                for it, text in value.items()
                if not it.endswith("last-applied-configuration")
            }
        amount = key in _AMOUNTS
        return {
            name(it): self._value("", item, depth - 1, amount=amount) for it, item in value.items()
        }

    def _text(self, key: str, text: str, *, amount: bool) -> str:
        if key in _KEPT or (amount and _AMOUNT.fullmatch(text)) or _TIME.fullmatch(text):
            return text
        if key == "expression":
            return replaced(text, self._words.name)
        if key in _WHOLE:
            return self._words.whole(text)
        if key == "hostIP":
            return self._address(text)
        if key == "type" and text in CONDITIONS:
            return text
        return self._named(text)

    def _named(self, text: str) -> str:
        # Label values are compared as numbers.
        return text if _INTEGER.fullmatch(text) else self._words.name(text)

    def _address(self, text: str) -> str:
        if text in _EVERYWHERE:
            return text
        number = len(self._addresses)
        return self._addresses.setdefault(text, f"198.18.{number // 250}.{number % 250 + 1}")


def _told(data: Data) -> Iterator[tuple[str, Any]]:
    return ((key, value) for key, value in data.items() if key not in _DROPPED)


def _is_map(key: str, value: Data) -> bool:
    """Whether the keys are names, not fields; what is a map in one kind may be none in others."""
    return key in _MAPS and not (value and value.keys() <= _FIELDS.get(key, frozenset()))


def _expressions(objects: Iterable[Data]) -> list[str]:
    return [text for key, text in _texts(objects) if key == "expression"]


def _device_words(objects: Iterable[Data]) -> Iterator[str]:
    """What an expression may be compared with."""
    for data in objects:
        if data.get("kind") != "ResourceSlice":
            continue
        spec = data.get("spec") or {}
        yield str(spec.get("driver", ""))
        for device in spec.get("devices") or ():
            for part in ("attributes", "capacity"):
                yield from (device.get(part) or {})
            yield from (text for key, text in _texts([device.get("attributes") or {}]))


def _texts(data: Any) -> Iterator[tuple[str, str]]:
    """Every text with the name of its field."""
    waiting: list[tuple[str, Any]] = [("", data)]
    while waiting:
        key, value = waiting.pop()
        if isinstance(value, str):
            yield key, value
        elif isinstance(value, dict):
            waiting += value.items()
        elif isinstance(value, list):
            waiting += ((key, item) for item in value)


def words_of_all(data: Any) -> set[str]:
    """Every word in every text and key of plain data."""
    found: set[str] = set()
    waiting: list[Any] = [data]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            found |= words_of(value)
        elif isinstance(value, dict):
            waiting += [*value, *value.values()]
        elif isinstance(value, list):
            waiting += value
    return found
