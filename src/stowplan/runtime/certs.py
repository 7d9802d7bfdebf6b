"""A self-signed certificate for the secure port, when none is given.

`runtime.serving_tls` and `stowplan up` ask for one.  Nobody can verify such a certificate who was
not given it; whoever wants that passes --tls-cert-file and --tls-private-key-file.
"""

from __future__ import annotations

import ipaddress
import os
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path

VALID_S = 365 * 86400.0
BEFORE_S = 3600.0
"""Valid since an hour ago: clocks differ."""

_SERVER_AUTH = "1.3.6.1.5.5.7.3.1"
_NO_OTHER_USE = dict.fromkeys(
    [
        "content_commitment",
        "crl_sign",
        "data_encipherment",
        "decipher_only",
        "encipher_only",
        "key_agreement",
        "key_encipherment",
    ],
    False,
)


@dataclass(frozen=True, slots=True, repr=False)
class KeyPair:
    """PEM.  No `repr`: it holds a secret."""

    cert: bytes
    key: bytes


def self_signed(names: list[str], now_s: float) -> KeyPair:
    """A certificate for these host names and addresses; the first is also its common name."""
    # Loaded here: it takes some 60 ms, and only servers without a certificate need it.
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    def alt_name(name: str) -> x509.GeneralName:
        try:
            return x509.IPAddress(ipaddress.ip_address(name))
        except ValueError:
            return x509.DNSName(name)

    key = ec.generate_private_key(ec.SECP256R1())
    issuer = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, names[0][:64])])
    builder = x509.CertificateBuilder(
        issuer_name=issuer,
        subject_name=issuer,
        public_key=key.public_key(),
        serial_number=x509.random_serial_number(),
        not_valid_before=datetime.fromtimestamp(now_s - BEFORE_S, UTC),
        not_valid_after=datetime.fromtimestamp(now_s + VALID_S, UTC),
    )
    usage = x509.KeyUsage(digital_signature=True, key_cert_sign=True, **_NO_OTHER_USE)
    purpose = x509.ExtendedKeyUsage([x509.ObjectIdentifier(_SERVER_AUTH)])
    # Nobody asks for a host by a name beyond ASCII: such names are encoded before.
    reached_as = x509.SubjectAlternativeName([alt_name(name) for name in names if name.isascii()])
    cert = (
        # An authority for itself, so that a client can be told to trust just this one.
        builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(usage, critical=False)
        .add_extension(purpose, critical=False)
        .add_extension(reached_as, critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    plain = serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    return KeyPair(cert.public_bytes(pem), key.private_bytes(pem, *plain))


@lru_cache(maxsize=8)
def names_of(cert: bytes) -> frozenset[str]:
    """The host names and addresses that the first certificate of a PEM file is for."""
    from cryptography import x509

    try:
        extensions = x509.load_pem_x509_certificate(cert).extensions
        names = extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, ValueError):
        return frozenset()
    addresses = map(str, names.get_values_for_type(x509.IPAddress))
    return frozenset((*names.get_values_for_type(x509.DNSName), *addresses))


def write_whole(path: Path, content: bytes, *, mode: int = 0o600) -> None:
    """All of it or nothing, whenever somebody looks; by default for its owner only."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    # Of one who had our number and did not finish, as in a container that starts again.
    unfinished.unlink(missing_ok=True)
    try:
        descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
