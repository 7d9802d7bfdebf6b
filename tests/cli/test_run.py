"""`stowplan run`: kube-scheduler's flags mean what they mean there, and mistakes are one line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from stowplan.cli import main
from stowplan.cli.run import run
from stowplan.config import Duration, load_config
from stowplan.runtime import live
from stowplan.runtime.run_options import RunOptions

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"

UPSTREAM = {
    "--config": "",
    "--write-config-to": "",
    "--master": "",
    "--leader-elect": True,
    "--leader-elect-lease-duration": "15s",
    "--leader-elect-renew-deadline": "10s",
    "--leader-elect-retry-period": "2s",
    "--leader-elect-resource-lock": "leases",
    "--leader-elect-resource-name": "kube-scheduler",
    "--leader-elect-resource-namespace": "kube-system",
    "--secure-port": 10259,
    "--bind-address": "0.0.0.0",
    "--cert-dir": "",
    "--tls-cert-file": "",
    "--tls-private-key-file": "",
    "--tls-cipher-suites": (),
    "--tls-curve-preferences": (),
    "--tls-min-version": "",
    "--tls-sni-cert-key": (),
    "--http2-max-streams-per-connection": 0,
    "--disable-http2-serving": False,
    "--permit-port-sharing": False,
    "--permit-address-sharing": False,
    "--authentication-kubeconfig": "",
    "--authentication-skip-lookup": False,
    "--authentication-tolerate-lookup-failure": True,
    "--authentication-token-webhook-cache-ttl": "10s",
    "--client-ca-file": "",
    "--requestheader-client-ca-file": "",
    "--requestheader-allowed-names": (),
    "--requestheader-username-headers": ("x-remote-user",),
    "--requestheader-uid-headers": (),
    "--requestheader-group-headers": ("x-remote-group",),
    "--requestheader-extra-headers-prefix": ("x-remote-extra-",),
    "--authorization-kubeconfig": "",
    "--authorization-always-allow-paths": ("/healthz", "/readyz", "/livez"),
    "--authorization-webhook-cache-authorized-ttl": "10s",
    "--authorization-webhook-cache-unauthorized-ttl": "10s",
    "--feature-gates": (),
    "--emulated-version": (),
    "--min-compatibility-version": (),
    "-v": 0,
    "--v": 0,
    "--vmodule": "",
    "--logging-format": "text",
    "--log-flush-frequency": "5s",
    "--log-json-info-buffer-size": "0",
    "--log-json-split-stream": False,
    "--log-text-info-buffer-size": "0",
    "--log-text-split-stream": False,
    "--show-hidden-metrics-for-version": "",
    "--disabled-metrics": (),
    "--allow-metric-labels": (),
    "--allow-metric-labels-manifest": "",
    "--profiling": True,
    "--contention-profiling": True,
    "--kubeconfig": "",
    "--kube-api-content-type": "application/vnd.kubernetes.protobuf",
    "--kube-api-qps": 50.0,
    "--kube-api-burst": 100,
    "--pod-max-in-unschedulable-pods-duration": "5m0s",
}
"""Every flag of kube-scheduler 1.36 and its default (spec/surface.md, B)."""


def invoke(*args: str) -> Result:
    return CliRunner().invoke(main, ["run", *args])


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[RunOptions]:
    """What would have been started."""
    found: list[RunOptions] = []

    def run(options: RunOptions, page: object) -> int:
        found.append(options)
        return 0

    monkeypatch.setattr(live, "run", run)
    return found


def options(started: list[RunOptions], *args: str) -> RunOptions:
    result = invoke(*args)
    assert result.exit_code == 0, result.output
    return started[-1]


@pytest.mark.parametrize(("name", "default"), UPSTREAM.items())
def test_the_flags_and_defaults_of_kube_scheduler(name: str, default: Any) -> None:
    (option,) = (param for param in run.params if name in param.opts)

    found = option.get_default(click.Context(run))

    assert (str(found) if isinstance(found, Duration) else found) == default


def test_without_flags(started: list[RunOptions]) -> None:
    plain = options(started)

    assert plain.load() == load_config(None)
    assert (plain.serving.port, plain.serving.bind_address) == (10259, "0.0.0.0")
    assert plain.serving.auth.always_allowed == ("/healthz", "/readyz", "/livez")
    assert (plain.unschedulable_max_s, plain.without_effect) == (300.0, [])
    assert plain.flags["leader-elect"] == "true"
    assert plain.flags["leader-elect-lease-duration"] == "15s"


@pytest.mark.parametrize(
    "written",
    [
        ["--leader-elect=false", "-v=2"],
        ["--leader_elect=false", "--v=2"],
        ["--leader-elect", "false", "-v", "2"],
        ["--leader-elect=F", "-v2"],
    ],
)
def test_flags_are_written_as_go_reads_them(started: list[RunOptions], written: list[str]) -> None:
    found = options(started, *written)

    assert not found.load().leader_election.leader_elect
    assert found.verbosity.level == 2


def test_a_flag_without_a_value_is_true(started: list[RunOptions]) -> None:
    assert options(started, "--leader-elect", "--watch-config", "-v", "1").watch_config


def test_flags_of_the_election_win_over_the_file(started: list[RunOptions], tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    file.write_text(f"{HEAD}leaderElection: {{leaseDuration: 60s, resourceName: mine}}\n")

    found = options(started, "--config", str(file), "--leader-elect-lease-duration=45s")

    election = found.load().leader_election
    assert (str(election.lease_duration), election.resource_name) == ("45s", "mine")


def test_old_flags_give_way_to_a_file(started: list[RunOptions], tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    file.write_text(HEAD)
    flags = ["--kube-api-qps=7", "--kube-api-burst=9", "--profiling=false"]

    alone = options(started, *flags).load()
    beside = options(started, "--config", str(file), *flags).load()

    assert (alone.client_connection.qps, alone.client_connection.burst) == (7.0, 9)
    assert not alone.enable_profiling
    assert (beside.client_connection.qps, beside.client_connection.burst) == (50.0, 100)
    assert beside.enable_profiling


@pytest.mark.parametrize(
    ("in_file", "expected"), [("", "/flag"), ("clientConnection: {kubeconfig: /file}", "/file")]
)
def test_the_kubeconfig_of_the_flag_is_used_where_the_file_names_none(
    started: list[RunOptions], tmp_path: Path, in_file: str, expected: str
) -> None:
    file = tmp_path / "s.yaml"
    file.write_text(HEAD + in_file)

    found = options(started, "--config", str(file), "--kubeconfig=/flag")

    assert found.load().client_connection.kubeconfig == expected


def test_flags_of_the_port(started: list[RunOptions]) -> None:
    found = options(
        started,
        "--secure-port=4443",
        "--tls-cert-file=/c",
        "--tls-private-key-file=/k",
        "--tls-cipher-suites=A,B",
        "--tls-min-version=VersionTLS13",
        "--tls-sni-cert-key=/c1,/k1",
        "--tls-sni-cert-key=/c2,/k2:name",
        "--authorization-always-allow-paths=/healthz,/metrics*",
        "--authorization-webhook-cache-unauthorized-ttl=0s",
    ).serving

    assert (found.port, found.cert_file, found.key_file) == (4443, "/c", "/k")
    assert (found.cipher_suites, found.min_version) == (("A", "B"), "VersionTLS13")
    assert found.sni_cert_keys == ("/c1,/k1", "/c2,/k2:name")
    assert found.auth.always_allowed == ("/healthz", "/metrics*")
    assert (found.auth.allowed_cache_s, found.auth.denied_cache_s) == (10.0, 0.0)


def test_flags_about_metrics(started: list[RunOptions], tmp_path: Path) -> None:
    lists = tmp_path / "lists.yaml"
    lists.write_text('"m,a": "1"\n')

    found = options(
        started,
        "--disabled-metrics=a,b",
        "--disabled-metrics=c",
        "--allow-metric-labels=m,a=1,2",
        '--allow-metric-labels="m,b=3,4","n,a=5"',
        "--show-hidden-metrics-for-version=1.35",
    )
    of_file = options(started, f"--allow-metric-labels-manifest={lists}")

    assert found.metric_choice.disabled == {"a", "b", "c"}
    assert found.metric_choice.allowed == {
        "m": {"a": {"1", "2"}, "b": {"3", "4"}},
        "n": {"a": {"5"}},
    }
    assert found.without_effect == []
    assert found.flags["disabled-metrics"] == "a,b,c"
    assert of_file.metric_choice.allowed == {"m": {"a": {"1"}}}


def test_a_list_given_again_is_added_to(started: list[RunOptions]) -> None:
    """The first one replaces the default, as in Go."""
    flag = "--authorization-always-allow-paths"

    found = options(started, f"{flag}=/healthz,/livez", f"{flag}=/metrics").serving.auth

    assert found.always_allowed == ("/healthz", "/livez", "/metrics")


def test_flags_of_ours(started: list[RunOptions]) -> None:
    found = options(
        started,
        "--plugin-path=/a",
        "--plugin-path=/b.py",
        "--startup-timeout=1m30s",
        "--shutdown-grace=500ms",
        "--feature-gates=StorageCapacityScoring=true",
    )

    assert found.plugin_paths == ("/a", "/b.py")
    assert (found.startup_timeout_s, found.shutdown_grace_s) == (90.0, 0.5)
    assert found.gates.enabled("StorageCapacityScoring")


def test_flags_that_mean_nothing_here_are_named(started: list[RunOptions]) -> None:
    found = options(started, "--disable-http2-serving", "--log-flush-frequency=1s", "--v=1")

    assert found.without_effect == ["disable-http2-serving", "log-flush-frequency"]


def test_the_exit_code_is_that_of_the_scheduler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "run", lambda options, page: 1)

    assert invoke().exit_code == 1


def test_the_configuration_can_be_written_in_full(tmp_path: Path) -> None:
    file = tmp_path / "full.yaml"

    result = invoke("--leader-elect-lease-duration=20s", f"--write-config-to={file}")

    assert result.exit_code == 0
    written = load_config(str(file))
    assert str(written.leader_election.lease_duration) == "20s"
    assert written.profiles == load_config(None).profiles


PLUGINS = "initializing profiles: creating profile for scheduler name default-scheduler: "
EXTENDERS = "couldn't build extenders: "


@pytest.mark.parametrize("flags", [[], ["--write-config-to=/dev/null"]], ids=["run", "write"])
@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "profiles: [{plugins: {score: {enabled: [{name: Foo}]}}}]",
            f'{PLUGINS}ScorePlugin "Foo" does not exist',
        ),
        (
            "profiles: [{plugins: {bind: {disabled: [{name: '*'}]}}}]",
            f"{PLUGINS}at least one bind plugin is needed",
        ),
        (
            "extenders: [{urlPrefix: x, tlsConfig: {insecure: true, caData: Y2E=}}]",
            f"{EXTENDERS}specifying a root certificates file with the insecure flag is not allowed",
        ),
        (
            "extenders: [{urlPrefix: x, enableHTTPS: true, tlsConfig: {caFile: /nowhere/ca}}]",
            f"{EXTENDERS}cannot be read: No such file or directory",
        ),
    ],
)
def test_what_cannot_be_built_is_refused_before_anything_starts(
    tmp_path: Path, text: str, problem: str, flags: list[str]
) -> None:
    file = tmp_path / "s.yaml"
    file.write_text(HEAD + text)

    result = invoke(f"--config={file}", "--master=http://127.0.0.1:1", *flags)

    assert result.exit_code == 2
    assert problem in result.stderr.splitlines()[0]


def test_a_configuration_that_cannot_be_written_is_said_so() -> None:
    result = invoke("--write-config-to=/nowhere/full.yaml")

    assert result.exit_code == 2
    problem = "/nowhere/full.yaml: cannot be written: No such file or directory"
    assert result.stderr == f"error: {problem}\n"


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        (["somewhere"], "run takes no arguments, but got somewhere"),
        (["--secure-port=70000"], "--secure-port 70000 must be between 0 and 65535, inclusive"),
        (["--leader-elect=perhaps"], "'perhaps' is neither true nor false"),
        (["--startup-timeout=soon"], 'time: invalid duration "soon"'),
        (["-v", "high"], "'high' is no number"),
        (["--logging-format=xml"], "'xml' is not one of"),
        (["--feature-gates=Nope=true"], "unrecognized feature gate: Nope"),
        (["--vmodule=live"], "'live' is not of the form pattern=N"),
        (["--kubeconfig=/nowhere/k"], "/nowhere/k: cannot be read: No such file or directory"),
        (["--config=/nowhere/c"], "open /nowhere/c: no such file or directory"),
        (["--plugin-path=/nowhere/p"], "/nowhere/p: does not exist"),
        (["--allow-metric-labels=a"], "a must be formatted as key=value"),
        (["--allow-metric-labels=a=1"], "must have keys with format `metricName,labelName`"),
        (["--disabled-metrics=a-b"], 'must be fully qualified metric names matching "^'),
        (["--show-hidden-metrics-for-version=1.36"], "must be omitted or have the value '1.35'"),
        (
            ["--leader-elect-renew-deadline=2s"],
            "renewDeadline must be greater than retryPeriod*JitterFactor",
        ),
        (
            ["--leader-elect-resource-lock=endpoints"],
            "couldn't create resource lock: Invalid lock-type endpoints",
        ),
    ],
)
def test_mistakes_are_one_line_and_exit_code_2(args: list[str], problem: str) -> None:
    result = invoke(*args)

    assert result.exit_code == 2
    first, *rest = result.stderr.splitlines()
    assert first.startswith("error: ")
    assert problem in first
    assert all(line.startswith("  hint: ") for line in rest)


def test_a_server_that_cannot_be_reached_is_exit_code_3() -> None:
    result = invoke("--master=http://127.0.0.1:1", "--startup-timeout=0s", "--secure-port=0")

    assert result.exit_code == 3
    assert result.stderr.startswith("error: http://127.0.0.1:1 cannot be reached: ")
    assert "Traceback" not in result.stderr
