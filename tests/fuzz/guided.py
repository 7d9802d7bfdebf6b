"""Fuzzing that is led by what it reaches: `python -m tests.fuzz.guided DOOR`, with atheris.

Not a part of the tests, and atheris is not among the dependencies: it needs minutes, and finds what
the strategies of `inputs` do not think of.  What it finds becomes an example in the tests here.

    pip install atheris
    python -m tests.fuzz.guided quantities -max_total_time=60

Arguments after the door's name are libFuzzer's; without any it lists the doors.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import atheris

with atheris.instrument_imports(include=["stowplan"]):
    from stowplan.apiserver.http.negotiation import decode_body, decode_json
    from stowplan.apiserver.selectors import predicate
    from stowplan.apiserver.store import Store
    from stowplan.clock import VirtualClock
    from stowplan.cluster.decoding import Lines, decode_event, decode_page
    from stowplan.cluster.http_wire import HttpResponse, WireError
    from stowplan.cluster.kubeconfig import from_files
    from stowplan.cluster.port import ListOptions
    from stowplan.config import load_config
    from stowplan.config.duration import Duration
    from stowplan.errors import ApiError, StowplanError
    from stowplan.objects.api import Create, Patch
    from stowplan.objects.kinds import POD
    from stowplan.objects.labels import SelectorError
    from stowplan.objects.manifests import decode, read_manifests
    from stowplan.objects.quantity import QuantityError, parse_quantity
    from stowplan.objects.selector_text import parse_selector
    from stowplan.objects.times import TimeError, parse_time

from tests.builders import pod
from tests.fuzz.inputs import CONFIG, KUBECONFIG, MANIFEST, refused
from tests.fuzz.test_wire import EVENT, HTTP, PAGE

BYTES_MAX = 4096
_SCRATCH = Path(tempfile.mkdtemp())


class Door(NamedTuple):
    knock: Callable[[bytes], object]
    seeds: tuple[bytes, ...]
    """Good inputs to start from."""


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def quantities(data: bytes) -> None:
    with refused(QuantityError):
        parse_quantity(_text(data))


def label_selectors(data: bytes) -> None:
    with refused(SelectorError):
        parse_selector(_text(data)).matches({"app": "web"})


def field_selectors(data: bytes) -> None:
    with refused(ApiError):
        selects = predicate(POD, ListOptions(field_selector=_text(data)))
        if selects is not None:
            selects(pod("web"))


def times(data: bytes) -> None:
    with refused(TimeError):
        parse_time(_text(data))


def durations(data: bytes) -> None:
    with refused(ValueError):
        found = Duration.parse(_text(data))
        assert Duration.parse(str(found)) == found


def manifests(data: bytes) -> None:
    with refused(StowplanError):
        for place, found in read_manifests(data, "pods.yaml"):
            decode(found, place)


def configuration(data: bytes) -> None:
    with refused(StowplanError):
        load_config(data)


def kubeconfigs(data: bytes) -> None:
    path = _SCRATCH / "kubeconfig"
    path.write_bytes(data)
    with refused(StowplanError):
        from_files([str(path)])


def http_answers(data: bytes) -> None:
    """Cut in two anywhere, it must be read as it is in one."""
    cut = data[0] if data else 0
    whole, halves = HttpResponse(), HttpResponse()
    with refused(WireError):
        expected = whole.feed(data[1:])
        found = halves.feed(data[1 : 1 + cut])
        if not halves.complete or data[1 + cut :]:
            found += halves.feed(data[1 + cut :])
        assert found == expected


def watch_streams(data: bytes) -> None:
    with refused(ApiError):
        for line in Lines().feed(data):
            decode_event(line, POD)


def pages(data: bytes) -> None:
    with refused(ApiError):
        decode_page(data, POD)


def bodies(data: bytes) -> None:
    """What comes in over REST, and goes on into the store."""
    kind, body = data[:1], data[1:]
    types = ("application/json", "application/yaml", "application/vnd.kubernetes.protobuf")
    with refused(ApiError):
        found = decode_body(body, types[kind[0] % 3] if kind else types[0])
        Store(VirtualClock(1_000.0)).execute(Create(POD, "default", found))


def patches(data: bytes) -> None:
    sorts = ("merge", "strategic", "json")
    store = Store(VirtualClock(1_000.0))
    store.execute(Create(POD, "default", pod("web")))
    with refused(ApiError):
        found = decode_json(data[1:])
        store.execute(Patch(POD, "default", "web", found, sorts[data[0] % 3] if data else "json"))


DOORS = {
    "quantities": Door(quantities, (b"100m", b"1.5Gi", b"2e9", b"-0.5E")),
    "label_selectors": Door(label_selectors, (b"a in (b,c),!d,e!=f", b"x/y>1")),
    "field_selectors": Door(field_selectors, (b"metadata.name=a,spec.nodeName!=b\\,c",)),
    "times": Door(times, (b"2026-01-01T00:00:00.5+02:00", b"2026-01-01T00:00:00Z")),
    "durations": Door(durations, (b"1h2m3.5s", b"-10ms", b"0")),
    "manifests": Door(manifests, (MANIFEST,)),
    "configuration": Door(configuration, (CONFIG,)),
    "kubeconfigs": Door(kubeconfigs, (KUBECONFIG,)),
    "http_answers": Door(http_answers, (b"\x11" + HTTP,)),
    "watch_streams": Door(watch_streams, (EVENT + b"\n" + EVENT,)),
    "pages": Door(pages, (PAGE,)),
    "bodies": Door(bodies, (b"\x00" + EVENT, b"\x01" + MANIFEST)),
    "patches": Door(
        patches,
        (
            b'\x00{"metadata":{"labels":{"a":null}}}',
            b'\x01{"spec":{"containers":[{"name":"main","$patch":"delete"}]}}',
            b'\x02[{"op":"add","path":"/metadata/labels/a~1b","value":"c"}]',
        ),
    ),
}


def main() -> None:
    if len(sys.argv) < 2 or sys.argv[1] not in DOORS:
        print("\n".join(DOORS))
        return
    door = DOORS[sys.argv[1]]
    corpus = _SCRATCH / "corpus"
    corpus.mkdir()
    for number, seed in enumerate(door.seeds):
        (corpus / str(number)).write_bytes(seed)
    arguments = [sys.argv[0], f"-max_len={BYTES_MAX}", *sys.argv[2:], str(corpus)]
    atheris.Setup(arguments, door.knock)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
