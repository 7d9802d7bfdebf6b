"""Validation: every rule of a (defaulted) configuration, all problems at once.

`find_problems` is what kube-scheduler's start runs, in its order and with its texts; `problems`
gives the texts alone.  The rules for plugin args are in `validate_args`.  Upstream checks args
once more when it makes the plugin, and only there looks at those of NodeResourcesFit:
`construction_problems` is that second look.

Mirrors kube-scheduler's `apis/config/validation/validation.go` and
`component-base/config/validation`.
"""

from __future__ import annotations

from collections.abc import Iterator

from stowplan.config.feature_gates import DEFAULT_GATES, FeatureGates
from stowplan.config.field_error import (
    Problem,
    aggregate,
    child,
    duplicate,
    go_value,
    invalid,
    required,
)
from stowplan.config.names import label_key_problems
from stowplan.config.types import (
    API_VERSION,
    ARGS_BY_PLUGIN,
    ClientConnection,
    ExtenderConfig,
    LeaderElection,
    PluginSet,
    Profile,
    SchedulerConfig,
)
from stowplan.config.validate_args import find_args_problems
from stowplan.objects.resources import is_extended

REMOVED_PLUGINS = frozenset({"AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits"})

_REMOVED = f'was invalid in version "v1" (KubeSchedulerConfiguration is version "{API_VERSION}")'
"""Upstream prints the version of the core API, "v1", where it means its own."""

_NOT_INSPECTED_FOR_REMOVED = frozenset({"multiPoint", "placementGenerate", "placementScore"})
_CHECKED_AT_CONSTRUCTION_ONLY = frozenset({"NodeResourcesFit"})
"""Upstream's table of checks has a typo ("NodeResourcesFitArgs") and so never finds this one."""

_JITTER_FACTOR = 1.2


def problems(config: SchedulerConfig, gates: FeatureGates = DEFAULT_GATES) -> list[str]:
    """What is wrong with a defaulted configuration; an empty list means nothing is."""
    return list(dict.fromkeys(problem.text for problem in find_problems(config, gates)))


def find_problems(
    config: SchedulerConfig, gates: FeatureGates = DEFAULT_GATES
) -> Iterator[Problem]:
    yield from _client_connection(config.client_connection)
    yield from _leader_election(config.leader_election)
    if config.parallelism <= 0:
        detail = "should be an integer value greater than zero"
        yield invalid("parallelism", config.parallelism, detail)
    yield from _profiles(config.profiles, gates)
    yield from _percentage("percentageOfNodesToScore", config.percentage_of_nodes_to_score)
    initial, longest = config.pod_initial_backoff_seconds, config.pod_max_backoff_seconds
    if initial <= 0:
        yield invalid("podInitialBackoffSeconds", initial, "must be greater than 0")
    if longest < initial:
        detail = "must be greater than or equal to PodInitialBackoffSeconds"
        yield invalid("podMaxBackoffSeconds", longest, detail)
    yield from _extenders(config.extenders)
    if config.assumed_pod_ttl_seconds < 0:
        detail = "must be non-negative"
        yield invalid("assumedPodTTLSeconds", config.assumed_pod_ttl_seconds, detail)


def construction_problems(
    config: SchedulerConfig, gates: FeatureGates = DEFAULT_GATES
) -> list[Problem]:
    """What would fail when the plugins are made: the args of enabled plugins, looked at again."""
    found = []
    for i, profile in enumerate(config.profiles):
        enabled = profile.plugins.enabled_names()
        for j, entry in enumerate(profile.plugin_config):
            if entry.name in enabled and (wrong := args_problems(entry.args, gates)):
                text = (
                    "initializing profiles: creating profile for scheduler name "
                    f'{profile.scheduler_name}: initializing plugin "{entry.name}": '
                    f"{aggregate(wrong)}"
                )
                found.append(Problem(f"profiles[{i}].pluginConfig[{j}].args", text))
    return found


def args_problems(args: object, gates: FeatureGates = DEFAULT_GATES) -> list[str]:
    """What is wrong with the args of one plugin, with paths that start at the args."""
    return [problem.text for problem in find_args_problems("", args, gates)]


def leader_elector_problem(election: LeaderElection) -> str:
    """What the elector itself refuses when it is made, or "".  Not part of validation."""
    problem = ""
    if election.lease_duration <= election.renew_deadline:
        problem = "leaseDuration must be greater than renewDeadline"
    elif election.renew_deadline.ns <= int(_JITTER_FACTOR * election.retry_period.ns):
        problem = "renewDeadline must be greater than retryPeriod*JitterFactor"
    return f"couldn't create leader elector: {problem}" if problem else ""


def _client_connection(connection: ClientConnection) -> Iterator[Problem]:
    if connection.burst < 0:
        yield invalid("clientConnection.burst", connection.burst, "must be non-negative")


def _leader_election(election: LeaderElection) -> Iterator[Problem]:
    if not election.leader_elect:
        return
    path = "leaderElection"
    durations = {
        "leaseDuration": election.lease_duration,
        "renewDeadline": election.renew_deadline,
        "retryPeriod": election.retry_period,
    }
    for name, duration in durations.items():
        if duration.ns <= 0:
            yield invalid(child(path, name), duration, "must be greater than zero")
    if election.lease_duration <= election.renew_deadline:
        # The value shown is the renew deadline's: upstream's slip.
        detail = "must be greater than `RenewDeadline`"
        yield invalid(child(path, "leaseDuration"), election.renew_deadline, detail)
    texts = {
        "resourceLock": election.resource_lock,
        "resourceNamespace": election.resource_namespace,
        "resourceName": election.resource_name,
    }
    for name, text in texts.items():
        if not text:
            yield required(child(path, name))
    if election.resource_lock != "leases":
        detail = 'resourceLock value must be "leases"'
        yield invalid(child(path, "resourceLock"), election.resource_lock, detail)


def _profiles(profiles: list[Profile], gates: FeatureGates) -> Iterator[Problem]:
    if not profiles:
        yield required("profiles")
        return
    seen: set[str] = set()
    for i, profile in enumerate(profiles):
        path = f"profiles[{i}]"
        if not profile.scheduler_name:
            yield required(child(path, "schedulerName"))
        percentage = profile.percentage_of_nodes_to_score
        yield from _percentage(child(path, "percentageOfNodesToScore"), percentage)
        yield from _removed_plugins(path, profile)
        yield from _plugin_config(path, profile, gates)
        if profile.scheduler_name in seen:
            # Upstream passes the path of the first one, which prints as an empty object.
            yield duplicate(child(path, "schedulerName"), {})
        seen.add(profile.scheduler_name)
    yield from _common_queue_sort(profiles)


def _percentage(path: str, percentage: int | None) -> Iterator[Problem]:
    if percentage is not None and not 0 <= percentage <= 100:
        yield invalid(path, percentage, "not in valid range [0-100]")


def _removed_plugins(path: str, profile: Profile) -> Iterator[Problem]:
    for point, plugins in profile.plugins.sets():
        if point in _NOT_INSPECTED_FOR_REMOVED:
            continue
        for k, plugin in enumerate(plugins.enabled):
            if plugin.name in REMOVED_PLUGINS:
                yield invalid(f"{path}.plugins.{point}.enabled[{k}]", plugin.name, _REMOVED)


def _plugin_config(path: str, profile: Profile, gates: FeatureGates) -> Iterator[Problem]:
    seen: set[str] = set()
    for j, entry in enumerate(profile.plugin_config):
        here = f"{path}.pluginConfig[{j}]"
        if entry.name in seen:
            yield duplicate(here, entry.name)
        seen.add(entry.name)
        if entry.name in REMOVED_PLUGINS:
            yield invalid(here, entry.name, _REMOVED)
        elif entry.name in ARGS_BY_PLUGIN and entry.name not in _CHECKED_AT_CONSTRUCTION_ONLY:
            at = child(here, "args")
            if type(entry.args) is not ARGS_BY_PLUGIN[entry.name]:
                yield invalid(at, entry.args, "has to match plugin args")
            else:
                yield from find_args_problems(at, entry.args, gates)


def _common_queue_sort(profiles: list[Profile]) -> Iterator[Problem]:
    first = profiles[0]
    canon = first.plugins.queue_sort
    name = canon.enabled[0].name if canon.enabled else ""
    if len(canon.enabled) > 1:
        detail = "only one queue sort plugin can be enabled"
        yield invalid("profiles[0].plugins.queueSort.Enabled", len(canon.enabled), detail)
    args = first.args(name) if name else None
    for i, profile in enumerate(profiles[1:], start=1):
        if not _equal(profile.plugins.queue_sort, canon):
            path = f"profiles[{i}].plugins.queueSort"
            yield invalid(path, profile.plugins.queue_sort, "must be the same for all profiles")
        for entry in profile.plugin_config:
            if entry.name == name and entry.args != args:
                detail = "queueSort must be the same for all profiles"
                yield invalid(f"profiles[{i}].pluginConfig.args", entry.args, detail)


def _equal(one: PluginSet, other: PluginSet) -> bool:
    return go_value(one) == go_value(other)


def _extenders(extenders: list[ExtenderConfig]) -> Iterator[Problem]:
    managed: set[str] = set()
    for i, extender in enumerate(extenders):
        path = f"extenders[{i}]"
        if extender.prioritize_verb and extender.weight <= 0:
            detail = "must have a positive weight applied to it"
            yield invalid(child(path, "weight"), extender.weight, detail)
        for j, resource in enumerate(extender.managed_resources):
            at = f"{path}.managedResources[{j}].name"
            yield from _extended_resource(at, resource.name)
            if resource.name in managed:
                yield invalid(at, resource.name, "duplicate extender managed resource name")
            managed.add(resource.name)
    binders = sum(1 for extender in extenders if extender.bind_verb)
    if binders > 1:
        value = f"found {binders} extenders implementing bind"
        yield invalid("extenders", value, "only one extender can implement bind")


def _extended_resource(path: str, name: str) -> Iterator[Problem]:
    malformed = label_key_problems(name)
    for problem in malformed:
        yield invalid(path, name, problem)
    if not malformed and not is_extended(name):
        yield invalid(path, name, "is an invalid extended resource name")
