"""Selecting and indexing: `a.b`, `a[b]`, `a.?b`, `a[?b]` and `has(a.b)` on values."""

from __future__ import annotations

from stowplan.cel.device import Domains
from stowplan.cel.errors import EvaluationError
from stowplan.cel.functions import key_text
from stowplan.cel.values import NONE, Optional, Value, go_name, map_key, type_name


def select(operand: Value, name: str) -> Value:
    if isinstance(operand, dict):
        try:
            return operand[name]
        except KeyError:
            raise _no_such_key(name) from None
    return index(operand, name)


def index(operand: Value, key: Value) -> Value:
    if isinstance(operand, Optional):
        return optional_index(operand, key)
    found = _find(operand, key, strict=True)
    if found.present:
        return found.value
    raise _no_such_key(key)


def optional_index(operand: Value, key: Value) -> Value:
    if isinstance(operand, Optional):
        if not operand.present:
            return NONE
        operand = operand.value
    return _find(operand, key, strict=False)


def has(operand: Value, name: str) -> bool:
    if isinstance(operand, dict):
        return name in operand or isinstance(operand, Domains)
    if isinstance(operand, Optional):
        return operand.present and has(operand.value, name)
    return False


def _find(operand: Value, key: Value, *, strict: bool) -> Optional:
    if not isinstance(key, str | int | float):
        raise EvaluationError(f"invalid qualifier type: {go_name(key)}")
    if isinstance(operand, dict):
        try:
            return Optional(operand[map_key(key)], True)
        except KeyError:
            return NONE
    if isinstance(operand, list):
        position = _position(key)
        if 0 <= position < len(operand):
            return Optional(operand[position], True)
        if strict:
            raise EvaluationError(f"index out of bounds: {position}")
    return NONE


def _position(key: Value) -> int:
    if isinstance(key, int) and not isinstance(key, bool):
        return int(key)
    if isinstance(key, float):
        if key.is_integer():
            return int(key)
        raise EvaluationError(f"unsupported index value {key_text(key)} in list")
    raise EvaluationError(f"unsupported index type '{type_name(key)}' in list")


def _no_such_key(key: Value) -> EvaluationError:
    shown = key_text(key) if isinstance(key, str | int | float) else type_name(key)
    return EvaluationError(f"no such key: {shown}")
