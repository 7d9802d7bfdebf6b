"""Where the API server is and how to prove who we are: kubeconfig files and in-cluster files.

Read into plain data (`Connection`); `cluster.credentials` turns the user part into headers, and
`cluster.client` the rest into a TLS session.  Mirrors client-go's `tools/clientcmd`.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from stowplan.errors import InputError
from stowplan.objects.yaml_reader import read_yaml

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where Kubernetes mounts a pod's credentials."""

_EXEC_V1 = "client.authentication.k8s.io/v1"


@dataclass(frozen=True, slots=True)
class ExecCommand:
    """A credential plugin: a command that prints a token or a certificate."""

    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    api_version: str = _EXEC_V1
    install_hint: str = ""


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
    """From the file named, else KUBECONFIG, else in-cluster, else the home folder's file."""
    found = _find(kubeconfig, context, environment)
    if found is None:
        if not master:
            raise InputError(
                "no cluster is configured",
                hint="pass --kubeconfig FILE or --master URL, or run inside a cluster",
            )
        found = Connection(server=master)
    return replace(found, server=master.rstrip("/")) if master else found


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
        ca=_read(folder / "ca.crt"),
        token_file=str(token_file),
        source=str(folder),
    )


def from_files(paths: list[str], context: str = "") -> Connection:
    """Several files are one: the first to name a thing wins, as with kubectl."""
    clusters: dict[str, tuple[dict[str, Any], Path]] = {}
    users: dict[str, tuple[dict[str, Any], Path]] = {}
    contexts: dict[str, dict[str, Any]] = {}
    current = ""
    for path in paths:
        data = _load(path)
        base = Path(path).parent
        for entry in data.get("clusters") or ():
            clusters.setdefault(entry.get("name", ""), (entry.get("cluster") or {}, base))
        for entry in data.get("users") or ():
            users.setdefault(entry.get("name", ""), (entry.get("user") or {}, base))
        for entry in data.get("contexts") or ():
            contexts.setdefault(entry.get("name", ""), entry.get("context") or {})
        current = current or data.get("current-context") or ""
    where = os.pathsep.join(paths)
    name = context or current
    if name not in contexts:
        known = ", ".join(sorted(contexts)) or "none"
        problem = f"context {name!r} does not exist" if name else "no current-context is set"
        raise InputError(problem, where=where, hint=f"contexts in the file: {known}")
    chosen = contexts[name]
    cluster = _entry(clusters, chosen.get("cluster", ""), "cluster", where)
    user = users.get(chosen.get("user", ""), ({}, Path()))
    return _connection(cluster, user, where)


def _connection(
    cluster: tuple[dict[str, Any], Path], user: tuple[dict[str, Any], Path], where: str
) -> Connection:
    there, cluster_base = cluster
    who, user_base = user
    server = str(there.get("server") or "")
    if not server:
        raise InputError("the cluster has no server address", where=where, hint="set `server:`")
    token_file = str(who.get("tokenFile") or "")
    return Connection(
        server=server.rstrip("/"),
        ca=_bytes(there, "certificate-authority", cluster_base, where),
        insecure=bool(there.get("insecure-skip-tls-verify")),
        server_name=str(there.get("tls-server-name") or ""),
        proxy=str(there.get("proxy-url") or ""),
        token=str(who.get("token") or ""),
        token_file=str(user_base / token_file) if token_file else "",
        client_cert=_bytes(who, "client-certificate", user_base, where),
        client_key=_bytes(who, "client-key", user_base, where),
        username=str(who.get("username") or ""),
        password=str(who.get("password") or ""),
        exec_command=_exec(who.get("exec"), where),
        source=where,
    )


def _exec(data: dict[str, Any] | None, where: str) -> ExecCommand | None:
    if not data:
        return None
    command = data.get("command")
    if not command:
        raise InputError("users[].user.exec has no command", where=where)
    return ExecCommand(
        command=str(command),
        args=tuple(str(arg) for arg in data.get("args") or ()),
        env={str(e["name"]): str(e.get("value", "")) for e in data.get("env") or ()},
        api_version=str(data.get("apiVersion") or _EXEC_V1),
        install_hint=str(data.get("installHint") or ""),
    )


def _entry(
    entries: dict[str, tuple[dict[str, Any], Path]], name: str, what: str, where: str
) -> tuple[dict[str, Any], Path]:
    if name not in entries:
        known = ", ".join(sorted(entries)) or "none"
        raise InputError(
            f"{what} {name!r} does not exist", where=where, hint=f"in the file: {known}"
        )
    return entries[name]


def _bytes(data: dict[str, Any], key: str, base: Path, where: str) -> bytes:
    """`KEY-data` is base64 and wins over the file named by `KEY`."""
    inline = data.get(f"{key}-data")
    if inline:
        try:
            return base64.b64decode(inline, validate=True)
        except ValueError as error:
            raise InputError(f"{key}-data is not base64: {error}", where=where) from None
    return _read(base / data[key]) if data.get(key) else b""


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", where=str(path)) from None


def _load(path: str) -> dict[str, Any]:
    documents = read_yaml(_read(Path(path)), path)
    data = documents[0] if documents else None
    if not isinstance(data, dict):
        raise InputError("is no kubeconfig", where=path, hint="expected `kind: Config`")
    return data
