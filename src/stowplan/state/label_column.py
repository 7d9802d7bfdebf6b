"""One node label as a column: the value of every node as a small integer.

Strings are compared once per distinct value; per node only integers are looked at.  This is what
selectors, topology domains and zones are computed on.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from stowplan.objects.selectors import parse_integer

ABSENT = -1

_NO_INTEGERS = (np.zeros(1, np.bool_), np.zeros(1, np.int64))


class LabelColumn:
    __slots__ = (
        "_cells",
        "_ids",
        "_index",
        "_integers",
        "_present",
        "_present_numbers",
        "_seen",
        "_size",
        "key",
        "values",
        "version",
    )

    def __init__(self, key: str, capacity: int) -> None:
        self.key = key
        self.values: list[str] = []
        """Distinct values seen; `ids` points into it."""
        self._index: dict[str, int] = {}
        self._ids: NDArray[np.intp] = np.full(capacity, ABSENT, np.intp)
        self._cells = self._ids.data
        self._size = 0
        self.version = 0
        """Grows whenever a node's value changes."""
        self._present: NDArray[np.bool_] = np.zeros(0, np.bool_)
        self._present_numbers: list[int] = []
        self._seen = -1
        self._integers = _NO_INTEGERS

    def fork(self) -> LabelColumn:
        fork = LabelColumn(self.key, 0)
        fork.values, fork._index = self.values.copy(), self._index.copy()
        fork._ids = self._ids.copy()
        fork._cells = fork._ids.data
        fork._size, fork.version = self._size, self.version
        return fork

    @property
    def ids(self) -> NDArray[np.intp]:
        """Per row the number of its value in `values`, ABSENT where the node lacks the key."""
        return self._ids[: self._size]

    def present(self, alive: NDArray[np.bool_], node_version: int) -> NDArray[np.bool_]:
        """Per value whether a node has it, and in one slot more whether a node lacks the key.

        `alive` and the version of the nodes are the table's.
        """
        if self._seen != node_version:
            self._present = np.zeros(len(self.values) + 1, np.bool_)
            self._present[self.ids[alive]] = True
            self._present_numbers = self._present.nonzero()[0].tolist()
            self._seen = node_version
        return self._present

    def present_numbers(self, alive: NDArray[np.bool_], node_version: int) -> list[int]:
        """The same as numbers: of the values, and how many there are if a node lacks the key."""
        self.present(alive, node_version)
        return self._present_numbers

    def integers(self) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
        """Per value, and for the lack of one, whether it is an integer, and which."""
        known = len(self._integers[0]) - 1
        if known < len(self.values):
            parsed = [*map(parse_integer, self.values[known:]), None]
            are_integers = np.array([number is not None for number in parsed])
            integers = np.array([number or 0 for number in parsed], np.int64)
            self._integers = (
                np.concatenate([self._integers[0][:-1], are_integers]),
                np.concatenate([self._integers[1][:-1], integers]),
            )
        return self._integers

    def number_at(self, row: int) -> int:
        """One cell of `ids`."""
        number: int = self._cells[row]
        return number

    def id_of(self, value: str) -> int:
        return self._index.get(value, ABSENT)

    def resize(self, size: int, capacity: int) -> None:
        if capacity > len(self._ids):
            grown = np.full(capacity, ABSENT, np.intp)
            grown[: len(self._ids)] = self._ids
            self._ids = grown
            self._cells = grown.data
        self._size = size

    def set(self, row: int, value: str | None) -> None:
        number = ABSENT if value is None else self._number(value)
        if self._cells[row] != number:
            self._cells[row] = number
            self.version += 1

    def _number(self, value: str) -> int:
        number = self._index.get(value)
        if number is None:
            number = self._index[value] = len(self.values)
            self.values.append(value)
        return number

    def matches(self, accepts: Callable[[str | None], bool]) -> NDArray[np.bool_]:
        """Per row, whether the predicate accepts its value: one Python call per distinct value.

        The table has one slot more than there are values, which ABSENT (-1) reaches from behind.
        """
        table = np.fromiter(
            (accepts(value) for value in (*self.values, None)), np.bool_, len(self.values) + 1
        )
        picked: NDArray[np.bool_] = table[self.ids]
        return picked

    @property
    def is_worn(self) -> bool:
        """Most values belong to nodes long gone: time to start afresh."""
        return len(self.values) > 1024 and len(self.values) > 2 * self._size
