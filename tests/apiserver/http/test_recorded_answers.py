"""Our server answers as kube-apiserver did: code and body, request after request.

Recorded by `recorded.py`; `tests/e2e` asks a real one, with other seeds.
"""

from __future__ import annotations

from functools import cache

import pytest

from tests.apiserver.http.recorded import Replay, Step, call_of, recordings
from tests.apiserver.http.serving import Served
from tests.e2e.differential.comparing import difference


@cache
def recorded() -> dict[int, list[Step]]:
    return dict(recordings())


@pytest.mark.parametrize("seed", recorded())
async def test_as_kube_apiserver_answered(server: Served, seed: int) -> None:
    replay = Replay(server)
    await replay.make_namespace(f"recorded-{seed}")
    for number, step in enumerate(recorded()[seed]):
        call = call_of(step)
        answer = await replay.send(call)
        if "code" not in step:
            if call.subject and call.method != "GET":
                await replay.remove(call.subject)
            continue
        asked = f"request {number}: {call.method} {call.path} {call.query} {call.body}"
        assert answer.code == step["code"], f"{asked}: {answer.body}, not {step['body']}"
        assert not difference(answer.body, step["body"]), asked
