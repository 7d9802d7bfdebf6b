"""Proxies between us and a server: which one, if any, and how to reach it.

A kubeconfig's `proxy-url` counts for its cluster.  Without one the environment is asked, as by
every program written in Go: HTTPS_PROXY or HTTP_PROXY by the server's scheme, but not for the
hosts in NO_PROXY and never for this machine itself.

`cluster.kubeconfig` chooses, `cluster.client` and `cluster.http_pool` go through it; the runtime
asks for its extenders.  Mirrors `golang.org/x/net/http/httpproxy`.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from urllib.parse import unquote, urlsplit

from stowplan.errors import InputError

_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True, repr=False)
class Proxy:
    """No `repr`: it may hold a password."""

    host: str
    port: int
    authorization: str = ""
    """What Proxy-Authorization says; empty: nothing."""


def parse_proxy(url: str, where: str = "") -> Proxy:
    """Raises InputError for what is no proxy of ours; the message has no password in it."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port or 80
    except ValueError as error:
        raise InputError(f"the proxy's address makes no sense: {error}", where=where) from None
    if parts.scheme != "http" or not host:
        raise InputError(
            f"proxies of the sort {parts.scheme or 'without a host'!r} do not work here",
            where=where,
            hint="expected http://HOST:PORT; the server behind it may well be https://",
        )
    authorization = ""
    if parts.username:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        authorization = f"Basic {base64.b64encode(pair.encode()).decode()}"
    return Proxy(host, port, authorization)


def proxy_for(server: str, environment: Mapping[str, str]) -> str:
    """The address of the proxy that the environment names for this server, or "".

    >>> proxy_for("https://10.0.0.1:6443", {"HTTPS_PROXY": "proxy.example.com:3128"})
    'http://proxy.example.com:3128'
    """
    parts = urlsplit(server)
    found = _variable(environment, f"{parts.scheme}_proxy")
    host, port = parts.hostname or "", parts.port or _PORTS.get(parts.scheme, 0)
    if not found or _is_here(host) or _is_exempt(host, port, _variable(environment, "no_proxy")):
        return ""
    return found if "://" in found else f"http://{found}"


def _variable(environment: Mapping[str, str], name: str) -> str:
    return environment.get(name) or environment.get(name.upper()) or ""


def _is_here(host: str) -> bool:
    ip = _ip(host)
    return host == "localhost" or (ip is not None and ip.is_loopback)


def _is_exempt(host: str, port: int, no_proxy: str) -> bool:
    entries = (entry.strip().lower() for entry in no_proxy.split(","))
    return any(_covers(entry, host, port) for entry in entries if entry)


def _covers(entry: str, host: str, port: int) -> bool:
    """Whether an entry of NO_PROXY is about this host: a network, an address, or a name."""
    if entry == "*":
        return True
    ip = _ip(host)
    network = _network(entry)
    if network is not None:
        return ip is not None and ip in network
    name, _, only_port = entry.rpartition(":") if _has_port(entry) else (entry, "", "")
    if only_port and only_port != str(port):
        return False
    address = _ip(name.strip("[]"))
    if address is not None:
        return ip == address
    domain = name.removeprefix("*") if name.startswith("*.") else name
    if domain.startswith("."):
        return host.endswith(domain)
    return host == domain or host.endswith(f".{domain}")


def _has_port(entry: str) -> bool:
    """An address of IPv6 has colons of its own, and brackets where a port follows."""
    return entry.count(":") == 1 or "]:" in entry


def _network(entry: str) -> IPv4Network | IPv6Network | None:
    try:
        return ip_network(entry, strict=False) if "/" in entry else None
    except ValueError:
        return None


def _ip(host: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(host)
    except ValueError:
        return None
