"""A kubeconfig for the cluster of `stowplan up`."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import yaml

from stowplan.errors import InputError
from stowplan.runtime.certs import write_whole

NAME = "stowplan"


def kubeconfig(url: str, *, ca: bytes = b"", token: str = "") -> dict[str, Any]:
    cluster: dict[str, Any] = {"server": url}
    if ca:
        cluster["certificate-authority-data"] = base64.b64encode(ca).decode()
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": NAME, "cluster": cluster}],
        "users": [{"name": NAME, "user": {"token": token} if token else {}}],
        "contexts": [{"name": NAME, "context": {"cluster": NAME, "user": NAME}}],
        "current-context": NAME,
    }


def check_replaceable(path: Path) -> None:
    """A file with something else in it is somebody's; it must not be lost."""
    try:
        text = path.read_bytes()
        known = yaml.safe_load(text)
    except FileNotFoundError:
        return
    except (yaml.YAMLError, UnicodeDecodeError):
        known = None
    clusters = known.get("clusters") if isinstance(known, dict) else None
    only = clusters[0] if isinstance(clusters, list) and len(clusters) == 1 else None
    is_ours = isinstance(only, dict) and only.get("name") == NAME
    if text and not is_ours:
        raise InputError(
            "the file exists and is not one that `stowplan up` wrote",
            where=str(path),
            hint="name another file; kubectl reads several: KUBECONFIG=one:other",
        )


def write_kubeconfig(path: Path, data: dict[str, Any]) -> None:
    """Whole or not at all, and readable for its owner only: there may be a token in it."""
    check_replaceable(path)
    try:
        write_whole(path, yaml.safe_dump(data, sort_keys=False).encode())
    except OSError as error:
        raise InputError(
            f"the kubeconfig cannot be written: {error.strerror}", where=str(path)
        ) from None
