"""Requirements and selectors: compiled once, matched often, comparable and hashable.

Two selectors that say the same in another order are equal, so counts can be kept per distinct
selector.  Mirrors apimachinery's `labels/selector.go`.  `objects.labels` makes selectors from the
API's structs, maps and text; `objects.node_selector` builds on the same requirements.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from msgspec import Struct

from stowplan.objects.names import label_key_problem, label_value_problem
from stowplan.objects.quantity import INT64_MAX

IN = "In"
NOT_IN = "NotIn"
EXISTS = "Exists"
DOES_NOT_EXIST = "DoesNotExist"
GT = "Gt"
LT = "Lt"

_INTEGER = re.compile(r"[+-]?[0-9]{1,40}")


class SelectorError(ValueError):
    """The selector cannot be compiled; says which part, and what is right."""


class Requirement(Struct, frozen=True, gc=False):
    """One condition on one key.  `Gt` and `Lt` appear in node selectors only."""

    key: str
    operator: str
    values: frozenset[str] = frozenset()
    number: int | None = None
    """The right side of `Gt` and `Lt`."""

    def matches(self, labels: Mapping[str, str]) -> bool:
        return self.matches_value(labels.get(self.key))

    def matches_value(self, value: str | None) -> bool:
        """None stands for a key that is not there."""
        operator = self.operator
        if operator == IN:
            return value in self.values
        if operator == NOT_IN:
            return value not in self.values
        if operator == EXISTS:
            return value is not None
        if operator == DOES_NOT_EXIST:
            return value is None
        if value is None:
            return False
        number = parse_integer(value)
        if number is None or self.number is None:
            return False
        return number > self.number if operator == GT else number < self.number

    def sort_key(self) -> tuple[str, str, tuple[str, ...], int]:
        return self.key, self.operator, tuple(sorted(self.values)), self.number or 0

    def __str__(self) -> str:
        """As `kubectl get -l` takes it."""
        values = ",".join(sorted(self.values))
        match self.operator:
            case "In":
                return (
                    f"{self.key}={values}" if len(self.values) == 1 else f"{self.key} in ({values})"
                )
            case "NotIn":
                return (
                    f"{self.key}!={values}"
                    if len(self.values) == 1
                    else f"{self.key} notin ({values})"
                )
            case "Exists":
                return self.key
            case "DoesNotExist":
                return f"!{self.key}"
            case operator:
                return f"{self.key}{'>' if operator == GT else '<'}{self.number}"


class Selector:
    """All requirements must hold.  Immutable; equal when they ask for the same."""

    __slots__ = ("_equal", "_hash", "_other", "is_nothing", "requirements")

    requirements: tuple[Requirement, ...]
    is_nothing: bool
    """Matches no object at all, unlike the selector without requirements, which matches all."""

    def __init__(self, requirements: Iterable[Requirement] = (), *, nothing: bool = False) -> None:
        chosen = tuple(requirements)
        if len(chosen) > 1:
            chosen = tuple(sorted(set(chosen), key=Requirement.sort_key))
        self.requirements = chosen
        self.is_nothing = nothing
        # Most selectors are a few `key=value`: compare those without looking into a set.
        equal, other = [], []
        for requirement in chosen:
            if requirement.operator == IN and len(requirement.values) == 1:
                (value,) = requirement.values
                equal.append((requirement.key, value))
            else:
                other.append(requirement)
        self._equal, self._other = tuple(equal), tuple(other)
        self._hash = hash((self.requirements, nothing))

    def matches(self, labels: Mapping[str, str]) -> bool:
        if self.is_nothing:
            return False
        get = labels.get
        for key, value in self._equal:
            if get(key) != value:
                return False
        for requirement in self._other:  # noqa: SIM110 - a generator costs more than the loop
            if not requirement.matches_value(get(requirement.key)):
                return False
        return True

    @property
    def is_everything(self) -> bool:
        return not self.requirements and not self.is_nothing

    def and_also(self, *requirements: Requirement) -> Selector:
        if self.is_nothing or not requirements:
            return self
        return Selector((*self.requirements, *requirements))

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return (
            isinstance(other, Selector)
            and self._hash == other._hash
            and self.is_nothing == other.is_nothing
            and self.requirements == other.requirements
        )

    def __hash__(self) -> int:
        return self._hash

    def __str__(self) -> str:
        return "<none>" if self.is_nothing else ",".join(map(str, self.requirements))

    def __repr__(self) -> str:
        return f"Selector({str(self)!r})"


EVERYTHING = Selector()
NOTHING = Selector(nothing=True)


def equality(key: str, value: str) -> Requirement:
    return make_requirement(key, IN, (value,))


def make_requirement(key: str, operator: str, values: Iterable[str] = ()) -> Requirement:
    """A checked requirement; raises `SelectorError` on all that apimachinery refuses."""
    chosen = tuple(values)
    if problem := label_key_problem(key):
        raise SelectorError(f"label key {key!r} is not valid: {problem}")
    # Nearly all of them are of these two, with values.
    is_usual = bool(chosen) and operator in (IN, NOT_IN)
    number = None if is_usual else _check_values(operator, chosen)
    for value in chosen:
        if problem := label_value_problem(value):
            raise SelectorError(f"label value {value!r} of key {key!r} is not valid: {problem}")
    # Numbers compare by what they mean: the text is dropped so that equal ones are equal.
    return Requirement(
        key, operator, frozenset() if operator in (GT, LT) else frozenset(chosen), number
    )


def parse_integer(text: str) -> int | None:
    """A base-10 number that fits 64 bits, as Go's `ParseInt` takes it; None for anything else."""
    if _INTEGER.fullmatch(text) is None:
        return None
    number = int(text)
    return number if -INT64_MAX - 1 <= number <= INT64_MAX else None


def _check_values(operator: str, values: tuple[str, ...]) -> int | None:
    """The number of `Gt` and `Lt`, after checking how many values the operator takes."""
    match operator:
        case "In" | "NotIn":
            if not values:
                raise SelectorError("for 'in', 'notin' operators, values set can't be empty")
        case "Exists" | "DoesNotExist":
            if values:
                raise SelectorError(
                    f"values set must be empty for exists and does not exist; got {list(values)}"
                )
        case "Gt" | "Lt":
            if len(values) != 1:
                raise SelectorError(
                    f"for 'Gt', 'Lt' operators, exactly one value is required; got {list(values)}"
                )
            number = parse_integer(values[0])
            if number is None:
                raise SelectorError(
                    f"for 'Gt', 'Lt' operators, the value must be an integer; got {values[0]!r}"
                )
            return number
        case _:
            raise SelectorError(
                f"{operator!r} is not a valid selector operator; "
                "use In, NotIn, Exists, DoesNotExist, Gt or Lt"
            )
    return None
