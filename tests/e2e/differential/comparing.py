"""What of an answer must be the same: everything but uids, times, versions and who manages what."""

from __future__ import annotations

import json
import re
from typing import Any

_UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_ADDRESS = re.compile(r"\b10\.(0\.0|9[6-9]\.\d+|1[01]\d\.\d+)\.\d+\b")
_VERSION_IN_TEXT = re.compile(
    r"(?i)(resource ?version[^0-9]{0,40}|current: |too old: )\d+( \(\d+\))?"
)
_GENERATED = re.compile(r"\bgen-[a-z0-9]{5}\b")
# What Go's decoder says names Go's types, and where in the text it stopped.
_DECODING = re.compile(
    r"(couldn't get version/kind; |failed to convert new object|json: cannot unmarshal|"
    r"json parse error|cannot be handled as an? [^:]*: (?!strict)|\[0-9]\]: expected|"
    r"\.[a-zA-Z]+: expected |error decoding|unable to decode|invalid character|"
    r"unexpected end of JSON|cannot convert|unrecognized|quantities must match|"
    r"strict decoding error: (?!unknown|dup)).*",
    re.DOTALL,
)
# The whole object, in Go's words.
_PATCH = re.compile(r"(patch: Invalid value: |^Invalid value: \"(\{|map\[)).*", re.DOTALL)
_KEY = re.compile(r"Key: [^ ,]+, ")
_SPEC_DIFF = re.compile(r"\n@@.*|\n[ +-].*", re.DOTALL)
_MARKS = {
    "uid": "<uid>",
    "resourceVersion": "<version>",
    "creationTimestamp": "<time>",
    "deletionTimestamp": "<time>",
    "continue": "<token>",
    "nodePort": "<port>",
}


def normal(value: Any, key: str = "") -> Any:
    """The value without what two servers cannot have in common."""
    if isinstance(value, dict):
        return {
            name: normal(inner, name)
            for name, inner in value.items()
            if name not in ("managedFields", "selfLink")
        }
    if isinstance(value, list):
        return [normal(inner, key) for inner in value]
    if isinstance(value, str):
        if key in _MARKS and value:
            return _MARKS[key]
        return _text(value, is_message=key == "message")
    return value


def _text(text: str, *, is_message: bool) -> str:
    text = _UID.sub("<uid>", text)
    text = _TIME.sub("<time>", text)
    text = _ADDRESS.sub("<address>", text)
    text = _GENERATED.sub("<name>", text)
    if is_message:
        text = _KEY.sub("Key: <key>, ", text)
        text = _SPEC_DIFF.sub("", text)
        text = _PATCH.sub("<patched>", text)
        text = _VERSION_IN_TEXT.sub(r"\1<version>", text)
        text = _DECODING.sub("<decoding>", text)
    return text


def body_of(text: str, *, watch: bool) -> Any:
    """The answer as data to compare; events of a watch without bookmarks that come by the clock."""
    if not watch:
        return normal(_parsed(text))
    events = [_parsed(line) for line in text.splitlines() if line.strip()]
    return [normal(event) for event in events if not _is_idle_bookmark(event)]


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text.strip()


def _is_idle_bookmark(event: Any) -> bool:
    if not isinstance(event, dict) or event.get("type") != "BOOKMARK":
        return False
    return not event["object"]["metadata"].get("annotations")


def difference(ours: Any, theirs: Any, path: str = "") -> list[str]:
    """Where two bodies differ: path, ours, theirs."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        found = []
        for key in sorted({*ours, *theirs}):
            if key not in ours:
                found.append(f"{path}.{key}: missing, theirs {theirs[key]!r}")
            elif key not in theirs:
                found.append(f"{path}.{key}: ours {ours[key]!r}, not theirs")
            else:
                found += difference(ours[key], theirs[key], f"{path}.{key}")
        return found
    if isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        return [
            line
            for n, pair in enumerate(zip(ours, theirs, strict=True))
            for line in difference(*pair, f"{path}[{n}]")
        ]
    return [] if ours == theirs else [f"{path}: ours {ours!r}, theirs {theirs!r}"]
