"""Loops of macros as closures.

The order of evaluation, what is done about errors, and the costs are those of the comprehension
that the macro stands for (`macros.py`); the constants say what its fixed parts cost per round.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from stowplan.cel.code import METER, Frame, Run, first_error
from stowplan.cel.errors import Aborted, EvaluationError, no_such_overload
from stowplan.cel.functions import insert_entries
from stowplan.cel.runtime_cost import LIST
from stowplan.cel.values import Value, elements, from_key, map_key

Rounds = Callable[[Frame], Iterator[None]]
"""Sets the loop's variables, once per element."""


def rounds(over: Run, slots: tuple[int, ...]) -> Rounds:
    if len(slots) == 1:
        slot = slots[0]

        def one(frame: Frame) -> Iterator[None]:
            for item in elements(over(frame)):
                frame[slot] = item
                yield

        return one
    first, second = slots

    def two(frame: Frame) -> Iterator[None]:
        value = over(frame)
        pairs: Any = (
            [(from_key(key), it) for key, it in value.items()]
            if isinstance(value, dict)
            else enumerate(elements(value))
        )
        for frame[first], frame[second] in pairs:
            yield

    return two


def quantifier(each: Rounds, predicate: Run, *, decisive: bool) -> Run:
    """`exists` for True, `all` for False."""
    checked, stepped = (3, 1) if decisive else (2, 1)

    def run(frame: Frame) -> Value:
        error: EvaluationError | None = None
        meter = frame[METER]
        for _ in (rest := each(frame)):
            if meter is not None:
                meter.add(checked + stepped)
            try:
                value = predicate(frame)
            except EvaluationError as raised:
                error = first_error(error, raised)
                continue
            if value is decisive:
                if meter is not None:
                    meter.add(1 + (checked if _has_next(rest) else 0))
                return decisive
            if value is not True and value is not False:
                error = first_error(error, no_such_overload())
        if error is not None:
            raise error
        if meter is not None:
            meter.add(1)
        return not decisive

    return run


def _has_next(rest: Iterator[None]) -> bool:
    return next(rest, rest) is not rest


class _Errors:
    """Upstream goes on after an error: that of a later predicate takes its place."""

    __slots__ = ("found",)

    def __init__(self) -> None:
        self.found: EvaluationError | None = None

    def holds(self, predicate: Run | None, frame: Frame) -> bool:
        if predicate is None:
            return True
        try:
            value = predicate(frame)
            if value is True or value is False:
                return value
            raise no_such_overload()
        except Aborted:
            raise
        except EvaluationError as raised:
            self.found = raised
        return False

    def value(self, run: Run, frame: Frame) -> Value:
        try:
            return run(frame)
        except EvaluationError as raised:
            self.found = first_error(self.found, raised)
        return None

    def finish(self, frame: Frame, cost: int) -> None:
        if self.found is not None:
            raise self.found
        spend(frame, cost)


def spend(frame: Frame, cost: int) -> None:
    if frame[METER] is not None:
        frame[METER].add(cost)


def exists_one(each: Rounds, predicate: Run) -> Run:
    def run(frame: Frame) -> Value:
        count, errors = 0, _Errors()
        for _ in each(frame):
            if errors.holds(predicate, frame):
                count += 1
                spend(frame, 2)
        errors.finish(frame, 2)
        return count == 1

    return run


def collect(each: Rounds, predicate: Run | None, element: Run, *, constant: bool) -> Run:
    """`map`, `filter` and `transformList`."""
    cost = 2 + (0 if constant else LIST)

    def run(frame: Frame) -> Value:
        found: list[Value] = []
        errors = _Errors()
        for _ in each(frame):
            if errors.holds(predicate, frame):
                found.append(errors.value(element, frame))
                spend(frame, cost)
        errors.finish(frame, 1)
        return found

    return run


def transform_map(each: Rounds, predicate: Run | None, value: Run, slot: int) -> Run:
    def run(frame: Frame) -> Value:
        found: dict[Value, Value] = {}
        errors = _Errors()
        for _ in each(frame):
            if errors.holds(predicate, frame):
                found[map_key(frame[slot])] = errors.value(value, frame)
                spend(frame, 3)
        errors.finish(frame, 1)
        return found

    return run


def transform_map_entry(each: Rounds, predicate: Run | None, entry: Run) -> Run:
    def run(frame: Frame) -> Value:
        found: dict[Value, Value] = {}
        errors = _Errors()
        for _ in each(frame):
            if errors.holds(predicate, frame):
                errors.value(lambda frame: insert_entries(found, entry(frame)), frame)
                spend(frame, 2)
        errors.finish(frame, 1)
        return found

    return run
