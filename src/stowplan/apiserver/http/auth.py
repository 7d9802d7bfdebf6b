"""Who asks: bearer tokens, and what keeps web pages away from a server without them.

On loopback everybody on the machine is trusted, as with `kubectl proxy`; but a browser also runs
on this machine, so requests that carry a foreign Host or Origin are refused.  With tokens, every
request but health checks must carry one.  Tokens are compared in constant time, kept as digests,
and never logged.
"""

from __future__ import annotations

import csv
import hashlib
import hmac
import secrets
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from stowplan.errors import Forbidden, InputError, Unauthorized
from stowplan.objects.names import is_loopback

ISSUED_MAX = 10_000
"""Tokens of service accounts that are remembered, `kubectl create token`."""

_MASTERS = "system:masters"
_AUTHENTICATED = "system:authenticated"


@dataclass(frozen=True, slots=True)
class User:
    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()


LOCAL_ADMIN = User("system:admin", groups=(_MASTERS, _AUTHENTICATED))
ANONYMOUS = User("system:anonymous", groups=("system:unauthenticated",))


class Authenticator:
    def __init__(
        self,
        users_by_token: Mapping[str, User] | None = None,
        *,
        now: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """Without tokens everybody is an administrator."""
        self._now = now
        self._issued: OrderedDict[bytes, tuple[User, float]] = OrderedDict()
        self.required = bool(users_by_token)
        self._users = [(_digest(token), user) for token, user in (users_by_token or {}).items()]

    def authenticate(self, headers: Mapping[str, str]) -> User:
        """The user of a request; raises 401 or 403."""
        if not self.required:
            _check_local(headers)
            return LOCAL_ADMIN
        scheme, _, token = headers.get("Authorization", "").partition(" ")
        user = self.user_of(token.strip()) if scheme.lower() == "bearer" else None
        if user is None:
            raise Unauthorized("Unauthorized")
        return user

    def issue(self, user: User, lifetime_s: float) -> tuple[str, float]:
        """A new token for somebody, and when it ends; the oldest of too many are forgotten."""
        token, until_s = secrets.token_urlsafe(32), self._now() + lifetime_s
        self._issued[_digest(token)] = (user, until_s)
        while len(self._issued) > ISSUED_MAX:
            self._issued.popitem(last=False)
        return token, until_s

    def user_of(self, token: str) -> User | None:
        """All tokens are looked at, so that the time says nothing about any of them."""
        digest = _digest(token)
        found = None
        for known, user in self._users:
            if hmac.compare_digest(known, digest):
                found = user
        # A digest tells nothing about the others it is looked up among.
        user_, until_s = self._issued.get(digest, (None, 0.0))
        if user_ is not None and until_s >= self._now():
            found = user_
        return found if token else None


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()


def _check_local(headers: Mapping[str, str]) -> None:
    origin = headers.get("Origin", "")
    if not is_loopback(headers.get("Host", "localhost")):
        raise Forbidden("forbidden: the Host of this request is not this machine")
    if origin and not is_loopback(origin.partition("://")[2]):
        raise Forbidden("forbidden: requests from web pages of other sites are not taken")


def read_tokens(path: Path) -> dict[str, User]:
    """A file with one token per line, alone or as kube-apiserver's `token,user,uid,"groups"`."""
    try:
        lines = path.read_text().splitlines()
    except UnicodeDecodeError:
        raise InputError("the token file is not text", where=str(path)) from None
    users = {}
    for number, row in enumerate(csv.reader(lines), start=1):
        fields = [field.strip() for field in row]
        if not any(fields) or fields[0].startswith("#"):
            continue
        if len(fields[0]) < 8:
            raise InputError(
                "a token needs at least 8 characters",
                where=f"{path}:{number}",
                hint="`openssl rand -hex 32` makes a good one",
            )
        name, uid, groups = [*fields[1:], "", "", ""][:3]
        listed = tuple(filter(None, (group.strip() for group in groups.split(","))))
        users[fields[0]] = User(name or "admin", uid, (*(listed or (_MASTERS,)), _AUTHENTICATED))
    if not users:
        raise InputError(
            "there is no token in this file",
            where=str(path),
            hint='write one token per line, or lines of token,user,uid,"group1,group2"',
        )
    return users
