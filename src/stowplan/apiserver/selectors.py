"""Which objects a list or a watch is about: namespace, label selector and field selector.

`predicate` turns the options of a request into one test, made once and asked of every object and
every event; None means "all of them" and costs nothing.  The fields are those that Kubernetes can
select by, as far as the structs hold them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import Any, Protocol

from stowplan.cluster.port import ListOptions
from stowplan.errors import BadRequest
from stowplan.objects.base import KubeObject, ObjectReference
from stowplan.objects.kinds import EVENT, NAMESPACE, NODE, POD, RESOURCE_SLICE, Kind
from stowplan.objects.labels import SelectorError
from stowplan.objects.selector_text import parse_selector
from stowplan.objects.selectors import Selector

Test = Callable[[Any], bool]
Getter = Callable[[Any], Any]

_NO_LABELS: dict[str, str] = {}
_NO_REFERENCE = ObjectReference()


class Predicate(Protocol):
    def __call__(self, thing: Any) -> bool:
        """Whether the object is selected."""
        ...

    def takes_all(self, things: Iterable[Any]) -> bool:
        """Whether each of them is."""
        ...


def _word(value: bool) -> str:
    return "true" if value else "false"


def _reference_getters(prefix: str) -> dict[str, Getter]:
    return {
        f"{prefix}.kind": lambda event: (event.regarding or _NO_REFERENCE).kind,
        f"{prefix}.namespace": lambda event: (event.regarding or _NO_REFERENCE).namespace,
        f"{prefix}.name": lambda event: (event.regarding or _NO_REFERENCE).name,
        f"{prefix}.uid": lambda event: (event.regarding or _NO_REFERENCE).uid,
        f"{prefix}.apiVersion": lambda event: (event.regarding or _NO_REFERENCE).api_version,
        f"{prefix}.resourceVersion": lambda e: (e.regarding or _NO_REFERENCE).resource_version,
        f"{prefix}.fieldPath": lambda event: (event.regarding or _NO_REFERENCE).field_path,
    }


_COMMON: dict[str, Getter] = {
    "metadata.name": attrgetter("metadata.name"),
    "metadata.namespace": attrgetter("metadata.namespace"),
}

_FIELDS: dict[Kind, dict[str, Getter]] = {
    POD: {
        "spec.nodeName": attrgetter("spec.node_name"),
        "spec.schedulerName": attrgetter("spec.scheduler_name"),
        "spec.restartPolicy": attrgetter("spec.restart_policy"),
        "spec.hostNetwork": lambda pod: _word(pod.spec.host_network),
        "status.phase": attrgetter("status.phase"),
        "status.nominatedNodeName": attrgetter("status.nominated_node_name"),
    },
    RESOURCE_SLICE: {
        "spec.nodeName": lambda thing: thing.spec.node_name or "",
        "spec.driver": attrgetter("spec.driver"),
    },
    NODE: {"spec.unschedulable": lambda node: _word(node.spec.unschedulable)},
    NAMESPACE: {
        "status.phase": lambda thing: (
            "Active" if thing.metadata.deletion_timestamp is None else "Terminating"
        ),
        "name": attrgetter("metadata.name"),
    },
    EVENT: {
        # core/v1 names and events.k8s.io/v1 names: the stored object is the same.
        **_reference_getters("involvedObject"),
        **_reference_getters("regarding"),
        "reason": attrgetter("reason"),
        "type": attrgetter("type"),
        "reportingComponent": attrgetter("reporting_controller"),
        "reportingController": attrgetter("reporting_controller"),
    },
}


_OWN_SELECTABLE = frozenset(
    {"Event", "Namespace", "Node", "Pod", "ReplicationController", "Secret", "Service"}
)


def predicate(kind: Kind, options: ListOptions) -> Predicate | None:
    """What says whether an object is selected, or None when every one is."""
    tests: list[Test] = []
    if options.namespace and kind.namespaced:
        tests.append(_in_namespace(options.namespace))
    if options.field_selector:
        tests += _field_tests(kind, options.field_selector)
    if options.label_selector:
        tests.append(_label_test(options.label_selector))
    if not tests:
        return None
    if len(tests) == 1 and isinstance(tests[0], _NoneOf):
        return tests[0]
    return _Each(tests)


def parse_field_selector(text: str) -> list[tuple[str, str, str]]:
    """Terms as (field, `=` or `!=`, value).

    >>> parse_field_selector("spec.nodeName==n1,status.phase!=Failed")
    [('spec.nodeName', '=', 'n1'), ('status.phase', '!=', 'Failed')]
    """
    terms = []
    for term in filter(None, _split(text)):
        for operator in ("!=", "==", "="):
            field, found, value = term.partition(operator)
            if found:
                operation = "!=" if operator == "!=" else "="
                terms.append((field.strip(), operation, _unescape(value)))
                break
        else:
            raise BadRequest(f"invalid selector: '{text}'; can't understand '{term}'")
    return terms


def _split(text: str) -> list[str]:
    """Split at commas that no backslash protects."""
    parts, part, escaped = [], "", False
    for char in text:
        if char == "," and not escaped:
            parts.append(part)
            part = ""
        else:
            part += char
        escaped = char == "\\" and not escaped
    return [*parts, part]


def _unescape(value: str) -> str:
    for char in (",", "=", "\\"):
        value = value.replace("\\" + char, char)
    return value


def _field_tests(kind: Kind, text: str) -> list[Test]:
    """One test per field: what it must be, and what it must not be."""
    wanted: dict[str, set[str]] = {}
    unwanted: dict[str, set[str]] = {}
    for field, operator, value in parse_field_selector(text):
        (wanted if operator == "=" else unwanted).setdefault(field, set()).add(value)
    getters = _COMMON | _FIELDS.get(kind, {})
    tests: list[Test] = []
    for field in [*wanted, *unwanted]:
        if field not in getters:
            raise BadRequest(_not_selectable(kind, field))
    for field, values in wanted.items():
        # Two different values at once: nothing is both.
        tests.append(_is_one(getters[field], values) if len(values) == 1 else _never)
    for field, values in unwanted.items():
        tests.append(_NoneOf(getters[field], frozenset(values)))
    return tests


def _not_selectable(kind: Kind, field: str) -> str:
    if kind.name == "Job":
        return f'field label "{field}" not supported for Job'
    if kind.name == "ResourceSlice":
        return f"field label not supported for {kind.api_version}, Kind={kind.name}: {field}"
    if kind.name in _OWN_SELECTABLE:
        return f"field label not supported: {field}"
    return f'"{field}" is not a known field selector: only "metadata.name", "metadata.namespace"'


def _never(_: Any) -> bool:
    return False


def _is_one(getter: Getter, values: set[str]) -> Test:
    (wanted,) = values
    return lambda thing: getter(thing) == wanted


class _NoneOf:
    """A field that has none of these values: how schedulers leave out pods that have ended.

    They ask it of every change of every pod, so many are asked without a step in Python for each.
    """

    def __init__(self, getter: Getter, values: frozenset[str]) -> None:
        self._getter = getter
        self._values = values

    def __call__(self, thing: Any) -> bool:
        return self._getter(thing) not in self._values

    def takes_all(self, things: Iterable[Any]) -> bool:
        return self._values.isdisjoint(map(self._getter, things))


class _Each:
    def __init__(self, tests: list[Test]) -> None:
        self._tests = tests

    def __call__(self, thing: Any) -> bool:
        return all(test(thing) for test in self._tests)

    def takes_all(self, things: Iterable[Any]) -> bool:
        return all(map(self, things))


def _in_namespace(namespace: str) -> Test:
    def test(thing: KubeObject) -> bool:
        return thing.metadata.namespace == namespace

    return test


def check_label_selector(text: str) -> Selector:
    """The selector; 400 where it is none."""
    try:
        return parse_selector(text)
    except SelectorError as error:
        raise BadRequest(str(error)) from None


def _label_test(text: str) -> Test:
    selector = check_label_selector(text)

    def test(thing: KubeObject) -> bool:
        return selector.matches(thing.metadata.labels or _NO_LABELS)

    return test
