"""The page of `stowplan run`, behind the secure port: who may see `/debug` may see `/ui/`.

A browser sends no bearer token, so the token is handed over in the address once (`/ui/?key=TOKEN`)
and the browser is given a cookie in its place, which scripts cannot read.  The token stays here,
and every request is checked with it as if it had come with the request: a token that is revoked
opens nothing any more.  Client certificates and bearer tokens are taken as everywhere else.

What is shown is made by whoever starts the scheduler (`cli`); nothing of it exists before somebody
who may see it has asked for it.
"""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from typing import Any, Protocol

from aiohttp import web

from stowplan.errors import Forbidden
from stowplan.objects.names import host_of, is_loopback, is_one_of
from stowplan.runtime.auth import Gatekeeper

PREFIX = "/ui/"
RIGHT = "/debug/ui"
"""What is asked of the cluster: whether the user may `get` this path.  Forks change nothing in the
cluster, so that is enough for them too."""
COOKIE = "stowplan-ui-session"
KEY = "key"
SESSIONS_MAX = 64
"""Browsers; the one that was let in first has to hand its token over again."""


class Page(Protocol):
    async def handle(self, request: web.BaseRequest) -> web.StreamResponse: ...

    async def close(self) -> None: ...


class PagePort:
    def __init__(
        self, page: Page, gatekeeper: Gatekeeper, names: Callable[[], Collection[str]]
    ) -> None:
        """`names`: the hosts that this server is, beside this machine and the address at which a
        connection arrived."""
        self._page = page
        self._gatekeeper = gatekeeper
        self._names = names
        self._tokens: OrderedDict[str, str] = OrderedDict()
        """By the value of the cookie."""

    @staticmethod
    def is_at(path: str) -> bool:
        return path == PREFIX.rstrip("/") or path.startswith(PREFIX)

    async def admit(self, request: web.BaseRequest) -> str:
        """Raises for who may not see this; the cookie's value for who hands over a token."""
        self._check_host(request)
        token = request.query.get(KEY, "") if request.path == PREFIX else ""
        headers: Mapping[str, str] = request.headers
        if token:
            headers = {"Authorization": f"Bearer {token}"}
        elif "Authorization" not in headers:
            kept = self._tokens.get(request.cookies.get(COOKIE, ""))
            headers = {} if kept is None else {"Authorization": f"Bearer {kept}"}
        await self._gatekeeper.admit("get", RIGHT, headers, _certificate(request))
        return self._keep(token) if token else ""

    def _check_host(self, request: web.BaseRequest) -> None:
        """Any site can give its own name our address, and a browser that holds our cookie."""
        host = request.headers.get("Host", "")
        transport = request.transport
        arrived = transport.get_extra_info("sockname") if transport is not None else None
        reached = str(arrived[0]) if arrived else ""
        if not (is_loopback(host) or is_one_of(host, (reached, *self._names()))):
            raise Forbidden(
                f"this server is not known as {host_of(host)!r}; if it is one of its names, give it"
                " a certificate for it: --tls-cert-file or --tls-sni-cert-key"
            )

    def _keep(self, token: str) -> str:
        value = secrets.token_urlsafe(32)
        self._tokens[value] = token
        if len(self._tokens) > SESSIONS_MAX:
            self._tokens.popitem(last=False)
        return value

    async def answer(self, request: web.BaseRequest, entered: str) -> web.StreamResponse:
        """After `admit`; `entered` is what that returned."""
        if not entered:
            return await self._page.handle(request)
        # The address with the token in it is kept and told by nobody.
        headers = {
            "Location": PREFIX,
            "Cache-Control": "no-store",
            "Referrer-Policy": "no-referrer",
        }
        response = web.Response(status=303, headers=headers)
        response.set_cookie(
            COOKIE, entered, path=PREFIX, httponly=True, samesite="Strict", secure=True
        )
        return response

    async def close(self) -> None:
        await self._page.close()


def _certificate(request: web.BaseRequest) -> Mapping[str, Any] | None:
    transport = request.transport
    return transport.get_extra_info("peercert") if transport is not None else None
