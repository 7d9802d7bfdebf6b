"""Questions about users: who is this token, may this user do that.

There are no roles here: whoever is known may do everything, whoever is not may do nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stowplan.apiserver.http.auth import Authenticator, User
from stowplan.errors import BadRequest

Data = dict[str, Any]

_UNAUTHENTICATED = "system:unauthenticated"


def review(plural: str, body: Data, user: User, authenticator: Authenticator) -> Data:
    """The body with its `status` filled in."""
    spec = body.get("spec") or {}
    if not isinstance(spec, dict):
        raise BadRequest("spec must be an object")
    return {**body, "status": _ANSWERS[plural](spec, user, authenticator)}


def _token_review(spec: Data, user: User, authenticator: Authenticator) -> Data:
    token = spec.get("token")
    if not isinstance(token, str) or not token:
        raise BadRequest("spec.token: Required value")
    found = authenticator.user_of(token)
    if found is None:
        return {"authenticated": False, "user": {}, "error": "invalid bearer token"}
    status: Data = {"authenticated": True, "user": _user_info(found)}
    if spec.get("audiences"):
        status["audiences"] = spec["audiences"]
    return status


def _access_review(spec: Data, user: User, authenticator: Authenticator) -> Data:
    groups = spec.get("groups") or []
    asked = spec.get("user")
    if not asked and not groups:
        raise BadRequest(
            "spec.user: Invalid value: at least one of user or group must be specified"
        )
    known = asked != "system:anonymous" and _UNAUTHENTICATED not in groups
    return _verdict(known or not authenticator.required)


def _self_access_review(spec: Data, user: User, authenticator: Authenticator) -> Data:
    return _verdict(True)


def _verdict(allowed: bool) -> Data:
    if allowed:
        return {"allowed": True, "reason": "every user of this cluster is an administrator"}
    return {"allowed": False, "reason": "anonymous users may do nothing"}


def _rules_review(spec: Data, user: User, authenticator: Authenticator) -> Data:
    return {
        "incomplete": False,
        "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
        "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
    }


def _self_review(spec: Data, user: User, authenticator: Authenticator) -> Data:
    return {"userInfo": _user_info(user)}


def _user_info(user: User) -> Data:
    info = {"username": user.name, "uid": user.uid, "groups": list(user.groups)}
    return {key: value for key, value in info.items() if value}


_ANSWERS: dict[str, Callable[[Data, User, Authenticator], Data]] = {
    "tokenreviews": _token_review,
    "subjectaccessreviews": _access_review,
    "localsubjectaccessreviews": _access_review,
    "selfsubjectaccessreviews": _self_access_review,
    "selfsubjectrulesreviews": _rules_review,
    "selfsubjectreviews": _self_review,
}
