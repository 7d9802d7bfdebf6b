"""YAML as kubectl reads it: version 1.1 with the rules of go-yaml v2.

So `yes` and `on` are true, `012` is ten, `1e3` a number, `1:30` and dates are text.  libyaml parses
(or PyYAML's own parser where it is missing); what plain words mean is decided here, and a key that
comes twice is refused.  `objects.manifests` and the configuration's reader call it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

import yaml

from stowplan.errors import InputError

_PLAIN = "plain"
"""Our own tag for a word without quotes and without a tag: its meaning is to be found."""

_PREFIX = "tag:yaml.org,2002:"
_DEPTH_MAX = 200
_ALIASED_NODES_MAX = 500_000
"""How much text may repeat through `*alias`: a few lines could otherwise stand for terabytes."""

_WORDS: dict[str, bool | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "on", "On", "ON"), True),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "off", "Off", "OFF"), False),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_TAGGED_KINDS: dict[str, tuple[type, ...]] = {
    "null": (type(None),),
    "bool": (bool,),
    "int": (int,),
    "float": (int, float),
}
_TAB = re.compile(r"'\\t'|\btab\b")
_INFINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_INTEGER = re.compile(r"[-+]?(?:0[xX][0-9a-fA-F]+|0[bB][01]+|0[oO]?[0-7]+|0|[1-9][0-9]*)")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_INTEGER_MIN, _INTEGER_MAX = -(2**63), 2**64 - 1
_WHOLE_FLOAT_MAX = 1e21
"""Up to here a whole float is written to JSON without a fraction, and so read as an integer."""


class ShallowLoader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Refuses what is nested too deep.

    libyaml's nodes are built by recursion in C, which a text of a few kilobytes could otherwise
    drive over the end of the stack.
    """

    depth = 0

    def descend_resolver(self, parent: yaml.Node | None, _index: Any) -> None:
        """Called on the way into every node."""
        self.depth += 1
        if self.depth > _DEPTH_MAX:
            mark = parent.start_mark if parent is not None else None
            raise yaml.composer.ComposerError(None, None, "nested too deep", mark)

    def ascend_resolver(self) -> None:
        self.depth -= 1


class _Loader(ShallowLoader):
    """Marks plain words, so that `_construct` can tell them from quoted and tagged ones."""

    def resolve(self, kind: type[yaml.Node], value: Any, implicit: Any) -> str:
        if kind is yaml.ScalarNode:
            return _PLAIN if implicit[0] else f"{_PREFIX}str"
        return f"{_PREFIX}map" if kind is yaml.MappingNode else f"{_PREFIX}seq"


def read_yaml(text: bytes | str, where: str) -> list[Any]:
    """Every document of the text, as JSON data; an empty document is None."""
    return [document for _, document in read_yaml_documents(text, where)]


def read_yaml_documents(text: bytes | str, where: str) -> Iterator[tuple[int, Any]]:
    """Every document with the line it starts on."""
    loader = None
    try:
        loader = _Loader(text)
        while loader.check_node():
            node = loader.get_node()
            yield node.start_mark.line + 1, _Constructor(where).construct(node, _DEPTH_MAX)
    except yaml.MarkedYAMLError as error:
        raise _syntax_error(error, where) from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        # The second line of such an error says "in a byte string", which helps nobody.
        problem = str(error).partition("\n")[0]
        hint = "is it a text file, in UTF-8?"
        raise InputError(f"not readable as YAML: {problem}", where=where, hint=hint) from None
    finally:
        if loader is not None:
            loader.dispose()


class _Constructor:
    """Turns the nodes of one document into JSON data."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._seen: set[int] = set()
        self._aliased_nodes = 0

    def construct(self, node: yaml.Node, depth: int, aliased: bool = False) -> Any:
        if depth == 0:
            raise self._error("nested too deep", node)
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node)
        aliased = aliased or id(node) in self._seen
        self._seen.add(id(node))
        if aliased:
            self._aliased_nodes += len(node.value) + 1
            if self._aliased_nodes > _ALIASED_NODES_MAX:
                raise self._error("its aliases stand for far more text than they are", node)
        if isinstance(node, yaml.SequenceNode):
            self._check_tag(node, "seq")
            return [self.construct(item, depth - 1, aliased) for item in node.value]
        self._check_tag(node, "map")
        return self._mapping(node, depth, aliased)

    def _mapping(self, node: yaml.Node, depth: int, aliased: bool) -> dict[str, Any]:
        own: dict[str, Any] = {}
        inherited: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if key_node.tag == _PLAIN and key_node.value == "<<":
                self._inherit(inherited, value_node, depth - 1)
                continue
            key = self._key(key_node)
            if key in own:
                raise self._error(f"the key {key!r} comes twice", key_node)
            own[key] = self.construct(value_node, depth - 1, aliased)
        return {**inherited, **own} if inherited else own

    def _inherit(self, inherited: dict[str, Any], node: yaml.Node, depth: int) -> None:
        """`<<`: keys of another mapping, or of several, of which the first wins."""
        sources = node.value if isinstance(node, yaml.SequenceNode) else [node]
        for source in sources:
            if not isinstance(source, yaml.MappingNode):
                raise self._error("'<<' needs a mapping, or a list of mappings", source)
            for key, value in self.construct(source, depth, aliased=True).items():
                inherited.setdefault(key, value)

    def _key(self, node: yaml.Node) -> str:
        if not isinstance(node, yaml.ScalarNode):
            raise self._error("a key must be text, not a list or a mapping", node)
        value = self._scalar(node)
        if isinstance(value, str):
            return value
        if value is None:
            raise self._error("a key must be text, not null", node)
        if isinstance(value, bool):
            return "true" if value else "false"
        return str(value)

    def _scalar(self, node: yaml.Node) -> Any:
        text: str = node.value
        if node.tag == _PLAIN:
            return self._plain(text, node)
        tag = node.tag.removeprefix(_PREFIX)
        if tag in ("str", "timestamp", "!"):
            return text
        if tag in _TAGGED_KINDS:
            return self._tagged(text, tag, node)
        raise self._error(f"the tag {node.tag!r} has no meaning in a Kubernetes object", node)

    def _tagged(self, text: str, tag: str, node: yaml.Node) -> Any:
        value = self._plain(text, node)
        if type(value) not in _TAGGED_KINDS[tag]:
            raise self._error(f"{text!r} is not of the type that its tag says: {tag}", node)
        return value

    def _plain(self, text: str, node: yaml.Node) -> Any:
        if text in _WORDS:
            return _WORDS[text]
        if text[0] not in "+-.0123456789":
            return text
        if _INFINITE.fullmatch(text) is not None:
            raise self._error(f"{text} cannot be written in JSON", node)
        return _number(text)

    def _check_tag(self, node: yaml.Node, tag: str) -> None:
        if node.tag not in (f"{_PREFIX}{tag}", "!"):
            raise self._error(f"the tag {node.tag!r} has no meaning in a Kubernetes object", node)

    def _error(self, problem: str, node: yaml.Node) -> InputError:
        return InputError(problem, where=f"{self._where}:{node.start_mark.line + 1}")


def _number(text: str) -> int | float | str:
    """The number that the word is, or the word itself: `1.2.3`, `2026-01-31`, `10.0.0.1`."""
    plain = text.replace("_", "") if text[0] != "." else text
    if _INTEGER.fullmatch(plain) is not None:
        integer = _integer(plain)
        if _INTEGER_MIN <= integer <= _INTEGER_MAX:
            return integer
    if _FLOAT.fullmatch(plain) is None:
        return text
    number = float(plain)
    if not math.isfinite(number):
        return text
    if number.is_integer() and abs(number) < _WHOLE_FLOAT_MAX:
        return int(number)
    return number


def _integer(text: str) -> int:
    digits = text.lstrip("+-").lower()
    if digits[:2] in ("0x", "0b", "0o"):
        magnitude = int(digits, 0)
    elif digits[0] == "0":
        magnitude = int(digits, 8)
    else:
        # Longer than any 64-bit number: let the caller read it as a float.
        magnitude = int(digits) if len(digits) <= 20 else _INTEGER_MAX + 1
    return -magnitude if text[0] == "-" else magnitude


def _syntax_error(error: yaml.MarkedYAMLError, where: str) -> InputError:
    mark = error.problem_mark or error.context_mark
    place = f"{where}:{mark.line + 1}" if mark is not None else where
    problem = ", ".join(part for part in (error.context, error.problem) if part)
    hint = "YAML indents with blanks, never with tabs" if _TAB.search(problem) else ""
    return InputError(f"not readable as YAML: {problem}", where=place, hint=hint)
