"""Honest clients: each creates a pod, sees it bound, deletes it, and takes the next.

They behave as Kubernetes clients do: one connection, which is opened again if it was closed while
idle, and a 429 is answered with patience.  Whatever else goes wrong is a failure of the server.
"""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from tests.load.target import PODS, Target

CALL_TIMEOUT_S = 30.0
PATIENCE = 10
"""How often a client that is asked to come back later does so."""

Data = dict[str, Any]


def pod(name: str, *, cpu: str = "10m", **spec: Any) -> Data:
    container = {
        "name": "main",
        "image": "registry.example/app:1",
        "resources": {"requests": {"cpu": cpu, "memory": "16Mi"}},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": "load"}},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 0, **spec},
    }


@dataclass(slots=True)
class Experience:
    """What all honest clients went through, together."""

    created: int = 0
    bound: int = 0
    deleted: int = 0
    asked_to_wait: int = 0
    create_s: list[float] = field(default_factory=list)
    bound_s: list[float] = field(default_factory=list)
    """From the moment a pod was sent until it was seen bound."""
    failures: list[str] = field(default_factory=list)


class Client:
    """One honest client, usually with one connection."""

    def __init__(
        self,
        target: Target,
        experience: Experience,
        connections: int = 1,
        timeout_s: float = CALL_TIMEOUT_S,
    ) -> None:
        self._experience = experience
        self._session = aiohttp.ClientSession(
            target.url,
            connector=aiohttp.TCPConnector(limit=connections, ssl=target.tls),
            headers={"Authorization": f"Bearer {target.token}"},
            timeout=aiohttp.ClientTimeout(total=timeout_s),
        )

    async def close(self) -> None:
        await self._session.close()

    async def ask(self, method: str, path: str, body: Data | None = None) -> Data:
        """Raises what aiohttp raises; a refusal is a ClientResponseError."""
        for _ in range(PATIENCE):
            async with self._session.request(method, path, json=body) as answer:
                if answer.status != 429:
                    answer.raise_for_status()
                    data: Data = await answer.json()
                    return data
                self._experience.asked_to_wait += 1
                await asyncio.sleep(float(answer.headers.get("Retry-After", "1")))
        raise aiohttp.ClientError(f"{method} {path}: refused {PATIENCE} times")


class Bindings:
    """An honest watch of all pods: who waits for a binding hears of it here."""

    def __init__(self, target: Target, experience: Experience) -> None:
        self._experience = experience
        self._waiting: dict[str, asyncio.Future[float]] = {}
        self._session = aiohttp.ClientSession(
            target.url,
            connector=aiohttp.TCPConnector(limit=1, ssl=target.tls),
            headers={"Authorization": f"Bearer {target.token}"},
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CALL_TIMEOUT_S),
            read_bufsize=2**20,
        )

    def expect(self, name: str) -> asyncio.Future[float]:
        """When it was seen bound, by the monotonic clock."""
        made = asyncio.get_running_loop().create_future()
        self._waiting[name] = made
        return made

    async def follow(self) -> None:
        """Until it is cancelled; a watch that ends early is a failure."""
        try:
            async with self._session.get(PODS, params={"watch": "1"}) as answer:
                answer.raise_for_status()
                async for line in answer.content:
                    self._take(json.loads(line)["object"])
            self._experience.failures.append("the honest watch was ended by the server")
        except (aiohttp.ClientError, OSError, ValueError) as error:
            self._experience.failures.append(f"the honest watch broke: {error!r}")
        finally:
            await self._session.close()

    def _take(self, found: Data) -> None:
        if found["spec"].get("nodeName"):
            waiting = self._waiting.pop(found["metadata"]["name"], None)
            if waiting is not None and not waiting.done():
                waiting.set_result(time.monotonic())


async def live(
    number: int,
    target: Target,
    bindings: Bindings,
    experience: Experience,
    until_s: float,
) -> None:
    """One client's life; ends after the pod that is under way at `until_s`."""
    client = Client(target, experience)
    serial = 0
    try:
        while time.monotonic() < until_s:
            serial += 1
            await _one_pod(f"honest-{number}-{serial}", client, bindings, experience)
    except (aiohttp.ClientError, OSError, TimeoutError) as error:
        experience.failures.append(f"client {number}: {error!r}")
    finally:
        await client.close()


async def _one_pod(name: str, client: Client, bindings: Bindings, experience: Experience) -> None:
    began_s = time.monotonic()
    seen_bound = bindings.expect(name)
    await client.ask("POST", PODS, pod(name))
    experience.create_s.append(time.monotonic() - began_s)
    experience.created += 1
    bound_s = await asyncio.wait_for(seen_bound, CALL_TIMEOUT_S)
    experience.bound_s.append(bound_s - began_s)
    experience.bound += 1
    await client.ask("DELETE", f"{PODS}/{name}")
    experience.deleted += 1
