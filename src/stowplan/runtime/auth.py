"""Who asks, and may they: delegated to the cluster, as every component of Kubernetes does.

A bearer token is shown to the cluster (TokenReview); a client certificate was checked by TLS;
whoever shows neither is `system:anonymous`.  Then the cluster is asked whether this user may see
this path (SubjectAccessReview).  Answers are kept for ten seconds, by the digest of the token.

`runtime.server` calls `Gatekeeper.admit` for every request.  Mirrors apiserver's
`authentication/authenticatorfactory` and `authorization/authorizerfactory`.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from stowplan.clock import Clock
from stowplan.errors import ApiError, Forbidden, StowplanError, Unauthorized
from stowplan.runtime.log import Log

CACHE_S = 10.0
CACHED_MAX = 4096

ALWAYS_ALLOWED = ("/healthz", "/readyz", "/livez")

_MASTERS = "system:masters"
_AUTHENTICATED = "system:authenticated"


@dataclass(frozen=True, slots=True)
class User:
    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, Sequence[str]] = field(default_factory=dict)


ANONYMOUS = User("system:anonymous", groups=("system:unauthenticated",))


@dataclass(frozen=True, slots=True)
class Access:
    allowed: bool
    reason: str = ""


class Reviews(Protocol):
    """What the cluster is asked."""

    async def user_of(self, token: str) -> User | None: ...

    async def may(self, user: User, verb: str, path: str) -> Access: ...


class Asks(Protocol):
    """A cluster that can be asked about users: `KubernetesClient`, or one in this process."""

    async def ask(self, method: str, path: str, body: Any = None) -> Any: ...


class ClusterReviews:
    def __init__(self, cluster: Asks) -> None:
        self._cluster = cluster

    async def user_of(self, token: str) -> User | None:
        status = await self._ask(
            "/apis/authentication.k8s.io/v1/tokenreviews", "TokenReview", {"token": token}
        )
        if not status.get("authenticated"):
            return None
        found = status.get("user") or {}
        return User(
            str(found.get("username") or ""),
            str(found.get("uid") or ""),
            tuple(found.get("groups") or ()),
            found.get("extra") or {},
        )

    async def may(self, user: User, verb: str, path: str) -> Access:
        spec: dict[str, Any] = {
            "user": user.name,
            "uid": user.uid,
            "groups": list(user.groups),
            "extra": user.extra,
            "nonResourceAttributes": {"path": path, "verb": verb},
        }
        status = await self._ask(
            "/apis/authorization.k8s.io/v1/subjectaccessreviews", "SubjectAccessReview", spec
        )
        return Access(bool(status.get("allowed")), str(status.get("reason") or ""))

    async def _ask(self, path: str, kind: str, spec: dict[str, Any]) -> dict[str, Any]:
        group_version = path.removeprefix("/apis/").rpartition("/")[0]
        body = {"apiVersion": group_version, "kind": kind, "spec": spec}
        answer = await self._cluster.ask("POST", path, body)
        return answer.get("status") or {}


class _NobodyToAsk:
    async def user_of(self, token: str) -> User | None:
        return None

    async def may(self, user: User, verb: str, path: str) -> Access:
        return Access(False, "no cluster is configured to ask")


Value = TypeVar("Value")


class Kept(Generic[Value]):
    """Answers that hold for a while, a bounded number of them."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._entries: OrderedDict[Hashable, tuple[float, Value]] = OrderedDict()

    def get(self, key: Hashable) -> Value | None:
        found = self._entries.get(key)
        if found is None or self._clock.now() >= found[0]:
            return None
        return found[1]

    def put(self, key: Hashable, value: Value, lasts_s: float) -> None:
        if lasts_s <= 0:
            return
        self._entries[key] = (self._clock.now() + lasts_s, value)
        self._entries.move_to_end(key)
        if len(self._entries) > CACHED_MAX:
            self._entries.popitem(last=False)


@dataclass(frozen=True, slots=True)
class AuthSettings:
    always_allowed: tuple[str, ...] = ALWAYS_ALLOWED
    """Exact paths, or prefixes where they end in `*`."""
    token_cache_s: float = CACHE_S
    allowed_cache_s: float = CACHE_S
    denied_cache_s: float = CACHE_S


class Gatekeeper:
    def __init__(
        self, reviews: Reviews | None, clock: Clock, log: Log, settings: AuthSettings | None = None
    ) -> None:
        """Without `reviews` nobody is believed and only open paths are shown."""
        self._reviews = reviews or _NobodyToAsk()
        self._log = log
        self._settings = settings or AuthSettings()
        # A list around a user: None would be "not known", the empty list is "nobody".
        self._users: Kept[list[User]] = Kept(clock)
        self._access: Kept[Access] = Kept(clock)

    async def admit(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str],
        certificate: Mapping[str, Any] | None = None,
    ) -> User:
        """The user, if it may see this path; raises Unauthorized or Forbidden."""
        user = await self._authenticate(headers, certificate)
        if _MASTERS not in user.groups and not self.is_open(path):
            await self._authorize(user, method.lower(), path)
        return user

    async def _authenticate(
        self, headers: Mapping[str, str], certificate: Mapping[str, Any] | None
    ) -> User:
        if certificate:
            return user_of_certificate(certificate)
        scheme, _, token = headers.get("Authorization", "").partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token:
            return ANONYMOUS
        digest = hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()
        known = self._users.get(digest)
        if known is None:
            try:
                found = await self._reviews.user_of(token)
            except StowplanError as error:
                # What cannot be checked is not believed; the next request asks again.
                self._log.error("Unable to authenticate the request", error)
                raise Unauthorized("Unauthorized") from error
            known = [found] if found is not None else []
            self._users.put(digest, known, self._settings.token_cache_s)
        if not known:
            raise Unauthorized("Unauthorized")
        return _with_group(known[0])

    async def _authorize(self, user: User, verb: str, path: str) -> None:
        extra = tuple((name, tuple(values)) for name, values in sorted(user.extra.items()))
        key = (user.name, user.uid, user.groups, extra, verb, path)
        access = self._access.get(key)
        if access is None:
            try:
                access = await self._reviews.may(user, verb, path)
            except StowplanError as error:
                self._log.error("Unable to authorize the request", error, path=path)
                problem = f'Internal Server Error: "{path}": {error}'
                raise ApiError(problem, code=500, reason="InternalError") from error
            settings = self._settings
            lasts_s = settings.allowed_cache_s if access.allowed else settings.denied_cache_s
            self._access.put(key, access, lasts_s)
        if not access.allowed:
            why = f": {access.reason}" if access.reason else ""
            raise Forbidden(f'forbidden: User "{user.name}" cannot {verb} path "{path}"{why}')

    def is_open(self, path: str) -> bool:
        """Whether everybody may see this path."""
        return any(
            path.startswith(allowed[:-1]) if allowed.endswith("*") else path == allowed
            for allowed in self._settings.always_allowed
        )


def _with_group(user: User) -> User:
    if _AUTHENTICATED in user.groups or user.name == ANONYMOUS.name:
        return user
    return User(user.name, user.uid, (*user.groups, _AUTHENTICATED), user.extra)


def user_of_certificate(certificate: Mapping[str, Any]) -> User:
    """As Kubernetes reads them: the common name is the user, organizations are groups.

    `certificate` is what `ssl` makes of one that it has verified.
    """
    parts = [pair for group in certificate.get("subject", ()) for pair in group]
    name = next((value for key, value in parts if key == "commonName"), "")
    groups = tuple(value for key, value in parts if key == "organizationName")
    if not name:
        raise Unauthorized("Unauthorized")
    return _with_group(User(name, groups=groups))
