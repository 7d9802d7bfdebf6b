"""Every rule of the plugin args, with its message."""

from __future__ import annotations

from typing import Any

import pytest

from stowplan.config import default_args, load_config, parse_feature_gates
from stowplan.config.types import NodeResourcesFitArgs
from stowplan.config.validate import args_problems
from tests.config.builders import configuration, plugin_args, refused

AT = "profiles[0].pluginConfig[0].args"
STORAGE = parse_feature_gates("StorageCapacityScoring=true")
NAME_RULE = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end "
    "with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for "
    "validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
VALUE_RULE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',"
    "  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)


def spread(*constraints: dict[str, Any], kind: str = "List") -> dict[str, Any]:
    good = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}
    return {
        "defaultingType": kind,
        "defaultConstraints": [
            {key: value for key, value in {**good, **one}.items() if value is not None}
            for one in constraints
        ],
    }


def added(**affinity: Any) -> dict[str, Any]:
    return {"addedAffinity": affinity}


def required_terms(*terms: dict[str, Any]) -> dict[str, Any]:
    return added(requiredDuringSchedulingIgnoredDuringExecution={"nodeSelectorTerms": list(terms)})


def expression(**fields: Any) -> dict[str, Any]:
    return required_terms({"matchExpressions": [{"key": "disk", **fields}]})


REQUIRED = f"{AT}.addedAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]"
EXPRESSION = f"{REQUIRED}.matchExpressions[0]"

RULES = [
    pytest.param(
        "DefaultPreemption",
        {"minCandidateNodesPercentage": 101},
        f"{AT}.minCandidateNodesPercentage: Invalid value: 101: not in valid range [0, 100]",
        id="preemption-percentage",
    ),
    pytest.param(
        "DefaultPreemption",
        {"minCandidateNodesAbsolute": -1},
        f"{AT}.minCandidateNodesAbsolute: Invalid value: -1: not in valid range [0, inf)",
        id="preemption-absolute",
    ),
    pytest.param(
        "DefaultPreemption",
        {"minCandidateNodesPercentage": 0, "minCandidateNodesAbsolute": 0},
        f"[{AT}.minCandidateNodesPercentage: Invalid value: 0: "
        "cannot be zero at the same time as minCandidateNodesAbsolute, "
        f"{AT}.minCandidateNodesAbsolute: Invalid value: 0: "
        "cannot be zero at the same time as minCandidateNodesPercentage]",
        id="preemption-both-zero",
    ),
    pytest.param(
        "InterPodAffinity",
        {"hardPodAffinityWeight": 101},
        f"{AT}.hardPodAffinityWeight: Invalid value: 101: not in valid range [0, 100]",
        id="hard-pod-affinity-weight",
    ),
    pytest.param(
        "NodeResourcesBalancedAllocation",
        {"resources": [{"name": "cpu"}, {"name": "cpu"}]},
        f'{AT}.resources[1].name: Duplicate value: "cpu"',
        id="balanced-duplicate",
    ),
    pytest.param(
        "NodeResourcesBalancedAllocation",
        {"resources": [{"name": "cpu", "weight": 2}]},
        f"{AT}.resources[0].weight: Invalid value: 2: must be 1",
        id="balanced-weight",
    ),
    pytest.param(
        "PodTopologySpread",
        {"defaultingType": "Foo"},
        f'{AT}.defaultingType: Unsupported value: "Foo": supported values: "System", "List"',
        id="spread-type",
    ),
    pytest.param(
        "PodTopologySpread",
        spread({}, kind="System"),
        f'{AT}.defaultingType: Invalid value: "System": when .defaultConstraints are not empty',
        id="spread-system-with-constraints",
    ),
    pytest.param(
        "PodTopologySpread",
        spread({"maxSkew": 0}),
        f"{AT}.defaultConstraints[0].maxSkew: Invalid value: 0: not in valid range (0, inf)",
        id="spread-skew",
    ),
    pytest.param(
        "PodTopologySpread",
        spread({"topologyKey": None}),
        f"{AT}.defaultConstraints[0].topologyKey: Required value: can not be empty",
        id="spread-no-key",
    ),
    pytest.param(
        "PodTopologySpread",
        spread({"topologyKey": "-zone"}),
        f'{AT}.defaultConstraints[0].topologyKey: Invalid value: "-zone": {NAME_RULE}',
        id="spread-bad-key",
    ),
    pytest.param(
        "PodTopologySpread",
        spread({"whenUnsatisfiable": None}),
        f"{AT}.defaultConstraints[0].whenUnsatisfiable: Required value: can not be empty",
        id="spread-no-action",
    ),
    pytest.param(
        "PodTopologySpread",
        spread({"whenUnsatisfiable": "Foo"}),
        f'{AT}.defaultConstraints[0].whenUnsatisfiable: Unsupported value: "Foo": '
        'supported values: "DoNotSchedule", "ScheduleAnyway"',
        id="spread-bad-action",
    ),
    pytest.param(
        "PodTopologySpread",
        spread({"labelSelector": {"matchLabels": {"a": "b"}}}),
        f"{AT}.defaultConstraints[0].labelSelector: Forbidden: "
        "constraint must not define a selector, as they deduced for each pod",
        id="spread-selector",
    ),
    pytest.param(
        "PodTopologySpread",
        spread({}, {"whenUnsatisfiable": "DoNotSchedule"}, {"maxSkew": 2}),
        f'{AT}.defaultConstraints[2]: Duplicate value: "{{zone, ScheduleAnyway}}"',
        id="spread-repeated",
    ),
    pytest.param(
        "VolumeBinding",
        {"bindTimeoutSeconds": -10},
        f"{AT}.bindTimeoutSeconds: Invalid value: -10: "
        "invalid BindTimeoutSeconds, should not be a negative value",
        id="volume-binding-timeout",
    ),
    pytest.param(
        "VolumeBinding",
        {"shape": [{"utilization": 1, "score": 2}]},
        f'{AT}.shape: Invalid value: [{{"Utilization":1,"Score":2}}]: unexpected field `shape`, '
        "remove it or turn on the feature gate StorageCapacityScoring",
        id="volume-binding-shape-without-its-gate",
    ),
    pytest.param(
        "DynamicResources",
        {"filterTimeout": "-1s"},
        f'{AT}.filterTimeout: Invalid value: "-1s": must be zero or positive',
        id="dynamic-filter-timeout",
    ),
    pytest.param(
        "DynamicResources",
        {"bindingTimeout": "999ms"},
        f'{AT}.bindingTimeout: Invalid value: "999ms": must be at least 1 second',
        id="dynamic-binding-timeout",
    ),
    pytest.param(
        "NodeAffinity",
        expression(operator="Like", values=["ssd"]),
        f'{EXPRESSION}.operator: Unsupported value: "Like": supported values: '
        '"In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"',
        id="affinity-operator",
    ),
    pytest.param(
        "NodeAffinity",
        expression(operator="In"),
        f"{EXPRESSION}.values: Invalid value: null: "
        "for 'in', 'notin' operators, values set can't be empty",
        id="affinity-in-without-values",
    ),
    pytest.param(
        "NodeAffinity",
        expression(operator="Exists", values=["a", "b"]),
        f'{EXPRESSION}.values: Invalid value: ["a","b"]: '
        "values set must be empty for exists and does not exist",
        id="affinity-exists-with-values",
    ),
    pytest.param(
        "NodeAffinity",
        expression(operator="Gt", values=["1", "2"]),
        f'{EXPRESSION}.values: Invalid value: ["1","2"]: '
        "for 'Gt', 'Lt' operators, exactly one value is required",
        id="affinity-gt-two-values",
    ),
    pytest.param(
        "NodeAffinity",
        expression(operator="Lt", values=["many"]),
        f'{EXPRESSION}.values[0]: Invalid value: "many": '
        "for 'Gt', 'Lt' operators, the value must be an integer",
        id="affinity-lt-no-number",
    ),
    pytest.param(
        "NodeAffinity",
        expression(key="-disk", operator="Exists"),
        f'{EXPRESSION}.key: Invalid value: "-disk": {NAME_RULE}',
        id="affinity-key",
    ),
    pytest.param(
        "NodeAffinity",
        expression(operator="In", values=["a b"]),
        f'{EXPRESSION}.values[0][disk]: Invalid value: "a b": {VALUE_RULE}',
        id="affinity-value",
    ),
    pytest.param(
        "NodeAffinity",
        required_terms(
            {"matchFields": [{"key": "metadata.name", "operator": "Exists"}]},
        ),
        f'{REQUIRED}.matchFields[0].operator: Unsupported value: "Exists": '
        'supported values: "In", "NotIn"',
        id="affinity-field-operator",
    ),
    pytest.param(
        "NodeAffinity",
        required_terms(
            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a", "b"]}]},
        ),
        f'{REQUIRED}.matchFields[0].values: Invalid value: ["a","b"]: must have one element',
        id="affinity-field-values",
    ),
    pytest.param(
        "NodeAffinity",
        added(
            preferredDuringSchedulingIgnoredDuringExecution=[
                {"weight": 0, "preference": {"matchExpressions": [{"key": "a"}]}},
                {"weight": 1, "preference": {"matchExpressions": [{"key": "a"}]}},
            ]
        ),
        f"{AT}.addedAffinity.preferredDuringSchedulingIgnoredDuringExecution[1]"
        '.matchExpressions[0].operator: Unsupported value: "": supported values: '
        '"In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"',
        id="affinity-preferred-and-weight-zero-is-not-parsed",
    ),
]


@pytest.mark.parametrize(("plugin", "args", "problem"), RULES)
def test_rule(plugin: str, args: dict[str, Any], problem: str) -> None:
    assert refused(plugin_args(plugin, **args)).problem == problem


FIT = (
    "initializing profiles: creating profile for scheduler name default-scheduler: "
    'initializing plugin "NodeResourcesFit": '
)


def ratio(*points: tuple[int, int]) -> dict[str, Any]:
    shape = [{"utilization": x, "score": y} for x, y in points]
    return {
        "scoringStrategy": {
            "type": "RequestedToCapacityRatio",
            "requestedToCapacityRatio": {"shape": shape},
        }
    }


SHAPE = "scoringStrategy.requestedToCapacityRatio.shape"

FIT_RULES = [
    pytest.param(
        {"ignoredResources": ["-a"]},
        f'ignoredResources[0]: Invalid value: "-a": {NAME_RULE}',
        id="ignored-resource",
    ),
    pytest.param(
        {"ignoredResourceGroups": ["example.com/gpu"]},
        'ignoredResourceGroups[0]: Invalid value: "example.com/gpu": '
        "resource group name can't contain '/'",
        id="group-with-a-slash",
    ),
    pytest.param(
        {"ignoredResourceGroups": ["-a"]},
        f'ignoredResourceGroups[0]: Invalid value: "-a": {NAME_RULE}',
        id="group-name",
    ),
    pytest.param(
        {"scoringStrategy": {}},
        'scoringStrategy.type: Unsupported value: "": supported values: '
        '"LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"',
        id="a-strategy-needs-a-type",
    ),
    pytest.param(
        {
            "scoringStrategy": {
                "type": "MostAllocated",
                "resources": [{"name": "cpu", "weight": 101}, {"name": "gpu", "weight": -1}],
            }
        },
        "[scoringStrategy.resources[0].weight: Invalid value: 101: "
        "resource weight of cpu not in valid range (0, 100], "
        "scoringStrategy.resources[1].weight: Invalid value: -1: "
        "resource weight of gpu not in valid range (0, 100]]",
        id="weights",
    ),
    pytest.param(
        {"scoringStrategy": {"type": "RequestedToCapacityRatio"}},
        "scoringStrategy.requestedToCapacityRatio: Required value: "
        "must be specified when type is RequestedToCapacityRatio",
        id="ratio-missing",
    ),
    pytest.param(
        {"scoringStrategy": {"type": "LeastAllocated", "requestedToCapacityRatio": {}}},
        "scoringStrategy.requestedToCapacityRatio: Forbidden: "
        "must be nil when type is not RequestedToCapacityRatio",
        id="ratio-forbidden",
    ),
    pytest.param(
        ratio(), f"{SHAPE}: Required value: at least one point must be specified", id="no-points"
    ),
    pytest.param(
        ratio((10, 1), (10, 2), (5, 3)),
        f"{SHAPE}[1].utilization: Invalid value: 10: values must be sorted in increasing order",
        id="only-the-first-point-out-of-order-is-named",
    ),
    pytest.param(
        ratio((-1, 0), (101, 11)),
        f"[{SHAPE}[0].utilization: Invalid value: -1: not in valid range [0, 100], "
        f"{SHAPE}[1].utilization: Invalid value: 101: not in valid range [0, 100], "
        f"{SHAPE}[1].score: Invalid value: 11: not in valid range [0, 10]]",
        id="points-out-of-range",
    ),
]


@pytest.mark.parametrize(("args", "problem"), FIT_RULES)
def test_fit_is_refused_when_it_is_made_without_a_path(args: dict[str, Any], problem: str) -> None:
    error = refused(plugin_args("NodeResourcesFit", **args))

    assert error.problem == FIT + problem
    assert error.where == AT


def test_fit_is_looked_at_only_when_all_else_is_well() -> None:
    source = {**plugin_args("NodeResourcesFit", scoringStrategy={}), "parallelism": 0}

    assert refused(source).problem.startswith("parallelism: ")


def test_args_of_a_plugin_that_is_not_enabled_are_tolerated() -> None:
    load_config(
        configuration(
            profiles=[
                {
                    "plugins": {"multiPoint": {"disabled": [{"name": "NodeResourcesFit"}]}},
                    "pluginConfig": [{"name": "NodeResourcesFit", "args": {"scoringStrategy": {}}}],
                }
            ]
        )
    )


def test_fit_without_a_strategy_can_only_come_from_a_program() -> None:
    assert args_problems(NodeResourcesFitArgs()) == [
        "scoringStrategy: Required value: ScoringStrategy field is required"
    ]
    assert args_problems(default_args("NodeResourcesFit")) == []


@pytest.mark.parametrize(
    ("shape", "problem"),
    [
        (
            [{"utilization": 50, "score": 11}],
            f"{AT}.shape[0].score: Invalid value: 11: not in valid range [0, 10]",
        ),
        (
            [{"utilization": 50, "score": 1}, {"utilization": 40, "score": 1}],
            (
                f"{AT}.shape[1].utilization: Invalid value: 40: "
                "values must be sorted in increasing order"
            ),
        ),
    ],
)
def test_with_its_gate_the_shape_of_volume_binding_is_checked(shape: Any, problem: str) -> None:
    assert refused(plugin_args("VolumeBinding", shape=shape), STORAGE).problem == problem


def test_with_its_gate_a_shape_is_accepted() -> None:
    source = plugin_args("VolumeBinding", shape=[{"utilization": 0, "score": 10}])

    load_config(source, gates=STORAGE)


@pytest.mark.parametrize(
    ("flag", "args", "problem"),
    [
        (
            "DRASchedulerFilterTimeout=false",
            {"filterTimeout": "5s"},
            "filterTimeout: Forbidden: DRASchedulingFilterTimeout feature gate is disabled",
        ),
        (
            "DRADeviceBindingConditions=false",
            {"bindingTimeout": "5s"},
            (
                "bindingTimeout: Forbidden: DRADeviceBindingConditions or "
                "DRAResourceClaimDeviceStatus feature gate is disabled"
            ),
        ),
    ],
)
def test_timeouts_need_their_gates(flag: str, args: dict[str, Any], problem: str) -> None:
    error = refused(plugin_args("DynamicResources", **args), parse_feature_gates(flag))

    assert error.problem == f"{AT}.{problem}"


def test_good_args_are_accepted() -> None:
    good = {
        "DefaultPreemption": {"minCandidateNodesPercentage": 0, "minCandidateNodesAbsolute": 1},
        "InterPodAffinity": {"hardPodAffinityWeight": 0},
        "NodeAffinity": required_terms(
            {"matchExpressions": [{"key": "a/b", "operator": "Gt", "values": ["3"]}]},
            {"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["n"]}]},
            {},
        ),
        "NodeResourcesFit": {
            "ignoredResources": ["example.com/gpu"],
            "ignoredResourceGroups": ["example.com"],
            **ratio((0, 0), (100, 10)),
        },
        "PodTopologySpread": spread({}, {"whenUnsatisfiable": "DoNotSchedule"}),
        "VolumeBinding": {"bindTimeoutSeconds": 0},
        "DynamicResources": {"filterTimeout": "0s", "bindingTimeout": "1s"},
    }

    load_config(
        configuration(
            profiles=[{"pluginConfig": [{"name": n, "args": args} for n, args in good.items()]}]
        )
    )
