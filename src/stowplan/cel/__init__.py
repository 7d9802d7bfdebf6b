"""CEL: the expressions that select devices, as kube-scheduler's environment has them.

    expression = compile_expression('device.attributes["gpu.example.com"].model == "T4"')
    expression.matches(Device("gpu.example.com", {"model": "T4"}))

Read `compiled.py` first: it goes from the text to the answer and names the rest.
"""

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
