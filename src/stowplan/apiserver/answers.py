"""How kube-apiserver words its refusals: people and scripts search for these texts.

Pure functions from what happened to the error that says so.  Mirrors apimachinery's
`api/errors` and `util/validation/field`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from stowplan.errors import (
    AlreadyExists,
    ApiError,
    BadRequest,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
)
from stowplan.objects.kinds import Kind


def resource(kind: Kind) -> str:
    """`pods`, `deployments.apps`."""
    return f"{kind.plural}.{kind.group}" if kind.group else kind.plural


def about(kind: Kind, name: str) -> dict[str, str]:
    """The details of a Status; empty ones are left out."""
    details = {"name": name, "group": kind.group, "kind": kind.plural}
    return {key: text for key, text in details.items() if text}


def not_found(kind: Kind, name: str) -> NotFound:
    return NotFound(f'{resource(kind)} "{name}" not found', details=about(kind, name))


def already_exists(kind: Kind, name: str) -> AlreadyExists:
    return AlreadyExists(f'{resource(kind)} "{name}" already exists', details=about(kind, name))


def internal(why: str) -> ApiError:
    """500 without a reason: upstream has errors that nobody made a Status of."""
    return ApiError(why, reason="")


def conflict(kind: Kind, name: str, why: str, *, called: str = "") -> Conflict:
    """`called`: how the resource is called here, where that is not by its plural."""
    details = about(kind, name)
    details["kind"] = called or kind.plural
    what = f"{details['kind']}.{kind.group}" if kind.group else details["kind"]
    return Conflict(f'Operation cannot be fulfilled on {what} "{name}": {why}', details=details)


def modified(kind: Kind, name: str) -> Conflict:
    return conflict(
        kind,
        name,
        "the object has been modified; please apply your changes to the latest version "
        "and try again",
    )


def wrong_uid(kind: Kind, namespace: str, name: str, wanted: str, found: str) -> Conflict:
    """A write that names another object of the same name."""
    key = "/".join(filter(None, ("", "registry", kind.plural, namespace, name)))
    return conflict(
        kind,
        name,
        f"StorageError: invalid object, Code: 4, Key: /{key}, ResourceVersion: 0, "
        f"AdditionalErrorMsg: Precondition failed: UID in precondition: {wanted}, "
        f"UID in object meta: {found}",
    )


def wrong_uid_to_delete(kind: Kind, name: str, wanted: str, found: str) -> Conflict:
    return conflict(
        kind,
        name,
        f"the UID in the precondition ({wanted}) does not match the UID in record ({found}). "
        "The object might have been deleted and then recreated",
        called=kind.name,
    )


def forbidden(kind: Kind, name: str, why: str) -> Forbidden:
    return Forbidden(f'{resource(kind)} "{name}" is forbidden: {why}', details=about(kind, name))


def not_handled(kind: Kind, why: str) -> BadRequest:
    return BadRequest(
        f'{kind.name} in version "{kind.version}" cannot be handled as a {kind.name}: {why}'
    )


class Problem(NamedTuple):
    """One thing wrong with one field."""

    field: str
    reason: str
    detail: str


class InvalidObject(Invalid):
    """422 with its causes, one per field, as `Status.details.causes` lists them."""

    def __init__(self, kind: Kind, name: str, problems: Sequence[Problem]) -> None:
        what = f"{kind.name}.{kind.group}" if kind.group else kind.name
        texts = [f"{problem.field}: {problem.detail}" for problem in problems]
        why = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
        # Not the plural, as everywhere else: kubectl shows it to people.
        details = {**about(kind, name), "kind": kind.name} if kind.name else {}
        super().__init__(f'{what} "{name}" is invalid: {why}', details=details)
        self.causes = tuple(problems)


def required(field: str, detail: str = "") -> Problem:
    text = f"Required value: {detail}" if detail else "Required value"
    return Problem(field, "FieldValueRequired", text)


def invalid(field: str, value: Any, detail: str) -> Problem:
    return Problem(field, "FieldValueInvalid", f"Invalid value: {_quote(value)}: {detail}")


def unsupported(field: str, value: Any, supported: Iterable[str]) -> Problem:
    choices = ", ".join(f'"{choice}"' for choice in sorted(supported))
    text = f"Unsupported value: {_quote(value)}: supported values: {choices}"
    return Problem(field, "FieldValueNotSupported", text)


def duplicate(field: str, value: Any) -> Problem:
    return Problem(field, "FieldValueDuplicate", f"Duplicate value: {_quote(value)}")


def too_many(field: str, count: int, most: int) -> Problem:
    items = "item" if most == 1 else "items"
    text = f"Too many: {count}: must have at most {most} {items}"
    return Problem(field, "FieldValueTooMany", text)


def too_long(field: str, most: int) -> Problem:
    text = f"Too long: may not be more than {most} bytes"
    return Problem(field, "FieldValueTooLong", text)


def not_allowed(field: str, detail: str) -> Problem:
    return Problem(field, "FieldValueForbidden", f"Forbidden: {detail}")


def _quote(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    if isinstance(value, str):
        return text
    # Go does not trust browsers with these.
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
