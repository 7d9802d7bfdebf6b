"""A URL where a file is expected: kubectl would fetch it; we say what to do instead."""

from __future__ import annotations

import re
from typing import Any

import click

from stowplan.errors import InputError

_OF_FILES = re.compile(r"FILE|PATH|DIR|CONFIG")
_URL = re.compile(r"(https?):/+(.*)")


def refuse_urls(command: click.Command) -> None:
    """In all options and arguments of a command that name a file."""
    for param in command.params:
        if _OF_FILES.search(_described(param)) and param.callback is None:
            param.callback = _refuse_url


def _described(param: click.Parameter) -> str:
    return f"{param.metavar or ''} {(param.name or '').upper()}"


def _refuse_url(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
    for each in value if isinstance(value, tuple) else (value,):
        # A path made of a URL has lost a slash.
        found = _URL.match(str(each))
        if found is not None:
            url = f"{found[1]}://{found[2]}"
            raise InputError("a file is wanted here, not a URL", where=url, hint=_hint(param, url))
    return value


def _hint(param: click.Parameter, url: str) -> str:
    if param.name == "kubeconfig":
        return "`--master URL` takes the URL of an API server"
    if param.name in ("filenames", "more_files"):
        return f"pipe it in: `curl -fsSL {url} | stowplan dry-run -f -`"
    if param.name in ("config", "plugin_path", "plugin_paths"):
        return f"fetch it first: `curl -fsSLO {url}`"
    return "name a path on this machine"
