"""What a configuration means where it says nothing."""

from __future__ import annotations

from typing import Any

import pytest

from stowplan.config import Duration, PluginRef, load_config, parse_feature_gates
from stowplan.config.defaults import default_plugins, with_defaults
from stowplan.config.types import (
    ClientConnection,
    DefaultPreemptionArgs,
    DynamicResourcesArgs,
    InterPodAffinityArgs,
    LeaderElection,
    NodeAffinityArgs,
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    PodTopologySpreadArgs,
    ResourceSpec,
    ScoringStrategy,
    UtilizationShapePoint,
    VolumeBindingArgs,
)
from tests.config.builders import configuration, load, plugin_args

CPU_AND_MEMORY = [ResourceSpec(name="cpu", weight=1), ResourceSpec(name="memory", weight=1)]

NODE_DECLARED_OFF = (
    "NodeDeclaredFeatures=false,InPlacePodLevelResourcesVerticalScaling=false,"
    "InPlacePodVerticalScalingInitContainers=false,ExtendWebSocketsToKubelet=false,"
    "RestartAllContainersOnContainerExits=false"
)
"""With all that depends on it."""

DEFAULT_ORDER = [
    ("SchedulingGates", 0),
    ("PrioritySort", 0),
    ("NodeUnschedulable", 0),
    ("NodeName", 0),
    ("TaintToleration", 3),
    ("NodeAffinity", 2),
    ("NodePorts", 0),
    ("NodeResourcesFit", 1),
    ("VolumeRestrictions", 0),
    ("NodeVolumeLimits", 0),
    ("VolumeBinding", 0),
    ("VolumeZone", 0),
    ("PodTopologySpread", 2),
    ("InterPodAffinity", 2),
    ("DynamicResources", 2),
    ("DefaultPreemption", 0),
    ("NodeResourcesBalancedAllocation", 1),
    ("ImageLocality", 1),
    ("DefaultBinder", 0),
    ("NodeDeclaredFeatures", 0),
]


def pairs(plugins: list[PluginRef]) -> list[tuple[str, int]]:
    return [(plugin.name, plugin.weight) for plugin in plugins]


@pytest.mark.parametrize("source", [None, configuration()], ids=["none", "empty"])
def test_scalars(source: Any) -> None:
    config = load_config(source)

    assert config.parallelism == 16
    assert config.enable_profiling is True
    assert config.enable_contention_profiling is True
    assert config.percentage_of_nodes_to_score == 0
    assert config.pod_initial_backoff_seconds == 1
    assert config.pod_max_backoff_seconds == 10
    assert config.extenders == []
    assert config.delay_cache_until_active is False
    assert config.assumed_pod_ttl_seconds == 0
    assert config.leader_election == LeaderElection(
        leader_elect=True,
        lease_duration=Duration.of_seconds(15),
        renew_deadline=Duration.of_seconds(10),
        retry_period=Duration.of_seconds(2),
        resource_lock="leases",
        resource_name="kube-scheduler",
        resource_namespace="kube-system",
    )
    assert config.client_connection == ClientConnection(
        content_type="application/vnd.kubernetes.protobuf", qps=50.0, burst=100
    )


def test_null_is_as_good_as_nothing() -> None:
    nothing: dict[str, Any] = dict.fromkeys(
        ("parallelism", "leaderElection", "enableProfiling", "profiles", "extenders")
    )

    assert load_config(configuration(**nothing)) == load_config()


def test_zero_of_a_number_with_a_pointer_stays_zero_and_others_mean_the_default() -> None:
    config = load(
        percentageOfNodesToScore=0,
        leaderElection={"leaseDuration": "0s", "resourceName": ""},
        clientConnection={"qps": 0, "burst": 0, "contentType": ""},
    )

    assert config == load_config()


@pytest.mark.parametrize(
    ("given", "profiling", "contention"),
    [
        ({"enableProfiling": False}, False, False),
        ({"enableProfiling": False, "enableContentionProfiling": True}, False, True),
        ({"enableContentionProfiling": False}, True, False),
    ],
)
def test_contention_profiling_follows_profiling(
    given: dict[str, Any], profiling: bool, contention: bool
) -> None:
    config = load(**given)

    assert (config.enable_profiling, config.enable_contention_profiling) == (profiling, contention)


def test_the_one_default_profile() -> None:
    (profile,) = load_config().profiles

    assert profile.scheduler_name == "default-scheduler"
    assert profile.percentage_of_nodes_to_score is None
    assert pairs(profile.plugins.multi_point.enabled) == DEFAULT_ORDER
    others = {point: plugins for point, plugins in profile.plugins.sets() if point != "multiPoint"}
    assert all(not plugins.enabled and not plugins.disabled for plugins in others.values())


def test_default_args_are_appended_sorted_by_plugin() -> None:
    (profile,) = load_config().profiles

    assert {entry.name: entry.args for entry in profile.plugin_config} == {
        "DefaultPreemption": DefaultPreemptionArgs(
            min_candidate_nodes_percentage=10, min_candidate_nodes_absolute=100
        ),
        "DynamicResources": DynamicResourcesArgs(
            filter_timeout=Duration.of_seconds(10), binding_timeout=Duration.of_seconds(600)
        ),
        "InterPodAffinity": InterPodAffinityArgs(
            hard_pod_affinity_weight=1, ignore_preferred_terms_of_existing_pods=False
        ),
        "NodeAffinity": NodeAffinityArgs(added_affinity=None),
        "NodeResourcesBalancedAllocation": NodeResourcesBalancedAllocationArgs(
            resources=CPU_AND_MEMORY
        ),
        "NodeResourcesFit": NodeResourcesFitArgs(
            scoring_strategy=ScoringStrategy(type="LeastAllocated", resources=CPU_AND_MEMORY)
        ),
        "PodTopologySpread": PodTopologySpreadArgs(defaulting_type="System"),
        "VolumeBinding": VolumeBindingArgs(bind_timeout_seconds=600, shape=None),
    }
    names = [entry.name for entry in profile.plugin_config]
    assert names == sorted(names)


def test_given_args_come_first_and_are_completed() -> None:
    config = load_config(plugin_args("PodTopologySpread"))

    (first, *_) = config.profiles[0].plugin_config
    assert first.name == "PodTopologySpread"
    assert first.args == PodTopologySpreadArgs(defaulting_type="System")


def test_args_left_empty_mean_the_defaults() -> None:
    config = load(profiles=[{"pluginConfig": [{"name": "VolumeBinding", "args": None}]}])

    assert config.profiles[0].args("VolumeBinding") == VolumeBindingArgs(bind_timeout_seconds=600)


def test_a_disabled_plugin_gets_no_args() -> None:
    everything_off = {"multiPoint": {"disabled": [{"name": "*"}]}}

    config = load(profiles=[{"plugins": everything_off}])

    assert config.profiles[0].plugin_config == []


def test_a_plugin_enabled_at_one_point_gets_args() -> None:
    plugins = {
        "multiPoint": {"disabled": [{"name": "*"}]},
        "filter": {"enabled": [{"name": "NodeAffinity"}]},
    }

    config = load(profiles=[{"plugins": plugins}])

    assert [entry.name for entry in config.profiles[0].plugin_config] == ["NodeAffinity"]


def test_resource_weights_of_zero_become_one() -> None:
    given: list[dict[str, Any]] = [
        {"name": "cpu"},
        {"name": "memory", "weight": 0},
        {"name": "example.com/gpu"},
    ]
    config = load(
        profiles=[
            {
                "pluginConfig": [
                    {"name": "NodeResourcesBalancedAllocation", "args": {"resources": given}},
                    {
                        "name": "NodeResourcesFit",
                        "args": {"scoringStrategy": {"type": "MostAllocated", "resources": given}},
                    },
                ]
            }
        ]
    )

    (profile,) = config.profiles
    expected = [ResourceSpec(name=r["name"], weight=1) for r in given]
    assert profile.args("NodeResourcesBalancedAllocation").resources == expected
    assert profile.args("NodeResourcesFit").scoring_strategy.resources == expected


def test_a_strategy_without_resources_gets_them() -> None:
    config = load_config(plugin_args("NodeResourcesFit", scoringStrategy={"type": "MostAllocated"}))

    strategy = config.profiles[0].args("NodeResourcesFit").scoring_strategy
    assert strategy == ScoringStrategy(type="MostAllocated", resources=CPU_AND_MEMORY)


@pytest.mark.parametrize(
    ("flag", "tail"),
    [
        (NODE_DECLARED_OFF, []),
        (
            "GenericWorkload=true,GangScheduling=true",
            [("NodeDeclaredFeatures", 0), ("GangScheduling", 0)],
        ),
        (
            "GenericWorkload=true,TopologyAwareWorkloadScheduling=true",
            [
                ("NodeDeclaredFeatures", 0),
                ("TopologyPlacementGenerator", 0),
                ("PodGroupPodsCount", 1),
            ],
        ),
    ],
)
def test_gates_decide_the_end_of_the_default_set(flag: str, tail: list[tuple[str, int]]) -> None:
    plugins = default_plugins(parse_feature_gates(flag))

    assert pairs(plugins.multi_point.enabled) == DEFAULT_ORDER[:-1] + tail


def test_storage_capacity_scoring_brings_its_shape() -> None:
    config = load(parse_feature_gates("StorageCapacityScoring=true"))

    assert config.profiles[0].args("VolumeBinding").shape == [
        UtilizationShapePoint(utilization=0, score=10),
        UtilizationShapePoint(utilization=100, score=0),
    ]


def test_without_their_gates_the_timeouts_of_dynamic_resources_stay_unset() -> None:
    gates = parse_feature_gates("DRASchedulerFilterTimeout=false,DRADeviceBindingConditions=false")

    assert load(gates).profiles[0].args("DynamicResources") == DynamicResourcesArgs()


def test_an_extender_waits_five_seconds_unless_told() -> None:
    config = load(extenders=[{"urlPrefix": "http://a"}, {"httpTimeout": "1m30s"}])

    assert [str(extender.http_timeout) for extender in config.extenders] == ["5s", "1m30s"]


def test_resources_left_to_extenders_replace_those_that_are_ignored() -> None:
    managed = [
        {"name": "b.example/x", "ignoredByScheduler": True},
        {"name": "a.example/y"},
        {"name": "a.example/x", "ignoredByScheduler": True},
    ]
    fit = {"name": "NodeResourcesFit", "args": {"ignoredResources": ["example.com/mine"]}}
    profiles = [
        {"schedulerName": "one", "pluginConfig": [fit]},
        {"schedulerName": "two"},
    ]

    config = load(profiles=profiles, extenders=[{"managedResources": managed}])
    alone = load(profiles=profiles, extenders=[{"managedResources": managed[1:2]}])

    ignored = [p.args("NodeResourcesFit").ignored_resources for p in config.profiles]
    assert ignored == [["b.example/x", "a.example/x"]] * 2
    kept = [p.args("NodeResourcesFit").ignored_resources for p in alone.profiles]
    assert kept == [["example.com/mine"], []]


def test_defaulting_twice_changes_nothing() -> None:
    config = load(
        profiles=[
            {
                "plugins": {
                    "multiPoint": {
                        "enabled": [{"name": "Mine", "weight": 4}, {"name": "NodeName"}],
                        "disabled": [{"name": "NodeName"}, {"name": "ImageLocality"}],
                    }
                }
            }
        ]
    )

    assert with_defaults(config) == config
