"""Validation of plugin args: one function per kind.

`find_args_problems` is given the path of the args in the file, or "" when a plugin is made:
upstream's texts then have no path before the field either.

Mirrors kube-scheduler's `apis/config/validation/validation_pluginargs.go`, and the parsing of
node selectors in `component-helpers/scheduling/corev1/nodeaffinity`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from stowplan.config.duration import Duration
from stowplan.config.feature_gates import FeatureGates
from stowplan.config.field_error import (
    Problem,
    child,
    duplicate,
    forbidden,
    invalid,
    required,
    unsupported,
)
from stowplan.config.names import label_key_problems, label_value_problems
from stowplan.config.types import (
    DefaultPreemptionArgs,
    DynamicResourcesArgs,
    InterPodAffinityArgs,
    NodeAffinityArgs,
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    PodTopologySpreadArgs,
    ScoringStrategy,
    UtilizationShapePoint,
    VolumeBindingArgs,
)
from stowplan.objects.pod import (
    NodeSelectorRequirement,
    NodeSelectorTerm,
    TopologySpreadConstraint,
)

SCORING_STRATEGIES = ("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio")
_UNSATISFIABLE_ACTIONS = ("DoNotSchedule", "ScheduleAnyway")
_RATIO = "RequestedToCapacityRatio"
_SHAPE_SCORE_MAX = 10
_EXPRESSION_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
_FIELD_OPERATORS = ("In", "NotIn")
_INTEGER = re.compile(r"[+-]?[0-9]+")


def find_args_problems(path: str, args: object, gates: FeatureGates) -> Iterator[Problem]:
    match args:
        case DefaultPreemptionArgs():
            yield from _default_preemption(path, args)
        case InterPodAffinityArgs():
            weight = args.hard_pod_affinity_weight
            yield from _in_range(child(path, "hardPodAffinityWeight"), weight, 0, 100)
        case NodeAffinityArgs():
            yield from _node_affinity(path, args)
        case NodeResourcesFitArgs():
            yield from _fit(path, args)
        case NodeResourcesBalancedAllocationArgs():
            yield from _balanced_allocation(path, args)
        case PodTopologySpreadArgs():
            yield from _topology_spread(path, args)
        case VolumeBindingArgs():
            yield from _volume_binding(path, args, gates)
        case DynamicResourcesArgs():
            yield from _dynamic_resources(path, args, gates)
        case _:
            pass  # A user's plugin checks its own.


def _in_range(path: str, value: int, low: int, high: int) -> Iterator[Problem]:
    if not low <= value <= high:
        yield invalid(path, value, f"not in valid range [{low}, {high}]")


def _default_preemption(path: str, args: DefaultPreemptionArgs) -> Iterator[Problem]:
    percentage, absolute = args.min_candidate_nodes_percentage, args.min_candidate_nodes_absolute
    percentage_path = child(path, "minCandidateNodesPercentage")
    absolute_path = child(path, "minCandidateNodesAbsolute")
    yield from _in_range(percentage_path, percentage, 0, 100)
    if absolute < 0:
        yield invalid(absolute_path, absolute, "not in valid range [0, inf)")
    if percentage == 0 and absolute == 0:
        same_time = "cannot be zero at the same time as"
        yield invalid(percentage_path, percentage, f"{same_time} minCandidateNodesAbsolute")
        yield invalid(absolute_path, absolute, f"{same_time} minCandidateNodesPercentage")


def _fit(path: str, args: NodeResourcesFitArgs) -> Iterator[Problem]:
    for i, name in enumerate(args.ignored_resources):
        yield from _label_name(f"{child(path, 'ignoredResources')}[{i}]", name)
    for i, group in enumerate(args.ignored_resource_groups):
        at = f"{child(path, 'ignoredResourceGroups')}[{i}]"
        if "/" in group:
            yield invalid(at, group, "resource group name can't contain '/'")
        yield from _label_name(at, group)
    at = child(path, "scoringStrategy")
    if args.scoring_strategy is None:
        yield required(at, "ScoringStrategy field is required")
    else:
        yield from _scoring_strategy(at, args.scoring_strategy)


def _scoring_strategy(path: str, strategy: ScoringStrategy) -> Iterator[Problem]:
    if strategy.type not in SCORING_STRATEGIES:
        yield unsupported(child(path, "type"), strategy.type, SCORING_STRATEGIES)
    for i, resource in enumerate(strategy.resources):
        if not 0 < resource.weight <= 100:
            detail = f"resource weight of {resource.name} not in valid range (0, 100]"
            yield invalid(f"{path}.resources[{i}].weight", resource.weight, detail)
    at, ratio = child(path, "requestedToCapacityRatio"), strategy.requested_to_capacity_ratio
    if strategy.type == _RATIO:
        if ratio is None:
            yield required(at, f"must be specified when type is {_RATIO}")
        else:
            yield from _shape(child(at, "shape"), ratio.shape or ())
    elif ratio is not None:
        yield forbidden(at, f"must be nil when type is not {_RATIO}")


def _shape(path: str, shape: Sequence[UtilizationShapePoint]) -> Iterator[Problem]:
    if not shape:
        yield required(path, "at least one point must be specified")
        return
    for i, (before, point) in enumerate(pairwise(shape), start=1):
        if before.utilization >= point.utilization:
            detail = "values must be sorted in increasing order"
            yield invalid(f"{path}[{i}].utilization", point.utilization, detail)
            break
    for i, point in enumerate(shape):
        yield from _in_range(f"{path}[{i}].utilization", point.utilization, 0, 100)
        yield from _in_range(f"{path}[{i}].score", point.score, 0, _SHAPE_SCORE_MAX)


def _balanced_allocation(path: str, args: NodeResourcesBalancedAllocationArgs) -> Iterator[Problem]:
    seen: set[str] = set()
    for i, resource in enumerate(args.resources):
        at = f"{child(path, 'resources')}[{i}]"
        if resource.name in seen:
            yield duplicate(child(at, "name"), resource.name)
        seen.add(resource.name)
        if resource.weight != 1:
            yield invalid(child(at, "weight"), resource.weight, "must be 1")


def _topology_spread(path: str, args: PodTopologySpreadArgs) -> Iterator[Problem]:
    at, constraints = child(path, "defaultingType"), args.default_constraints
    if args.defaulting_type not in ("System", "List"):
        yield unsupported(at, args.defaulting_type, ("System", "List"))
    elif args.defaulting_type == "System" and constraints:
        yield invalid(at, args.defaulting_type, "when .defaultConstraints are not empty")
    for i, constraint in enumerate(constraints):
        here = f"{child(path, 'defaultConstraints')}[{i}]"
        yield from _spread_constraint(here, constraint)
        pair = (constraint.topology_key, constraint.when_unsatisfiable)
        if any((c.topology_key, c.when_unsatisfiable) == pair for c in constraints[:i]):
            yield duplicate(here, f"{{{pair[0]}, {pair[1]}}}")


def _spread_constraint(path: str, constraint: TopologySpreadConstraint) -> Iterator[Problem]:
    if constraint.max_skew <= 0:
        yield invalid(child(path, "maxSkew"), constraint.max_skew, "not in valid range (0, inf)")
    at = child(path, "topologyKey")
    if not constraint.topology_key:
        yield required(at, "can not be empty")
    else:
        yield from _label_name(at, constraint.topology_key)
    at, action = child(path, "whenUnsatisfiable"), constraint.when_unsatisfiable
    if not action:
        yield required(at, "can not be empty")
    elif action not in _UNSATISFIABLE_ACTIONS:
        yield unsupported(at, action, _UNSATISFIABLE_ACTIONS)
    if constraint.label_selector is not None:
        detail = "constraint must not define a selector, as they deduced for each pod"
        yield forbidden(child(path, "labelSelector"), detail)


def _volume_binding(path: str, args: VolumeBindingArgs, gates: FeatureGates) -> Iterator[Problem]:
    if args.bind_timeout_seconds < 0:
        detail = "invalid BindTimeoutSeconds, should not be a negative value"
        yield invalid(child(path, "bindTimeoutSeconds"), args.bind_timeout_seconds, detail)
    at = child(path, "shape")
    if gates.enabled("StorageCapacityScoring"):
        yield from _shape(at, args.shape or ())
    elif args.shape is not None:
        detail = (
            "unexpected field `shape`, remove it or turn on the feature gate StorageCapacityScoring"
        )
        yield invalid(at, args.shape, detail)


def _dynamic_resources(
    path: str, args: DynamicResourcesArgs, gates: FeatureGates
) -> Iterator[Problem]:
    at, timeout = child(path, "filterTimeout"), args.filter_timeout
    if timeout is not None:
        if not gates.enabled("DRASchedulerFilterTimeout"):
            # The gate has another name than this text says: upstream's slip.
            yield forbidden(at, "DRASchedulingFilterTimeout feature gate is disabled")
        elif timeout.ns < 0:
            yield invalid(at, timeout, "must be zero or positive")
    at, timeout = child(path, "bindingTimeout"), args.binding_timeout
    if timeout is not None:
        needed = ("DRADeviceBindingConditions", "DRAResourceClaimDeviceStatus")
        if not all(gates.enabled(gate) for gate in needed):
            yield forbidden(at, f"{' or '.join(needed)} feature gate is disabled")
        elif timeout < Duration.of_seconds(1):
            yield invalid(at, timeout, "must be at least 1 second")


def _node_affinity(path: str, args: NodeAffinityArgs) -> Iterator[Problem]:
    if args.added_affinity is None:
        return
    at = child(path, "addedAffinity")
    if (required_terms := args.added_affinity.required) is not None:
        for i, term in enumerate(required_terms.node_selector_terms or ()):
            here = f"{at}.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[{i}]"
            yield from _node_term(here, term)
    for i, preferred in enumerate(args.added_affinity.preferred or ()):
        if preferred.weight != 0:  # A term without weight is never parsed.
            here = f"{at}.preferredDuringSchedulingIgnoredDuringExecution[{i}]"
            yield from _node_term(here, preferred.preference)


def _node_term(path: str, term: NodeSelectorTerm) -> Iterator[Problem]:
    for i, expression in enumerate(term.match_expressions or ()):
        yield from _node_expression(f"{path}.matchExpressions[{i}]", expression)
    for i, field in enumerate(term.match_fields or ()):
        at = f"{path}.matchFields[{i}]"
        if field.operator not in _FIELD_OPERATORS:
            yield unsupported(child(at, "operator"), field.operator, _FIELD_OPERATORS)
        elif len(field.values or ()) != 1:
            yield invalid(child(at, "values"), field.values, "must have one element")


def _node_expression(path: str, expression: NodeSelectorRequirement) -> Iterator[Problem]:
    operator, values = expression.operator, expression.values or []
    if operator not in _EXPRESSION_OPERATORS:
        yield unsupported(child(path, "operator"), operator, _EXPRESSION_OPERATORS)
        return
    if malformed := label_key_problems(expression.key):
        yield invalid(child(path, "key"), expression.key, "; ".join(malformed))
    at = child(path, "values")
    if operator in ("In", "NotIn") and not values:
        detail = "for 'in', 'notin' operators, values set can't be empty"
        yield invalid(at, expression.values, detail)
    if operator in ("Exists", "DoesNotExist") and values:
        yield invalid(at, values, "values set must be empty for exists and does not exist")
    if operator in ("Gt", "Lt"):
        if len(values) != 1:
            detail = "for 'Gt', 'Lt' operators, exactly one value is required"
            yield invalid(at, expression.values, detail)
        for i, value in enumerate(values):
            if not _is_int64(value):
                detail = "for 'Gt', 'Lt' operators, the value must be an integer"
                yield invalid(f"{at}[{i}]", value, detail)
    for i, value in enumerate(values):
        if malformed := label_value_problems(value):
            yield invalid(f"{at}[{i}][{expression.key}]", value, "; ".join(malformed))


def _is_int64(text: str) -> bool:
    return bool(_INTEGER.fullmatch(text)) and -(2**63) <= int(text) < 2**63


def _label_name(path: str, name: str) -> Iterator[Problem]:
    for problem in label_key_problems(name):
        yield invalid(path, name, problem)
