"""Our server answers as kube-apiserver did: code and body, request after request.

Recorded by `recorded.py`; `tests/e2e` asks a real one, with other seeds.
"""

from __future__ import annotations

from functools import cache

import pytest

from tests.apiserver.http.recorded import VALUES, Replay, Step, call_of, namespace_of, recordings
from tests.apiserver.http.serving import Served
from tests.e2e.differential.comparing import difference


@cache
def recorded() -> dict[str, list[Step]]:
    """By seed, and by kind: every value that is tried of its fields."""
    return {**dict(recordings()), **dict(recordings(VALUES))}


@pytest.mark.parametrize("name", recorded())
async def test_as_kube_apiserver_answered(server: Served, name: str) -> None:
    replay = Replay(server)
    await replay.make_namespace(namespace_of(name))
    for number, step in enumerate(recorded()[name]):
        call = call_of(step)
        answer = await replay.send(call)
        if "body" not in step and call.subject and call.method != "GET":
            await replay.remove(call.subject)
        asked = f"request {number}: {call.method} {call.path} {call.query} {call.body}"
        assert answer.code == step.get("code", answer.code), f"{asked}: {answer.body}"
        assert not difference(answer.body, step.get("body", answer.body)), asked
