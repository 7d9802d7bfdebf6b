"""The REST API: every request comes in here, and always gets a Kubernetes answer.

`handle` is what aiohttp calls.  It lets in who may come in, finds out what is meant, and turns
whatever goes wrong into the Status object that says so.  Where to read on: `reads`, `mutations`,
`watch_stream`; what exists besides resources is answered in `documents`.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from random import Random

from aiohttp import web

from stowplan.apiserver.grouping import GroupedStore
from stowplan.apiserver.http.auth import Authenticator
from stowplan.apiserver.http.documents import document_at, health, nothing_at
from stowplan.apiserver.http.encoding import Encoder
from stowplan.apiserver.http.exchange import Exchange, Reply, as_yaml, reply
from stowplan.apiserver.http.held_bytes import HeldBytes
from stowplan.apiserver.http.mutations import Mutations, no_machine
from stowplan.apiserver.http.negotiation import JSON
from stowplan.apiserver.http.options import is_true, watch_query
from stowplan.apiserver.http.paths import Target, Virtual, parse_path
from stowplan.apiserver.http.reads import Reads
from stowplan.apiserver.http.reviews import review
from stowplan.apiserver.http.status import failure, method_not_allowed, no_such_resource
from stowplan.apiserver.http.subresources import scale_of
from stowplan.apiserver.http.watch_stream import WatchStream
from stowplan.clock import Clock
from stowplan.errors import ApiError, TooManyRequests
from stowplan.printable import logger

log = logger(__name__)

REQUESTS_MAX = 1000
"""Requests being answered at one time; one more is asked to come back."""
WATCHES_MAX = 2000
WARNING_LENGTH_MAX = 256

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


class Api:
    def __init__(
        self,
        grouped: GroupedStore,
        *,
        clock: Clock,
        random: Random,
        authenticator: Authenticator | None = None,
        is_ready: Callable[[], bool] = lambda: True,
        beside: Mapping[str, Handler] | None = None,
    ) -> None:
        """`beside`: what else is served, by the first part of the path; lets in whom it will."""
        self._store = grouped.store
        self._beside = dict(beside or {})
        self._random = random
        self._authenticator = authenticator or Authenticator()
        self._is_ready = is_ready
        self._encoder = Encoder(clock)
        self._reads = Reads(grouped.store, self._encoder)
        self._mutations = Mutations(grouped, self._encoder, clock, self._authenticator)
        self.held = HeldBytes(clock)
        """What clients make this server keep; `server` counts the answers that it sends."""
        self._requests = 0
        self._watches = 0

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        self._requests += 1
        try:
            if self._requests > REQUESTS_MAX:
                raise TooManyRequests("too many requests, please try again later", retry_after_s=1)
            other = self._beside.get(request.path.split("/", 2)[1]) if self._beside else None
            if other is not None:
                return await other(request)
            answer = health(request.path, self._is_ready)
            if answer is None:
                user = self._authenticator.authenticate(request.headers)
                exchange = Exchange(request, user, self.held)
                target = parse_path(request.path, self._store.gates)
                if isinstance(target, Target) and _is_watch(exchange, target):
                    return await self._watch(exchange, target)
                answer = await self._answer(exchange, target)
                if exchange.wanted.is_yaml and answer.headers.get("Content-Type") == JSON:
                    answer = await as_yaml(answer)
        except ApiError as error:
            answer = _refusal(error)
        except Exception as error:
            log.exception("%s %s failed", request.method, request.path)
            answer = _refusal(ApiError(f"Internal error occurred: {error}"))
        finally:
            self._requests -= 1
        return _response(request, answer)

    async def _answer(self, exchange: Exchange, target: Target | Virtual | None) -> Reply:
        if isinstance(target, Target):
            answer = self._answer_object if target.name else self._answer_collection
            try:
                return await answer(exchange, target)
            except ApiError as error:
                conversion = target.resource.conversion
                raise (error if conversion is None else conversion.refused(error)) from None
        if isinstance(target, Virtual):
            return await self._answer_virtual(exchange, target)
        found = document_at(exchange, self._store.gates)
        if found is None:
            return nothing_at(exchange.path, self._store.gates)
        return found

    async def _answer_collection(self, exchange: Exchange, target: Target) -> Reply:
        match exchange.method:
            case "GET":
                return await self._reads.list(exchange, target)
            case "POST":
                return await self._mutations.create(exchange, target)
            case "DELETE":
                return await self._mutations.delete_collection(exchange, target)
            case _:
                raise method_not_allowed()

    async def _answer_object(self, exchange: Exchange, target: Target) -> Reply:
        match exchange.method:
            case "GET":
                return self._get(exchange, target)
            case "PUT":
                return await self._mutations.update(exchange, target)
            case "PATCH":
                return await self._mutations.patch(exchange, target)
            case "DELETE":
                return await self._mutations.delete(exchange, target)
            case "POST" if target.subresource:
                return await self._mutations.create_sub(exchange, target)
            case _:
                raise method_not_allowed()

    def _get(self, exchange: Exchange, target: Target) -> Reply:
        subresource = target.subresource
        if subresource and subresource not in target.resource.subresources:
            raise no_machine(target) or no_such_resource()
        if subresource in ("binding", "eviction", "token"):
            raise method_not_allowed()
        if subresource == "scale":
            item = self._store.read(target.resource.kind, target.namespace, target.name)
            return reply(scale_of(target, item))
        return self._reads.get(exchange, target)

    async def _answer_virtual(self, exchange: Exchange, target: Virtual) -> Reply:
        if exchange.method != "POST":
            raise method_not_allowed()
        if target.plural == "bindings":
            return await self._mutations.bind(exchange, target.namespace)
        body = await exchange.object()
        body = {"kind": target.kind, "apiVersion": f"{target.group}/{target.version}", **body}
        return reply(review(target.plural, body, exchange.user, self._authenticator), 201)

    async def _watch(self, exchange: Exchange, target: Target) -> web.StreamResponse:
        if self._watches >= WATCHES_MAX:
            raise TooManyRequests("too many watches, please try again later", retry_after_s=1)
        query = watch_query(exchange.query, target.namespace, target.name)
        include = exchange.query.get("includeObject", "Metadata")
        stream = WatchStream(
            self._store, self._encoder, target.resource, query, exchange.wanted, include
        )
        stream.start()
        request = exchange.request
        response = web.StreamResponse(headers={"Content-Type": JSON, "Cache-Control": "no-cache"})
        clean = False
        # It is not a request that somebody waits for; it has its own limit.
        self._requests -= 1
        self._watches += 1
        try:
            response.enable_chunked_encoding()
            await response.prepare(request)
            clean = await stream.run(response, self._random)
        except ConnectionError:
            pass
        finally:
            self._watches -= 1
            self._requests += 1
            stream.stop()
            if not clean and request.transport is not None:
                request.transport.abort()
        return response


def _is_watch(exchange: Exchange, target: Target) -> bool:
    if exchange.method != "GET" or target.subresource or "watch" not in exchange.query:
        return False
    return is_true(exchange.query, "watch")


def refused(request: web.BaseRequest, error: ApiError) -> web.Response:
    return _response(request, _refusal(error))


def _refusal(error: ApiError) -> Reply:
    answer = reply(failure(error), error.code)
    headers = dict(answer.headers)
    if error.retry_after_s is not None:
        headers["Retry-After"] = str(max(1, round(error.retry_after_s)))
    if error.code == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return Reply(answer.body, answer.code, headers)


def _response(request: web.BaseRequest, answer: Reply) -> web.Response:
    response = web.Response(body=answer.body, status=answer.code, headers=answer.headers)
    for warning in answer.warnings:
        response.headers.add("Warning", f'299 - "{_quoted(warning)}"')
    unread = request.can_read_body and not request.content.is_eof()
    if unread and answer.code in (408, 413, 429, 504):
        # The rest of the body is not read, so the connection is of no more use.
        response.force_close()
    return response


def _quoted(text: str) -> str:
    """For a header: short, and without what would end it.

    >>> _quoted('say "hi"')
    'say \\\\"hi\\\\"'
    """
    printable = _CONTROL.sub("?", text[:WARNING_LENGTH_MAX])
    return printable.replace("\\", "\\\\").replace('"', '\\"')
