"""A plain client of the Kubernetes API for tests: JSON in, JSON out, one connection per thread."""

from __future__ import annotations

import http.client
import json
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlencode, urlsplit

Data = dict[str, Any]

CALL_TIMEOUT_S = 20.0
IDLE_MAX_S = 30.0
"""Servers close connections that are idle for long, and a request may just miss that."""
MERGE_PATCH = "application/merge-patch+json"


class Refused(Exception):
    """An answer that is no success."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(f"{code} {reason}: {message}")
        self.code = code
        self.reason = reason


class Api:
    def __init__(self, url: str, token: str, ca: str) -> None:
        self.url = url
        self.token = token
        self._tls = ssl.create_default_context(cadata=ca)
        self._local = threading.local()
        self._made: list[http.client.HTTPConnection] = []

    def close(self) -> None:
        for connection in self._made:
            connection.close()

    # -- verbs ------------------------------------------------------------------------------

    def get(self, path: str, **query: str) -> Data:
        return self.ask("GET", path, query=query)

    def items(self, path: str, **query: str) -> list[Data]:
        found: list[Data] = self.get(path, **query)["items"]
        return found

    def post(self, path: str, body: Data) -> Data:
        return self.ask("POST", path, body)

    def put(self, path: str, body: Data) -> Data:
        return self.ask("PUT", path, body)

    def patch(self, path: str, body: Data) -> Data:
        return self.ask("PATCH", path, body, content_type=MERGE_PATCH)

    def delete(self, path: str, **query: str) -> Data:
        return self.ask("DELETE", path, query=query)

    def ask(
        self,
        method: str,
        path: str,
        body: Data | None = None,
        *,
        query: dict[str, str] | None = None,
        content_type: str = "application/json",
    ) -> Data:
        code, text = self.send(method, path, body, query=query, content_type=content_type)
        if code >= 400:
            try:
                status = json.loads(text)
            except ValueError:
                status = {"message": text[:200]}
            raise Refused(code, status.get("reason", ""), status.get("message", ""))
        answer: Data = json.loads(text)
        return answer

    def send(
        self,
        method: str,
        path: str,
        body: Data | None = None,
        *,
        query: dict[str, str] | None = None,
        content_type: str = "application/json",
    ) -> tuple[int, str]:
        """The status code and the text, whatever they are."""
        payload = json.dumps(body) if body is not None else None
        return self.send_text(method, path, payload, query=query, content_type=content_type)

    def send_text(
        self,
        method: str,
        path: str,
        payload: str | None = None,
        *,
        query: dict[str, str] | Sequence[tuple[str, str]] | None = None,
        content_type: str = "application/json",
    ) -> tuple[int, str]:
        """As `send`, with a body that may be no JSON."""
        target = f"{path}?{urlencode(query)}" if query else path
        headers = {"Content-Type": content_type, "Accept": "application/json"}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        reused = self._connection() is not None
        try:
            return self._exchange(method, target, payload, headers)
        except (http.client.HTTPException, OSError):
            self._drop()
            # The server was restarted since: a question may be asked again.
            if not (reused and method == "GET"):
                raise
            return self._exchange(method, target, payload, headers)

    def _exchange(
        self, method: str, target: str, payload: str | None, headers: dict[str, str]
    ) -> tuple[int, str]:
        connection = self._connection() or self._connect()
        connection.request(method, target, payload, headers)
        self._local.used_s = time.monotonic()
        response = connection.getresponse()
        return response.status, response.read().decode()

    def _connection(self) -> http.client.HTTPConnection | None:
        """That of this thread."""
        found: http.client.HTTPConnection | None = getattr(self._local, "connection", None)
        if found is not None and time.monotonic() - self._local.used_s > IDLE_MAX_S:
            return None
        return found

    def _drop(self) -> None:
        self._local.connection.close()
        self._local.connection = None

    def _connect(self) -> http.client.HTTPConnection:
        parts = urlsplit(self.url)
        assert parts.scheme == "https", self.url
        assert parts.hostname, self.url
        made = http.client.HTTPSConnection(
            parts.hostname, parts.port, timeout=CALL_TIMEOUT_S, context=self._tls
        )
        self._local.connection, self._local.used_s = made, time.monotonic()
        self._made.append(made)
        return made


def in_parallel(work: Callable[[Any], Any], over: Iterable[Any], threads: int = 8) -> list[Any]:
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(work, over))
