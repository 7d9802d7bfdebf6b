"""The flags of `stowplan run`: kube-scheduler's, with its names and defaults, and a few of ours.

Written as Go's flags are: `--leader-elect=false`, `-v=2`, durations such as `15s`, underscores as
good as dashes.  Flags that would mean nothing here (HTTP/2, sharing of ports, Go's profiler) are
accepted, so that a command line written for kube-scheduler works, and left out of --help.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import click

from stowplan.config import Duration

Command = TypeVar("Command", bound=Callable[..., Any])

_TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE = frozenset({"0", "f", "F", "FALSE", "false", "False"})


class GoBool(click.ParamType[bool]):
    name = "bool"

    def convert(self, value: Any, param: Any, ctx: Any) -> bool:
        if isinstance(value, bool):
            return value
        if value not in _TRUE and value not in _FALSE:
            self.fail(f"{value!r} is neither true nor false", param, ctx)
        return value in _TRUE


class GoDuration(click.ParamType[Duration]):
    name = "duration"

    def convert(self, value: Any, param: Any, ctx: Any) -> Duration:
        if isinstance(value, Duration):
            return value
        try:
            return Duration.parse(value)
        except ValueError as error:
            self.fail(f"{error} (write 15s, 1m30s, 2h)", param, ctx)


class GoList(click.ParamType[tuple[str, ...]]):
    """Values between commas; given again, a flag adds to its list (`_joined`)."""

    name = "list"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[str, ...]:
        if isinstance(value, tuple):
            return value
        return tuple(part.strip() for part in value.split(",") if part.strip())


class GoMap(click.ParamType[dict[str, str]]):
    """One KEY=VALUE, whose parts may have commas, or several, each in double quotes."""

    name = "map"

    def convert(self, value: Any, param: Any, ctx: Any) -> dict[str, str]:
        if isinstance(value, dict):
            return value
        pairs = [value.strip('"')] if value.count("=") == 1 else next(csv.reader([value]), [])
        for pair in pairs:
            if "=" not in pair:
                self.fail(f"{pair} must be formatted as key=value", param, ctx)
        return {key: text for key, _, text in (pair.partition("=") for pair in pairs)}


class GoLevel(click.ParamType[int]):
    """A number; `-v=2` reaches us as `=2`."""

    name = "level"

    def convert(self, value: Any, param: Any, ctx: Any) -> int:
        text = str(value).removeprefix("=")
        if not text.isdecimal():
            self.fail(f"{text!r} is no number", param, ctx)
        return int(text)


_OF_TYPE: dict[type, click.ParamType[Any]] = {
    bool: GoBool(),
    Duration: GoDuration(),
    tuple: GoList(),
    dict: GoMap(),
    int: click.INT,
    float: click.FLOAT,
    str: click.STRING,
}


def as_text(value: Any) -> str:
    """As Go prints the value of a flag."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    if isinstance(value, dict):
        return ",".join(f"{key}={text}" for key, text in value.items())
    return str(value)


def _joined(ctx: Any, param: Any, parts: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(item for part in parts for item in part)


def _merged(ctx: Any, param: Any, parts: Iterable[dict[str, str]]) -> dict[str, str]:
    return {key: text for part in parts for key, text in part.items()}


_COLLECTED = {tuple: _joined, dict: _merged}
"""What becomes of the values of a flag that may be given again."""


def _flag(names: str, default: Any, text: str = "", **more: Any) -> Callable[[Command], Command]:
    """A flag of the type of its default.  Without a text it is accepted and not shown."""
    settings = {"type": _OF_TYPE[type(default)], "show_default": as_text(default), **more}
    if isinstance(default, bool):
        # With and without a value, as Go has it.
        settings |= {"is_flag": False, "flag_value": "true", "metavar": "[true|false]"}
    if isinstance(default, tuple | dict) and "type" not in more:
        settings |= {"multiple": True, "callback": _COLLECTED[type(default)]}
        default = tuple(default)
    if default in ("", ()):
        settings["show_default"] = False
    return click.option(*names.split(), default=default, **settings, help=text, hidden=not text)


def _seconds(count: int) -> Duration:
    return Duration.of_seconds(count)


_CONFIGURATION = (
    _flag("--config", "", "KubeSchedulerConfiguration to use.", metavar="FILE"),
    _flag("--write-config-to", "", "Write the configuration in full to this file, and exit."),
    _flag("--watch-config", False, "Read the configuration again whenever its file changes."),
    _flag("--feature-gates", (), "Name=true,Name=false,...", multiple=True, type=str),
    _flag(
        "--plugin-path",
        (),
        "A file with your own plugins, or a folder of them; may be repeated.",
        multiple=True,
        type=str,
        metavar="PATH",
    ),
    _flag(
        "--pod-max-in-unschedulable-pods-duration",
        _seconds(300),
        "Try a pod that no event woke again after this time.",
    ),
    _flag(
        "--decision-timeout",
        _seconds(30),
        "Step down and end when one decision, say in a plugin of yours, takes so long; 0: never.",
    ),
)

_CONNECTION = (
    _flag("--kubeconfig", "", "Where the cluster is, and who we are there.", metavar="FILE"),
    _flag("--master", "", "Address of the API server, instead of the kubeconfig's."),
    _flag("--kube-api-qps", 50.0, "Calls a second; ignored with --config."),
    _flag("--kube-api-burst", 100, "Calls at once; ignored with --config."),
    _flag("--kube-api-content-type", "application/vnd.kubernetes.protobuf"),
    _flag(
        "--startup-timeout",
        _seconds(60),
        "Give up if the API server cannot be reached for so long.",
    ),
    _flag("--shutdown-grace", _seconds(20), "How long bindings may go on once asked to stop."),
)

_ELECTION = (
    _flag("--leader-elect", True, "Schedule only while holding a lease, for several replicas."),
    _flag(
        "--leader-elect-lease-duration", _seconds(15), "Others wait so long for a silent leader."
    ),
    _flag("--leader-elect-renew-deadline", _seconds(10), "The leader gives up after so long."),
    _flag("--leader-elect-retry-period", _seconds(2), "Time between two tries."),
    _flag("--leader-elect-resource-lock", "leases"),
    _flag("--leader-elect-resource-name", "kube-scheduler", "Name of the lease."),
    _flag("--leader-elect-resource-namespace", "kube-system", "Namespace of the lease."),
)

_SERVING = (
    _flag("--bind-address", "0.0.0.0", "Where the secure port listens."),
    _flag("--secure-port", 10259, "Health, metrics and debug pages over HTTPS; 0: none."),
    _flag("--cert-dir", "", "Where kube-scheduler.crt and .key are, or are written to."),
    _flag("--tls-cert-file", "", "Certificate to show; self-signed without one."),
    _flag("--tls-private-key-file", "", "Its key."),
    _flag("--tls-min-version", "", "VersionTLS12 or VersionTLS13."),
    _flag("--tls-cipher-suites", (), "Names of cipher suites for TLS 1.2."),
    _flag("--tls-curve-preferences", ()),
    _flag("--tls-sni-cert-key", (), "CERT,KEY:NAME,...; may be repeated.", multiple=True, type=str),
    _flag("--client-ca-file", "", "Believe client certificates signed by this authority."),
    _flag("--http2-max-streams-per-connection", 0),
    _flag("--disable-http2-serving", False),
    _flag("--permit-port-sharing", False),
    _flag("--permit-address-sharing", False),
    _flag("--profiling", True),
    _flag("--contention-profiling", True),
)

_AUTH = (
    _flag("--authentication-kubeconfig", "", "The cluster that knows tokens, if another one."),
    _flag("--authentication-token-webhook-cache-ttl", _seconds(10), "Keep its answers so long."),
    _flag("--authentication-skip-lookup", False),
    _flag("--authentication-tolerate-lookup-failure", True),
    _flag("--authorization-kubeconfig", "", "The cluster that knows who may what, likewise."),
    _flag(
        "--authorization-always-allow-paths",
        ("/healthz", "/readyz", "/livez"),
        "Paths that everybody may see.",
    ),
    _flag("--authorization-webhook-cache-authorized-ttl", _seconds(10), "Keep a yes so long."),
    _flag("--authorization-webhook-cache-unauthorized-ttl", _seconds(10), "Keep a no so long."),
    _flag("--requestheader-client-ca-file", ""),
    _flag("--requestheader-allowed-names", ()),
    _flag("--requestheader-username-headers", ("x-remote-user",)),
    _flag("--requestheader-uid-headers", ()),
    _flag("--requestheader-group-headers", ("x-remote-group",)),
    _flag("--requestheader-extra-headers-prefix", ("x-remote-extra-",)),
)

_LOGGING = (
    _flag("-v --v", 0, "How much to log: 2 has a line per decision.", type=GoLevel()),
    _flag("--vmodule", "", "Other levels for some files: live=4,driver=6."),
    _flag("--logging-format", "text", "text or json.", type=click.Choice(["text", "json"])),
    _flag("--log-flush-frequency", _seconds(5)),
    _flag("--log-json-info-buffer-size", "0"),
    _flag("--log-json-split-stream", False),
    _flag("--log-text-info-buffer-size", "0"),
    _flag("--log-text-split-stream", False),
    _flag("--emulated-version", (), multiple=True, type=str),
    _flag("--min-compatibility-version", (), multiple=True, type=str),
)

_METRICS = (
    _flag("--disabled-metrics", (), "Metrics that are not shown, by their whole names."),
    _flag(
        "--allow-metric-labels",
        {},
        "METRIC,LABEL=VALUE,...: other values of the label show as 'unexpected'; may be repeated.",
        metavar="LIST",
    ),
    _flag("--allow-metric-labels-manifest", "", "The same, in a file.", metavar="FILE"),
    # Checked; no metric here is hidden.
    _flag("--show-hidden-metrics-for-version", ""),
)

_FLAGS: tuple[Callable[[Any], Any], ...] = (
    *_CONFIGURATION,
    *_CONNECTION,
    *_ELECTION,
    *_SERVING,
    *_AUTH,
    *_LOGGING,
    *_METRICS,
)


_MEANT = frozenset({"profiling", "leader_elect_resource_lock", "show_hidden_metrics_for_version"})
"""Not shown, since nobody should need them, and heeded all the same."""


def run_flags(command: Command) -> Command:
    for flag in reversed(_FLAGS):
        command = flag(command)
    return command


def dashes(name: str) -> str:
    """Go's components take `--leader_elect` for `--leader-elect`."""
    return name.replace("_", "-")


def given(ctx: click.Context, names: Iterable[str]) -> set[str]:
    """Those of `names` that the command line set."""
    default = click.core.ParameterSource.DEFAULT
    return {name for name in names if ctx.get_parameter_source(name) is not default}


def without_effect(ctx: click.Context) -> list[str]:
    """Flags that were given and mean nothing here."""
    hidden = [
        param.name
        for param in ctx.command.params
        if isinstance(param, click.Option) and param.hidden and param.name not in _MEANT
    ]
    return sorted(dashes(name) for name in given(ctx, filter(None, hidden)))
