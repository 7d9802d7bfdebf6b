"""`stowplan run`: the scheduler of a Kubernetes cluster, in place of kube-scheduler or beside it.

The flags are in `cli._run_flags`; what they start is in `runtime.live`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stowplan._version import __version__
from stowplan.cli._output import say
from stowplan.cli._run_flags import as_text, dashes, given, run_flags, without_effect

if TYPE_CHECKING:
    from stowplan.runtime.run_options import RunOptions
    from stowplan.runtime.surface import ServingOptions

EXAMPLES = """\b
Examples:
  stowplan run --kubeconfig ~/.kube/config
  stowplan run --config scheduler.yaml --watch-config -v 2
  stowplan run --config scheduler.yaml --plugin-path ./plugins
  stowplan run --config scheduler.yaml --write-config-to full.yaml
  stowplan run --leader-elect=false --secure-port=0 --kubeconfig ./kubeconfig
"""

_ELECTION = {
    "leader_elect": "leader_elect",
    "leader_elect_lease_duration": "lease_duration",
    "leader_elect_renew_deadline": "renew_deadline",
    "leader_elect_retry_period": "retry_period",
    "leader_elect_resource_lock": "resource_lock",
    "leader_elect_resource_name": "resource_name",
    "leader_elect_resource_namespace": "resource_namespace",
}
"""Flag -> field of leaderElection."""

_CLIENT = {
    "kube_api_qps": "qps",
    "kube_api_burst": "burst",
    "kube_api_content_type": "content_type",
}

_PROFILING = {
    "profiling": "enable_profiling",
    "contention_profiling": "enable_contention_profiling",
}

PORT_MAX = 65535


@click.command(
    epilog=EXAMPLES, context_settings={"token_normalize_func": dashes, "max_content_width": 100}
)
@run_flags
@click.argument("arguments", nargs=-1, metavar="")
@click.version_option(__version__, prog_name="stowplan", message="%(prog)s %(version)s")
@click.pass_context
def run(ctx: click.Context, /, **flags: Any) -> None:
    """Schedule the pods of a Kubernetes cluster, as kube-scheduler does.

    Takes the same configuration and flags.  Without --kubeconfig it uses KUBECONFIG, the pod it
    runs in, or ~/.kube/config.  SIGHUP reads the configuration again, SIGUSR2 writes cache and
    queue to the log, SIGTERM stops in good order.

    Exit code: 0 when asked to stop; 1 when the lease was lost; 2 when the configuration or a flag
    is wrong; 3 when the API server cannot be reached or refuses us; 70 when the scheduler failed;
    124 when a decision took longer than --decision-timeout.
    """
    if flags["arguments"]:
        raise click.UsageError(f"run takes no arguments, but got {' '.join(flags['arguments'])}")
    from stowplan.runtime.memory import tune_collector

    tune_collector()
    options = _options(ctx, flags)
    if flags["write_config_to"]:
        _write_config(options, Path(flags["write_config_to"]))
        return
    from stowplan.cli._run_page import RunPage
    from stowplan.runtime.live import run as run_live

    ctx.exit(run_live(options, RunPage))


def _options(ctx: click.Context, flags: dict[str, Any]) -> RunOptions:
    from stowplan.config import parse_feature_gates
    from stowplan.runtime.log import Verbosity
    from stowplan.runtime.metric_choice import read_choice
    from stowplan.runtime.run_options import RunOptions

    def set_ones(fields: dict[str, str]) -> dict[str, Any]:
        return {fields[name]: flags[name] for name in fields if name in given(ctx, fields)}

    return RunOptions(
        config=flags["config"],
        leader_election=set_ones(_ELECTION),
        deprecated=set_ones(_PROFILING),
        client_connection=set_ones(_CLIENT),
        kubeconfig=flags["kubeconfig"],
        master=flags["master"],
        gates=parse_feature_gates(flags["feature_gates"]),
        plugin_paths=flags["plugin_path"],
        watch_config=flags["watch_config"],
        startup_timeout_s=flags["startup_timeout"].seconds,
        shutdown_grace_s=flags["shutdown_grace"].seconds,
        unschedulable_max_s=flags["pod_max_in_unschedulable_pods_duration"].seconds,
        decision_timeout_s=flags["decision_timeout"].seconds,
        serving=_serving(flags),
        authentication_kubeconfig=flags["authentication_kubeconfig"],
        authorization_kubeconfig=flags["authorization_kubeconfig"],
        verbosity=Verbosity.parse(flags["v"], flags["vmodule"]),
        logging_format=flags["logging_format"],
        metric_choice=read_choice(
            show_hidden=flags["show_hidden_metrics_for_version"],
            disabled=flags["disabled_metrics"],
            allowed=flags["allow_metric_labels"],
            manifest=flags["allow_metric_labels_manifest"],
        ),
        without_effect=without_effect(ctx),
        flags={dashes(name): as_text(flags[name]) for name in sorted(flags) if name != "arguments"},
    )


def _serving(flags: dict[str, Any]) -> ServingOptions:
    from stowplan.runtime.auth import AuthSettings
    from stowplan.runtime.surface import ServingOptions

    port = flags["secure_port"]
    if not 0 <= port <= PORT_MAX:
        raise click.UsageError(
            f"--secure-port {port} must be between 0 and {PORT_MAX}, inclusive. "
            "0 for turning off secure port"
        )
    return ServingOptions(
        bind_address=flags["bind_address"],
        port=port,
        cert_dir=flags["cert_dir"],
        cert_file=flags["tls_cert_file"],
        key_file=flags["tls_private_key_file"],
        sni_cert_keys=flags["tls_sni_cert_key"],
        cipher_suites=flags["tls_cipher_suites"],
        min_version=flags["tls_min_version"],
        client_ca_file=flags["client_ca_file"],
        auth=AuthSettings(
            always_allowed=flags["authorization_always_allow_paths"],
            token_cache_s=flags["authentication_token_webhook_cache_ttl"].seconds,
            allowed_cache_s=flags["authorization_webhook_cache_authorized_ttl"].seconds,
            denied_cache_s=flags["authorization_webhook_cache_unauthorized_ttl"].seconds,
        ),
    )


def _write_config(options: RunOptions, path: Path) -> None:
    from stowplan.config import to_yaml
    from stowplan.errors import InputError

    config, _ = options.load_all()
    try:
        path.write_text(to_yaml(config))
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}", where=str(path)) from None
    say(f"wrote the configuration to {path}", err=True)
