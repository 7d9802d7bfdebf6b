"""Every rule outside the plugin args, with its message."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from stowplan.config import Duration, SchedulerConfig, leader_elector_problem, load_config
from stowplan.config.types import InterPodAffinityArgs, LeaderElection, PluginConfig
from stowplan.config.validate import problems
from tests.config.builders import configuration, refused

V1 = 'was invalid in version "v1" (KubeSchedulerConfiguration is version '
REMOVED = f'{V1}"kubescheduler.config.k8s.io/v1")'


def profiles(*each: dict[str, Any]) -> dict[str, Any]:
    return {"profiles": [{"schedulerName": f"s{i}", **one} for i, one in enumerate(each)]}


def sets(**points: list[str]) -> dict[str, Any]:
    return {
        "plugins": {
            point: {"enabled": [{"name": name} for name in names]}
            for point, names in points.items()
        }
    }


RULES = [
    pytest.param(
        {"parallelism": 0},
        "parallelism: Invalid value: 0: should be an integer value greater than zero",
        id="parallelism",
    ),
    pytest.param(
        {"percentageOfNodesToScore": 101},
        "percentageOfNodesToScore: Invalid value: 101: not in valid range [0-100]",
        id="percentage-too-large",
    ),
    pytest.param(
        {"percentageOfNodesToScore": -1},
        "percentageOfNodesToScore: Invalid value: -1: not in valid range [0-100]",
        id="percentage-negative",
    ),
    pytest.param(
        {"podInitialBackoffSeconds": 0},
        "podInitialBackoffSeconds: Invalid value: 0: must be greater than 0",
        id="initial-backoff",
    ),
    pytest.param(
        {"podInitialBackoffSeconds": 11},
        "podMaxBackoffSeconds: Invalid value: 10: "
        "must be greater than or equal to PodInitialBackoffSeconds",
        id="max-backoff",
    ),
    pytest.param(
        {"assumedPodTTLSeconds": -1},
        "assumedPodTTLSeconds: Invalid value: -1: must be non-negative",
        id="assumed-pod-ttl",
    ),
    pytest.param(
        {"clientConnection": {"burst": -1}},
        "clientConnection.burst: Invalid value: -1: must be non-negative",
        id="burst",
    ),
    pytest.param(
        {"leaderElection": {"leaseDuration": "10s"}},
        'leaderElection.leaseDuration: Invalid value: "10s": must be greater than `RenewDeadline`',
        id="lease-not-longer-than-deadline",
    ),
    pytest.param(
        {"leaderElection": {"leaseDuration": "5s", "renewDeadline": "1m30s"}},
        'leaderElection.leaseDuration: Invalid value: "1m30s": '
        "must be greater than `RenewDeadline`",
        id="the-value-printed-is-the-deadline",
    ),
    pytest.param(
        {"leaderElection": {"leaseDuration": "-1s"}},
        '[leaderElection.leaseDuration: Invalid value: "-1s": must be greater than zero, '
        'leaderElection.leaseDuration: Invalid value: "10s": '
        "must be greater than `RenewDeadline`]",
        id="lease-negative",
    ),
    pytest.param(
        {"leaderElection": {"renewDeadline": "-1s"}},
        'leaderElection.renewDeadline: Invalid value: "-1s": must be greater than zero',
        id="deadline-negative",
    ),
    pytest.param(
        {"leaderElection": {"retryPeriod": "-1ns"}},
        'leaderElection.retryPeriod: Invalid value: "-1ns": must be greater than zero',
        id="retry-negative",
    ),
    pytest.param(
        {"leaderElection": {"resourceLock": "endpoints"}},
        'leaderElection.resourceLock: Invalid value: "endpoints": '
        'resourceLock value must be "leases"',
        id="resource-lock",
    ),
    pytest.param(
        profiles({"schedulerName": ""}),
        "profiles[0].schedulerName: Required value",
        id="an-empty-name-is-no-name",
    ),
    pytest.param(
        {"profiles": [{"schedulerName": "a"}, {}]},
        "profiles[1].schedulerName: Required value",
        id="only-a-single-profile-is-named-by-default",
    ),
    pytest.param(
        profiles({"schedulerName": "a"}, {"schedulerName": "a"}),
        "profiles[1].schedulerName: Duplicate value: {}",
        id="repeated-scheduler-name",
    ),
    pytest.param(
        profiles({}, {"percentageOfNodesToScore": 200}),
        "profiles[1].percentageOfNodesToScore: Invalid value: 200: not in valid range [0-100]",
        id="percentage-of-a-profile",
    ),
    pytest.param(
        profiles({"pluginConfig": [{"name": "X"}, {"name": "X"}]}),
        'profiles[0].pluginConfig[1]: Duplicate value: "X"',
        id="repeated-plugin-config",
    ),
    pytest.param(
        profiles(sets(filter=["NodeName", "EBSLimits"])),
        f'profiles[0].plugins.filter.enabled[1]: Invalid value: "EBSLimits": {REMOVED}',
        id="removed-plugin",
    ),
    pytest.param(
        profiles({"pluginConfig": [{"name": "CinderLimits"}]}),
        f'profiles[0].pluginConfig[0]: Invalid value: "CinderLimits": {REMOVED}',
        id="config-of-a-removed-plugin",
    ),
    pytest.param(
        profiles(sets(queueSort=["A", "B"])),
        "profiles[0].plugins.queueSort.Enabled: Invalid value: 2: "
        "only one queue sort plugin can be enabled",
        id="two-queue-sorts",
    ),
    pytest.param(
        profiles(sets(queueSort=["A"]), sets(queueSort=["B"])),
        'profiles[1].plugins.queueSort: Invalid value: {"Enabled":[{"Name":"B","Weight":0}],'
        '"Disabled":null}: must be the same for all profiles',
        id="different-queue-sorts",
    ),
    pytest.param(
        profiles(sets(queueSort=["A"]), {}),
        'profiles[1].plugins.queueSort: Invalid value: {"Enabled":null,"Disabled":null}: '
        "must be the same for all profiles",
        id="a-queue-sort-in-one-profile-only",
    ),
    pytest.param(
        profiles(
            {**sets(queueSort=["A"]), "pluginConfig": [{"name": "A", "args": {"up": True}}]},
            {**sets(queueSort=["A"]), "pluginConfig": [{"name": "A", "args": {"up": False}}]},
        ),
        'profiles[1].pluginConfig.args: Invalid value: {"up":false}: '
        "queueSort must be the same for all profiles",
        id="different-args-of-the-queue-sort",
    ),
    pytest.param(
        {"extenders": [{"prioritizeVerb": "prioritize"}]},
        "extenders[0].weight: Invalid value: 0: must have a positive weight applied to it",
        id="extender-weight",
    ),
    pytest.param(
        {"extenders": [{"managedResources": [{"name": "cpu"}]}]},
        'extenders[0].managedResources[0].name: Invalid value: "cpu": '
        "is an invalid extended resource name",
        id="not-an-extended-resource",
    ),
    pytest.param(
        {"extenders": [{"managedResources": [{"name": "kubernetes.io/foo"}]}]},
        'extenders[0].managedResources[0].name: Invalid value: "kubernetes.io/foo": '
        "is an invalid extended resource name",
        id="a-native-resource",
    ),
    pytest.param(
        {"extenders": [{"managedResources": [{"name": "/foo"}]}]},
        'extenders[0].managedResources[0].name: Invalid value: "/foo": '
        "prefix part must be non-empty",
        id="not-a-qualified-name",
    ),
    pytest.param(
        {
            "extenders": [
                {"managedResources": [{"name": "foo.com/bar"}]},
                {"managedResources": [{"name": "foo.com/bar"}]},
            ]
        },
        'extenders[1].managedResources[0].name: Invalid value: "foo.com/bar": '
        "duplicate extender managed resource name",
        id="managed-twice",
    ),
    pytest.param(
        {"extenders": [{"bindVerb": "bind"}, {"bindVerb": "bind"}]},
        'extenders: Invalid value: "found 2 extenders implementing bind": '
        "only one extender can implement bind",
        id="two-binders",
    ),
]


@pytest.mark.parametrize(("fields", "problem"), RULES)
def test_rule(fields: dict[str, Any], problem: str) -> None:
    assert refused(configuration(**fields)).problem == problem


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param(
            {"leaderElection": {"leaderElect": False, "leaseDuration": "-1s"}},
            id="leader-election-is-not-checked-when-off",
        ),
        pytest.param(profiles(sets(multiPoint=["EBSLimits"])), id="multi-point-not-inspected"),
        pytest.param(profiles(sets(placementScore=["EBSLimits"])), id="placements-not-inspected"),
        pytest.param({"clientConnection": {"qps": -1}}, id="negative-qps-turns-limiting-off"),
        pytest.param({"extenders": [{"weight": -1}]}, id="weight-of-an-extender-that-never-scores"),
        pytest.param({"percentageOfNodesToScore": 100}, id="percentage-at-its-end"),
        pytest.param(
            {"podInitialBackoffSeconds": 10, "podMaxBackoffSeconds": 10}, id="equal-backoffs"
        ),
        pytest.param(
            profiles(sets(score=["Unknown"]), {"pluginConfig": [{"name": "Unknown"}]}),
            id="unknown-plugins-are-for-expand-to-refuse",
        ),
        pytest.param(
            profiles(sets(queueSort=["A"]), sets(queueSort=["A"])), id="the-same-queue-sort"
        ),
    ],
)
def test_accepted(fields: dict[str, Any]) -> None:
    load_config(configuration(**fields))


@pytest.mark.parametrize(
    ("field", "name"),
    [
        ("resource_lock", "resourceLock"),
        ("resource_namespace", "resourceNamespace"),
        ("resource_name", "resourceName"),
    ],
)
def test_election_needs_a_lock_with_a_name(field: str, name: str) -> None:
    # Defaulting fills these in, so only a flag or a program can leave them empty.
    config = load_config()
    config = replace(config, leader_election=replace(config.leader_election, **{field: ""}))

    assert f"leaderElection.{name}: Required value" in problems(config)


def test_a_configuration_made_by_a_program_may_have_no_profile() -> None:
    found = problems(replace(load_config(), profiles=[]))

    assert found == ["profiles: Required value"]


def test_args_of_the_wrong_kind_can_only_come_from_a_program() -> None:
    config = load_config()
    wrong = PluginConfig(name="DefaultPreemption", args=InterPodAffinityArgs())
    config = replace(config, profiles=[replace(config.profiles[0], plugin_config=[wrong])])

    assert problems(config) == [
        (
            "profiles[0].pluginConfig[0].args: Invalid value: "
            '{"HardPodAffinityWeight":1,"IgnorePreferredTermsOfExistingPods":false}: '
            "has to match plugin args"
        )
    ]


def test_every_problem_is_reported_in_upstreams_order() -> None:
    error = refused(
        configuration(
            extenders=[{"prioritizeVerb": "p"}],
            parallelism=-3,
            percentageOfNodesToScore=500,
            leaderElection={"resourceLock": "x"},
            clientConnection={"burst": -5},
        )
    )

    assert error.problem == (
        "[clientConnection.burst: Invalid value: -5: must be non-negative, "
        'leaderElection.resourceLock: Invalid value: "x": resourceLock value must be "leases", '
        "parallelism: Invalid value: -3: should be an integer value greater than zero, "
        "percentageOfNodesToScore: Invalid value: 500: not in valid range [0-100], "
        "extenders[0].weight: Invalid value: 0: must have a positive weight applied to it]"
    )


def test_a_complete_configuration_has_no_problems() -> None:
    assert problems(load_config()) == []


def test_asking_does_not_complete_the_configuration() -> None:
    config = SchedulerConfig()

    assert problems(config)
    assert config == SchedulerConfig()


@pytest.mark.parametrize(
    ("lease", "deadline", "retry", "problem"),
    [
        ("15s", "10s", "2s", ""),
        ("15s", "12.1s", "10s", ""),
        (
            "15s",
            "12s",
            "10s",
            (
                "couldn't create leader elector: "
                "renewDeadline must be greater than retryPeriod*JitterFactor"
            ),
        ),
        (
            "10s",
            "10s",
            "1s",
            "couldn't create leader elector: leaseDuration must be greater than renewDeadline",
        ),
    ],
)
def test_what_the_elector_itself_demands(
    lease: str, deadline: str, retry: str, problem: str
) -> None:
    election = LeaderElection(
        lease_duration=Duration.parse(lease),
        renew_deadline=Duration.parse(deadline),
        retry_period=Duration.parse(retry),
    )

    assert leader_elector_problem(election) == problem
