"""What one can ask of an API server, as plain data.

Built by pure code (plugins, the scheduling core), carried out by whoever stands behind
`cluster.port`.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from stowplan.objects.base import KubeObject
from stowplan.objects.kinds import Kind


class Get(Struct, frozen=True):
    kind: Kind
    namespace: str
    name: str


class Create(Struct, frozen=True, gc=False):
    kind: Kind
    namespace: str
    body: KubeObject | dict[str, Any]


class Update(Struct, frozen=True):
    """PUT of a whole object, as JSON data so that no field is lost."""

    kind: Kind
    namespace: str
    name: str
    body: dict[str, Any]
    subresource: str = ""


class Patch(Struct, frozen=True, gc=False):
    """`patch_type` is `merge`, `strategic`, `json` or `append`.

    The last is none that API servers know: lists get more at their end, and all else stays as it
    is stored, to the byte, which their patches do not warrant.  It is for claims of devices.
    """

    kind: Kind
    namespace: str
    name: str
    body: Any
    patch_type: str = "strategic"
    subresource: str = ""


class Delete(Struct, frozen=True, gc=False):
    kind: Kind
    namespace: str
    name: str
    uid: str = ""
    """A precondition when set."""
    grace_period_seconds: int | None = None


class Bind(Struct, frozen=True, gc=False):
    """POST pods/NAME/binding: the uid is a precondition."""

    namespace: str
    name: str
    uid: str
    node: str
    annotations: dict[str, str] | None = None
    """Written on the pod in the same breath: what a plugin wants known of its choice."""


Request = Get | Create | Update | Patch | Delete | Bind
