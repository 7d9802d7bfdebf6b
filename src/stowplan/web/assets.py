"""The files of the page, read once: whatever is not among them is not served."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

TYPES = {
    "css": "text/css; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "mjs": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}


@dataclass(frozen=True, slots=True)
class Asset:
    body: bytes
    content_type: str
    tag: str


@cache
def assets() -> dict[str, Asset]:
    """Path below `/ui/` -> file."""
    found: dict[str, Asset] = {}
    _collect(files("stowplan.web") / "static", "", found)
    found[""] = found["index.html"]
    return found


def _collect(folder: Traversable, path: str, found: dict[str, Asset]) -> None:
    for each in folder.iterdir():
        if each.is_dir():
            _collect(each, f"{path}{each.name}/", found)
            continue
        content_type = TYPES.get(each.name.rpartition(".")[2])
        if content_type is not None:
            body = each.read_bytes()
            tag = f'"{hashlib.sha256(body).hexdigest()[:24]}"'
            found[path + each.name] = Asset(body, content_type, tag)
