"""Functions on lists: cel-go's list and set extensions, and those of Kubernetes."""

from __future__ import annotations

from functools import reduce
from itertools import pairwise

from stowplan.cel.arithmetic import (
    ORDERED,
    Compare,
    add,
    greater,
    lacking,
    less,
    surely_equal,
)
from stowplan.cel.errors import EvaluationError
from stowplan.cel.values import (
    NONE,
    Duration,
    Implementation,
    KubernetesValue,
    Optional,
    UInt,
    Value,
    bounded,
)

_INCLUDES_MAX = 48
_ZEROS: dict[str, Value] = {"int": 0, "uint": UInt(0), "double": 0.0, "duration": Duration(0)}

List = list[Value]


def slice_of(items: List, start: int, end: int) -> List:
    call = f"cannot slice({start}, {end})"
    if start < 0 or end < 0:
        raise EvaluationError(f"{call}, negative indexes not supported")
    if start > end:
        raise EvaluationError(f"{call}, start index must be less than or equal to end index")
    if end > len(items):
        raise EvaluationError(f"{call}, list is length {len(items)}")
    return items[start:end]


def flatten(items: List, depth: int = 1) -> List:
    if depth < 0:
        raise EvaluationError("level must be non-negative")
    while depth and any(isinstance(it, list) for it in items):
        bounded(sum(len(it) if isinstance(it, list) else 1 for it in items))
        items = [part for it in items for part in (it if isinstance(it, list) else [it])]
        depth -= 1
    return items


def distinct(items: List) -> List:
    found: List = []
    for item in items:
        if not any(surely_equal(item, it) for it in found):
            found.append(item)
    return found


def sort(items: List) -> List:
    if not isinstance(items, list):
        raise lacking(items, "sort")
    return sort_by(items, items)


def sort_by(items: List, keys: List) -> List:
    if not items:
        return items
    if type(keys[0]) not in ORDERED:
        raise EvaluationError("list elements must be comparable")
    if len(items) != len(keys):
        raise EvaluationError("associated keys list has a different length than the target list")
    if any(type(key) is not type(keys[0]) for key in keys):
        raise EvaluationError("list elements must have the same type")
    order = sorted(range(len(items)), key=[_Ordered(key) for key in keys].__getitem__)
    return [items[index] for index in order]


class _Ordered:
    __slots__ = ("value",)

    def __init__(self, value: Value) -> None:
        self.value = value

    def __lt__(self, other: _Ordered) -> bool:
        return _surely(less, self.value, other.value)


def _surely(compare: Compare, one: Value, other: Value) -> bool:
    """What has no order is neither less nor greater."""
    try:
        return compare(one, other)
    except EvaluationError:
        return False


def is_sorted(items: List) -> bool:
    return not any(_surely(greater, one, other) for one, other in pairwise(items))


def largest(items: List) -> Value:
    return _extreme(items, "max")


def smallest(items: List) -> Value:
    return _extreme(items, "min")


def _extreme(items: List, name: str) -> Value:
    if not items:
        raise EvaluationError(f"{name} called on empty list")
    better = greater if name == "max" else less
    found = items[0]
    for item in items[1:]:
        if _surely(better, item, found):
            found = item
    return found


def index_of(items: List, wanted: Value) -> int:
    return next((index for index, it in enumerate(items) if surely_equal(it, wanted)), -1)


def last_index_of(items: List, wanted: Value) -> int:
    found = index_of(items[::-1], wanted)
    return found if found < 0 else len(items) - 1 - found


def contains_all(items: List, wanted: List) -> bool:
    return all(any(surely_equal(it, one) for it in items) for one in wanted)


def intersects(items: List, others: List) -> bool:
    return any(surely_equal(it, one) for one in others for it in items)


def includes(value: Value, wanted: Value) -> bool:
    if not isinstance(value, list):
        return surely_equal(value, wanted)
    for index, item in enumerate(value):
        if index >= _INCLUDES_MAX:
            problem = f"cannot be applied to lists longer than {_INCLUDES_MAX} values"
            raise EvaluationError(f"'includes' function {problem}")
        if surely_equal(item, wanted):
            return True
    return False


def range_of(count: int) -> List:
    bounded(count)
    return list(range(count))


def unwrap(items: List) -> List:
    found: List = []
    for item in items:
        if not isinstance(item, Optional):
            raise EvaluationError("value is not an optional")
        if item.present:
            found.append(item.value)
    return found


def is_zero(value: Value) -> bool:
    """Whether `optional.ofNonZeroValue` leaves it out."""
    if isinstance(value, Duration):
        return value.nanos == 0
    if isinstance(value, Optional):
        return not value.present
    return False if isinstance(value, KubernetesValue) else not value


FUNCTIONS: dict[str, Implementation] = {
    "list_slice": slice_of,
    "list_flatten": flatten,
    "list_flatten_int": flatten,
    "list_distinct": distinct,
    "list_reverse": lambda items: items[::-1],
    "list_first": lambda items: Optional(items[0], True) if items else NONE,
    "list_last": lambda items: Optional(items[-1], True) if items else NONE,
    "lists_range": range_of,
    "list_a_index_of_int": index_of,
    "list_a_last_index_of_int": last_index_of,
    "list_sets_contains_list": contains_all,
    "list_sets_intersects_list": intersects,
    "list_sets_equivalent_list": lambda one, other: (
        contains_all(one, other) and contains_all(other, one)
    ),
    "dra_includes_dyn_dyn": includes,
    "optional_unwrap": unwrap,
    "optional_unwrapOpt": unwrap,
}
for _kind in ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes"):
    _long = {"duration": "google.protobuf.Duration", "timestamp": "google.protobuf.Timestamp"}
    FUNCTIONS[f"list_{_long.get(_kind, _kind)}_sort"] = sort
    FUNCTIONS[f"list_{_long.get(_kind, _kind)}_sortByAssociatedKeys"] = sort_by
    FUNCTIONS[f"list_{_kind}_is_sorted_bool"] = is_sorted
    FUNCTIONS[f"list_{_kind}_max_{_kind}"] = largest
    FUNCTIONS[f"list_{_kind}_min_{_kind}"] = smallest
for _kind, _zero in _ZEROS.items():
    FUNCTIONS[f"list_{_kind}_sum_{_kind}"] = lambda items, zero=_zero: (
        reduce(add, items) if items else zero
    )
