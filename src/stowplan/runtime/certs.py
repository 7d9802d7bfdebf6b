"""A self-signed certificate for the secure port, when none is given.

The standard library can use certificates but not make them.  What it takes to make one is small:
a random number, one multiplication on the curve P-256, one signature, and a few nested lists in
DER.  So it is written out here, rather than to depend on a package with compiled code or on a
command that slim images do not have.  The key signs nothing but this certificate with this code;
TLS itself is OpenSSL's, which refuses the pair unless its parts belong together.

`runtime.server` asks for one.  Nobody can verify such a certificate; whoever wants that passes
--tls-cert-file and --tls-private-key-file.
"""

from __future__ import annotations

import base64
import hashlib
import ipaddress
import secrets
from dataclasses import dataclass

from stowplan.objects.times import format_time

VALID_S = 365 * 86400.0
BEFORE_S = 3600.0
"""Valid since an hour ago: clocks differ."""

# NIST P-256: y² = x³ - 3x + b over the field of P, with a point G of order N.
_P = 2**256 - 2**224 + 2**192 + 2**96 - 1
_N = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
_G = (
    0x6B17D1F2E12C4247F8BCE6E563A440F277037D812DEB33A0F4A13945D898C296,
    0x4FE342E2FE1A7F9B8EE7EB4A7C0F9E162BCE33576B315ECECBB6406837BF51F5,
)

_Point = tuple[int, int]

_EC_KEY = "1.2.840.10045.2.1"
_P256 = "1.2.840.10045.3.1.7"
_ECDSA_SHA256 = "1.2.840.10045.4.3.2"
_COMMON_NAME = "2.5.4.3"
_ALT_NAMES = "2.5.29.17"
_BASIC_CONSTRAINTS = "2.5.29.19"
_KEY_USAGE = "2.5.29.15"
_EXTENDED_KEY_USAGE = "2.5.29.37"
_SERVER_AUTH = "1.3.6.1.5.5.7.3.1"


@dataclass(frozen=True, slots=True, repr=False)
class KeyPair:
    """PEM.  No `repr`: it holds a secret."""

    cert: bytes
    key: bytes


def self_signed(names: list[str], now_s: float) -> KeyPair:
    """A certificate for these host names and addresses; the first is also its common name."""
    secret = secrets.randbelow(_N - 1) + 1
    public = _multiply(secret, _G)
    body = _body(names, public, now_s)
    signature = _bits(_sign(body, secret))
    cert = _list(body, _list(_oid(_ECDSA_SHA256)), signature)
    key = _list(
        _integer(1),
        _tagged(0x04, secret.to_bytes(32, "big")),
        _tagged(0xA0, _oid(_P256)),
        _tagged(0xA1, _bits(_encode_point(public))),
    )
    return KeyPair(_pem("CERTIFICATE", cert), _pem("EC PRIVATE KEY", key))


def _body(names: list[str], public: _Point, now_s: float) -> bytes:
    issuer = _list(_tagged(0x31, _list(_oid(_COMMON_NAME), _tagged(0x0C, names[0].encode()))))
    return _list(
        _tagged(0xA0, _integer(2)),  # X.509 version 3
        _integer(secrets.randbits(127)),
        _list(_oid(_ECDSA_SHA256)),
        issuer,
        _list(_time(now_s - BEFORE_S), _time(now_s + VALID_S)),
        issuer,
        _list(_list(_oid(_EC_KEY), _oid(_P256)), _bits(_encode_point(public))),
        _tagged(0xA3, _list(*_extensions(names))),
    )


def _extensions(names: list[str]) -> list[bytes]:
    true = _tagged(0x01, b"\xff")
    usage = _tagged(0x03, bytes([2, 0b10000100]))  # digitalSignature, keyCertSign
    found = {
        # An authority for itself, so that a client can be told to trust just this one.
        _BASIC_CONSTRAINTS: _list(true),
        _KEY_USAGE: usage,
        _EXTENDED_KEY_USAGE: _list(_oid(_SERVER_AUTH)),
        _ALT_NAMES: _list(*(_alt_name(name) for name in names)),
    }
    return [
        _list(_oid(oid), *([true] if oid == _BASIC_CONSTRAINTS else []), _tagged(0x04, value))
        for oid, value in found.items()
    ]


def _alt_name(name: str) -> bytes:
    try:
        return _tagged(0x87, ipaddress.ip_address(name).packed)
    except ValueError:
        return _tagged(0x82, name.encode())


# -- the curve ------------------------------------------------------------------------------


def _multiply(factor: int, point: _Point) -> _Point:
    """Double and add.  Its time tells about the factor, but it runs once, unmeasured."""
    total: _Point | None = None
    while factor:
        if factor & 1:
            total = point if total is None else _add(total, point)
        point = _add(point, point)
        factor >>= 1
    assert total is not None
    return total


def _add(one: _Point, other: _Point) -> _Point:
    """Two points that are not each other's negative."""
    (x1, y1), (x2, y2) = one, other
    if one == other:
        slope = (3 * x1 * x1 - 3) * pow(2 * y1, -1, _P)
    else:
        slope = (y2 - y1) * pow(x2 - x1, -1, _P)
    x = (slope * slope - x1 - x2) % _P
    return x, (slope * (x1 - x) - y1) % _P


def _sign(message: bytes, secret: int) -> bytes:
    digest = int.from_bytes(hashlib.sha256(message).digest(), "big")
    while True:
        nonce = secrets.randbelow(_N - 1) + 1
        r = _multiply(nonce, _G)[0] % _N
        s = pow(nonce, -1, _N) * (digest + r * secret) % _N
        if r and s:
            return _list(_integer(r), _integer(s))


def _encode_point(point: _Point) -> bytes:
    return b"\x04" + point[0].to_bytes(32, "big") + point[1].to_bytes(32, "big")


# -- DER ------------------------------------------------------------------------------------


def _tagged(tag: int, content: bytes) -> bytes:
    length = len(content)
    if length < 0x80:
        return bytes([tag, length]) + content
    size = length.to_bytes((length.bit_length() + 7) // 8, "big")
    return bytes([tag, 0x80 | len(size)]) + size + content


def _list(*items: bytes) -> bytes:
    return _tagged(0x30, b"".join(items))


def _integer(number: int) -> bytes:
    return _tagged(0x02, number.to_bytes(number.bit_length() // 8 + 1, "big"))


def _bits(content: bytes) -> bytes:
    return _tagged(0x03, b"\x00" + content)


def _oid(dotted: str) -> bytes:
    """
    >>> _oid("1.2.840.10045.2.1").hex()
    '06072a8648ce3d0201'
    """
    first, second, *rest = (int(part) for part in dotted.split("."))
    content = bytearray([40 * first + second])
    for number in rest:
        septets = [number & 0x7F]
        while number := number >> 7:
            septets.append(0x80 | (number & 0x7F))
        content += bytes(reversed(septets))
    return _tagged(0x06, bytes(content))


def _time(seconds: float) -> bytes:
    """GeneralizedTime; certificates write years before 2050 with two digits."""
    digits = format_time(seconds).translate({ord(mark): None for mark in "-T:"})
    if digits[:4] < "2050":
        return _tagged(0x17, digits[2:].encode())
    return _tagged(0x18, digits.encode())


def _pem(label: str, der: bytes) -> bytes:
    text = base64.b64encode(der).decode()
    lines = [text[start : start + 64] for start in range(0, len(text), 64)]
    return "\n".join([f"-----BEGIN {label}-----", *lines, f"-----END {label}-----", ""]).encode()
