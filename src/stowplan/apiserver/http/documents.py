"""What is served besides resources: health, version, discovery, OpenAPI."""

from __future__ import annotations

import platform
from collections.abc import Callable

import msgspec

from stowplan.apiserver.http import discovery, openapi
from stowplan.apiserver.http.exchange import Exchange, Reply, reply
from stowplan.apiserver.http.negotiation import Shape
from stowplan.apiserver.http.resources import Gates, served
from stowplan.apiserver.http.status import (
    method_not_allowed,
    no_such_resource,
)
from stowplan.apiserver.version import GIT_VERSION, MAJOR, MINOR

_TEXT = {"Content-Type": "text/plain; charset=utf-8"}
_OPENAPI_PROTOBUF = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
_LIVE = frozenset({"/healthz", "/livez", "/healthz/ping", "/livez/ping"})
_READY = frozenset({"/readyz", "/readyz/ping"})
_PATHS = (
    "/api", "/apis", "/healthz", "/livez", "/openapi/v2", "/openapi/v3", "/readyz", "/version",
)  # fmt: skip


def health(path: str, is_ready: Callable[[], bool]) -> Reply | None:
    """Open to everybody: whoever starts the process must be able to ask."""
    if path in _LIVE:
        return Reply(b"ok", 200, _TEXT)
    if path in _READY:
        return Reply(b"ok", 200, _TEXT) if is_ready() else Reply(b"not ready yet", 503, _TEXT)
    return None


def document_at(exchange: Exchange, gates: Gates) -> Reply | None:
    """The document of a path, or None when there is none."""
    parts = tuple(filter(None, exchange.path.split("/")))
    if exchange.method not in ("GET", "HEAD"):
        if _find(exchange, gates, parts) is not None:
            raise method_not_allowed()
        return None
    return _find(exchange, gates, parts)


def nothing_at(path: str, gates: Gates) -> Reply:
    """404, or where no group of the API is at all, what upstream's router says."""
    root, _, rest = path.strip("/").partition("/")
    if root == "api" or (root == "apis" and rest.partition("/")[0] in discovery.groups(gates)):
        raise no_such_resource()
    return Reply(b"404 page not found\n", 404, _TEXT)


def _find(exchange: Exchange, gates: Gates, parts: tuple[str, ...]) -> Reply | None:
    match parts:
        case ():
            return reply({"paths": list(_PATHS)})
        case ("version",):
            return reply(version())
        case ("api",) | ("apis",) if exchange.wanted.shape is Shape.DISCOVERY:
            return _aggregated(gates, parts[0] == "api", exchange.wanted.version)
        case ("api",):
            return reply(discovery.api_versions(exchange.host))
        case ("apis",):
            return reply(discovery.api_group_list(gates))
        case ("apis", group) if group in discovery.groups(gates):
            return reply(discovery.api_group(gates, group))
        case ("api", version_) if ("", version_) in served(gates):
            return reply(discovery.resource_list(gates, "", version_))
        case ("apis", group, version_) if (group, version_) in served(gates):
            return reply(discovery.resource_list(gates, group, version_))
        case ("openapi", "v2"):
            return _swagger(exchange)
        case ("openapi", "v3"):
            return reply(openapi.index(gates))
        case ("openapi", "v3", "api", version_) if ("", version_) in served(gates):
            return Reply(openapi.encoded(gates, "", version_))
        case ("openapi", "v3", "apis", group, version_) if (group, version_) in served(gates):
            return Reply(openapi.encoded(gates, group, version_))
    return None


def _aggregated(gates: Gates, core: bool, document_version: str) -> Reply:
    content_type = (
        f"application/json;g=apidiscovery.k8s.io;v={document_version};as=APIGroupDiscoveryList"
    )
    body = msgspec.json.encode(discovery.aggregated(gates, core, document_version))
    return Reply(body, 200, {"Content-Type": content_type})


def _swagger(exchange: Exchange) -> Reply:
    if "proto-openapi" in exchange.request.headers.get("Accept", ""):
        return Reply(openapi.swagger_protobuf(), 200, {"Content-Type": _OPENAPI_PROTOBUF})
    return reply(openapi.swagger())


def version() -> dict[str, str]:
    return {
        "major": MAJOR,
        "minor": MINOR,
        "gitVersion": GIT_VERSION,
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": f"python{platform.python_version()}",
        "compiler": platform.python_implementation(),
        "platform": f"{platform.system().lower()}/{platform.machine()}",
    }
