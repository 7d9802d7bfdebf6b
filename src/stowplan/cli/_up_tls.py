"""The certificate of `stowplan up`: self-signed, and with --data the same after a restart.

Whoever was given the certificate (a kubeconfig, a scheduler that goes on running) can still verify
a server that was killed and started again.
"""

from __future__ import annotations

import re
import socket
import ssl
from pathlib import Path

from stowplan.cluster.tls import load_pair
from stowplan.runtime.certs import VALID_S, KeyPair, names_of, self_signed, write_whole

_CERTIFICATE = re.compile(rb"-+BEGIN CERTIFICATE-+.*?-+END CERTIFICATE-+\n", re.DOTALL)


def key_pair(
    host: str, data: Path | None, now_s: float, more_names: tuple[str, ...] = ()
) -> KeyPair:
    names = server_names(host, more_names)
    if data is None:
        return self_signed(names, now_s)
    kept = data / f"server-{host}.pem"
    # Made anew in time, at the first start in the second half of its life.
    if (
        not kept.exists()
        or now_s - kept.stat().st_mtime > VALID_S / 2
        or not names_of(kept.read_bytes()).issuperset(more_names)
    ):
        pair = self_signed(names, now_s)
        write_whole(kept, pair.cert + pair.key)
    text = kept.read_bytes()
    return KeyPair(b"".join(_CERTIFICATE.findall(text)), _CERTIFICATE.sub(b"", text))


def server_context(pair: KeyPair) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    load_pair(context, pair.cert, pair.key)
    return context


def server_names(host: str, more: tuple[str, ...] = ()) -> list[str]:
    """Under which names and addresses clients may reach this server."""
    names = [host, "localhost", "127.0.0.1", "::1", socket.gethostname(), *more]
    return list(dict.fromkeys(names))
