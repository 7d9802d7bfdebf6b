"""What one can ask of an API server, as plain data.

Built by pure code (plugins, the scheduling core), carried out by whoever stands behind
`cluster.port`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from stowplan.objects.base import KubeObject
from stowplan.objects.kinds import Kind


@dataclass(frozen=True, slots=True)
class Get:
    kind: Kind
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class Create:
    kind: Kind
    namespace: str
    body: KubeObject | dict[str, Any]


@dataclass(frozen=True, slots=True)
class Update:
    """PUT of a whole object, as JSON data so that no field is lost."""

    kind: Kind
    namespace: str
    name: str
    body: dict[str, Any]
    subresource: str = ""


@dataclass(frozen=True, slots=True)
class Patch:
    """`patch_type` is `merge`, `strategic` or `json`."""

    kind: Kind
    namespace: str
    name: str
    body: Any
    patch_type: str = "strategic"
    subresource: str = ""


@dataclass(frozen=True, slots=True)
class Delete:
    kind: Kind
    namespace: str
    name: str
    uid: str = ""
    """A precondition when set."""
    grace_period_seconds: int | None = None


@dataclass(frozen=True, slots=True)
class Bind:
    """POST pods/NAME/binding: the uid is a precondition."""

    namespace: str
    name: str
    uid: str
    node: str


Request = Get | Create | Update | Patch | Delete | Bind
