"""Defaulting: what a configuration means where it says nothing.

`with_defaults` completes a configuration as read from a file: the default plugins under the
user's (`merge`), args for every enabled plugin that has them, and the scalars that upstream
fills in when they are zero.  Doing it twice changes nothing.

Mirrors kube-scheduler's `apis/config/v1/defaults.go` and `default_plugins.go`.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from stowplan.config.duration import Duration
from stowplan.config.feature_gates import DEFAULT_GATES, FeatureGates
from stowplan.config.merge import merge_plugins
from stowplan.config.types import (
    ARGS_BY_PLUGIN,
    ClientConnection,
    DynamicResourcesArgs,
    LeaderElection,
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    PluginConfig,
    PluginRef,
    Plugins,
    PluginSet,
    PodTopologySpreadArgs,
    Profile,
    ResourceSpec,
    SchedulerConfig,
    ScoringStrategy,
    UtilizationShapePoint,
    VolumeBindingArgs,
)

SCHEDULER_NAME = "default-scheduler"

_MULTI_POINT = (
    PluginRef(name="SchedulingGates"),
    PluginRef(name="PrioritySort"),
    PluginRef(name="NodeUnschedulable"),
    PluginRef(name="NodeName"),
    PluginRef(name="TaintToleration", weight=3),
    PluginRef(name="NodeAffinity", weight=2),
    PluginRef(name="NodePorts"),
    PluginRef(name="NodeResourcesFit", weight=1),
    PluginRef(name="VolumeRestrictions"),
    PluginRef(name="NodeVolumeLimits"),
    PluginRef(name="VolumeBinding"),
    PluginRef(name="VolumeZone"),
    PluginRef(name="PodTopologySpread", weight=2),
    PluginRef(name="InterPodAffinity", weight=2),
    PluginRef(name="DynamicResources", weight=2),
    PluginRef(name="DefaultPreemption"),
    PluginRef(name="NodeResourcesBalancedAllocation", weight=1),
    PluginRef(name="ImageLocality", weight=1),
    PluginRef(name="DefaultBinder"),
)

_GATED = (
    ("NodeDeclaredFeatures", PluginRef(name="NodeDeclaredFeatures")),
    ("GangScheduling", PluginRef(name="GangScheduling")),
    ("TopologyAwareWorkloadScheduling", PluginRef(name="TopologyPlacementGenerator")),
    ("TopologyAwareWorkloadScheduling", PluginRef(name="PodGroupPodsCount", weight=1)),
)
"""(gate, plugin): appended in this order where the gate is on."""

RESOURCES = (ResourceSpec(name="cpu", weight=1), ResourceSpec(name="memory", weight=1))
STORAGE_SHAPE = (
    UtilizationShapePoint(utilization=0, score=10),
    UtilizationShapePoint(utilization=100, score=0),
)


def default_plugins(gates: FeatureGates = DEFAULT_GATES) -> Plugins:
    """The default set: everything in multiPoint."""
    gated = [plugin for gate, plugin in _GATED if gates.enabled(gate)]
    return Plugins(multi_point=PluginSet(enabled=[*_MULTI_POINT, *gated]))


def with_defaults(config: SchedulerConfig, gates: FeatureGates = DEFAULT_GATES) -> SchedulerConfig:
    profiles = config.profiles or [Profile(scheduler_name=SCHEDULER_NAME)]
    contention = config.enable_contention_profiling
    if contention is None:
        contention = config.enable_profiling
    return replace(
        config,
        profiles=[_profile(profile, gates) for profile in profiles],
        leader_election=_leader_election(config.leader_election),
        client_connection=_client_connection(config.client_connection),
        enable_contention_profiling=contention,
    )


def with_extenders(config: SchedulerConfig) -> SchedulerConfig:
    """What extenders change in a configuration that is valid.

    Resources that the scheduler is to ignore for their sake replace those of NodeResourcesFit, in
    every profile; they are not added to them.
    """
    ignored = [
        resource.name
        for extender in config.extenders
        for resource in extender.managed_resources
        if resource.ignored_by_scheduler
    ]
    extenders = [
        replace(extender, http_timeout=_or_seconds(extender.http_timeout, 5))
        for extender in config.extenders
    ]
    profiles = [_ignoring(profile, ignored) for profile in config.profiles]
    return replace(config, extenders=extenders, profiles=profiles if ignored else config.profiles)


def _ignoring(profile: Profile, resources: list[str]) -> Profile:
    entries = [
        replace(entry, args=replace(entry.args, ignored_resources=resources))
        if isinstance(entry.args, NodeResourcesFitArgs)
        else entry
        for entry in profile.plugin_config
    ]
    return replace(profile, plugin_config=entries)


def default_args(plugin: str, gates: FeatureGates = DEFAULT_GATES) -> Any:
    """The args of `plugin` where the user gives none; None for a plugin without a kind of args."""
    kind = ARGS_BY_PLUGIN.get(plugin)
    return None if kind is None else _args(kind(), gates)


def _profile(profile: Profile, gates: FeatureGates) -> Profile:
    plugins = merge_plugins(default_plugins(gates), profile.plugins)
    given = [
        replace(entry, args=_args(entry.args, gates))
        if entry.args is not None
        else replace(entry, args=default_args(entry.name, gates))
        for entry in profile.plugin_config
    ]
    names = sorted(plugins.enabled_names() - {entry.name for entry in given})
    added = [
        PluginConfig(name=name, args=default_args(name, gates))
        for name in names
        if name in ARGS_BY_PLUGIN
    ]
    return replace(profile, plugins=plugins, plugin_config=[*given, *added])


def _args(args: Any, gates: FeatureGates) -> Any:
    match args:
        case NodeResourcesFitArgs():
            return _fit_args(args)
        case NodeResourcesBalancedAllocationArgs():
            return replace(args, resources=_resources(args.resources))
        case PodTopologySpreadArgs():
            return replace(args, defaulting_type=args.defaulting_type or "System")
        case VolumeBindingArgs():
            if not args.shape and gates.enabled("StorageCapacityScoring"):
                return replace(args, shape=list(STORAGE_SHAPE))
            return args
        case DynamicResourcesArgs():
            return _dynamic_resources_args(args, gates)
        case _:
            return args


def _fit_args(args: NodeResourcesFitArgs) -> NodeResourcesFitArgs:
    # A strategy that is there but has no type keeps none, and is refused by validation.
    strategy = args.scoring_strategy or ScoringStrategy(type="LeastAllocated")
    completed = replace(strategy, resources=_resources(strategy.resources))
    return replace(args, scoring_strategy=completed)


def _resources(resources: list[ResourceSpec]) -> list[ResourceSpec]:
    return [replace(spec, weight=spec.weight or 1) for spec in resources] or list(RESOURCES)


def _dynamic_resources_args(args: DynamicResourcesArgs, gates: FeatureGates) -> Any:
    if args.filter_timeout is None and gates.enabled("DRASchedulerFilterTimeout"):
        args = replace(args, filter_timeout=Duration.of_seconds(10))
    if args.binding_timeout is None and gates.enabled("DRADeviceBindingConditions"):
        args = replace(args, binding_timeout=Duration.of_seconds(600))
    return args


def _leader_election(given: LeaderElection) -> LeaderElection:
    return replace(
        given,
        lease_duration=_or_seconds(given.lease_duration, 15),
        renew_deadline=_or_seconds(given.renew_deadline, 10),
        retry_period=_or_seconds(given.retry_period, 2),
        resource_lock=given.resource_lock or "leases",
        resource_name=given.resource_name or "kube-scheduler",
        resource_namespace=given.resource_namespace or "kube-system",
    )


def _or_seconds(given: Duration, seconds: int) -> Duration:
    return given if given.ns else Duration.of_seconds(seconds)


def _client_connection(given: ClientConnection) -> ClientConnection:
    return replace(
        given,
        content_type=given.content_type or "application/vnd.kubernetes.protobuf",
        qps=given.qps or 50.0,
        burst=given.burst or 100,
    )
