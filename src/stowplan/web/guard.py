"""Who may look: the page answers its own reader, and nobody who only shares the browser.

A browser runs on this machine too, and any site can give its own name our address: a request must
name this server as its Host, and whoever sends an Origin must have come from here.  Where the API
server asks for tokens the page does as well: a key, handed over in the address once, becomes a
cookie that scripts cannot read.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable, Collection, Mapping

from stowplan.errors import Forbidden, Unauthorized
from stowplan.objects.names import host_of, is_loopback, is_one_of

COOKIE = "stowplan-ui"
KEY = "key"
"""The parameter of the address that hands the key over."""

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self'; connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
    "Server": "stowplan",
}


class Guard:
    def __init__(
        self,
        *,
        needs_key: bool = False,
        admit: Callable[[Mapping[str, str]], object] | None = None,
        names: Collection[str] = (),
        behind: bool = False,
    ) -> None:
        """`admit` raises for headers without a valid token of the API server; with it, or where a
        key is needed, whoever shows neither is refused.  `names`: hosts that are this server,
        beside this machine and the address at which a connection arrived.  `behind`: somebody else
        has let in whoever comes here, and looked at the Host."""
        self._behind = behind
        self._names = names
        self._admit = admit
        self._key = secrets.token_urlsafe(24) if needs_key or admit is not None else ""
        self._session = secrets.token_urlsafe(32)

    @property
    def address_suffix(self) -> str:
        """What the address needs to let its reader in."""
        return f"?{KEY}={self._key}" if self._key else ""

    def exchange(self, key: str) -> str | None:
        """The cookie's value for whoever shows the key; None for a wrong one."""
        return self._session if self._key and _same(key, self._key) else None

    def check_site(self, headers: Mapping[str, str], reached: str, *, api: bool) -> None:
        """Raises 403 for a request that another site made, or that was sent to one; `reached` is
        the address at which it arrived."""
        host, origin = headers.get("Host", ""), headers.get("Origin", "")
        if not (self._behind or is_loopback(host) or is_one_of(host, (reached, *self._names))):
            raise Forbidden(
                f"this server is not known as {host_of(host)!r}",
                hint="if it is one of its names, start it with --server-name",
            )
        if origin and origin.partition("://")[2].lower() != host.lower():
            raise Forbidden("requests from other sites are not taken")
        if api and headers.get("Sec-Fetch-Site", "none") not in ("same-origin", "none"):
            raise Forbidden("requests from other sites are not taken")

    def check(self, headers: Mapping[str, str], cookies: Mapping[str, str]) -> None:
        """Raises 401 for who may not see this."""
        if not self._key or _same(cookies.get(COOKIE, ""), self._session):
            return
        if self._admit is None or "Authorization" not in headers:
            raise Unauthorized("open the address that was printed when this server started")
        self._admit(headers)


def _same(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode(errors="replace"), other.encode())
