"""An object in protobuf with more in its lists: everything that was there stays, to the byte."""

from __future__ import annotations

import pytest

from stowplan.apiserver.http.protobuf import decode_protobuf
from stowplan.cluster.appending import PROTOBUF, appended

CONSUMER = {"resource": "pods", "name": "second", "uid": "2"}
BODY = {
    "metadata": {"resourceVersion": "40", "finalizers": ["mine"]},
    "status": {"reservedFor": [CONSUMER]},
}


def field(number: int, value: bytes) -> bytes:
    size = [len(value)] if len(value) < 128 else [len(value) & 0x7F | 0x80, len(value) >> 7]
    return bytes([number << 3 | 2, *size]) + value


def stored(claim: bytes) -> bytes:
    """As kube-apiserver sends it."""
    kind = field(1, b"resource.k8s.io/v1") + field(2, b"ResourceClaim")
    return b"k8s\0" + field(1, kind) + field(2, claim) + field(3, b"")


def test_what_is_added_comes_behind_what_is_there() -> None:
    """A message that comes again within another is merged into it: so says protobuf."""
    claim = field(1, field(1, b"c") + field(14, b"x" * 150)) + field(2, b"whatever it is")
    alone, _ = appended(stored(b""), BODY)

    written, media_type = appended(stored(claim), BODY)

    assert media_type == PROTOBUF
    added = decode_protobuf(alone)
    assert added["metadata"] == BODY["metadata"]
    assert added["status"] == BODY["status"]
    start = alone.index(b"\x0a", len(stored(b"")) - 4)
    assert written == stored(claim + alone[start:-2])


@pytest.mark.parametrize("raw", [stored(b"")[:9], b"k8s\0\xff", b"k8s\0\x08\x01", b"{"])
def test_what_is_no_object_is_refused(raw: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - msgspec's is one, too
        appended(raw, BODY)
