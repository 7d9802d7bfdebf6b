"""Bodies in protobuf, as Go programs send them: field numbers are those of generated.proto."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.apiserver.http.protobuf import MEDIA_TYPE, decode_protobuf
from stowplan.errors import BadRequest
from tests.apiserver.http.serving import PODS, Served
from tests.apiserver.things import create_pod

MAGIC = b"k8s\x00"


def varint(number: int) -> bytes:
    number &= 0xFFFFFFFFFFFFFFFF
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def field(number: int, value: bytes | str | int) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    raw = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(raw)) + raw


def message(**fields: Any) -> bytes:
    """`f3="x"` is field number 3; a list repeats the field."""
    out = b""
    for name, value in fields.items():
        values = value if isinstance(value, list) else [value]
        out += b"".join(field(int(name[1:]), each) for each in values)
    return out


def envelope(api_version: str, kind: str, raw: bytes) -> bytes:
    return MAGIC + message(f1=message(f1=api_version, f2=kind), f2=raw, f3="", f4="")


def test_a_binding() -> None:
    meta = message(f1="a", f3="default", f5="uid-1")
    body = message(f1=meta, f2=message(f1="Node", f3="n1"))

    assert decode_protobuf(envelope("v1", "Binding", body)) == {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "a", "namespace": "default", "uid": "uid-1"},
        "target": {"kind": "Node", "name": "n1"},
    }


def test_a_pod() -> None:
    """Maps, lists, quantities, pointers to zero, and zeros that are none."""
    label = message(f1="app", f2="web")
    request = message(f1="cpu", f2=message(f1="500m"))
    container = message(f1="c", f2="app:1", f8=message(f2=request))
    toleration = message(f1="k", f2="Exists", f4="NoExecute", f5=0)
    spec = message(f2=container, f4=0, f11=0, f19="mine", f22=toleration)
    body = message(f1=message(f1="a", f11=label, f4=""), f2=spec)

    data = decode_protobuf(envelope("v1", "Pod", body))
    assert data["metadata"] == {"name": "a", "labels": {"app": "web"}}
    assert data["spec"] == {
        "containers": [{"name": "c", "image": "app:1", "resources": {"requests": {"cpu": "500m"}}}],
        "terminationGracePeriodSeconds": 0,
        "schedulerName": "mine",
        "tolerations": [
            {"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 0}
        ],
    }


def test_a_lease_has_microseconds() -> None:
    spec = message(f1="me", f2=15, f4=message(f1=1_767_225_600, f2=250_000_000))
    body = message(f1=message(f1="l"), f2=spec)

    data = decode_protobuf(envelope("coordination.k8s.io/v1", "Lease", body))
    assert data["spec"]["renewTime"] == "2026-01-01T00:00:00.250000Z"
    assert data["spec"]["leaseDurationSeconds"] == 15


def test_a_number_or_a_share() -> None:
    def budget(value: bytes) -> Any:
        body = message(f1=message(f1="b"), f2=message(f1=value))
        return decode_protobuf(envelope("policy/v1", "PodDisruptionBudget", body))

    assert budget(message(f1=0, f2=3))["spec"] == {"minAvailable": 3}
    assert budget(message(f1=1, f3="50%"))["spec"] == {"minAvailable": "50%"}


def test_negative_numbers() -> None:
    body = message(f1=message(f1="low"), f2=-5)

    data = decode_protobuf(envelope("scheduling.k8s.io/v1", "PriorityClass", body))
    assert data["value"] == -5


def test_lists_of_numbers_come_packed_or_one_by_one() -> None:
    def groups(*values: Any) -> Any:
        context = b"".join(field(4, value) for value in values)
        body = message(f1=message(f1="a"), f2=message(f14=context))
        return decode_protobuf(envelope("v1", "Pod", body))["spec"]["securityContext"]

    packed = varint(1) + varint(300) + varint(-2)
    assert groups(1, 300, -2) == {"supplementalGroups": [1, 300, -2]}
    assert groups(packed) == groups(1, packed[1:]) == groups(1, 300, -2)


def test_the_largest_and_the_smallest_number() -> None:
    def grace(value: int) -> Any:
        body = message(f1=message(f1="a"), f2=message(f4=value))
        return decode_protobuf(envelope("v1", "Pod", body))["spec"]

    for number in (1, 127, 128, 2**31, 2**63 - 1, -1, -(2**63)):
        assert grace(number) == {"terminationGracePeriodSeconds": number}


def test_bytes_are_base64() -> None:
    body = message(f1=message(f1="s"), f2=message(f1="key", f2=b"\x00\xff"), f3="Opaque")

    data = decode_protobuf(envelope("v1", "Secret", body))
    assert (data["data"], data["type"]) == ({"key": "AP8="}, "Opaque")


def test_what_is_inlined_in_json_is_a_message_of_its_own_here() -> None:
    volume = message(f1="v", f2=message(f10=message(f1="c", f2=1)))
    body = message(f1=message(f1="a"), f2=message(f1=volume))

    [found] = decode_protobuf(envelope("v1", "Pod", body))["spec"]["volumes"]
    assert found == {"name": "v", "persistentVolumeClaim": {"claimName": "c", "readOnly": True}}


def test_json_inside_is_json() -> None:
    managed = message(f1="me", f4=message(f1=1_767_225_600), f7=message(f1=b'{"f:spec":{}}'))
    body = message(f1=message(f1="r", f17=managed), f2=message(f1=b'{"a":[1]}'), f3=7)

    data = decode_protobuf(envelope("apps/v1", "ControllerRevision", body))
    assert (data["data"], data["revision"]) == ({"a": [1]}, 7)
    assert data["metadata"]["managedFields"] == [
        {"manager": "me", "time": "2026-01-01T00:00:00Z", "fieldsV1": {"f:spec": {}}}
    ]
    empty = message(f1=message(f1="r"), f2=b"")
    assert "data" not in decode_protobuf(envelope("apps/v1", "ControllerRevision", empty))


def test_lists_in_maps_and_times_that_are_none() -> None:
    extra = message(f1="scopes", f2=message(f1=["a", "b"]))
    spec = message(f3="me", f5=extra)
    body = message(f1=message(f8=b""), f2=spec)

    review = envelope("authorization.k8s.io/v1", "SubjectAccessReview", body)
    data = decode_protobuf(review)
    assert data["spec"] == {"user": "me", "extra": {"scopes": ["a", "b"]}}
    assert set(data) == {"apiVersion", "kind", "spec"}, "an empty time is none"


def test_entries_of_maps_may_leave_out_what_is_empty() -> None:
    labels = [message(f1="only-key"), message(f2="only-value"), message(f1="a", f2="b")]
    limits = message(f1="cpu")
    container = message(f1="c", f8=message(f1=limits))
    body = message(f1=message(f1="a", f11=labels), f2=message(f2=container))

    data = decode_protobuf(envelope("v1", "Pod", body))
    assert data["metadata"]["labels"] == {"only-key": "", "": "only-value", "a": "b"}
    assert data["spec"]["containers"][0]["resources"] == {"limits": {"cpu": "0"}}


def test_numbers_of_fixed_size_are_passed_over_where_nobody_knows_them() -> None:
    fixed = varint(999 << 3 | 1) + b"12345678" + varint(998 << 3 | 5) + b"1234"

    assert decode_protobuf(envelope("v1", "Pod", fixed + message(f1=message(f1="a")))) == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "a"},
    }
    for cut in (1, 5):
        with pytest.raises(BadRequest, match="unexpected end"):
            decode_protobuf(envelope("v1", "Pod", fixed[:-cut] if cut == 1 else fixed[:8]))


def test_a_number_has_ten_bytes_at_most() -> None:
    longest = b"\xff" * 9 + b"\x01"
    assert decode_protobuf(envelope("v1", "Pod", varint(999 << 3) + longest)) == {
        "apiVersion": "v1",
        "kind": "Pod",
    }
    with pytest.raises(BadRequest, match="a number without an end"):
        decode_protobuf(envelope("v1", "Pod", varint(999 << 3) + b"\xff" * 10 + b"\x01"))


def test_fields_of_tomorrow_are_passed_over() -> None:
    body = message(f1=message(f1="a", f999="new"), f998=7)

    assert decode_protobuf(envelope("v1", "Pod", body))["metadata"] == {"name": "a"}


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{}",
        MAGIC,
        MAGIC + b"\xff",
        MAGIC + b"\x0a\xff\xff\xff\xff\x0f",
        envelope("v1", "Nothing", b""),
        envelope("v1", "Pod", b"\x0a\x05abc"),
        envelope("v1", "Pod", b"\x0b"),
        envelope("v1", "Pod", message(f1=message(f1=b"\xff\xfe"))),
        envelope("v1", "Pod", message(f1=5)),
        envelope("v1", "Pod", message(f1=message(f8=message(f1="x")))),
    ],
)
def test_what_is_none(raw: bytes) -> None:
    with pytest.raises(BadRequest):
        decode_protobuf(raw)


@given(st.binary(max_size=200), st.sampled_from(["Pod", "Node", "Event", "Lease", "Deployment"]))
def test_any_bytes(raw: bytes, kind: str) -> None:
    versions = {"Event": "events.k8s.io/v1", "Deployment": "apps/v1"}
    version = versions.get(kind, "coordination.k8s.io/v1" if kind == "Lease" else "v1")
    for body in (raw, MAGIC + raw, envelope(version, kind, raw)):
        try:
            data = decode_protobuf(body)
        except BadRequest:
            continue
        assert isinstance(data["kind"], str)


wire = st.recursive(
    st.integers(-(2**63), 2**63) | st.text(max_size=5) | st.binary(max_size=5),
    lambda inner: st.lists(st.tuples(st.integers(1, 40), inner), max_size=4).map(
        lambda parts: b"".join(field(number, value) for number, value in parts)
    ),
    max_leaves=12,
)


@given(st.lists(st.tuples(st.integers(1, 3), wire), max_size=4), st.sampled_from(["Pod", "Node"]))
def test_any_message(parts: list[tuple[int, Any]], kind: str) -> None:
    body = b"".join(field(number, value) for number, value in parts)
    with suppress(BadRequest):
        decode_protobuf(envelope("v1", kind, body))


async def test_over_http(server: Served) -> None:
    create_pod(server.store, "a")
    body = message(f1=message(f1="a"), f2=message(f1="Node", f3="n1"))
    raw = envelope("v1", "Binding", body)
    answer = await server.post(f"{PODS}/a/binding", raw, type_=MEDIA_TYPE)

    assert answer.code == 201
    assert (await server.get(f"{PODS}/a")).data["spec"]["nodeName"] == "n1"


async def test_answers_are_json_for_those_who_take_it(server: Served) -> None:
    both = await server.get(PODS, Accept=f"{MEDIA_TYPE}, application/json")
    only = await server.get(PODS, Accept=MEDIA_TYPE)

    assert both.headers["Content-Type"] == "application/json"
    assert only.status()[:2] == (406, "NotAcceptable")
