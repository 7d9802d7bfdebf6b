"""TLS contexts for clients: whom to trust, and which certificate to show.

The standard library reads key pairs from files only.  Ours come from a kubeconfig or a
configuration, so they pass through a file that exists in memory where the system has such files:
a container's root file system may be read-only, and a key on a disk may stay there.

Used by `cluster.client` and by the runtime, for its extenders and its own port.
"""

from __future__ import annotations

import os
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from stowplan.errors import InputError


def client_context(
    *, ca: bytes = b"", insecure: bool = False, cert: bytes = b"", key: bytes = b"", where: str = ""
) -> ssl.SSLContext:
    """Everything in PEM; without a `ca` the system's are trusted.  `where` is for messages."""
    try:
        context = ssl.create_default_context(cadata=ca.decode("ascii") if ca else None)
    except (ssl.SSLError, ValueError) as error:
        problem = f"the certificate authority cannot be read: {error}"
        raise InputError(problem, where=where, hint="expected PEM certificates") from None
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # Newer Pythons ask for extensions that the authorities of many clusters do not have.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if cert:
        load_pair(context, cert, key, where=where)
    return context


def load_pair(context: ssl.SSLContext, cert: bytes, key: bytes, *, where: str = "") -> None:
    """Show this certificate from now on; connections that exist keep the one they have."""
    with _file_of(cert.rstrip() + b"\n" + key) as path:
        try:
            context.load_cert_chain(path)
        except (ssl.SSLError, OSError, ValueError) as error:
            problem = f"the certificate and its key cannot be used: {error}"
            raise InputError(problem, where=where, hint="expected a matching PEM pair") from None


@contextmanager
def _file_of(data: bytes) -> Iterator[str]:
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("pair", os.MFD_CLOEXEC)
        try:
            with open(descriptor, "wb", closefd=False) as file:
                file.write(data)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
        return
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        yield file.name
