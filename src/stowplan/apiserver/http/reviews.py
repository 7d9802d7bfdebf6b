"""Questions about users: who is this token, may this user do that.

There are no roles here: whoever is known may do everything, whoever is not may do nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stowplan.apiserver.answers import InvalidObject, invalid
from stowplan.apiserver.http.auth import Authenticator, User
from stowplan.errors import BadRequest
from stowplan.objects.base import KubeObject
from stowplan.objects.kinds import Kind
from stowplan.objects.times import format_time

Data = dict[str, Any]

TOKEN_LIFETIME_S = 3600
TOKEN_LIFETIME_MIN_S, TOKEN_LIFETIME_MAX_S = 600, 2**32

_TOKEN_REQUEST = Kind("authentication.k8s.io", "v1", "TokenRequest", "", True, KubeObject)
_UNAUTHENTICATED = "system:unauthenticated"


def review(plural: str, body: Data, user: User, authenticator: Authenticator) -> Data:
    """The body with its `status` filled in."""
    spec = body.get("spec") or {}
    if not isinstance(spec, dict):
        raise BadRequest("spec must be an object")
    return {**body, "status": _ANSWERS[plural](spec, user, authenticator)}


def issue_token(body: Data, namespace: str, name: str, authenticator: Authenticator) -> Data:
    """A token with which a caller is the service account, `kubectl create token`."""
    spec = body.get("spec") or {}
    lifetime_s = spec.get("expirationSeconds", TOKEN_LIFETIME_S)
    if not TOKEN_LIFETIME_MIN_S <= lifetime_s <= TOKEN_LIFETIME_MAX_S:
        problem = invalid(
            "spec.expirationSeconds", lifetime_s, "may not specify a duration less than 10 minutes"
        )
        raise InvalidObject(_TOKEN_REQUEST, "", [problem])
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")
    user = User(
        f"system:serviceaccount:{namespace}:{name}", groups=(*groups, "system:authenticated")
    )
    token, until_s = authenticator.issue(user, lifetime_s)
    return {
        **body,
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"audiences": ["https://kubernetes.default.svc"], **spec}
        | {"expirationSeconds": lifetime_s},
        "status": {"token": token, "expirationTimestamp": format_time(until_s)},
    }


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
