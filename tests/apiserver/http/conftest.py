"""`server`: a store of its own behind HTTP, on a loopback port, under a virtual clock."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.apiserver.http.serving import Served, serve


@pytest.fixture
async def server() -> AsyncIterator[Served]:
    served = await serve()
    yield served
    await served.close()


@pytest.fixture(autouse=True)
async def nothing_escapes() -> AsyncIterator[None]:
    """An error that only the event loop hears of fails the test all the same."""
    heard: list[str] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: heard.append(str(context)))
    yield
    assert not heard
