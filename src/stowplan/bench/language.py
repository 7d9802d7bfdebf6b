"""Workload files: read them strictly, and fill in the parameters.

A file is a list of cases.  A case is a list of ops and the workloads that run it, each with
parameters of its own.  What is not understood is refused: unknown fields, parameters that no op
asks for, two things of one name, a case that measures nothing.  The op structs are in `opcodes`;
`catalogue` chooses a workload, `run` carries it out.  Mirrors the file format of upstream's
`scheduler_perf`, section 2 of its description.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from stowplan.bench.opcodes import (
    Barrier,
    Churn,
    CreateNodes,
    CreatePods,
    CreatePodSets,
    DeletePods,
    Op,
    StartCollectingMetrics,
    StopCollectingMetrics,
    Strict,
)
from stowplan.config import Duration
from stowplan.errors import InputError
from stowplan.objects.yaml_reader import read_yaml

Value = int | float | bool | str

_Made = TypeVar("_Made")

_CHURN_MODES = ("create", "recreate")
_STAGES = ("Scheduled", "Attempted")
_PARAM_SUFFIX = "_param"
_COUNTED_ONCE = ("createAny", "updateAny")
"""Ops whose count is 1 unless they say otherwise."""


class MetricSelector(Strict, frozen=True):
    name: str = "SchedulingThroughput"
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    data_bucket: str = "Average"
    expect_lower: bool = False


class _Workload(Strict, frozen=True):
    name: str
    params: dict[str, Value] = msgspec.field(default_factory=dict)
    labels: list[str] = msgspec.field(default_factory=list)
    threshold: float | dict[str, float] = 0.0
    threshold_metric_selector: MetricSelector | None = None
    feature_gates: dict[str, bool] = msgspec.field(default_factory=dict)


class _Case(Strict, frozen=True):
    name: str
    workload_template: list[Op]
    workloads: list[_Workload]
    feature_gates: dict[str, bool] = msgspec.field(default_factory=dict)
    default_pod_template_path: str = ""
    scheduler_config_path: str = ""
    metrics_collector_config: dict[str, Any] = msgspec.field(default_factory=dict)
    default_threshold_metric_selector: MetricSelector | None = None
    labels: list[str] = msgspec.field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Workload:
    """One way to run a case; `resolve` gives its ops."""

    case: str
    name: str
    params: Mapping[str, Value]
    labels: frozenset[str]
    feature_gates: Mapping[str, bool]
    threshold: float
    """0: none."""
    selector: MetricSelector
    template: tuple[Op, ...]
    file: Path
    """Paths in the ops start from its folder."""
    default_pod_template: str = ""
    scheduler_config: str = ""

    @property
    def full_name(self) -> str:
        return f"{self.case}/{self.name}"

    def resolve(self) -> list[Op]:
        """The ops with every parameter filled in."""
        filled = _Params(self.params, f"{self.file.name}: {self.full_name}")
        ops = [filled.fill(op, index) for index, op in enumerate(self.template)]
        filled.check_used()
        return ops

    def with_params(self, changes: Mapping[str, Value]) -> Workload:
        for name in changes:
            if name not in self.params:
                raise InputError(
                    f"{self.full_name} has no parameter {name!r}",
                    hint=f"its parameters are {', '.join(self.params) or '(none)'}",
                )
        return replace(self, params={**self.params, **changes})

    def path(self, relative: str) -> Path:
        return self.file.parent / relative


def read_workloads(file: Path, *, topic: str = "") -> list[Workload]:
    """Every workload of the file, checked to the last field."""
    data = _one_document(file)
    cases = _convert(data, list[_Case], file.name)
    _check_unique((case.name for case in cases), file.name, "case")
    found: list[Workload] = []
    for case in cases:
        where = f"{file.name}: {case.name}"
        _check_case(case, where)
        for workload in case.workloads:
            made = _workload(case, workload, file, topic or file.stem)
            made.resolve()
            found.append(made)
    return found


def _one_document(file: Path) -> Any:
    documents = read_yaml(file.read_bytes(), str(file))
    if len(documents) != 1 or not isinstance(documents[0], list):
        raise InputError(
            "found no list of cases", where=str(file), hint="a workload file is one YAML list"
        )
    return documents[0]


def _convert(data: Any, wanted: type[_Made], where: str) -> _Made:
    try:
        return msgspec.convert(data, wanted)
    except msgspec.ValidationError as error:
        problem, _, path = str(error).partition(" - at `$")
        place = _named_place(data, path.removesuffix("`"))
        problem = problem[:1].lower() + problem[1:]
        raise InputError(problem, where=f"{where}: {place}" if place else where) from None


def _named_place(data: Any, path: str) -> str:
    """`[3].workloads[0]` with the case's name instead of its number."""
    number, bracket, rest = path.removeprefix("[").partition("]")
    if bracket and number.isdecimal() and int(number) < len(data):
        case = data[int(number)]
        name = case.get("name") if isinstance(case, dict) else None
        return f"{name or f'case {number}'}{': ' if rest else ''}{rest.removeprefix('.')}"
    return path


def _workload(case: _Case, workload: _Workload, file: Path, topic: str) -> Workload:
    threshold = workload.threshold
    if isinstance(threshold, dict):
        threshold = threshold.get(topic, 0.0)
    selector = workload.threshold_metric_selector or case.default_threshold_metric_selector
    return Workload(
        case.name,
        workload.name,
        workload.params,
        frozenset([*case.labels, *workload.labels]),
        {**case.feature_gates, **workload.feature_gates},
        threshold,
        selector or MetricSelector(),
        tuple(case.workload_template),
        file,
        case.default_pod_template_path,
        case.scheduler_config_path,
    )


# -- what a case must and must not say ------------------------------------------------------


def _check_case(case: _Case, where: str) -> None:
    if not case.workloads:
        raise InputError("the case has no workloads", where=where)
    _check_unique((workload.name for workload in case.workloads), where, "workload")
    for index, op in enumerate(case.workload_template):
        problem = _op_problem(op)
        if problem:
            raise InputError(problem, where=f"{where}: workloadTemplate[{index}]")
    if not any(_measures(op) for op in case.workload_template):
        raise InputError(
            "the case collects no metrics",
            where=where,
            hint="set `collectMetrics: true` on a createPods, or add startCollectingMetrics",
        )
    collecting = False
    for op in case.workload_template:
        if isinstance(op, StopCollectingMetrics) and not collecting:
            raise InputError("stopCollectingMetrics without a start before it", where=where)
        collecting = isinstance(op, StartCollectingMetrics) or (
            collecting and not isinstance(op, StopCollectingMetrics)
        )


def _check_unique(names: Iterable[str], where: str, what: str) -> None:
    for name, count in Counter(names).items():
        if not name:
            raise InputError(f"a {what} has no name", where=where)
        if count > 1:
            raise InputError(f"the {what} {name!r} comes twice", where=where)


def _measures(op: Op) -> bool:
    if isinstance(op, CreatePodSets):
        op = op.create_pods_op
    return isinstance(op, StartCollectingMetrics) or (
        isinstance(op, CreatePods) and op.collect_metrics
    )


def _op_problem(op: Op) -> str:
    for name, param in _params_of(op):
        if not param.startswith("$") or len(param) < 2:
            return f"{_camel(name)} must be `$` and a parameter's name, not {param!r}"
        if getattr(op, name.removesuffix(_PARAM_SUFFIX)):
            return (
                f"{_camel(name)} and {_camel(name.removesuffix(_PARAM_SUFFIX))} exclude each other"
            )
    match op:
        case CreateNodes():
            return _nodes_problem(op)
        case CreatePods():
            return _pods_problem(op)
        case CreatePodSets():
            if op.create_pods_op.namespace:
                return "createPodsOp.namespace is decided by namespacePrefix"
            return _op_problem(op.create_pods_op)
        case Churn():
            return _churn_problem(op)
        case Barrier() if op.stage_requirement not in _STAGES:
            return f"stageRequirement must be one of {', '.join(_STAGES)}"
        case DeletePods() if op.delete_pods_per_second < 0:
            return "deletePodsPerSecond must not be negative"
        case StartCollectingMetrics() if not op.namespaces:
            return "namespaces must not be empty"
        case _:
            return ""


def _nodes_problem(op: CreateNodes) -> str:
    strategies = (
        op.node_allocatable_strategy,
        op.label_node_prepare_strategy,
        op.unique_node_label_strategy,
    )
    if sum(strategy is not None for strategy in strategies) > 1:
        return "only one strategy can prepare the nodes"
    labels = op.label_node_prepare_strategy
    if labels is not None and not labels.label_values:
        return "labelNodePrepareStrategy.labelValues must not be empty"
    return ""


def _pods_problem(op: CreatePods) -> str:
    steady = op.steady_state or op.steady_state_param
    if op.skip_wait_to_completion and (op.collect_metrics or steady):
        return "skipWaitToCompletion excludes collectMetrics and steadyState"
    volume, claim = op.persistent_volume_template_path, op.persistent_volume_claim_template_path
    if bool(volume) != bool(claim):
        return "persistentVolumeTemplatePath and persistentVolumeClaimTemplatePath go together"
    return ""


def _churn_problem(op: Churn) -> str:
    if op.mode not in _CHURN_MODES:
        return f"mode must be one of {', '.join(_CHURN_MODES)}"
    if op.number < 0 or op.interval_milliseconds < 0:
        return "number and intervalMilliseconds must not be negative"
    if op.mode == "recreate" and op.number == 0:
        return "mode recreate needs a number above 0"
    if not op.template_paths:
        return "templatePaths must not be empty"
    return ""


# -- parameters -----------------------------------------------------------------------------


@dataclass(slots=True)
class _Params:
    params: Mapping[str, Value]
    where: str
    used: set[str] = field(default_factory=set)

    def fill(self, op: Op, index: int) -> Op:
        where = f"{self.where}: workloadTemplate[{index}]"
        changes: dict[str, Any] = {}
        for name, param in _params_of(op):
            plain = name.removesuffix(_PARAM_SUFFIX)
            changes[plain] = self._value(param.removeprefix("$"), plain, where)
            changes[name] = ""
        if isinstance(op, CreatePodSets):
            changes["create_pods_op"] = self.fill(op.create_pods_op, index)
        filled = msgspec.structs.replace(op, **changes) if changes else op
        return _defaulted(filled, where, counted=bool(changes.get("count") is not None))

    def _value(self, name: str, field_name: str, where: str) -> Value:
        if name not in self.params:
            raise InputError(f"the workload has no parameter {name!r}", where=where)
        self.used.add(name)
        value = self.params[name]
        wanted = {"steady_state": bool, "duration": str}.get(field_name, int)
        if type(value) is not wanted:
            raise InputError(
                f"{_camel(field_name)} needs {_KINDS[wanted]}, not {value!r} (of ${name})",
                where=where,
            )
        return value

    def check_used(self) -> None:
        unused = [name for name in self.params if name not in self.used]
        if unused:
            raise InputError(
                f"no op uses the parameter {', '.join(map(repr, unused))}", where=self.where
            )


_KINDS = {int: "a whole number", bool: "true or false", str: "a duration such as 10s"}


def _defaulted(op: Op, where: str, *, counted: bool) -> Op:
    """Check the numbers and durations; leave nothing to be defaulted later."""
    if type(op).__struct_config__.tag in _COUNTED_ONCE and not counted and not op.count:  # type: ignore[union-attr]
        op = msgspec.structs.replace(op, count=1)
    count = getattr(op, "count", 0)
    if count < 0:
        raise InputError(f"count must not be negative, and is {count}", where=where)
    duration = getattr(op, "duration", "")
    if duration:
        try:
            Duration.parse(duration)
        except ValueError as error:
            raise InputError(str(error), where=f"{where}: duration") from None
    return op


def _params_of(op: Op) -> list[tuple[str, str]]:
    return [
        (name, getattr(op, name))
        for name in op.__struct_fields__
        if name.endswith(_PARAM_SUFFIX) and getattr(op, name)
    ]


def _camel(name: str) -> str:
    """
    >>> _camel("count_param")
    'countParam'
    """
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
