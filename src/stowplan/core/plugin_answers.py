"""What a user's plugin answers is looked at before it is used, and a wrong answer is an error.

Without this, `False` from a filter would be a node that fits, and 0.5 a score that is cut off.  The
plugins that come with Stowplan have tests instead.  Called by `core.profiles`.
"""

from __future__ import annotations

import reprlib
import traceback
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from stowplan.framework.groups import Placement
from stowplan.framework.plugin import PreFilterResult, Wait
from stowplan.framework.status import NodeMask, Normalized, Status, Verdict

IsRight = Callable[[Any, tuple[Any, ...]], bool]
"""Whether it is an answer, and with what the method was called."""


class WrongAnswer(Exception):
    """A plugin answered what is no answer."""


class _Rule(NamedTuple):
    is_right: IsRight
    wanted: str


def checked(plugin: type) -> type:
    """The class, with answers that are looked at."""
    made = type(plugin.__name__, (plugin,), {"__slots__": (), "__module__": plugin.__module__})
    for name, rule in _RULES.items():
        if callable(getattr(plugin, name, None)):
            setattr(made, name, _look_at(made, name, rule))
    return made


def _look_at(made: type, name: str, rule: _Rule) -> Callable[..., Any]:
    def ask(self: Any, *args: Any) -> Any:
        method = getattr(super(made, self), name)
        try:
            answer = method(*args)
        except SystemExit as error:
            raise WrongAnswer(f"{name} wanted to exit ({error.code}){_place(method)}") from error
        if not rule.is_right(answer, args):
            told = f"{name} returned {_shown(answer)}, and should return {rule.wanted}"
            raise WrongAnswer(told + _place(method))
        return answer

    return ask


def _place(method: Any) -> str:
    code = getattr(method, "__code__", None)
    return "" if code is None else f" ({code.co_filename}:{code.co_firstlineno})"


def _shown(answer: Any) -> str:
    if isinstance(answer, np.ndarray):
        return f"an array of {answer.dtype} with shape {answer.shape}"
    if isinstance(answer, Verdict):
        return f"a Verdict on {len(answer.why)} rows"
    return reprlib.repr(answer)


def place_in(cause: BaseException, plugin: type) -> str:
    """Where in the plugin's file it happened, for messages; "" if it was elsewhere."""
    file = _file_of(plugin)
    for frame in reversed(traceback.extract_tb(cause.__traceback__)):
        if frame.filename == file:
            return f" ({file}:{frame.lineno})"
    return ""


def _file_of(plugin: type) -> str:
    """Its `__init__` knows; a class itself does not."""
    code = getattr(getattr(plugin, "__init__", None), "__code__", None)
    return "" if code is None else str(code.co_filename)


# -- what is an answer ----------------------------------------------------------------------


def _count(args: tuple[Any, ...]) -> int:
    """How many rows were asked about: the arguments begin with cycle, pod, nodes, rows."""
    nodes, rows = args[2], args[3]
    return len(range(*rows.indices(nodes.size))) if isinstance(rows, slice) else len(rows)


def _is_whole(answer: Any) -> bool:
    """50.0 will do; 0.5 would be cut off."""
    if isinstance(answer, bool) or not isinstance(answer, int | float | np.integer | np.floating):
        return False
    return bool(answer % 1 == 0)


def _is_verdict(answer: Any, args: tuple[Any, ...]) -> bool:
    if not isinstance(answer, Verdict):
        return False
    return len(answer.why) == len(answer.unresolvable) == _count(args)


def _are_scores(answer: Any, args: tuple[Any, ...]) -> bool:
    scores = answer.scores if isinstance(answer, Normalized) else answer
    if not isinstance(scores, np.ndarray):
        return _is_whole(scores)
    if scores.shape != (_count(args),) or scores.dtype.kind not in "iuf":
        return False
    return scores.dtype.kind != "f" or bool((scores % 1 == 0).all())


def _are_placements(answer: Any, args: tuple[Any, ...]) -> bool:
    """A status, or sets of nodes that are there; the only argument is the group's cycle."""
    if isinstance(answer, Status):
        return True
    if not isinstance(answer, list | tuple):
        return False
    alive = args[0].nodes.alive
    return all(isinstance(each, Placement) and _are_rows(each.rows, alive) for each in answer)


def _are_rows(rows: Any, alive: NodeMask) -> bool:
    if not isinstance(rows, np.ndarray) or rows.dtype.kind not in "iu" or rows.ndim != 1:
        return False
    if not len(rows):
        return True
    is_there = rows[0] >= 0 and rows[-1] < len(alive) and (np.diff(rows) > 0).all()
    return bool(is_there and alive[rows].all())


def _are_placement_scores(answer: Any, args: tuple[Any, ...]) -> bool:
    """Called with the group's cycle and the scores as they were."""
    return isinstance(answer, list) and len(answer) == len(args[1]) and all(map(_is_whole, answer))


def _one_of(*types: type) -> IsRight:
    return lambda answer, args: answer is None or isinstance(answer, types)


_STATUS = _Rule(_one_of(Status), "None or a status")
_WHOLE = _Rule(lambda answer, args: _is_whole(answer), "a whole number")
_SCORES = _Rule(_are_scores, "an array of whole numbers, one for each row")

_RULES = {
    "pre_enqueue": _STATUS,
    "pre_filter": _Rule(_one_of(Status, PreFilterResult), "None, a status or a PreFilterResult"),
    "filter_node": _STATUS,
    "filter_nodes": _Rule(_is_verdict, "a Verdict on each row"),
    "pre_score": _STATUS,
    "score_node": _WHOLE,
    "score_nodes": _SCORES,
    "normalize_scores": _SCORES,
    "reserve": _STATUS,
    "permit": _Rule(_one_of(Status, Wait), "None, a status or Wait"),
    "generate_placements": _Rule(
        _are_placements, "a status, or a list of Placement with rows of nodes, ascending"
    ),
    "score_placement": _WHOLE,
    "most_for_placement": _WHOLE,
    "most_members": _WHOLE,
    "normalize_placement_scores": _Rule(
        _are_placement_scores, "a list of whole numbers, one for each placement"
    ),
}
