"""TLS of the secure port: which certificate is shown, to whom, and since when.

A certificate given by its files is read again when they change, so that rotating it needs no
restart; a pair that does not fit together is refused and the one before stays in use.  Without
files there is a self-signed one, in memory or, with --cert-dir, kept there.

`runtime.server` asks for the context, and calls `refresh` at intervals.
"""

from __future__ import annotations

import re
import ssl
from dataclasses import dataclass, field
from pathlib import Path

from stowplan.clock import Clock
from stowplan.cluster.tls import load_pair
from stowplan.config import did_you_mean
from stowplan.errors import InputError
from stowplan.runtime.certs import names_of, self_signed, write_whole
from stowplan.runtime.log import Log
from stowplan.runtime.surface import ServingOptions

REFRESH_S = 60.0

_VERSIONS = {
    "": ssl.TLSVersion.TLSv1_2,
    "VersionTLS12": ssl.TLSVersion.TLSv1_2,
    "VersionTLS13": ssl.TLSVersion.TLSv1_3,
}
_SUITES = frozenset(
    [
        "TLS_AES_128_GCM_SHA256",
        "TLS_AES_256_GCM_SHA384",
        "TLS_CHACHA20_POLY1305_SHA256",
        "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
        "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256",
        "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
        "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
        "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
        "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305",
        "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
        "TLS_ECDHE_ECDSA_WITH_RC4_128_SHA",
        "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA",
        "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
        "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256",
        "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
        "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
        "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
        "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305",
        "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
        "TLS_ECDHE_RSA_WITH_RC4_128_SHA",
        "TLS_RSA_WITH_3DES_EDE_CBC_SHA",
        "TLS_RSA_WITH_AES_128_CBC_SHA",
        "TLS_RSA_WITH_AES_128_CBC_SHA256",
        "TLS_RSA_WITH_AES_128_GCM_SHA256",
        "TLS_RSA_WITH_AES_256_CBC_SHA",
        "TLS_RSA_WITH_AES_256_GCM_SHA384",
        "TLS_RSA_WITH_RC4_128_SHA",
    ]
)
"""What kube-scheduler takes; the weak ones among them OpenSSL may not have."""
_PAIR_NAME = "kube-scheduler"
_ANY_ADDRESS = frozenset({"", "0.0.0.0", "::"})


@dataclass(slots=True)
class PairFiles:
    """A certificate and its key in files, and what of them is in use."""

    cert: Path
    key: Path
    context: ssl.SSLContext
    _seen: tuple[bytes, bytes] = field(default=(b"", b""))

    @property
    def names(self) -> frozenset[str]:
        return names_of(self._seen[0])

    def load(self) -> bool:
        """Take the pair into use if it is another than before; raises InputError if it is wrong."""
        pair = _read(self.cert), _read(self.key)
        if pair == self._seen:
            return False
        where = f"{self.cert}, {self.key}"
        # Tried elsewhere first: half of a wrong pair must not get into the context in use.
        load_pair(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), *pair, where=where)
        load_pair(self.context, *pair, where=where)
        self._seen = pair
        return True


class ServingTls:
    def __init__(self, options: ServingOptions, clock: Clock, log: Log) -> None:
        self._options = options
        self._log = log
        self._files: list[PairFiles] = []
        self._names = [options.bind_address]
        self.context = self._new_context()
        self._load_default(clock.now())
        self._load_by_name()

    def names(self) -> frozenset[str]:
        """The hosts that this server is: told to listen on, or shows a certificate for."""
        return frozenset(self._names).union(*(files.names for files in self._files))

    def refresh(self) -> None:
        """Look whether the files have changed."""
        for files in self._files:
            try:
                if files.load():
                    self._log.info(0, "Loaded a new serving certificate", file=str(files.cert))
            except InputError as error:
                self._log.error("The serving certificate stays as it was", error)

    def _new_context(self) -> ssl.SSLContext:
        options = self._options
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        version = _VERSIONS.get(options.min_version)
        if version is None:
            raise InputError(
                f"unknown TLS version {options.min_version!r}",
                where="--tls-min-version",
                hint="VersionTLS12 or VersionTLS13",
            )
        context.minimum_version = version
        if options.cipher_suites:
            _limit_ciphers(context, options.cipher_suites)
        if options.client_ca_file:
            _believe(context, Path(options.client_ca_file))
        return context

    def _load_default(self, now_s: float) -> None:
        options = self._options
        if options.cert_file or options.key_file:
            if not (options.cert_file and options.key_file):
                raise InputError(
                    "a certificate needs its key",
                    where="--tls-cert-file, --tls-private-key-file",
                    hint="give both or neither",
                )
            self._follow(Path(options.cert_file), Path(options.key_file), self.context)
            return
        names = ["localhost", "127.0.0.1"]
        if options.bind_address not in {*_ANY_ADDRESS, *names}:
            names.append(options.bind_address)
        if options.cert_dir:
            cert, key = _kept_pair(Path(options.cert_dir), names, now_s)
            self._follow(cert, key, self.context)
            return
        pair = self_signed(names, now_s)
        load_pair(self.context, pair.cert, pair.key)

    def _load_by_name(self) -> None:
        """--tls-sni-cert-key: other certificates for clients that ask for other names."""
        by_name: dict[str, ssl.SSLContext] = {}
        for setting in self._options.sni_cert_keys:
            cert, key, names = _parse_sni(setting)
            context = self._new_context()
            self._follow(cert, key, context)
            self._names += names
            for name in names:
                by_name.setdefault(name.lower(), context)
        if not by_name:
            return

        def choose(connection: ssl.SSLObject, name: str | None, context: ssl.SSLContext) -> None:
            found = _match(by_name, name or "")
            if found is not None:
                connection.context = found

        self.context.sni_callback = choose

    def _follow(self, cert: Path, key: Path, context: ssl.SSLContext) -> None:
        files = PairFiles(cert, key, context)
        files.load()
        self._files.append(files)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", where=str(path)) from None


def _kept_pair(directory: Path, names: list[str], now_s: float) -> tuple[Path, Path]:
    """The pair kept in this directory; made if it is not there."""
    cert, key = directory / f"{_PAIR_NAME}.crt", directory / f"{_PAIR_NAME}.key"
    if cert.exists() and key.exists():
        return cert, key
    pair = self_signed(names, now_s)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        # The certificate last: who sees it can use it.
        write_whole(key, pair.key)
        write_whole(cert, pair.cert, mode=0o644)
    except OSError as error:
        raise InputError(
            f"cannot write a certificate: {error.strerror}",
            where=f"--cert-dir {directory}",
            hint="without --cert-dir the certificate stays in memory",
        ) from None
    return cert, key


def _believe(context: ssl.SSLContext, authorities: Path) -> None:
    """Clients may show a certificate of these authorities, and are then who it says."""
    text = _read(authorities).decode("ascii", "replace")
    try:
        context.load_verify_locations(cadata=text)
    except ssl.SSLError as error:
        problem = f"the certificate authorities cannot be read: {error}"
        raise InputError(problem, where=str(authorities), hint="expected PEM") from None
    context.verify_mode = ssl.CERT_OPTIONAL


def _parse_sni(setting: str) -> tuple[Path, Path, list[str]]:
    """`cert,key:name,name`; the standard library cannot read the names out of the certificate."""
    files, _, names = setting.partition(":")
    cert, _, key = files.partition(",")
    if not (cert and key and names):
        raise InputError(
            f"{setting!r} is not of the form cert,key:names",
            where="--tls-sni-cert-key",
            hint="tls.crt,tls.key:scheduler.example.com,*.example.com",
        )
    return Path(cert), Path(key), names.split(",")


def _match(by_name: dict[str, ssl.SSLContext], name: str) -> ssl.SSLContext | None:
    name = name.lower()
    _, _, parent = name.partition(".")
    return by_name.get(name) or by_name.get(f"*.{parent}")


def _limit_ciphers(context: ssl.SSLContext, suites: tuple[str, ...]) -> None:
    """Those of TLS 1.2; the few of TLS 1.3 are always allowed, as in Go."""
    if unknown := [suite for suite in suites if suite not in _SUITES]:
        raise InputError(
            f"Cipher suite {unknown[0]} not supported or doesn't exist",
            where="--tls-cipher-suites",
            hint=did_you_mean(unknown[0], _SUITES) or "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
        )
    names = [openssl_name(suite) for suite in suites if "_WITH_" in suite]
    try:
        if names:
            context.set_ciphers(":".join(names))
    except ssl.SSLError:
        raise InputError(
            f"none of these cipher suites can be used here: {', '.join(suites)}",
            where="--tls-cipher-suites",
            hint="TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
        ) from None


def openssl_name(suite: str) -> str:
    """OpenSSL's name of a cipher suite that IANA has given another.

    >>> openssl_name("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256")
    'ECDHE-RSA-AES128-GCM-SHA256'
    >>> openssl_name("TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256")
    'ECDHE-ECDSA-CHACHA20-POLY1305'
    >>> openssl_name("TLS_RSA_WITH_AES_256_CBC_SHA")
    'AES256-SHA'
    """
    exchange, _, cipher = suite.removeprefix("TLS_").partition("_WITH_")
    cipher = re.sub(r"AES_(\d+)", r"AES\1", cipher).replace("_CBC", "")
    cipher = cipher.replace("POLY1305_SHA256", "POLY1305")
    parts = [cipher] if exchange == "RSA" else [exchange, cipher]
    return "-".join(parts).replace("_", "-")
