"""The self-signed certificate: OpenSSL takes it, and it says what it should."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from stowplan.clock import RealClock
from stowplan.cluster.tls import load_pair
from stowplan.runtime.certs import BEFORE_S, VALID_S, self_signed

NAMES = ["localhost", "127.0.0.1", "::1"]


def handshake(pair_of: list[str], asked_for: str, *, strict: bool = False) -> dict[str, object]:
    """A whole TLS handshake in memory; the certificate as the client has verified it."""
    pair = self_signed(pair_of, RealClock().now())
    server_side = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    load_pair(server_side, pair.cert, pair.key)
    client_side = ssl.create_default_context(cadata=pair.cert.decode())
    if strict:
        client_side.verify_flags |= ssl.VERIFY_X509_STRICT
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = server_side.wrap_bio(to_server, to_client, server_side=True)
    client = client_side.wrap_bio(to_client, to_server, server_hostname=asked_for)
    for _ in range(4):
        for side in (client, server):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    return client.getpeercert() or {}


@pytest.mark.parametrize("name", NAMES)
def test_clients_that_trust_it_accept_every_name(name: str) -> None:
    found = handshake(NAMES, name)

    assert found["subjectAltName"] == (
        ("DNS", "localhost"),
        ("IP Address", "127.0.0.1"),
        ("IP Address", "0:0:0:0:0:0:0:1"),
    )


def test_another_name_is_refused() -> None:
    with pytest.raises(ssl.SSLCertVerificationError, match=r"example\.com"):
        handshake(["localhost"], "example.com")


def test_strict_clients_accept_it() -> None:
    """Python 3.13 verifies by RFC 5280 to the letter."""
    assert handshake(NAMES, "localhost", strict=True)


def test_it_is_valid_since_an_hour_and_for_a_year(tmp_path: Path) -> None:
    now_s = 1_700_000_000.0
    path = tmp_path / "cert.pem"
    path.write_bytes(self_signed(["localhost"], now_s).cert)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(path)

    (found,) = context.get_ca_certs()

    assert ssl.cert_time_to_seconds(str(found["notBefore"])) == now_s - BEFORE_S
    assert ssl.cert_time_to_seconds(str(found["notAfter"])) == now_s + VALID_S


def test_no_two_share_a_key_or_a_serial_number() -> None:
    pairs = [self_signed(["localhost"], 0.0) for _ in range(3)]

    assert len({pair.key for pair in pairs}) == 3
    assert len({pair.cert for pair in pairs}) == 3


def test_the_key_is_not_shown_by_accident() -> None:
    pair = self_signed(["localhost"], 0.0)

    assert pair.key.decode().splitlines()[1] not in repr(pair)
