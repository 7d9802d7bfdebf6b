"""IP addresses, networks and URLs: the Kubernetes libraries of that name."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_network
from urllib.parse import quote, unquote_plus

from stowplan.cel.errors import EvaluationError, no_such_overload
from stowplan.cel.values import KubernetesValue, Value, go_quoted

_HEX = re.compile(r"[0-9a-fA-F]+")
_DECIMAL = re.compile(r"[0-9]+")
_SCHEME = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*):")
_BAD_ESCAPE = re.compile(r"%(?![0-9a-fA-F]{2})")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_PORT = re.compile(r":[0-9]*")
_BAD_IN_HOST = re.compile(r"[\x00-\x20\x7f\"#/?@^`{|}\\]|[\x80-\xff]")
_PATH_SAFE = "$&+,/:;=@!'()*-._~"


@dataclass(frozen=True, slots=True)
class IP(KubernetesValue):
    address: IPv4Address | IPv6Address

    cel_type = "net.IP"
    go_type = "netip.Addr"

    def __str__(self) -> str:
        return str(self.address)

    @property
    def size(self) -> int:
        return 4 if self.address.version == 4 else 16


@dataclass(frozen=True, slots=True)
class CIDR(KubernetesValue):
    address: IPv4Address | IPv6Address
    bits: int

    cel_type = "net.CIDR"
    go_type = "netip.Prefix"

    def __str__(self) -> str:
        return f"{self.address}/{self.bits}"

    @property
    def size(self) -> int:
        return 4 if self.address.version == 4 else 16

    def masked(self, bits: int | None = None) -> CIDR:
        length = self.bits if bits is None else bits
        network = ip_network((self.address, length), strict=False)
        return CIDR(network.network_address, length)

    def contains(self, address: IPv4Address | IPv6Address) -> bool:
        return (
            address.version == self.address.version
            and CIDR(address, self.bits).masked() == self.masked()
        )


@lru_cache(maxsize=4096)
def parse_ip(text: str) -> IP:
    try:
        address = _address(text)
    except ValueError as error:
        problem = f"IP Address {go_quoted(text)} parse error during conversion from string"
        raise EvaluationError(f"{problem}: {error}") from None
    if "%" in text:
        raise EvaluationError(f"IP address {go_quoted(text)} with zone value is not allowed")
    if _is_mapped(address):
        raise EvaluationError(f"IPv4-mapped IPv6 address {go_quoted(text)} is not allowed")
    return IP(address)


def _is_mapped(address: IPv4Address | IPv6Address) -> bool:
    return isinstance(address, IPv6Address) and address.ipv4_mapped is not None


def _address(text: str) -> IPv4Address | IPv6Address:
    first = next((it for it in text if it in ".:%"), "")
    if first == ".":
        problem = _ipv4_problem(text)
        if problem:
            raise ValueError(f"ParseAddr({go_quoted(text)}): {problem}")
        return IPv4Address(text)
    if first == "%":
        raise ValueError(f"ParseAddr({go_quoted(text)}): missing IPv6 address")
    if first == ":":
        bare, percent, zone = text.partition("%")
        if percent and not zone:
            raise ValueError(f"ParseAddr({go_quoted(text)}): zone must be a non-empty string")
        try:
            return IPv6Address(bare)
        except ValueError:
            raise ValueError(f"ParseAddr({go_quoted(text)}): {_ipv6_problem(bare)}") from None
    raise ValueError(f"ParseAddr({go_quoted(text)}): unable to parse IP")


def _ipv6_problem(text: str) -> str:
    """Why it is none, and from where on."""
    rest = text.removeprefix("::")
    shortened = rest != text
    count = 0
    while count < 8:
        digits = _HEX.match(rest)
        length = len(digits[0]) if digits else 0
        if length > 4:
            return f"each group must have 4 or fewer digits (at {go_quoted(rest)})"
        if length == 0:
            problem = "each colon-separated field must have at least one digit"
            return f"{problem} (at {go_quoted(rest)})"
        if rest[length : length + 1] == ".":
            return _embedded_problem(rest, count, shortened)
        count += 1
        rest = rest[length:]
        if not rest:
            break
        if rest[0] != ":":
            return f"unexpected character, want colon (at {go_quoted(rest)})"
        if len(rest) == 1:
            return f"colon must be followed by more characters (at {go_quoted(rest)})"
        rest = rest[1:]
        if rest[0] == ":":
            if shortened:
                return f"multiple :: in address (at {go_quoted(rest)})"
            shortened = True
            rest = rest[1:]
            if not rest:
                break
    if rest:
        return f"trailing garbage after address (at {go_quoted(rest)})"
    if not shortened:
        return "address string too short"
    return "the :: must expand to at least one field of zeros"


def _embedded_problem(rest: str, count: int, shortened: bool) -> str:
    if not shortened and count != 6:
        problem = "embedded IPv4 address must replace the final 2 fields of the address"
        return f"{problem} (at {go_quoted(rest)})"
    if count > 6:
        problem = "too many hex fields to fit an embedded IPv4 at the end of the address"
        return f"{problem} (at {go_quoted(rest)})"
    return _ipv4_problem(rest) or "the :: must expand to at least one field of zeros"


def _ipv4_problem(text: str) -> str:
    """Why it is none, and from where on; empty if it is one."""
    dots, field = 0, ""
    for index, character in enumerate(text):
        if "0" <= character <= "9":
            if field == "0":
                return "IPv4 field has octet with leading zero"
            field += character
            if int(field) > 255:
                return "IPv4 field has value >255"
            continue
        where = f"(at {go_quoted(text[index:])})"
        if character != ".":
            return f"unexpected character {where}"
        if not field or index == len(text) - 1:
            return f"IPv4 field must have at least one digit {where}"
        if dots == 3:
            return f"IPv4 address too long {where}"
        dots, field = dots + 1, ""
    return "IPv4 address too short" if dots < 3 else ""


@lru_cache(maxsize=4096)
def parse_cidr(text: str) -> CIDR:
    problem = "network address parse error during conversion from string"
    try:
        found = _prefix(text)
    except ValueError as error:
        where = f"netip.ParsePrefix({go_quoted(text)})"
        raise EvaluationError(f"{problem}: {problem}: {where}: {error}") from None
    if _is_mapped(found.address):
        mapped = f"IPv4-mapped IPv6 address {go_quoted(text)} is not allowed"
        raise EvaluationError(f"{problem}: {mapped}")
    return found


def _prefix(text: str) -> CIDR:
    address_text, slash, bits_text = text.rpartition("/")
    if not slash:
        raise ValueError("no '/'")
    address = _address(address_text)
    if "%" in address_text:
        raise ValueError("IPv6 zones cannot be present in a prefix")
    canonical = _DECIMAL.fullmatch(bits_text) and (bits_text == "0" or bits_text[0] != "0")
    if not canonical or len(bits_text) > 3:
        raise ValueError(f"bad bits after slash: {go_quoted(bits_text)}")
    if int(bits_text) > address.max_prefixlen:
        raise ValueError("prefix length out of range")
    return CIDR(address, int(bits_text))


def _parses(parse: Callable[[str], Value]) -> Callable[[str], bool]:
    def parses(text: str) -> bool:
        try:
            parse(text)
        except EvaluationError:
            return False
        return True

    return parses


def _is_global(ip: IP) -> bool:
    address = ip.address
    if address.version == 4 and int(address) == 2**32 - 1:
        return False
    return not (
        address.is_unspecified
        or address.is_loopback
        or address.is_multicast
        or address.is_link_local
    )


def _is_link_local_multicast(ip: IP) -> bool:
    packed = ip.address.packed
    if ip.address.version == 4:
        return packed[:3] == b"\xe0\x00\x00"
    return packed[0] == 0xFF and packed[1] & 0x0F == 2


def _contains_ip(cidr: CIDR, text: str) -> bool:
    try:
        return cidr.contains(parse_ip(text).address)
    except EvaluationError:
        raise no_such_overload() from None


def _contains_cidr(cidr: CIDR, other: CIDR) -> bool:
    return cidr.bits <= other.bits and cidr.contains(other.address)


def _contains_cidr_text(cidr: CIDR, text: str) -> bool:
    return _contains_cidr(cidr, parse_cidr(text))


@dataclass(frozen=True, slots=True)
class URL(KubernetesValue):
    scheme: str = ""
    host: str = ""
    path: str = ""
    query: str = ""
    text: str = ""

    cel_type = "kubernetes.URL"
    go_type = "*url.URL"

    def __str__(self) -> str:
        return self.text

    def equals(self, other: object) -> bool:
        return isinstance(other, URL) and self.text == other.text

    def hostname(self) -> str:
        host = self.host
        if host.startswith("["):
            return host[1:].partition("]")[0]
        return host.rpartition(":")[0] if ":" in host else host

    def port(self) -> str:
        after = self.host.rpartition("]")[2]
        return after.rpartition(":")[2] if ":" in after else ""

    def escaped_path(self) -> str:
        return quote(self.path, safe=_PATH_SAFE + "%")

    def parameters(self) -> Value:
        found: dict[Value, list[Value]] = {}
        for pair in self.query.split("&"):
            if not pair or ";" in pair:
                continue
            name, _, value = pair.partition("=")
            if _BAD_ESCAPE.search(pair):
                continue
            found.setdefault(unquote_plus(name), []).append(unquote_plus(value))
        return found


def parse_url(text: str) -> URL:
    try:
        request_uri(text)
        return _url(text.partition("#")[0], text)
    except ValueError as error:
        problem = f"URL parse error during conversion from string: {error}"
        raise EvaluationError(problem) from None


def request_uri(text: str) -> URL:
    """Must be absolute, or a path from the root.  Raises ValueError with upstream's words."""
    if not text:
        raise ValueError('parse "": empty url')
    return _url(text, text, request=True)


def _url(text: str, whole: str, *, request: bool = False) -> URL:
    def problem(what: str) -> ValueError:
        return ValueError(f"parse {go_quoted(whole)}: {what}")

    if _CONTROL.search(whole):
        raise problem("net/url: invalid control character in URL")
    if text[:1] == ":":
        raise problem("missing protocol scheme")
    match = _SCHEME.match(text)
    scheme = match[1].lower() if match else ""
    rest = text[match.end() :] if match else text
    rest, _, query = rest.partition("?")
    if not rest.startswith("/"):
        if scheme:
            return URL(scheme, "", "", query, whole)
        if request:
            raise problem("invalid URI for request")
    host = ""
    if rest.startswith("//") and (scheme or not rest.startswith("///")):
        authority, slash, path = rest[2:].partition("/")
        rest = f"{slash}{path}"
        host = authority.rpartition("@")[2]
        what = _host_problem(host)
        if what:
            raise problem(what)
    bad = _BAD_ESCAPE.search(rest)
    if bad:
        raise problem(f'invalid URL escape "{rest[bad.start() : bad.start() + 3]}"')
    return URL(scheme, host, rest, query, whole)


def _host_problem(host: str) -> str:
    port = host
    if host.startswith("["):
        end = host.rfind("]")
        if end < 0:
            return "missing ']' in host"
        port = host[end + 1 :]
    elif ":" in host:
        port = host[host.index(":") :]
    else:
        port = ""
    if port and not _PORT.fullmatch(port):
        return f'invalid port "{port}" after host'
    bad = _BAD_IN_HOST.search(host)
    return f'invalid character "{bad[0]}" in host name' if bad else ""


FUNCTIONS: dict[str, Callable[..., Value]] = {
    "string_to_ip": parse_ip,
    "is_ip": _parses(parse_ip),
    "ip_is_canonical": lambda text: str(parse_ip(text)) == text,
    "ip_family": lambda ip: ip.address.version,
    "ip_is_unspecified": lambda ip: ip.address.is_unspecified,
    "ip_is_loopback": lambda ip: ip.address.is_loopback,
    "ip_is_link_local_multicast": _is_link_local_multicast,
    "ip_is_link_local_unicast": lambda ip: ip.address.is_link_local,
    "ip_is_global_unicast": _is_global,
    "string_to_cidr": parse_cidr,
    "is_cidr": _parses(parse_cidr),
    "cidr_ip": lambda cidr: IP(cidr.address),
    "cidr_masked": CIDR.masked,
    "cidr_prefix_length": lambda cidr: cidr.bits,
    "cidr_contains_ip_string": _contains_ip,
    "cidr_contains_ip_ip": lambda cidr, ip: cidr.contains(ip.address),
    "cidr_contains_cidr_string": _contains_cidr_text,
    "cidr_contains_cidr": _contains_cidr,
    "string_to_url": parse_url,
    "is_url_string": _parses(parse_url),
    "url_get_scheme": lambda url: url.scheme,
    "url_get_host": lambda url: url.host,
    "url_get_hostname": URL.hostname,
    "url_get_port": URL.port,
    "url_get_escaped_path": URL.escaped_path,
    "url_get_query": URL.parameters,
}
