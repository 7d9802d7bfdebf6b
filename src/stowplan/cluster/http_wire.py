"""HTTP/1.1 answers, read from bytes as they come, however they are cut up.

Only what API servers send: a status line, headers, and a body by length, in chunks, or up to the
end of the connection.  General clients spend several times what a binding costs otherwise; this
spends a few microseconds.  `cluster.http_pool` feeds it.
"""

from __future__ import annotations

from enum import Enum, auto

HEAD_BYTES_MAX = 64 * 1024
_LINE_BYTES_MAX = 4096
_NO_BODY = frozenset({204, 304})
_HEX_DIGITS = b"0123456789abcdefABCDEF"
_SIZE_DIGITS_MAX = 8


class WireError(Exception):
    """What came is no HTTP answer, or only a part of one."""


class _Lines(Enum):
    """What the next line of a chunked body is."""

    SIZE = auto()
    AFTER_CHUNK = auto()
    TRAILERS = auto()


class HttpResponse:
    """One answer, while it comes in.

    >>> answer = HttpResponse()
    >>> answer.feed(b"HTTP/1.1 200 OK\\r\\nContent-Length: 3\\r\\n\\r\\nab")
    b'ab'
    >>> answer.feed(b"c"), answer.complete
    (b'c', True)
    """

    __slots__ = (
        "_chunked",
        "_left",
        "_lines",
        "_rest",
        "_till_end",
        "complete",
        "headers",
        "reason",
        "status",
    )

    def __init__(self) -> None:
        self.status = 0
        """0 until the head is complete."""
        self.reason = ""
        self.headers: dict[str, str] = {}
        """Names in lower case."""
        self.complete = False
        self._rest = b""
        self._chunked = False
        self._till_end = False
        self._lines = _Lines.SIZE
        self._left = 0
        """Bytes of the body, or of the current chunk, that are still to come."""

    @property
    def keeps_connection(self) -> bool:
        """Whether another request may follow on the same connection."""
        return not self._till_end and self.headers.get("connection", "").lower() != "close"

    def feed(self, data: bytes) -> bytes:
        """Take some bytes in; what of the body is in them.  Raises WireError."""
        if self.complete:
            raise WireError("more came than was announced")
        if not self.status:
            data = self._read_head(self._rest + data)
            if not self.status:
                return b""
        if self._chunked:
            return self._read_chunks(data)
        if self._till_end:
            return data
        if len(data) > self._left:
            raise WireError("more came than was announced")
        self._left -= len(data)
        self.complete = not self._left
        return data

    def end(self) -> None:
        """The connection has ended; raises WireError if the answer had not."""
        if self._till_end:
            self.complete = True
        elif not self.complete:
            when = "in the middle of" if self.status else "without"
            raise WireError(f"the connection ended {when} an answer")

    def _read_head(self, data: bytes) -> bytes:
        """What follows the head, once it is complete; until then it is kept."""
        while True:
            end = data.find(b"\r\n\r\n")
            if end < 0:
                if len(data) > HEAD_BYTES_MAX:
                    raise WireError(f"headers of over {HEAD_BYTES_MAX} bytes")
                self._rest = data
                return b""
            head, data = data[:end].decode("latin-1"), data[end + 4 :]
            status = self._take_head(head)
            # 1xx: the real answer is still to come.
            if status >= 200:
                break
        self._rest = b""
        self.status = status
        self._measure()
        return data

    def _take_head(self, head: str) -> int:
        first, *lines = head.split("\r\n")
        version, _, rest = first.partition(" ")
        code, _, self.reason = rest.partition(" ")
        if not version.startswith("HTTP/1.") or len(code) != 3 or not code.isdecimal():
            raise WireError(f"{first[:80]!r} is no status line")
        self.headers = {
            name.strip().lower(): value.strip()
            for name, colon, value in (line.partition(":") for line in lines)
            if colon
        }
        if version == "HTTP/1.0":
            self.headers.setdefault("connection", "close")
        return int(code)

    def _measure(self) -> None:
        """How the body's end is found."""
        headers = self.headers
        if self.status in _NO_BODY:
            self.complete = True
        elif headers.get("transfer-encoding", "").lower() == "chunked":
            self._chunked = True
        elif "content-length" in headers:
            length = headers["content-length"]
            if not (length.isascii() and length.isdecimal()):
                raise WireError(f"a Content-Length of {length[:80]!r}")
            self._left = int(length)
            self.complete = not self._left
        else:
            self._till_end = True

    def _read_chunks(self, data: bytes) -> bytes:
        data = self._rest + data if self._rest else data
        parts: list[bytes] = []
        at = 0
        while not self.complete:
            if self._left:
                part = data[at : at + self._left]
                if not part:
                    break
                parts.append(part)
                self._left -= len(part)
                at += len(part)
                continue
            end = data.find(b"\r\n", at)
            if end < 0:
                break
            self._take_line(data[at:end])
            at = end + 2
        self._rest = data[at:]
        if len(self._rest) > _LINE_BYTES_MAX:
            raise WireError("a chunk without a size")
        if self.complete and self._rest:
            raise WireError("more came than was announced")
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _take_line(self, line: bytes) -> None:
        """A line outside the chunks' own bytes."""
        if self._lines is _Lines.AFTER_CHUNK:
            if line:
                raise WireError("a chunk longer than its size")
            self._lines = _Lines.SIZE
        elif self._lines is _Lines.TRAILERS:
            self.complete = not line
        else:
            size = line.partition(b";")[0].strip()
            if not size or len(size) > _SIZE_DIGITS_MAX or size.strip(_HEX_DIGITS):
                raise WireError(f"{line[:80]!r} is no size of a chunk")
            self._left = int(size, 16)
            self._lines = _Lines.AFTER_CHUNK if self._left else _Lines.TRAILERS
