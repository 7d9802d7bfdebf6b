"""Where the API server is and how to prove who we are: kubeconfig files and in-cluster files.

Read into plain data (`Connection`); `cluster.credentials` turns the user part into headers, and
`cluster.client` the rest into a TLS session.  Whatever is wrong with a file is said in one line
that names the file.  Mirrors client-go's `tools/clientcmd`.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from stowplan.cluster.proxy import parse_proxy, proxy_for
from stowplan.errors import InputError
from stowplan.objects.yaml_reader import read_yaml

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where Kubernetes mounts a pod's credentials."""

FILE_BYTES_MAX = 16 * 2**20

_EXEC_V1 = "client.authentication.k8s.io/v1"

Data = dict[str, Any]
_Named = dict[str, tuple[Data, Path]]


@dataclass(frozen=True, slots=True)
class ExecCommand:
    """A credential plugin: a command that prints a token or a certificate."""

    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    api_version: str = _EXEC_V1
    install_hint: str = ""
    cluster: Mapping[str, Any] | None = None
    """What the command is told about the cluster, if the file says so (`provideClusterInfo`)."""


@dataclass(frozen=True, slots=True, repr=False)
class Connection:
    """No `repr`: it holds secrets."""

    server: str
    ca: bytes = b""
    insecure: bool = False
    server_name: str = ""
    token: str = ""
    token_file: str = ""
    client_cert: bytes = b""
    client_key: bytes = b""
    username: str = ""
    password: str = ""
    exec_command: ExecCommand | None = None
    proxy: str = ""
    source: str = ""
    """The file this came from, for messages."""


def load_connection(
    kubeconfig: str = "", *, context: str = "", master: str = "", environment: Mapping[str, str]
) -> Connection:
    """From the file named, else KUBECONFIG, else in-cluster, else the home folder's file.

    `master` replaces the address in the file named.  Without one it stands alone: credentials
    that nobody asked for do not go to a server that somebody named.
    """
    if master:
        found = Connection(server=_address(master, "--master"), source="--master")
        if kubeconfig:
            found = replace(from_files([kubeconfig], context), server=found.server)
        return _with_proxy(found, environment)
    named = _find(kubeconfig, context, environment)
    if named is None:
        raise InputError(
            "no cluster is configured",
            hint="pass --kubeconfig FILE or --master URL, or run inside a cluster",
        )
    return _with_proxy(named, environment)


def _with_proxy(connection: Connection, environment: Mapping[str, str]) -> Connection:
    """That of the file, or else that of the environment."""
    proxy = connection.proxy or proxy_for(connection.server, environment)
    if proxy and not connection.proxy:
        parse_proxy(proxy, "HTTPS_PROXY or HTTP_PROXY")
    return replace(connection, proxy=proxy)


def _find(kubeconfig: str, context: str, environment: Mapping[str, str]) -> Connection | None:
    if kubeconfig:
        return from_files([kubeconfig], context)
    if environment.get("KUBECONFIG"):
        paths = [p for p in environment["KUBECONFIG"].split(os.pathsep) if p]
        return from_files([p for p in paths if Path(p).exists()] or paths[:1], context)
    if environment.get("KUBERNETES_SERVICE_HOST"):
        return in_cluster(environment)
    default = Path(environment.get("HOME", ".")) / ".kube" / "config"
    return from_files([str(default)], context) if default.exists() else None


def in_cluster(environment: Mapping[str, str], folder: Path = SERVICE_ACCOUNT) -> Connection:
    host = environment["KUBERNETES_SERVICE_HOST"]
    port = environment.get("KUBERNETES_SERVICE_PORT", "443")
    token_file = folder / "token"
    if not token_file.exists():
        raise InputError(
            "this pod has no service account token",
            where=str(token_file),
            hint="set automountServiceAccountToken, or pass --kubeconfig",
        )
    bracketed = f"[{host}]" if ":" in host else host
    return Connection(
        server=f"https://{bracketed}:{port}",
        ca=read_file(folder / "ca.crt"),
        token_file=str(token_file),
        source=str(folder),
    )


@dataclass(slots=True)
class _Merged:
    """What several files say together: the first to name a thing wins, as with kubectl."""

    where: str
    clusters: _Named = field(default_factory=dict)
    users: _Named = field(default_factory=dict)
    contexts: _Named = field(default_factory=dict)
    current: str = ""

    def add(self, path: str) -> None:
        data = _load(path)
        base = Path(path).parent
        for key, things in (
            ("cluster", self.clusters),
            ("user", self.users),
            ("context", self.contexts),
        ):
            for name, body in _entries(data, key, path):
                things.setdefault(name, (body, base))
        self.current = self.current or str(data.get("current-context") or "")

    def entry(self, things: _Named, what: str, name: str) -> tuple[Data, Path]:
        if name not in things:
            known = ", ".join(sorted(things)) or "none"
            problem = f"{what} {name!r} does not exist" if name else f"no {what} is named"
            raise InputError(problem, where=self.where, hint=f"in the file: {known}")
        return things[name]


def from_files(paths: list[str], context: str = "") -> Connection:
    merged = _Merged(os.pathsep.join(paths))
    for path in paths:
        merged.add(path)
    name = context or merged.current
    if not name:
        known = ", ".join(sorted(merged.contexts)) or "none"
        raise InputError(
            "no current-context is set", where=merged.where, hint=f"contexts in the file: {known}"
        )
    chosen, _ = merged.entry(merged.contexts, "context", name)
    cluster = merged.entry(merged.clusters, "cluster", str(chosen.get("cluster") or ""))
    user: tuple[Data, Path] = ({}, Path())
    if chosen.get("user"):
        user = merged.entry(merged.users, "user", str(chosen["user"]))
    return _connection(cluster, user, merged.where)


def _connection(cluster: tuple[Data, Path], user: tuple[Data, Path], where: str) -> Connection:
    there, cluster_base = cluster
    who, user_base = user
    server = _address(str(there.get("server") or ""), where)
    token_file = str(who.get("tokenFile") or "")
    found = Connection(
        server=server,
        ca=_bytes(there, "certificate-authority", cluster_base, where),
        insecure=there.get("insecure-skip-tls-verify") is True,
        server_name=str(there.get("tls-server-name") or ""),
        proxy=str(there.get("proxy-url") or ""),
        token=str(who.get("token") or ""),
        token_file=str(user_base / token_file) if token_file else "",
        client_cert=_bytes(who, "client-certificate", user_base, where),
        client_key=_bytes(who, "client-key", user_base, where),
        username=str(who.get("username") or ""),
        password=str(who.get("password") or ""),
        source=where,
    )
    if found.proxy:
        parse_proxy(found.proxy, f"{where}, proxy-url")
    if problem := _contradiction(found, who):
        raise InputError(problem, where=where)
    return replace(found, exec_command=_exec(who.get("exec"), user_base, found))


def _contradiction(connection: Connection, user: Data) -> str:
    if connection.insecure and connection.ca:
        return "certificate-authority and insecure-skip-tls-verify exclude each other"
    if bool(connection.client_cert) != bool(connection.client_key):
        missing = "client-key" if connection.client_cert else "client-certificate"
        return f"{missing} is missing: a client certificate and its key come together"
    if user.get("auth-provider"):
        return "auth-provider is no longer a part of Kubernetes: use an exec credential plugin"
    return ""


def _address(server: str, where: str) -> str:
    if not server:
        raise InputError("the cluster has no server address", where=where, hint="set `server:`")
    if "://" not in server:
        # As client-go: without a scheme it is plain HTTP.
        server = f"http://{server}"
    if "@" in server.partition("://")[2].partition("/")[0]:
        # It would be in every message that names the server.
        raise InputError(
            "the server address holds a user's name or password",
            where=where,
            hint="name them in the user part of a kubeconfig",
        )
    if not server.startswith(("https://", "http://")):
        problem = f"the server address {server!r} is neither http:// nor https://"
        raise InputError(problem, where=where)
    return server.rstrip("/")


def _exec(data: Any, base: Path, connection: Connection) -> ExecCommand | None:
    where = connection.source
    if not data:
        return None
    if not isinstance(data, dict) or not data.get("command"):
        raise InputError("users[].user.exec has no command", where=where)
    if data.get("interactiveMode") == "Always":
        raise InputError("a credential plugin that asks questions cannot be run here", where=where)
    command = str(data["command"])
    if os.sep in command and not os.path.isabs(command):
        command = str(base / command)
    return ExecCommand(
        command=command,
        args=tuple(str(arg) for arg in data.get("args") or ()),
        env={
            str(entry.get("name")): str(entry.get("value", ""))
            for entry in data.get("env") or ()
            if isinstance(entry, dict)
        },
        api_version=str(data.get("apiVersion") or _EXEC_V1),
        install_hint=str(data.get("installHint") or ""),
        cluster=_cluster_info(connection) if data.get("provideClusterInfo") else None,
    )


def _cluster_info(connection: Connection) -> dict[str, Any]:
    info: dict[str, Any] = {
        "server": connection.server,
        "tls-server-name": connection.server_name,
        "insecure-skip-tls-verify": connection.insecure,
        "certificate-authority-data": base64.b64encode(connection.ca).decode(),
        "proxy-url": connection.proxy,
    }
    return {name: value for name, value in info.items() if value}


def _bytes(data: Data, key: str, base: Path, where: str) -> bytes:
    """`KEY-data` is base64 and wins over the file named by `KEY`."""
    inline = data.get(f"{key}-data")
    if inline:
        try:
            return base64.b64decode(str(inline), validate=True)
        except ValueError as error:
            raise InputError(f"{key}-data is not base64: {error}", where=where) from None
    return read_file(base / str(data[key])) if data.get(key) else b""


def _entries(data: Data, key: str, path: str) -> list[tuple[str, Data]]:
    listed = data.get(f"{key}s") or []
    if not isinstance(listed, list):
        raise InputError(f"{key}s is no list", where=path)
    found = []
    for entry in listed:
        body = entry.get(key) if isinstance(entry, dict) else None
        if not isinstance(entry, dict) or not isinstance(body or {}, dict):
            raise InputError(
                f"{key}s holds something that is no {key}",
                where=path,
                hint=f"expected entries of `name:` and `{key}:`",
            )
        found.append((str(entry.get("name") or ""), body or {}))
    return found


def read_file(path: Path) -> bytes:
    """A kubeconfig, certificate, key or token; raises InputError."""
    try:
        with path.open("rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", where=str(path)) from None
    if len(data) > FILE_BYTES_MAX:
        raise InputError(f"is larger than {FILE_BYTES_MAX} bytes", where=str(path))
    return data


def _load(path: str) -> Data:
    documents = read_yaml(read_file(Path(path)), path)
    data = documents[0] if documents else None
    if not isinstance(data, dict):
        raise InputError("is no kubeconfig", where=path, hint="expected `kind: Config`")
    return data
