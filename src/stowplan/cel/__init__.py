"""CEL: the expressions that select devices, as kube-scheduler's environment has them.

    expression = compile_expression('device.attributes["gpu.example.com"].model == "T4"')
    expression.matches(Device("gpu.example.com", {"model": "T4"}))

Read `compiled.py` first: it goes from the text to the answer and names the rest.  What is exported
is loaded on first use: a cluster without devices starts without it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stowplan.cel.compiled import COST_MAX, LENGTH_MAX, Expression, compile_expression
    from stowplan.cel.device import AttributeValue, Device, Version
    from stowplan.cel.errors import CompileError, EvaluationError

__all__ = [
    "COST_MAX",
    "LENGTH_MAX",
    "AttributeValue",
    "CompileError",
    "Device",
    "EvaluationError",
    "Expression",
    "Version",
    "compile_expression",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'stowplan.cel' has no attribute {name!r}")
    from stowplan.cel import compiled, device, errors

    value = globals()[name] = (vars(compiled) | vars(device) | vars(errors))[name]
    return value
