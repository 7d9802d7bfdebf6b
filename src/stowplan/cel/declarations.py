"""The functions of the environment: every overload with its types, named as upstream names it.

The standard library, then those of cel-go's extensions and of Kubernetes that kube-scheduler's
environment has.  A line is `function overload (argument types) result`; `.` before the parenthesis
marks a method, whose first argument is the receiver.  Single capital letters are type parameters.
`TEMPLATES` are lines that exist once per type.  Implementations are in `functions.py`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from stowplan.cel.types import Type, parse_type, split_types

_LINES = """
!_ logical_not (bool) bool
-_ negate_double (double) double
-_ negate_int64 (int) int
@in in_list (A, list(A)) bool
@in in_map (A, map(A, B)) bool
@not_strictly_false not_strictly_false (bool) bool
_!=_ not_equals (A, A) bool
_==_ equals (A, A) bool
_&&_ logical_and (bool, bool) bool
_||_ logical_or (bool, bool) bool
_?_:_ conditional (bool, A, A) A
_%_ modulo_int64 (int, int) int
_%_ modulo_uint64 (uint, uint) uint
_*_ multiply_double (double, double) double
_*_ multiply_int64 (int, int) int
_*_ multiply_uint64 (uint, uint) uint
_/_ divide_double (double, double) double
_/_ divide_int64 (int, int) int
_/_ divide_uint64 (uint, uint) uint
_+_ add_bytes (bytes, bytes) bytes
_+_ add_double (double, double) double
_+_ add_duration_duration (duration, duration) duration
_+_ add_duration_timestamp (duration, timestamp) timestamp
_+_ add_timestamp_duration (timestamp, duration) timestamp
_+_ add_int64 (int, int) int
_+_ add_list (list(A), list(A)) list(A)
_+_ add_string (string, string) string
_+_ add_uint64 (uint, uint) uint
_-_ subtract_double (double, double) double
_-_ subtract_duration_duration (duration, duration) duration
_-_ subtract_int64 (int, int) int
_-_ subtract_timestamp_duration (timestamp, duration) timestamp
_-_ subtract_timestamp_timestamp (timestamp, timestamp) duration
_-_ subtract_uint64 (uint, uint) uint
_[_] index_list (list(A), int) A
_[_] index_map (map(A, B), A) B
_[_] optional_list_index_int (optional(list(V)), int) optional(V)
_[_] optional_map_index_value (optional(map(K, V)), K) optional(V)
_[?_] list_optindex_optional_int (list(V), int) optional(V)
_[?_] optional_list_optindex_optional_int (optional(list(V)), int) optional(V)
_[?_] map_optindex_optional_value (map(K, V), K) optional(V)
_[?_] optional_map_optindex_optional_value (optional(map(K, V)), K) optional(V)

bool bool_to_bool (bool) bool
bool string_to_bool (string) bool
bytes bytes_to_bytes (bytes) bytes
bytes string_to_bytes (string) bytes
double double_to_double (double) double
double int64_to_double (int) double
double string_to_double (string) double
double uint64_to_double (uint) double
duration duration_to_duration (duration) duration
duration int64_to_duration (int) duration
duration string_to_duration (string) duration
dyn to_dyn (A) dyn
int int64_to_int64 (int) int
int double_to_int64 (double) int
int duration_to_int64 (duration) int
int string_to_int64 (string) int
int timestamp_to_int64 (timestamp) int
int uint64_to_int64 (uint) int
string string_to_string (string) string
string bool_to_string (bool) string
string bytes_to_string (bytes) string
string double_to_string (double) string
string duration_to_string (duration) string
string int64_to_string (int) string
string timestamp_to_string (timestamp) string
string uint64_to_string (uint) string
string ip_to_string (net.IP) string
string cidr_to_string (net.CIDR) string
timestamp timestamp_to_timestamp (timestamp) timestamp
timestamp int64_to_timestamp (int) timestamp
timestamp string_to_timestamp (string) timestamp
type type (A) type(A)
uint uint64_to_uint64 (uint) uint
uint double_to_uint64 (double) uint
uint int64_to_uint64 (int) uint
uint string_to_uint64 (string) uint

size size_bytes (bytes) int
size bytes_size .(bytes) int
size size_list (list(A)) int
size list_size .(list(A)) int
size size_map (map(A, B)) int
size map_size .(map(A, B)) int
size size_string (string) int
size string_size .(string) int
contains contains_string .(string, string) bool
endsWith ends_with_string .(string, string) bool
startsWith starts_with_string .(string, string) bool
matches matches (string, string) bool
matches matches_string .(string, string) bool

getHours duration_to_hours .(duration) int
getMilliseconds duration_to_milliseconds .(duration) int
getMinutes duration_to_minutes .(duration) int
getSeconds duration_to_seconds .(duration) int

cel.@mapInsert @mapInsert_map_key_value (map(K, V), K, V) map(K, V)
cel.@mapInsert @mapInsert_map_map (map(K, V), map(K, V)) map(K, V)

hasValue optional_hasValue .(optional(V)) bool
optional.none optional_none () optional(V)
optional.of optional_of (V) optional(V)
optional.ofNonZeroValue optional_ofNonZeroValue (V) optional(V)
optional.unwrap optional_unwrap (list(optional(V))) list(V)
or optional_or_optional .(optional(V), optional(V)) optional(V)
orValue optional_orValue_value .(optional(V), V) V
unwrapOpt optional_unwrapOpt .(list(optional(V))) list(V)
value optional_value .(optional(V)) V

charAt string_char_at_int .(string, int) string
format string_format .(string, list(dyn)) string
indexOf list_a_index_of_int .(list(A), A) int
indexOf string_index_of_string .(string, string) int
indexOf string_index_of_string_int .(string, string, int) int
join list_join .(list(string)) string
join list_join_string .(list(string), string) string
lastIndexOf list_a_last_index_of_int .(list(A), A) int
lastIndexOf string_last_index_of_string .(string, string) int
lastIndexOf string_last_index_of_string_int .(string, string, int) int
lowerAscii string_lower_ascii .(string) string
replace string_replace_string_string .(string, string, string) string
replace string_replace_string_string_int .(string, string, string, int) string
split string_split_string .(string, string) list(string)
split string_split_string_int .(string, string, int) list(string)
strings.quote strings_quote (string) string
substring string_substring_int .(string, int) string
substring string_substring_int_int .(string, int, int) string
trim string_trim .(string) string
upperAscii string_upper_ascii .(string) string

distinct list_distinct .(list(T)) list(T)
first list_first .(list(V)) optional(V)
flatten list_flatten .(list(list(T))) list(T)
flatten list_flatten_int .(list(dyn), int) list(dyn)
last list_last .(list(V)) optional(V)
lists.range lists_range (int) list(int)
reverse list_reverse .(list(T)) list(T)
slice list_slice .(list(T), int, int) list(T)
sets.contains list_sets_contains_list (list(T), list(T)) bool
sets.equivalent list_sets_equivalent_list (list(T), list(T)) bool
sets.intersects list_sets_intersects_list (list(T), list(T)) bool

find string_find_string .(string, string) string
findAll string_find_all_string .(string, string) list(string)
findAll string_find_all_string_int .(string, string, int) list(string)

add quantity_add .(Quantity, Quantity) Quantity
add quantity_add_int .(Quantity, int) Quantity
asApproximateFloat quantity_get_float .(Quantity) double
asInteger quantity_get_int .(Quantity) int
compareTo quantity_compare_to .(Quantity, Quantity) int
compareTo semver_compare_to .(Semver, Semver) int
isGreaterThan quantity_is_greater_than .(Quantity, Quantity) bool
isGreaterThan semver_is_greater_than .(Semver, Semver) bool
isInteger quantity_is_integer .(Quantity) bool
isLessThan quantity_is_less_than .(Quantity, Quantity) bool
isLessThan semver_is_less_than .(Semver, Semver) bool
isQuantity is_quantity_string (string) bool
isSemver is_semver_string (string) bool
isSemver is_semver_string_bool (string, bool) bool
major semver_major .(Semver) int
minor semver_minor .(Semver) int
patch semver_patch .(Semver) int
quantity string_to_quantity (string) Quantity
semver string_to_semver (string) Semver
semver string_bool_to_semver (string, bool) Semver
sign quantity_sign (Quantity) int
sub quantity_sub .(Quantity, Quantity) Quantity
sub quantity_sub_int .(Quantity, int) Quantity

cidr string_to_cidr (string) net.CIDR
containsCIDR cidr_contains_cidr_string .(net.CIDR, string) bool
containsCIDR cidr_contains_cidr .(net.CIDR, net.CIDR) bool
containsIP cidr_contains_ip_string .(net.CIDR, string) bool
containsIP cidr_contains_ip_ip .(net.CIDR, net.IP) bool
family ip_family .(net.IP) int
ip string_to_ip (string) net.IP
ip cidr_ip .(net.CIDR) net.IP
ip.isCanonical ip_is_canonical (string) bool
isCIDR is_cidr (string) bool
isGlobalUnicast ip_is_global_unicast .(net.IP) bool
isIP is_ip (string) bool
isLinkLocalMulticast ip_is_link_local_multicast .(net.IP) bool
isLinkLocalUnicast ip_is_link_local_unicast .(net.IP) bool
isLoopback ip_is_loopback .(net.IP) bool
isUnspecified ip_is_unspecified .(net.IP) bool
masked cidr_masked .(net.CIDR) net.CIDR
prefixLength cidr_prefix_length .(net.CIDR) int

getEscapedPath url_get_escaped_path .(URL) string
getHost url_get_host .(URL) string
getHostname url_get_hostname .(URL) string
getPort url_get_port .(URL) string
getQuery url_get_query .(URL) map(string, list(string))
getScheme url_get_scheme .(URL) string
isURL is_url_string (string) bool
url string_to_url (string) URL

format.named format-named (string) optional(NamedFormat)
validate format-validate .(NamedFormat, string) optional(list(string))

includes dra_includes_dyn_dyn .(dyn, dyn) bool

allowed decision_allowed .(authorization.Decision) bool
check pathcheck_check .(authorization.PathCheck, string) authorization.Decision
check resourcecheck_check .(authorization.ResourceCheck, string) authorization.Decision
error decision_error .(authorization.Decision) string
errored decision_errored .(authorization.Decision) bool
fieldSelector authorizer_fieldselector .(authorization.ResourceCheck, string) \
authorization.ResourceCheck
group authorizer_group .(authorization.Authorizer, string) authorization.GroupCheck
labelSelector authorizer_labelselector .(authorization.ResourceCheck, string) \
authorization.ResourceCheck
name resourcecheck_name .(authorization.ResourceCheck, string) authorization.ResourceCheck
namespace resourcecheck_namespace .(authorization.ResourceCheck, string) authorization.ResourceCheck
path authorizer_path .(authorization.Authorizer, string) authorization.PathCheck
reason decision_reason .(authorization.Decision) string
resource groupcheck_resource .(authorization.GroupCheck, string) authorization.ResourceCheck
serviceAccount authorizer_serviceaccount .(authorization.Authorizer, string, string) \
authorization.Authorizer
subresource resourcecheck_subresource .(authorization.ResourceCheck, string) \
authorization.ResourceCheck
"""

COMPARISONS = {"_<_": "less", "_<=_": "less_equals", "_>_": "greater", "_>=_": "greater_equals"}
_COMPARED = """bool=bool int64=int int64_double=int,double int64_uint64=int,uint uint64=uint
uint64_double=uint,double uint64_int64=uint,int double=double double_int64=double,int
double_uint64=double,uint string=string bytes=bytes timestamp=timestamp duration=duration"""

ORDERED = ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes")
TEMPLATES = {
    "sort list_{long}_sort .(list({short})) list({short})": ORDERED,
    "@sortByAssociatedKeys list_{long}_sortByAssociatedKeys .(list(T), list({short})) list(T)": (
        ORDERED
    ),
    "isSorted list_{short}_is_sorted_bool .(list({short})) bool": ORDERED,
    "max list_{short}_max_{short} .(list({short})) {short}": ORDERED,
    "min list_{short}_min_{short} .(list({short})) {short}": ORDERED,
    "sum list_{short}_sum_{short} .(list({short})) {short}": ("int", "uint", "double", "duration"),
}
CALENDAR = {
    "getDate": "timestamp_to_day_of_month_1_based",
    "getDayOfMonth": "timestamp_to_day_of_month",
    "getDayOfWeek": "timestamp_to_day_of_week",
    "getDayOfYear": "timestamp_to_day_of_year",
    "getFullYear": "timestamp_to_year",
    "getHours": "timestamp_to_hours",
    "getMilliseconds": "timestamp_to_milliseconds",
    "getMinutes": "timestamp_to_minutes",
    "getMonth": "timestamp_to_month",
    "getSeconds": "timestamp_to_seconds",
}
FORMATS = (
    "byte", "date", "datetime", "dns1035Label", "dns1035LabelPrefix", "dns1123Label",
    "dns1123LabelPrefix", "dns1123Subdomain", "dns1123SubdomainPrefix", "labelValue",
    "qualifiedName", "uri", "uuid",
)  # fmt: skip

_LONG = {
    "duration": "google.protobuf.Duration",
    "timestamp": "google.protobuf.Timestamp",
    "optional": "optional_type",
    **{
        name: f"kubernetes.{name}" for name in ("Quantity", "Semver", "URL", "NamedFormat")
    },
}  # fmt: skip
_LINE = re.compile(r"(\S+) (\S+) (\.?)\((.*)\) (\S.*)")
_WORD = re.compile(r"[\w.]+")


@dataclass(frozen=True, slots=True)
class Overload:
    id: str
    is_method: bool
    arguments: tuple[Type, ...]
    result: Type
    parameters: tuple[Type, ...]
    """The type parameters it mentions."""


@cache
def functions() -> dict[str, list[Overload]]:
    found: dict[str, list[Overload]] = {}
    for line in [*_LINES.strip().splitlines(), *_generated()]:
        if line:
            name, overload = _read(line)
            found.setdefault(name, []).append(overload)
    return found


def _generated() -> list[str]:
    lines = [
        f"{function} {name}_{pair} ({types if ',' in types else f'{types},{types}'}) bool"
        for function, name in COMPARISONS.items()
        for pair, _, types in (it.partition("=") for it in _COMPARED.split())
    ]
    for template, types in TEMPLATES.items():
        lines += [template.format(short=it, long=_LONG.get(it, it)) for it in types]
    for function, name in CALENDAR.items():
        zoned = "_tz" if name == "timestamp_to_seconds" else "_with_tz"
        lines += [
            f"{function} {name} .(timestamp) int",
            f"{function} {name}{zoned} .(timestamp, string) int",
        ]
    lines += [f"format.{name} format.{name} () NamedFormat" for name in FORMATS]
    return lines


def _read(line: str) -> tuple[str, Overload]:
    match = _LINE.fullmatch(line)
    assert match, line
    function, name, dot, arguments, result = match.groups()
    types = tuple(_type(it) for it in split_types(arguments))
    returned = _type(result)
    mentioned = dict.fromkeys(it for part in (*types, returned) for it in _parameters(part))
    return function, Overload(name, bool(dot), types, returned, tuple(mentioned))


def _type(text: str) -> Type:
    return parse_type(_WORD.sub(lambda word: _long_name(word[0]), text))


def _long_name(name: str) -> str:
    return f"kubernetes.{name}" if name.startswith("authorization.") else _LONG.get(name, name)


def _parameters(of: Type) -> list[Type]:
    inner = [it for part in of.parameters for it in _parameters(part)]
    return [of, *inner] if of.kind == "parameter" else inner
