"""What the command line of `stowplan run` says, as plain data, and the configuration it makes.

`cli.run` fills it in; `runtime.live` works from it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from msgspec.structs import replace

from stowplan.config import (
    DEFAULT_GATES,
    FeatureGates,
    SchedulerConfig,
    leader_elector_problem,
    load_config,
)
from stowplan.core.profiles import Registry, check_config
from stowplan.errors import ConfigError
from stowplan.runtime.extender_client import check_extenders
from stowplan.runtime.guard import DECISION_TIMEOUT_S
from stowplan.runtime.log import TEXT, Verbosity
from stowplan.runtime.metric_choice import MetricChoice
from stowplan.runtime.plugins_path import load_registry
from stowplan.runtime.surface import ServingOptions


@dataclass(frozen=True, slots=True)
class RunOptions:
    config: str = ""
    """A file; empty: the defaults, and what the flags beside it say."""
    leader_election: Mapping[str, Any] = field(default_factory=dict)
    """Fields of leaderElection that flags set; they win over the file."""
    deprecated: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the configuration that old flags set; a file wins over all of them."""
    client_connection: Mapping[str, Any] = field(default_factory=dict)
    """The same, for fields of clientConnection."""
    kubeconfig: str = ""
    """Used where the file names none."""
    master: str = ""
    gates: FeatureGates = DEFAULT_GATES
    plugin_paths: tuple[str, ...] = ()
    watch_config: bool = False
    startup_timeout_s: float = 60.0
    shutdown_grace_s: float = 20.0
    unschedulable_max_s: float = 300.0
    decision_timeout_s: float = DECISION_TIMEOUT_S
    serving: ServingOptions = field(default_factory=ServingOptions)
    authentication_kubeconfig: str = ""
    authorization_kubeconfig: str = ""
    verbosity: Verbosity = field(default_factory=Verbosity)
    logging_format: str = TEXT
    metric_choice: MetricChoice = field(default_factory=MetricChoice)
    without_effect: Sequence[str] = ()
    """Flags of kube-scheduler that were given and mean nothing here."""
    flags: Mapping[str, str] = field(default_factory=dict)
    """All of them, for /flagz."""

    def load(self) -> SchedulerConfig:
        """The configuration in full: the file, or the defaults, and the flags over it."""
        config = load_config(
            self.config or None, gates=self.gates, leader_election=self.leader_election
        )
        if not self.config:
            connection = replace(config.client_connection, **self.client_connection)
            config = replace(config, client_connection=connection, **self.deprecated)
        if not config.client_connection.kubeconfig:
            connection = replace(config.client_connection, kubeconfig=self.kubeconfig)
            config = replace(config, client_connection=connection)
        if config.leader_election.leader_elect:
            self._check_election(config)
        check_extenders(config.extenders)
        return config

    def load_all(self) -> tuple[SchedulerConfig, Registry]:
        """The configuration, and the plugins that were seen to be built from it."""
        registry = load_registry(self.plugin_paths)
        config = self.load()
        check_config(config, random=Random(0), registry=registry)
        return config, registry

    def _check_election(self, config: SchedulerConfig) -> None:
        election = config.leader_election
        problem = leader_elector_problem(election)
        if election.resource_lock != "leases":
            # Flags alone are not validated with the file's rules, as upstream.
            problem = f"couldn't create resource lock: Invalid lock-type {election.resource_lock}"
        if problem:
            raise ConfigError(
                problem, where=self.config, hint="the defaults are 15s, 10s and 2s, on a lease"
            )
