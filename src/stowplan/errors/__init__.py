"""Every error a user can meet.

    StowplanError                                                   exit code 1
    ├── ConfigError            the scheduler configuration is wrong           2
    ├── InputError             a manifest, object, file or flag is wrong      2
    ├── PluginError            a plugin failed where that ends the run        1
    ├── ApiError               the API server answered with a failure         3
    │   ├── BadRequest         400  the request makes no sense
    │   ├── Unauthorized       401  who are you?
    │   ├── Forbidden          403  you may not
    │   ├── NotFound           404
    │   ├── Conflict           409  somebody else changed it first
    │   ├── AlreadyExists      409
    │   ├── Gone               410  this resource version is too old: list again
    │   ├── Invalid            422  the object breaks a rule
    │   ├── TooManyRequests    429  come back in `retry_after_s`
    │   ├── Unavailable        503  no answer, or not now
    │   └── Timeout            504
    └── InternalError          a bug here; ask for a report                  70

"No node fits" is not an error: it is an ordinary result (see `stowplan.framework`).
The command line prints these in one place, `stowplan.cli._lazy`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from stowplan.printable import printable

__all__ = [
    "AlreadyExists",
    "ApiError",
    "BadRequest",
    "ConfigError",
    "Conflict",
    "Forbidden",
    "Gone",
    "InputError",
    "InternalError",
    "Invalid",
    "NotFound",
    "PluginError",
    "StowplanError",
    "Timeout",
    "TooManyRequests",
    "Unauthorized",
    "Unavailable",
    "api_error",
]


class StowplanError(Exception):
    """Says what is wrong, where, and what to do next."""

    exit_code: ClassVar[int] = 1

    def __init__(self, problem: str, *, where: str = "", hint: str = "") -> None:
        super().__init__(problem)
        self.problem = problem
        self.where = where
        """A file, document and field path, or the object: what the user has to look at."""
        self.hint = hint
        """What would be right, or the next step."""

    def __str__(self) -> str:
        head = f"{printable(self.where)}: {self.problem}" if self.where else self.problem
        return f"{head}\n  hint: {self.hint}" if self.hint else head


class ConfigError(StowplanError):
    exit_code = 2


class InputError(StowplanError):
    exit_code = 2


class PluginError(StowplanError):
    """Of a cluster that is `strict`; otherwise a plugin's failure fails one attempt."""


class InternalError(StowplanError):
    exit_code = 70


class ApiError(StowplanError):
    """A failure as the Kubernetes API words it: the fields of a `Status` object."""

    exit_code = 3
    default_code: ClassVar[int] = 500
    default_reason: ClassVar[str] = "InternalError"

    def __init__(
        self,
        message: str,
        *,
        code: int | None = None,
        reason: str | None = None,
        retry_after_s: float | None = None,
        details: Mapping[str, str] | None = None,
        where: str = "",
        hint: str = "",
    ) -> None:
        super().__init__(message, where=where, hint=hint)
        self.code = self.default_code if code is None else code
        """The HTTP status."""
        self.reason = self.default_reason if reason is None else reason
        """One word for machines, such as `AlreadyExists`."""
        self.retry_after_s = retry_after_s
        """When the server asks the client to wait; None when it does not say."""
        self.details = dict(details or {})
        """What it is about: `kind`, `group` and `name`, where the server says."""

    @property
    def message(self) -> str:
        return self.problem


class BadRequest(ApiError):
    default_code = 400
    default_reason = "BadRequest"


class Unauthorized(ApiError):
    default_code = 401
    default_reason = "Unauthorized"


class Forbidden(ApiError):
    default_code = 403
    default_reason = "Forbidden"


class NotFound(ApiError):
    default_code = 404
    default_reason = "NotFound"


class Conflict(ApiError):
    default_code = 409
    default_reason = "Conflict"


class AlreadyExists(ApiError):
    default_code = 409
    default_reason = "AlreadyExists"


class Gone(ApiError):
    default_code = 410
    default_reason = "Expired"


class Invalid(ApiError):
    default_code = 422
    default_reason = "Invalid"


class TooManyRequests(ApiError):
    default_code = 429
    default_reason = "TooManyRequests"


class Unavailable(ApiError):
    default_code = 503
    default_reason = "ServiceUnavailable"


class Timeout(ApiError):
    default_code = 504
    default_reason = "Timeout"


_KINDS: tuple[type[ApiError], ...] = (
    BadRequest,
    Unauthorized,
    Forbidden,
    NotFound,
    Conflict,
    AlreadyExists,
    Gone,
    Invalid,
    TooManyRequests,
    Unavailable,
    Timeout,
)

_BY_REASON = {kind.default_reason: kind for kind in _KINDS}
_BY_REASON |= {"Gone": Gone, "ServerTimeout": Timeout}

# 409 without a reason is a lost race: only a create can mean "already exists".
_BY_CODE = {kind.default_code: kind for kind in _KINDS if kind is not AlreadyExists}


def api_error(
    code: int,
    reason: str,
    message: str,
    *,
    retry_after_s: float | None = None,
    where: str = "",
    hint: str = "",
) -> ApiError:
    """The error of the right class for an answer; the reason decides, then the code.

    >>> type(api_error(409, "AlreadyExists", "pods \\"a\\" already exists")).__name__
    'AlreadyExists'
    >>> type(api_error(404, "", "not found")).__name__
    'NotFound'
    """
    kind = _BY_REASON.get(reason) or _BY_CODE.get(code) or ApiError
    return kind(
        message,
        code=code,
        reason=reason or kind.default_reason,
        retry_after_s=retry_after_s,
        where=where,
        hint=hint,
    )
