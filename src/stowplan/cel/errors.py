"""What can go wrong with an expression: it is refused, or it fails on a device.

Both carry the words that Kubernetes has for it.  `Problem` is how the modules here say where in the
text something is wrong; `compiled.py` makes one `CompileError` of them.
"""

from __future__ import annotations

from typing import NamedTuple

from stowplan.errors import InputError, StowplanError


class CompileError(InputError):
    """The expression is refused.  `str()` is one line; `details` is what Kubernetes prints."""

    def __init__(self, problem: str, *, details: str = "") -> None:
        super().__init__(problem)
        self.details = details or problem


class EvaluationError(StowplanError):
    """The expression has no answer for this device."""


class Aborted(EvaluationError):
    """The whole evaluation ends: no `||` or `&&` makes up for that."""


class CostExceeded(Aborted):
    """The runtime cost limit was reached."""

    def __init__(self) -> None:
        super().__init__("operation cancelled: actual cost limit exceeded")


class Problem(NamedTuple):
    position: int
    """Offset in the text, in characters."""
    message: str


class SyntaxProblem(Exception):
    """Raised by lexer and parser: nothing after it can be read."""

    def __init__(self, position: int, message: str) -> None:
        super().__init__(message)
        self.problem = Problem(position, message)


def no_such_overload(function: str = "") -> EvaluationError:
    return EvaluationError(f"no such overload: {function}" if function else "no such overload")
