"""Feature gates: the state of 1.36, the syntax of the flag, dependencies."""

from __future__ import annotations

import pytest

from stowplan.config import DEFAULT_GATES, GATES, Stage, parse_feature_gates
from stowplan.config.feature_gates import DEPENDENCIES
from stowplan.errors import ConfigError


@pytest.mark.parametrize(
    ("name", "stage", "enabled", "locked"),
    [
        ("SchedulerQueueingHints", Stage.GA, True, True),
        ("DRAPrioritizedList", Stage.GA, True, False),
        ("NodeDeclaredFeatures", Stage.BETA, True, False),
        ("ClearingNominatedNodeNameAfterBinding", Stage.BETA, True, False),
        ("SchedulerAsyncAPICalls", Stage.BETA, False, False),
        ("GangScheduling", Stage.ALPHA, False, False),
        # Of other components.
        ("JobManagedBy", Stage.GA, True, True),
        ("MutatingAdmissionPolicy", Stage.GA, True, False),
        ("APIServerIdentity", Stage.BETA, True, False),
        ("CPUManagerPolicyAlphaOptions", Stage.ALPHA, False, False),
        ("KMSv1", Stage.DEPRECATED, False, False),
        ("DisableNodeKubeProxyVersion", Stage.DEPRECATED, True, True),
    ],
)
def test_state(name: str, stage: Stage, enabled: bool, locked: bool) -> None:
    gate = GATES[name]

    assert (gate.stage, gate.enabled, gate.locked) == (stage, enabled, locked)
    assert DEFAULT_GATES.enabled(name) is enabled


def test_there_are_as_many_as_upstream_names() -> None:
    counts = [sum(1 for gate in GATES.values() if gate.stage == stage) for stage in Stage]

    # As kube-scheduler 1.36.3 shows them in kubernetes_feature_enabled.
    assert counts == [76, 99, 48, 16]


def test_a_gate_of_another_component_is_taken() -> None:
    """Those of a cluster are often given to every component alike."""
    assert parse_feature_gates("APIServerTracing=true,KMSv1=true").enabled("KMSv1")


def test_the_defaults_fulfil_their_own_dependencies() -> None:
    parse_feature_gates("")

    assert {name for pair in DEPENDENCIES.items() for name in (pair[0], *pair[1])} <= set(GATES)


@pytest.mark.parametrize(
    "flags",
    [
        "StorageCapacityScoring=true",
        "kube:StorageCapacityScoring=true",
        " StorageCapacityScoring = true ,",
        "StorageCapacityScoring=T",
        "StorageCapacityScoring=1",
        ["StorageCapacityScoring=false", "StorageCapacityScoring=true"],
    ],
)
def test_a_gate_is_turned_on(flags: str | list[str]) -> None:
    assert parse_feature_gates(flags).enabled("StorageCapacityScoring")


@pytest.mark.parametrize(
    ("flag", "problem"),
    [
        ("Foo=true", "unrecognized feature gate: Foo"),
        ("kube:Foo=true", "unrecognized feature gate: Foo"),
        (
            "DynamicResourceAllocation=false",
            "cannot set feature gate DynamicResourceAllocation to false, feature is locked to true",
        ),
        (
            "GangScheduling=true",
            (
                "GangScheduling is enabled, but depends on features that are disabled: "
                "[GenericWorkload]"
            ),
        ),
        (
            (
                "PodLevelResources=false,NodeDeclaredFeatures=false,ExtendWebSocketsToKubelet=false,"
                "InPlacePodVerticalScalingInitContainers=false,"
                "RestartAllContainersOnContainerExits=false"
            ),
            (
                "InPlacePodLevelResourcesVerticalScaling is enabled, but depends on features that "
                "are disabled: [NodeDeclaredFeatures PodLevelResources]"
            ),
        ),
        (
            "APIServerIdentity=false",
            (
                "UnknownVersionInteroperabilityProxy is enabled, but depends on features that are "
                "disabled: [APIServerIdentity]"
            ),
        ),
        (
            "DRAResourceClaimDeviceStatus=false,DRADeviceTaints=false,DRADeviceTaintRules=true",
            (
                "[DRADeviceTaintRules is enabled, but depends on features that are disabled: "
                "[DRADeviceTaints], DRADeviceBindingConditions is enabled, but depends on features "
                "that are disabled: [DRAResourceClaimDeviceStatus], "
                "DRAResourceClaimGranularStatusAuthorization is enabled, but depends on features "
                "that are disabled: [DRAResourceClaimDeviceStatus]]"
            ),
        ),
        ("GangScheduling", "missing bool value for GangScheduling"),
        (
            "GangScheduling=yes",
            (
                "invalid value of GangScheduling=yes, err: strconv.ParseBool: "
                'parsing "yes": invalid syntax'
            ),
        ),
        ("other:GangScheduling=true", "component not registered: other"),
    ],
)
def test_refuses(flag: str, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_feature_gates(flag)

    assert caught.value.problem == problem
    assert caught.value.where == "--feature-gates"


def test_a_locked_gate_may_be_set_to_what_it_is() -> None:
    assert parse_feature_gates("SidecarContainers=true").enabled("SidecarContainers")


def test_a_near_miss_gets_a_hint() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_feature_gates("GangSchedulling=true")

    assert caught.value.hint == "did you mean 'GangScheduling'?"


def test_groups_set_every_gate_of_their_stage_but_explicit_ones_win() -> None:
    gates = parse_feature_gates("VolumeLimitScaling=false,AllAlpha=true")

    assert gates.enabled("GangScheduling")
    assert not gates.enabled("VolumeLimitScaling")
    assert not gates.enabled("SchedulerAsyncAPICalls")


def test_all_beta_off_leaves_ga_alone() -> None:
    gates = parse_feature_gates("AllBeta=false")

    assert not gates.enabled("OpportunisticBatching")
    assert gates.enabled("DRAPrioritizedList")
    assert gates.enabled("SchedulerQueueingHints")


def test_states_lists_every_gate() -> None:
    assert set(DEFAULT_GATES.states()) == set(GATES)
