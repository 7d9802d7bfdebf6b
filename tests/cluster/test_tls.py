"""Servers are verified, clients show their certificates, and wrong ones are named."""

from __future__ import annotations

import ssl
import time
from typing import Any

import pytest

from stowplan.cluster.tls import client_context, load_pair
from stowplan.errors import InputError, Unavailable
from stowplan.objects.api import Bind
from stowplan.runtime import certs
from stowplan.runtime.certs import KeyPair, self_signed
from tests.cluster.loopback import answer_to, answers, client_of, loopback

BIND = Bind("default", "a", "u", "n")


def pair(*names: str) -> KeyPair:
    return self_signed([*names], time.time())


def client_pair() -> KeyPair:
    """Good for clients; the code that makes them makes only such for servers."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(certs, "_SERVER_AUTH", "1.3.6.1.5.5.7.3.2")
        return pair("me")


SERVER, OTHER = pair("localhost", "127.0.0.1"), pair("localhost", "127.0.0.1")
CLIENT = client_pair()


def serving(shown: KeyPair = SERVER, *, trusts: bytes = b"") -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    load_pair(context, shown.cert, shown.key)
    if trusts:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(cadata=trusts.decode())
    return context


async def outcome(context: ssl.SSLContext, **connection: Any) -> Any:
    listening = loopback(answers({}, 201), context=context)
    async with listening as server, client_of(server, **connection) as client:
        return await answer_to(client, BIND)


async def test_a_server_that_the_authority_vouches_for() -> None:
    assert await outcome(serving(), ca=SERVER.cert) is None


@pytest.mark.parametrize("ca", [b"", OTHER.cert], ids=["the-system's", "another"])
async def test_any_other_server_is_not_talked_to(ca: bytes) -> None:
    error = await outcome(serving(), ca=ca)

    assert isinstance(error, Unavailable)
    assert "CERTIFICATE_VERIFY_FAILED" in error.message
    assert isinstance(error.__cause__, ssl.SSLCertVerificationError)


async def test_the_name_counts_too() -> None:
    elsewhere = pair("elsewhere")

    error = await outcome(serving(elsewhere), ca=elsewhere.cert)

    assert isinstance(error, Unavailable)
    assert await outcome(serving(elsewhere), ca=elsewhere.cert, server_name="elsewhere") is None


async def test_whoever_asks_for_it_is_not_protected() -> None:
    assert await outcome(serving(), insecure=True) is None


async def test_a_client_certificate_is_shown() -> None:
    wanting = serving(trusts=CLIENT.cert)
    shown = {"client_cert": CLIENT.cert, "client_key": CLIENT.key}

    assert await outcome(wanting, ca=SERVER.cert, **shown) is None
    assert isinstance(await outcome(wanting, ca=SERVER.cert), Unavailable)


def test_old_versions_are_not_spoken() -> None:
    assert client_context().minimum_version == ssl.TLSVersion.TLSv1_2


def test_an_authority_that_is_none() -> None:
    with pytest.raises(InputError, match="certificate authority cannot be read"):
        client_context(ca=b"nonsense", where="kubeconfig")


@pytest.mark.parametrize("key", [b"", OTHER.key, b"nonsense"], ids=["none", "another's", "no-key"])
def test_a_key_that_does_not_fit(key: bytes) -> None:
    with pytest.raises(InputError, match="the certificate and its key cannot be used") as caught:
        client_context(cert=CLIENT.cert, key=key, where="kubeconfig")

    assert caught.value.where == "kubeconfig"
