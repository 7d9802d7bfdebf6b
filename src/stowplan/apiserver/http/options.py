"""The query of a request, read and checked: selectors, versions, pages, dry runs, deletions.

Pure.  Mirrors apimachinery's ListOptions, DeleteOptions and their validation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stowplan.apiserver.answers import InvalidObject, Problem, invalid, not_allowed, required
from stowplan.apiserver.answers import unsupported as unsupported_value
from stowplan.apiserver.selectors import check_label_selector, parse_field_selector
from stowplan.cluster.port import ListOptions
from stowplan.errors import BadRequest
from stowplan.objects.base import KubeObject
from stowplan.objects.kinds import Kind

Query = Mapping[str, str]

EXACT = "Exact"
NOT_OLDER_THAN = "NotOlderThan"

MANAGER_BYTES_MAX = 128

_PROPAGATIONS = ("Foreground", "Background", "Orphan", "nil")
_FIELD_VALIDATIONS = ("", "Ignore", "Warn", "Strict")
_MATCHES = (EXACT, NOT_OLDER_THAN, "")


@dataclass(frozen=True, slots=True)
class ListQuery:
    selection: ListOptions
    limit: int = 0
    token: str = ""
    resource_version: str = ""
    match: str = ""


@dataclass(frozen=True, slots=True)
class WatchQuery:
    selection: ListOptions
    resource_version: str
    timeout_s: float | None
    bookmarks: bool
    initial_events: bool
    """Send what there is as ADDED events, then a bookmark that says so, then changes."""
    only_changes: bool = False
    """From no version: what comes from now on, and not what there is."""


@dataclass(frozen=True, slots=True)
class WriteQuery:
    dry_run: bool
    level: str
    """How strictly unknown fields are taken: Ignore, Warn or Strict."""
    manager: str
    force: bool


@dataclass(frozen=True, slots=True)
class DeleteQuery:
    grace_period_s: int | None = None
    propagation: str = "Background"
    uid: str = ""
    resource_version: str = ""
    dry_run: bool = False


def is_true(query: Query, name: str) -> bool:
    """Everything is true but what says that it is not, as in Go's conversion of parameters."""
    return query.get(name, "false").lower() not in ("false", "0")


def number(query: Query, name: str) -> int | None:
    text = query.get(name)
    if not text:
        return None
    try:
        return int(text)
    except ValueError:
        raise BadRequest(f'strconv.ParseInt: parsing "{text}": invalid syntax') from None


def list_query(query: Query, namespace: str) -> ListQuery:
    found = ListQuery(
        _selection(query, namespace),
        limit=number(query, "limit") or 0,
        token=query.get("continue", ""),
        resource_version=query.get("resourceVersion", ""),
        match=query.get("resourceVersionMatch", ""),
    )
    number(query, "timeoutSeconds")
    problems = [*_match_problems(found)] if found.match else []
    if _given(query, "sendInitialEvents"):
        text = "sendInitialEvents is forbidden for list"
        problems.append(not_allowed("sendInitialEvents", text))
    _refuse("ListOptions", problems)
    if found.token and found.resource_version not in ("", "0"):
        raise BadRequest("specifying resource version is not allowed when using continue")
    return found


def _match_problems(query: ListQuery) -> Iterator[Problem]:
    field = "resourceVersionMatch"
    if not query.resource_version:
        yield not_allowed(field, f"{field} is forbidden unless resourceVersion is provided")
    if query.token:
        yield not_allowed(field, f"{field} is forbidden when continue is provided")
    if query.match not in _MATCHES:
        yield _unsupported(field, query.match, _MATCHES)
    if query.match == EXACT and query.resource_version == "0":
        yield not_allowed(field, f'{field} "exact" is forbidden for resourceVersion "0"')


def watch_query(query: Query, namespace: str, name: str = "") -> WatchQuery:
    selection = _selection(query, namespace)
    asked = _given(query, "sendInitialEvents")
    match = query.get("resourceVersionMatch", "")
    initial, field = is_true(query, "sendInitialEvents"), "resourceVersionMatch"
    problems = []
    if asked and match != NOT_OLDER_THAN:
        text = f"sendInitialEvents requires setting {field} to {NOT_OLDER_THAN}"
        problems.append(not_allowed(field, text))
    if match and not asked:
        text = f"{field} is forbidden for watch unless sendInitialEvents is provided"
        problems.append(not_allowed(field, text))
    if match and match != NOT_OLDER_THAN:
        problems.append(_unsupported(field, match, (NOT_OLDER_THAN,)))
    if match and query.get("continue"):
        problems.append(not_allowed(field, f"{field} is forbidden when continue is provided"))
    _refuse("ListOptions", problems)
    if name:
        fields = filter(None, (selection.field_selector, f"metadata.name={name}"))
        selection = ListOptions(namespace, ",".join(fields), selection.label_selector)
    timeout_s = number(query, "timeoutSeconds")
    return WatchQuery(
        selection,
        resource_version=query.get("resourceVersion", ""),
        timeout_s=None if not timeout_s else float(timeout_s),
        bookmarks=is_true(query, "allowWatchBookmarks"),
        initial_events=initial,
        only_changes=asked and not initial,
    )


def _selection(query: Query, namespace: str) -> ListOptions:
    check_label_selector(query.get("labelSelector", ""))
    parse_field_selector(query.get("fieldSelector", ""))
    return ListOptions(
        namespace,
        field_selector=query.get("fieldSelector", ""),
        label_selector=query.get("labelSelector", ""),
    )


def write_query(query: Query, options: str, *, applies: bool = False) -> WriteQuery:
    """What a write is to be like; `options` is the kind that says so: CreateOptions and so on."""
    manager, level = query.get("fieldManager", ""), query.get("fieldValidation", "")
    dry_run, force = query.get("dryRun"), None
    problems = []
    if options == "PatchOptions":
        force = is_true(query, "force") if "force" in query else None
        if applies and not manager:
            problems.append(required("fieldManager", "is required for apply patch"))
        if not applies and force is not None:
            problems.append(not_allowed("force", "may not be specified for non-apply patch"))
    if len(manager.encode()) > MANAGER_BYTES_MAX:
        text = f"Too long: may not be more than {MANAGER_BYTES_MAX} bytes"
        problems.append(Problem("fieldManager", "FieldValueTooLong", text))
    problems += _dry_run_problems(None if dry_run is None else [dry_run])
    if level not in _FIELD_VALIDATIONS:
        problems.append(unsupported_value("fieldValidation", level, _FIELD_VALIDATIONS))
    _refuse(options, problems)
    return WriteQuery(bool(dry_run), level or "Warn", manager, bool(force))


def _dry_run_problems(wanted: list[Any] | None) -> list[Problem]:
    if wanted is None or all(word == "All" for word in wanted):
        return []
    return [unsupported_value("dryRun", wanted, ("All",))]


def delete_query(query: Query, body: Any) -> DeleteQuery:
    """DeleteOptions of the body; where there is none, those of the query."""
    if body is None:
        words = ("dryRun", "propagationPolicy", "orphanDependents", "gracePeriodSeconds")
        body = {name: query[name] for name in words if name in query}
        body["gracePeriodSeconds"] = number(query, "gracePeriodSeconds")
        if "dryRun" in body:
            body["dryRun"] = [body["dryRun"]]
        if "orphanDependents" in body:
            body["orphanDependents"] = is_true(query, "orphanDependents")
    preconditions = body.get("preconditions") or {}
    return DeleteQuery(
        body.get("gracePeriodSeconds"),
        _propagation(body),
        uid=preconditions.get("uid", ""),
        resource_version=preconditions.get("resourceVersion", ""),
        dry_run=bool(body.get("dryRun")),
    )


def _propagation(body: dict[str, Any]) -> str:
    policy, orphan = body.get("propagationPolicy"), body.get("orphanDependents")
    problems = []
    if policy is not None and orphan is not None:
        text = "orphanDependents and deletionPropagation cannot be both set"
        problems.append(invalid("propagationPolicy", policy, text))
    if policy is not None and policy not in _PROPAGATIONS[:3]:
        problems.append(_unsupported("propagationPolicy", policy, _PROPAGATIONS))
    problems += _dry_run_problems(body.get("dryRun"))
    _refuse("DeleteOptions", problems)
    if policy is None:
        return "Orphan" if orphan else "Background"
    return str(policy)


def _given(query: Query, name: str) -> bool:
    return name in query


def _unsupported(field: str, value: str, supported: Sequence[str]) -> Problem:
    """As `answers.unsupported`, in the order that is given."""
    choices = ", ".join(f'"{choice}"' for choice in supported)
    text = f'Unsupported value: "{value}": supported values: {choices}'
    return Problem(field, "FieldValueNotSupported", text)


def _refuse(options: str, problems: list[Problem]) -> None:
    if problems:
        kind = Kind("meta.k8s.io", "v1", options, "", False, KubeObject)
        raise InvalidObject(kind, "", problems)
