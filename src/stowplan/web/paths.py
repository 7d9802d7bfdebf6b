"""Paths of the API and who answers at them."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import unquote

from stowplan.errors import NotFound, StowplanError
from stowplan.web.asking import Ask

Handler = Callable[[Ask], Awaitable[Any]]

NAME = "([^/]+)"
"""A part of a path that the handler is told."""


class MethodNotAllowed(StowplanError):
    """The path is known, the method is not."""


class Paths:
    def __init__(self, handlers: Mapping[str, Mapping[str, Handler]]) -> None:
        """`handlers`: by path (a regular expression) and method."""
        self._handlers = [(re.compile(path), methods) for path, methods in handlers.items()]

    async def answer(self, method: str, path: str, ask: Ask) -> Any:
        """`path` is as it was sent, below `/ui/api/`: a name may have an escaped slash in it."""
        for pattern, handlers in self._handlers:
            found = pattern.fullmatch(path.strip("/"))
            if found is None:
                continue
            handler = handlers.get("GET" if method == "HEAD" else method)
            if handler is None:
                raise MethodNotAllowed(f"{method} is not for this path")
            return await handler(Ask(tuple(map(unquote, found.groups())), ask.query, ask.body))
        raise NotFound("there is nothing at this path; docs/page.md lists what there is")
