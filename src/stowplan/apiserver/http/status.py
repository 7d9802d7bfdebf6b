"""Status: the object that Kubernetes answers with when there is no other to show.

Failures carry a reason for machines, a message for people, and what it is about.  Mirrors
apimachinery's `api/errors`.
"""

from __future__ import annotations

from typing import Any

from stowplan.apiserver.answers import InvalidObject
from stowplan.errors import ApiError, NotFound, Timeout

Data = dict[str, Any]

# Upstream's router answers these, and shows that there are no details.
_ABOUT_NO_OBJECT = frozenset({404, 405})

REJECTED = "the server rejected our request due to an error in our request"
UNSUPPORTED_PATCH = "415: Unsupported Media Type"
TOO_LARGE_VERSION = "Timeout: Too large resource version"


def success(*, kind: str = "", group: str = "", name: str = "", uid: str = "") -> Data:
    """What a deletion or a binding is answered with."""
    details = {"name": name, "group": group, "kind": kind, "uid": uid}
    filled = {key: value for key, value in details.items() if value}
    status: Data = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    return {**status, "details": filled} if filled else status


def failure(error: ApiError) -> Data:
    details: Data = dict(error.details)
    if causes := _causes(error):
        details["causes"] = causes
    if error.retry_after_s is not None:
        details["retryAfterSeconds"] = max(1, round(error.retry_after_s))
    status: Data = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": error.message,
        "reason": error.reason,
        "code": error.code,
    }
    if not error.reason:
        del status["reason"]
    if details or not _is_about_object(error):
        status["details"] = details
    return status


def _is_about_object(error: ApiError) -> bool:
    """Whether upstream would show details; its generic answers have empty ones."""
    generic = (UNSUPPORTED_PATCH, REJECTED)
    return not (error.code in _ABOUT_NO_OBJECT or error.message in generic)


def _causes(error: ApiError) -> list[Data]:
    if isinstance(error, InvalidObject):
        return [
            {"reason": cause.reason, "message": cause.detail, "field": cause.field}
            for cause in error.causes
        ]
    if isinstance(error, CausedError):
        return list(error.causes)
    if isinstance(error, Timeout) and error.message.startswith(TOO_LARGE_VERSION):
        # Clients look for this cause before they list again.
        return [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]
    return []


class CausedError(ApiError):
    """A failure with its causes spelled out."""

    def __init__(self, message: str, *, code: int, reason: str, causes: list[Data]) -> None:
        super().__init__(message, code=code, reason=reason)
        self.causes = tuple(causes)


def no_such_resource() -> NotFound:
    return NotFound("the server could not find the requested resource")


def method_not_allowed() -> ApiError:
    return ApiError(
        "the server does not allow this method on the requested resource",
        code=405,
        reason="MethodNotAllowed",
    )


def not_acceptable(accepted: str) -> ApiError:
    return ApiError(
        f"only the following media types are accepted: {accepted}",
        code=406,
        reason="NotAcceptable",
    )


def unsupported_media_type(accepted: str) -> ApiError:
    return ApiError(
        "the body of the request was in an unknown format - accepted media types include: "
        f"{accepted}",
        code=415,
        reason="UnsupportedMediaType",
    )


def unsupported_patch() -> ApiError:
    return ApiError(UNSUPPORTED_PATCH, code=415, reason="UnsupportedMediaType")


def too_large(limit_bytes: int) -> ApiError:
    return ApiError(
        f"Request entity too large: limit is {limit_bytes}",
        code=413,
        reason="RequestEntityTooLarge",
    )
