"""What each op does to the cluster.

One generator per opcode (see `stage` for how they run), all through the port: they neither know
nor care whether the cluster is the embedded one.  `run` calls `carry_out` for one op after the
other.  Pods are made in `pod_ops`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from stowplan.bench import opcodes
from stowplan.bench.device_ops import (
    alloc_resource_claims,
    create_resource_claims,
    create_resource_driver,
)
from stowplan.bench.making import BASE_NODE, Act
from stowplan.bench.measure import Collection
from stowplan.bench.opcodes import Op
from stowplan.bench.pod_ops import create_pods, start_measuring, stop_measuring
from stowplan.bench.stage import Stage, Steps
from stowplan.cluster.port import call_one, ignore_all
from stowplan.config import Duration
from stowplan.errors import AlreadyExists, ApiError, InputError
from stowplan.objects.api import Create, Delete, Update
from stowplan.objects.base import KubeObject, ObjectMeta
from stowplan.objects.kinds import CSI_NODE, NAMESPACE, NODE, POD, Kind
from stowplan.objects.labels import selector_from_map
from stowplan.objects.pod import Pod
from stowplan.objects.storage import CSINode, CSINodeDriver, CSINodeSpec, VolumeNodeResources

RETRY_S_MAX = 20.0
HOSTNAME = "kubernetes.io/hostname"
MIGRATED = "storage.alpha.kubernetes.io/migrated-plugins"


def carry_out(act: Act, op: Op) -> Steps[None]:
    return _CARRIED_OUT_BY[type(op)](act, op)


# -- nodes and namespaces -------------------------------------------------------------------


def _create_nodes(act: Act, op: opcodes.CreateNodes) -> Steps[None]:
    stage = act.stage
    act.meter.announce(f"creating {op.count:,} nodes", 0)

    def requests() -> Iterator[Create]:
        for number in range(op.count):
            name, body = _node(act, op, number)
            stage.created.append((NODE, name))
            yield Create(NODE, "", body)
            if op.node_allocatable_strategy is not None:
                stage.created.append((CSI_NODE, name))
                yield Create(CSI_NODE, "", _csi_node(op, name))

    yield from stage.send(requests(), workers=1 if stage.whole_objects else 30)
    stage.node_count += op.count


def _node(act: Act, op: opcodes.CreateNodes, number: int) -> tuple[str, Any]:
    """Labels and amounts are there from the start; upstream patches them in, to the same end."""
    data = act.make.data(op.node_template_path or BASE_NODE, number, op.count)
    metadata, status = dict(data.get("metadata", {})), dict(data.get("status", {}))
    prefix = metadata.pop("generateName", "")
    name = metadata.setdefault("name", f"{prefix}{act.stage.node_count + number}")
    labels = {**metadata.get("labels", {}), HOSTNAME: name}
    if op.label_node_prepare_strategy is not None:
        values = op.label_node_prepare_strategy.label_values
        labels[op.label_node_prepare_strategy.label_key] = values[number % len(values)]
    if op.unique_node_label_strategy is not None:
        labels[op.unique_node_label_strategy.label_key] = (
            f"{act.stage.random.getrandbits(128):032x}"
        )
    if op.node_allocatable_strategy is not None:
        allocatable = status.get("allocatable") or status.get("capacity", {})
        added = op.node_allocatable_strategy.node_allocatable
        status["allocatable"] = {**allocatable, **added}
    if op.declared_features:
        status["declaredFeatures"] = [f"Feature{n:03}" for n in range(op.declared_features)]
    body = {**data, "metadata": {**metadata, "labels": labels}, "status": status}
    return name, act.make.body(NODE, body)


def _csi_node(op: opcodes.CreateNodes, name: str) -> CSINode:
    strategy = op.node_allocatable_strategy
    assert strategy is not None
    drivers = [
        CSINodeDriver(name=driver, node_id=name, allocatable=VolumeNodeResources(count=limit.count))
        for driver, limit in strategy.csi_node_allocatable.items()
    ]
    migrated = ",".join(strategy.migrated_plugins)
    annotations = {MIGRATED: migrated} if migrated else None
    return CSINode(
        metadata=ObjectMeta(name=name, annotations=annotations), spec=CSINodeSpec(drivers=drivers)
    )


def _create_namespaces(act: Act, op: opcodes.CreateNamespaces) -> Steps[None]:
    for number in range(op.count):
        name = f"{op.prefix}-{number}"
        body: Any = {"metadata": {"name": name}}
        if op.namespace_template_path:
            data = act.make.data(op.namespace_template_path, number, op.count)
            metadata = {**data.get("metadata", {}), "name": name}
            metadata.pop("generateName", None)
            body = {**data, "metadata": metadata}
        yield from act.stage.ask(Create(NAMESPACE, "", act.make.body(NAMESPACE, body)))
        act.stage.known.add((NAMESPACE.name, name))
        act.stage.created.append((NAMESPACE, name))


def _create_pod_sets(act: Act, op: opcodes.CreatePodSets) -> Steps[None]:
    for number in range(op.count):
        yield from create_pods(act, op.create_pods_op, f"{op.namespace_prefix}-{number}")


# -- pods go --------------------------------------------------------------------------------


def _delete_pods(act: Act, op: opcodes.DeletePods) -> Steps[None]:
    pods = yield from act.stage.list_pods(op.namespace, op.label_selector)
    deleting = _delete(act.stage, pods, op.delete_pods_per_second)
    if op.skip_wait_to_completion:
        act.stage.play_in_background(deleting)
    else:
        yield from deleting


def _delete(stage: Stage, pods: list[Pod], per_second: int) -> Steps[None]:
    requests = [Delete(POD, pod.namespace, pod.name, uid=pod.uid) for pod in pods]
    if per_second:
        yield from _paced(stage, requests, per_second)
    else:
        yield from stage.send(requests)


def _paced(stage: Stage, requests: list[Any], per_second: int) -> Steps[None]:
    """So many in a second; what is late is made up for, what fails is let go."""
    started_s = stage.clock.now()
    for number, request in enumerate(requests):
        while not stage.ended and stage.clock.now() < started_s + number / per_second:
            yield max(0.0, started_s + number / per_second - stage.clock.now())
        if stage.ended:
            return
        stage.cluster.call([request], ignore_all)
    yield 0.0


# -- objects of any kind --------------------------------------------------------------------


def _churn(act: Act, op: opcodes.Churn) -> Steps[None]:
    namespace = act.namespace(op.namespace)
    yield from act.make.ensure_namespace(namespace)
    for path in op.template_paths:
        yield from act.make.prepare(path)
    coming_and_going = _recreate if op.mode == "recreate" else _create_on_and_on
    act.stage.play_in_background(coming_and_going(act, op, namespace))


def _create_on_and_on(act: Act, op: opcodes.Churn, namespace: str) -> Steps[None]:
    number = 0
    while not act.stage.ended and (op.number == 0 or number < op.number):
        _create_each(act, op, namespace, number, [])
        number += 1
        yield op.interval_milliseconds / 1000


def _recreate(act: Act, op: opcodes.Churn, namespace: str) -> Steps[None]:
    pause_s = op.interval_milliseconds / 1000
    number = 0
    while not act.stage.ended:
        created: list[list[Delete]] = []
        for _ in range(op.number):
            undo: list[Delete] = []
            created.append(undo)
            _create_each(act, op, namespace, number, undo)
            number += 1
            yield pause_s
        for undo in created:
            act.stage.cluster.call(undo, ignore_all)
            yield pause_s


def _create_each(
    act: Act, op: opcodes.Churn, namespace: str, number: int, undo: list[Delete]
) -> None:
    """One object of each template; notes how to delete what was created."""

    def note(kind: Kind, answer: Any) -> None:
        if isinstance(answer, KubeObject):
            undo.append(Delete(kind, answer.namespace, answer.name, grace_period_seconds=0))

    for path in op.template_paths:
        kind, body = act.make.thing(path, number, max(1, op.number))
        request = Create(kind, namespace if kind.namespaced else "", body)
        call_one(act.stage.cluster, request, partial(note, kind))


def _create_any(act: Act, op: opcodes.CreateAny) -> Steps[None]:
    stage = act.stage
    yield from act.make.ensure_namespace(op.namespace)
    for number in range(op.count):
        kind, body = act.make.thing(op.template_path, number, op.count)
        request = Create(kind, op.namespace if kind.namespaced else "", body)
        deadline_s = stage.clock.now() + RETRY_S_MAX
        while True:
            try:
                created = yield from stage.ask(request)
                break
            except AlreadyExists:
                raise
            except ApiError:
                if stage.clock.now() > deadline_s:
                    raise
                yield 1.0
        if created is not None and not kind.namespaced:
            stage.created.append((kind, created.name))


def _update_any(act: Act, op: opcodes.UpdateAny) -> Steps[None]:
    stage = act.stage
    started_s = stage.clock.now()
    for number in range(op.count):
        kind = act.make.stencil(op.template_path).kind
        data = act.make.data(op.template_path, number, op.count)
        name = data.get("metadata", {}).get("name", "")
        if not name:
            raise InputError("an update needs a `metadata.name`", where=op.template_path)
        namespace = op.namespace if kind.namespaced else ""
        if op.update_per_second:
            due_s = started_s + number / op.update_per_second
            while stage.clock.now() < due_s:
                yield max(0.0, due_s - stage.clock.now())
        plain = {key: value for key, value in data.items() if key != "status"}
        for subresource in op.subresources or [""]:
            yield from stage.ask(Update(kind, namespace, name, plain, subresource))
        if "status" in data and "status" not in op.subresources:
            yield from stage.ask(Update(kind, namespace, name, data, "status"))


# -- waiting and measuring ------------------------------------------------------------------


def _barrier(act: Act, op: opcodes.Barrier) -> Steps[None]:
    stage, tally = act.stage, act.stage.tally
    selector = selector_from_map(op.label_selector)
    settled = _attempted if op.stage_requirement == "Attempted" else _never
    namespaces = op.namespaces or list(stage.recorded)
    uids = [uid for namespace in namespaces for uid in stage.recorded[namespace]]

    def is_settled(uid: str) -> bool:
        pod = tally.waiting.get(uid)
        if pod is None:
            return uid in tally.settled
        return not selector.matches(pod.metadata.labels or {}) or settled(pod)

    def left() -> list[str]:
        return [tally.key_of(uid) for uid in uids if not is_settled(uid)]

    for uid in uids:
        yield from stage.wait(partial(is_settled, uid), left)


def _never(pod: Pod) -> bool:
    return False


def _attempted(pod: Pod) -> bool:
    """The scheduler has said something about it; gated pods are told so by the API server."""
    return any(condition.type == "PodScheduled" for condition in pod.status.conditions or ())


def _sleep(act: Act, op: opcodes.Sleep) -> Steps[None]:
    yield Duration.parse(op.duration or "0").seconds


def _start_collecting(act: Act, op: opcodes.StartCollectingMetrics) -> Steps[None]:
    selector = selector_from_map(op.label_selector) if op.label_selector else None
    collection = Collection(op.name or "collection", frozenset(op.namespaces), selector)
    return start_measuring(act, collection)


def _create_pods(act: Act, op: opcodes.CreatePods) -> Steps[None]:
    return create_pods(act, op, act.namespace(op.namespace))


def _stop_collecting(act: Act, op: opcodes.StopCollectingMetrics) -> Steps[None]:
    return stop_measuring(act)


_CARRIED_OUT_BY: dict[type, Callable[[Act, Any], Steps[None]]] = {
    opcodes.CreateNodes: _create_nodes,
    opcodes.CreateNamespaces: _create_namespaces,
    opcodes.CreatePods: _create_pods,
    opcodes.CreatePodSets: _create_pod_sets,
    opcodes.DeletePods: _delete_pods,
    opcodes.Churn: _churn,
    opcodes.CreateAny: _create_any,
    opcodes.UpdateAny: _update_any,
    opcodes.Barrier: _barrier,
    opcodes.Sleep: _sleep,
    opcodes.StartCollectingMetrics: _start_collecting,
    opcodes.StopCollectingMetrics: _stop_collecting,
    opcodes.CreateResourceDriver: create_resource_driver,
    opcodes.CreateResourceClaims: create_resource_claims,
    opcodes.AllocResourceClaims: alloc_resource_claims,
}
