"""What each path of the secure port answers: a question as data in, a reply as data out.

No socket and no waiting here; `runtime.server` does that, after `runtime.auth` has let the caller
in.  A reply whose text is long comes in pieces, so that the scheduler goes on in between.

The pages for people (/debug/...) are in `runtime.debug_pages`, and are text unless JSON is asked
for, with `?output=json` or an Accept header.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import yaml

from stowplan.config import to_dict, without_keys
from stowplan.printable import printable, printable_json, printable_lines
from stowplan.runtime.debug_pages import (
    COMPONENT,
    Page,
    Statusz,
    cache_page,
    decision_page,
    flagz,
    index_page,
    queue_page,
)
from stowplan.runtime.explanations import Explanations
from stowplan.runtime.exposition import CONTENT_TYPE
from stowplan.runtime.metric_readings import describe_build
from stowplan.runtime.resource_metrics import resource_text
from stowplan.runtime.surface import Surface

TEXT = "text/plain; charset=utf-8"
JSON = "application/json"
YAML = "application/yaml"

HEALTH = ("/healthz", "/livez", "/readyz")
SLIS = "/metrics/slis"

_READ = frozenset({"GET", "HEAD"})


@dataclass(frozen=True, slots=True)
class Question:
    method: str
    path: str
    query: Mapping[str, Sequence[str]] = field(default_factory=dict)
    accept: str = ""
    body: bytes = b""

    @property
    def wants_json(self) -> bool:
        """The query decides, then the header."""
        output = self.query.get("output")
        return output[-1] == "json" if output else JSON in self.accept


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    body: str | Iterable[str]
    content_type: str = TEXT


NOT_FOUND = Reply(404, "404 page not found\n")
NOT_ALLOWED = Reply(405, "method not allowed\n")


class Endpoints:
    def __init__(self, surface: Surface) -> None:
        self._surface = surface
        self._explanations = Explanations()
        surface.machine.algorithm.explain = self._explanations.note
        describe_build(surface.metrics.families, surface.gates)
        surface.metrics.before_text.append(self._read_leading)
        self._statusz = Statusz(surface.clock)
        self._pages: dict[str, Callable[[Question], Reply]] = {
            "/metrics": self._metrics,
            "/metrics/resources": self._resources,
            SLIS: lambda ask: Reply(200, surface.health.slis(), CONTENT_TYPE),
            "/configz": self._configz,
            "/flagz": lambda ask: _negotiated(ask, "Flagz", flagz(surface.flags)),
            "/statusz": lambda ask: _negotiated(
                ask, "Statusz", self._statusz.page(sorted(self._pages))
            ),
            "/debug": lambda ask: _shown(ask, index_page()),
            "/debug/": lambda ask: _shown(ask, index_page()),
            "/debug/queue": self._queue,
            "/debug/cache": self._cache,
            "/debug/bottlenecks": self._bottlenecks,
            "/debug/flags/v": self._verbosity,
        }
        self._other_methods = {"/metrics": {"DELETE"}, "/debug/flags/v": {"PUT"}}

    @staticmethod
    def is_about_scheduler(path: str) -> bool:
        """Whether the answer is read from the scheduler; if not, it may be busy meanwhile."""
        return not path.startswith(HEALTH) and path != SLIS

    def answer(self, ask: Question) -> Reply:
        if ask.path.startswith(HEALTH):
            return self._health(ask)
        page = self._pages.get(ask.path)
        if page is None and ask.path.startswith("/debug/decisions"):
            page = self._decisions
        if page is None:
            return NOT_FOUND
        if ask.method not in _READ and ask.method not in self._other_methods.get(ask.path, ()):
            return NOT_ALLOWED
        output = ask.query.get("output", ("text",))[-1]
        if output not in ("text", "json"):
            return Reply(400, f"output {output!r} is not known; text and json are\n")
        return page(ask)

    def _health(self, ask: Question) -> Reply:
        answer = self._surface.health.answer(
            ask.path, verbose="verbose" in ask.query, exclude=ask.query.get("exclude", ())
        )
        return NOT_FOUND if answer is None else Reply(answer.status, answer.text)

    # -- for machines -----------------------------------------------------------------------

    def _metrics(self, ask: Question) -> Reply:
        metrics, machine = self._surface.metrics, self._surface.machine
        if ask.method == "DELETE":
            metrics.reset(machine)
            return Reply(200, "metrics reset\n")
        return Reply(200, metrics.text(machine), CONTENT_TYPE)

    def _read_leading(self) -> None:
        leading = self._surface.metrics.families["leader_election_master_status"]
        leading.set(COMPONENT, value=int(self._surface.is_leading()))

    def _resources(self, ask: Question) -> Reply:
        # The list is taken now, its text in pieces later: pods do not change, they are replaced.
        leading = self._surface.is_leading()
        pods = list(self._surface.machine.pods.values()) if leading else []
        return Reply(200, resource_text(pods), CONTENT_TYPE)

    def _configz(self, ask: Question) -> Reply:
        config = to_dict(without_keys(self._surface.machine.config))
        return Reply(200, _encoded({"componentconfig": config}), JSON)

    def _verbosity(self, ask: Question) -> Reply:
        surface = self._surface
        if not surface.machine.config.enable_profiling:
            return NOT_FOUND
        if ask.method != "PUT":
            return Reply(406, "unsupported http method\n")
        text = ask.body[:20].decode(errors="replace")
        if not (text.isascii() and text.isdecimal()):
            return Reply(
                400,
                f"strconv.ParseUint: parsing {printable_json(_encoded(text))}: invalid syntax\n",
            )
        surface.log.verbosity.level = int(text)
        return Reply(200, f"successfully set klog.logging.verbosity to {text}\n")

    # -- for people -------------------------------------------------------------------------

    def _queue(self, ask: Question) -> Reply:
        return _shown(ask, queue_page(self._surface.machine, self._surface.clock.now()))

    def _cache(self, ask: Question) -> Reply:
        page = cache_page(self._surface.machine, ask.query.get("node", ()))
        return Reply(404, "there is no such node\n") if page is None else _shown(ask, page)

    def _decisions(self, ask: Question) -> Reply:
        key = ask.path.removeprefix("/debug/decisions").strip("/")
        namespace, _, name = key.partition("/")
        if not namespace or not name or "/" in name:
            return Reply(404, "ask for /debug/decisions/NAMESPACE/POD\n")
        page = decision_page(self._surface.machine, key)
        if page is None:
            return Reply(404, f"no decision on pod {printable(key)} is remembered\n")
        return _shown(ask, page)

    def _bottlenecks(self, ask: Question) -> Reply:
        report = self._surface.bottlenecks.report()
        return _shown(ask, Page([f"{report.text}\n"], [_encoded(report.to_dict())]))


def _shown(ask: Question, page: Page) -> Reply:
    if ask.wants_json:
        return Reply(200, map(printable_json, page.json), JSON)
    return Reply(200, map(printable_lines, page.text))


def _negotiated(ask: Question, kind: str, page: Page) -> Reply:
    """As the object that the caller asks for by kind and version, in JSON or YAML, or as usual."""
    wanted = {"g=config.k8s.io", "v=v1beta1", f"as={kind}"}
    for accepted in ask.accept.split(","):
        media, *parameters = (part.strip() for part in accepted.split(";"))
        if media in (JSON, YAML) and wanted <= {*parameters}:
            text = "".join(page.json)
            if media == YAML:
                text = yaml.safe_dump(msgspec.json.decode(text))
            return Reply(200, text, f"{media};g=config.k8s.io;v=v1beta1;as={kind}")
    return _shown(ask, page)


def _encoded(data: Any) -> str:
    return msgspec.json.encode(data).decode()
