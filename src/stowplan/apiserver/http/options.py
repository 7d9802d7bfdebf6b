"""The query of a request, read and checked: selectors, versions, pages, dry runs, deletions.

Pure.  Mirrors apimachinery's ListOptions, DeleteOptions and their validation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from stowplan.cluster.port import ListOptions
from stowplan.errors import BadRequest, Invalid

Query = Mapping[str, str]

EXACT = "Exact"
NOT_OLDER_THAN = "NotOlderThan"

_PROPAGATIONS = ("Background", "Foreground", "Orphan")
_FIELD_VALIDATIONS = ("", "Ignore", "Warn", "Strict")


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


@dataclass(frozen=True, slots=True)
class DeleteQuery:
    grace_period_s: int | None = None
    propagation: str = "Background"
    uid: str = ""
    resource_version: str = ""
    dry_run: bool = False


def is_true(query: Query, name: str) -> bool:
    text = query.get(name)
    if text is None:
        return False
    if text.lower() in ("true", "1", "t", ""):
        return True
    if text.lower() in ("false", "0", "f"):
        return False
    raise BadRequest(f'strconv.ParseBool: parsing "{text}": invalid syntax')


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
    if found.match:
        _check_match(found)
    if found.token and found.resource_version not in ("", "0"):
        raise BadRequest("specifying resource version is not allowed when using continue")
    if is_true(query, "sendInitialEvents"):
        raise _invalid_options(
            "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list"
        )
    return found


def _check_match(query: ListQuery) -> None:
    if query.match not in (EXACT, NOT_OLDER_THAN):
        raise _invalid_options(
            f'resourceVersionMatch: Unsupported value: "{query.match}": supported values: '
            f'"{EXACT}", "{NOT_OLDER_THAN}", ""'
        )
    if not query.resource_version:
        raise _invalid_options(
            "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless "
            "resourceVersion is provided"
        )
    if query.token:
        raise _invalid_options(
            "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden when continue is "
            "provided"
        )
    if query.match == EXACT and query.resource_version == "0":
        raise _invalid_options(
            'resourceVersionMatch: Forbidden: resourceVersionMatch "Exact" is forbidden for '
            'resourceVersion "0"'
        )


def watch_query(query: Query, namespace: str, name: str = "") -> WatchQuery:
    initial = is_true(query, "sendInitialEvents")
    match = query.get("resourceVersionMatch", "")
    if initial and match != NOT_OLDER_THAN:
        raise _invalid_options(
            "resourceVersionMatch: Forbidden: sendInitialEvents requires setting "
            "resourceVersionMatch to NotOlderThan"
        )
    if match and "sendInitialEvents" not in query:
        raise _invalid_options(
            "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden for watch unless "
            "sendInitialEvents is provided"
        )
    selection = _selection(query, namespace)
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
    )


def _selection(query: Query, namespace: str) -> ListOptions:
    return ListOptions(
        namespace,
        field_selector=query.get("fieldSelector", ""),
        label_selector=query.get("labelSelector", ""),
    )


def is_dry_run(query: Query) -> bool:
    text = query.get("dryRun")
    if not text:
        return False
    if text != "All":
        raise Invalid(
            f'CreateOptions.meta.k8s.io "" is invalid: dryRun: Unsupported value: "{text}": '
            'supported values: "All"'
        )
    return True


def field_validation(query: Query) -> str:
    """How strictly unknown fields are taken: "" stands for Warn."""
    level = query.get("fieldValidation", "")
    if level not in _FIELD_VALIDATIONS:
        raise Invalid(
            f'CreateOptions.meta.k8s.io "" is invalid: fieldValidation: Unsupported value: '
            f'"{level}": supported values: "Ignore", "Strict", "Warn"'
        )
    return level


def delete_query(query: Query, body: Any) -> DeleteQuery:
    """DeleteOptions of the body; where it has none, those of the query."""
    if body is None:
        body = {}
    if not isinstance(body, dict):
        raise BadRequest("the body of a delete must be DeleteOptions")
    preconditions = body.get("preconditions") or {}
    grace_s = body.get("gracePeriodSeconds")
    if grace_s is None:
        grace_s = number(query, "gracePeriodSeconds")
    dry_run = body.get("dryRun")
    if dry_run not in (None, [], ["All"]) or not isinstance(preconditions, dict):
        raise Invalid(
            f'DeleteOptions.meta.k8s.io "" is invalid: dryRun: Unsupported value: {dry_run!r}: '
            'supported values: "All"'
        )
    if grace_s is not None and not isinstance(grace_s, int):
        raise BadRequest(f"gracePeriodSeconds must be a number, not {grace_s!r}")
    return DeleteQuery(
        grace_s,
        _propagation(query, body),
        uid=str(preconditions.get("uid") or ""),
        resource_version=str(preconditions.get("resourceVersion") or ""),
        dry_run=bool(dry_run) or is_dry_run(query),
    )


def _propagation(query: Query, body: dict[str, Any]) -> str:
    policy = body.get("propagationPolicy") or query.get("propagationPolicy")
    orphan = body.get("orphanDependents")
    if policy is not None and orphan is not None:
        raise _invalid_options(
            "propagationPolicy: Invalid value: orphanDependents and deletionPropagation cannot be "
            "both set"
        )
    if orphan:
        return "Orphan"
    if policy is None:
        return "Background"
    if policy not in _PROPAGATIONS:
        raise Invalid(
            'DeleteOptions.meta.k8s.io "" is invalid: propagationPolicy: Unsupported value: '
            f'"{policy}": supported values: "Background", "Foreground", "Orphan"'
        )
    return str(policy)


def _invalid_options(why: str) -> Invalid:
    return Invalid(f'ListOptions.meta.k8s.io "" is invalid: {why}')
