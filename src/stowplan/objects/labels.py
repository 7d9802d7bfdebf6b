"""Label selectors of every origin: the API's struct, a plain map, the text of a query string.

The compiled form is in `objects.selectors`, the reader of text in `objects.selector_text`; this is
the door to both.  Mirrors apimachinery's `LabelSelectorAsSelector`.
"""

from __future__ import annotations

from collections.abc import Mapping

from stowplan.objects.base import LabelSelector
from stowplan.objects.names import label_key_problem, label_value_problem
from stowplan.objects.selector_text import parse_selector
from stowplan.objects.selectors import (
    DOES_NOT_EXIST,
    EVERYTHING,
    EXISTS,
    GT,
    IN,
    LT,
    NOT_IN,
    NOTHING,
    Requirement,
    Selector,
    SelectorError,
    equality,
    make_requirement,
)

__all__ = [
    "DOES_NOT_EXIST",
    "EVERYTHING",
    "EXISTS",
    "GT",
    "IN",
    "LT",
    "NOTHING",
    "NOT_IN",
    "Requirement",
    "Selector",
    "SelectorError",
    "compile_selector",
    "equality",
    "label_key_problem",
    "label_value_problem",
    "make_requirement",
    "parse_selector",
    "selector_from_map",
]

_LABEL_OPERATORS = frozenset({IN, NOT_IN, EXISTS, DOES_NOT_EXIST})


def compile_selector(selector: LabelSelector | None) -> Selector:
    """No selector matches nothing; one without requirements matches everything."""
    if selector is None:
        return NOTHING
    requirements = [equality(key, value) for key, value in (selector.match_labels or {}).items()]
    for expression in selector.match_expressions or ():
        if expression.operator not in _LABEL_OPERATORS:
            raise SelectorError(
                f"{expression.operator!r} is not a valid label selector operator; "
                "use In, NotIn, Exists or DoesNotExist"
            )
        requirements.append(
            make_requirement(expression.key, expression.operator, expression.values or ())
        )
    return Selector(requirements) if requirements else EVERYTHING


def selector_from_map(labels: Mapping[str, str]) -> Selector:
    """Every key with its value.  Not validated, as upstream does not: it cannot fail."""
    if not labels:
        return EVERYTHING
    return Selector(Requirement(key, IN, frozenset((value,))) for key, value in labels.items())
