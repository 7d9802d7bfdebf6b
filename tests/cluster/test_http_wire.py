"""Answers are read alike however they are cut up, and nonsense is never taken for one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.cluster.http_wire import HEAD_BYTES_MAX, HttpResponse, WireError


def read(*pieces: bytes) -> tuple[HttpResponse, bytes]:
    answer = HttpResponse()
    return answer, b"".join(answer.feed(piece) for piece in pieces)


def plain(body: bytes) -> bytes:
    return b"HTTP/1.1 201 Created\r\nContent-Length: %d\r\nX-A: b: c\r\n\r\n%s" % (len(body), body)


def chunked(parts: list[bytes], trailers: bytes = b"") -> bytes:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    chunks = b"".join(b"%x;ext=1\r\n%s\r\n" % (len(part), part) for part in parts)
    return b"%s%s0\r\n%s\r\n" % (head, chunks, trailers)


def cut(data: bytes, places: list[int]) -> list[bytes]:
    marks = sorted({place % (len(data) + 1) for place in places})
    return [data[a:b] for a, b in zip([0, *marks], [*marks, len(data)], strict=True)]


places = st.lists(st.integers(0, 10_000), max_size=8)


@given(st.binary(max_size=200), places)
def test_a_body_by_length(body: bytes, where: list[int]) -> None:
    answer, heard = read(*[piece for piece in cut(plain(body), where) if piece])

    assert (heard, answer.complete, answer.status) == (body, True, 201)
    assert answer.headers["x-a"] == "b: c"
    assert answer.keeps_connection


@given(st.lists(st.binary(min_size=1, max_size=50), max_size=6), places, st.booleans())
def test_a_body_in_chunks(parts: list[bytes], where: list[int], trailing: bool) -> None:
    data = chunked(parts, b"Checksum: 1\r\n" if trailing else b"")

    answer, heard = read(*[piece for piece in cut(data, where) if piece])

    assert (heard, answer.complete) == (b"".join(parts), True)


def test_what_comes_before_the_answer_is_skipped() -> None:
    answer, heard = read(b"HTTP/1.1 100 Continue\r\n\r\n" + plain(b"x"))

    assert (answer.status, heard) == (201, b"x")


def test_an_answer_without_a_body() -> None:
    answer, heard = read(b"HTTP/1.1 204 No Content\r\n\r\n")

    assert (heard, answer.complete) == (b"", True)


def test_a_body_up_to_the_end_of_the_connection() -> None:
    answer, heard = read(b"HTTP/1.1 200 OK\r\n\r\nab", b"c")
    assert not answer.complete
    answer.end()

    assert (heard, answer.complete, answer.keeps_connection) == (b"abc", True, False)


@pytest.mark.parametrize("line", [b"Connection: close", b"connection: Close"])
def test_the_server_may_want_the_connection_closed(line: bytes) -> None:
    answer, _ = read(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n" + line + b"\r\n\r\n")

    assert not answer.keeps_connection


def test_an_old_server_closes_unless_it_says_otherwise() -> None:
    answer, _ = read(b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n")

    assert not answer.keeps_connection


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"\x16\x03\x01garbage\r\n\r\n", id="tls-bytes"),
        pytest.param(b"HTTP/2 200 OK\r\n\r\n", id="another-version"),
        pytest.param(b"HTTP/1.1 2000 OK\r\n\r\n", id="no-status"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", id="negative-length"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nab", id="too-much"),
        pytest.param(b"A" * (HEAD_BYTES_MAX + 1), id="endless-head"),
        pytest.param(chunked([b"abc"]).replace(b"3;", b"-3;"), id="negative-chunk"),
        pytest.param(chunked([b"abc"]).replace(b"3;", b"zz;"), id="no-number"),
        pytest.param(chunked([b"abc"]).replace(b"3;", b"2;"), id="wrong-size"),
        pytest.param(chunked([b"abc"]) + b"more", id="after-the-end"),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1" * 10_000,
            id="endless-size",
        ),
    ],
)
def test_nonsense_is_refused(data: bytes) -> None:
    with pytest.raises(WireError):
        read(data)


@given(st.integers(0, 10_000))
def test_an_answer_that_breaks_off_is_never_complete(place: int) -> None:
    for data in (plain(b"body"), chunked([b"bo", b"dy"])):
        answer, _ = read(*[piece for piece in [data[: place % len(data)]] if piece])

        with pytest.raises(WireError, match="the connection ended"):
            answer.end()


@given(st.binary(max_size=300))
def test_bytes_of_any_kind_harm_nobody(data: bytes) -> None:
    answer = HttpResponse()
    try:
        answer.feed(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        answer.feed(data)
    except WireError:
        pass
