"""createPods: make the pods, have them created while the scheduler works, wait, and measure.

Everything that can be made beforehand is: what is measured is the cluster and the scheduler, not
the templates.  Called by `ops`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from stowplan.bench.making import BASE_POD, Act, Body, with_claim
from stowplan.bench.measure import Collection
from stowplan.bench.opcodes import CreatePods
from stowplan.bench.stage import Steps
from stowplan.config import Duration
from stowplan.objects.api import Create, Delete
from stowplan.objects.base import KubeObject
from stowplan.objects.kinds import PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, POD
from stowplan.objects.pod import Pod

_BOUND = "pv.kubernetes.io/bind-completed"


def create_pods(act: Act, op: CreatePods, namespace: str) -> Steps[None]:
    stage = act.stage
    path = _pod_path(act, op)
    yield from act.make.ensure_namespace(namespace)
    yield from act.make.prepare(path)
    requests = _requests(act, op, path, namespace)
    act.meter.announce("measuring" if op.collect_metrics else "filling the cluster", op.count)
    if op.collect_metrics:
        yield from start_measuring(act, Collection(namespace, frozenset([namespace])))
    if op.steady_state:
        yield from _steady(act, op, namespace, requests)
    elif op.skip_wait_to_completion:
        yield from _create(act, requests, stage.recorded[namespace])
    else:
        yield from _create_and_wait(act, requests)
    if op.collect_metrics:
        yield from stop_measuring(act)


def start_measuring(act: Act, collection: Collection) -> Steps[None]:
    """Once nothing of what came before is under way."""
    yield from act.stage.wait(act.stage.at_rest, list)
    act.meter.start(collection)


def stop_measuring(act: Act) -> Steps[None]:
    """At the very end: every binding confirmed by the watch, every event written."""
    yield from act.stage.wait(act.stage.at_rest, list)
    act.meter.stop()


def _pod_path(act: Act, op: CreatePods) -> str:
    return op.pod_template_path or act.workload.default_pod_template or BASE_POD


def _create_and_wait(act: Act, requests: list[Create]) -> Steps[None]:
    uids: list[str] = []
    yield from _create(act, requests, uids)
    yield from act.stage.wait_placed(uids)


def _create(act: Act, requests: list[Create], uids: list[str]) -> Steps[None]:
    """Notes the uids of the pods among what is created."""

    def note(things: Sequence[KubeObject | None]) -> None:
        uids.extend([thing.metadata.uid for thing in things if isinstance(thing, Pod)])

    yield from act.stage.send(requests, on_answers=note)


def _steady(act: Act, op: CreatePods, namespace: str, requests: list[Create]) -> Steps[None]:
    """Fill, empty, fill again, until the time is over."""
    stage = act.stage
    deadline_s = stage.clock.now() + Duration.parse(op.duration or "0").seconds
    while True:
        yield from _create_and_wait(act, requests)
        if stage.clock.now() >= deadline_s:
            return
        pods = yield from stage.list_pods(namespace, {})
        yield from stage.send(
            Delete(POD, namespace, pod.name, grace_period_seconds=0) for pod in pods
        )


def _requests(act: Act, op: CreatePods, path: str, namespace: str) -> list[Create]:
    """All of them, made: what replicas share is shared."""
    if op.persistent_volume_template_path:
        return list(_with_volumes(act, op, path, namespace))
    if act.make.stencil(path).varies:
        numbers = range(op.count)
        return [Create(POD, namespace, act.make.thing(path, n, op.count)[1]) for n in numbers]
    return [Create(POD, namespace, act.make.thing(path, 0, op.count)[1])] * op.count


def _with_volumes(act: Act, op: CreatePods, path: str, namespace: str) -> Iterator[Create]:
    for number in range(op.count):
        volume, claim = _volume_and_claim(act, op, namespace, number)
        yield Create(PERSISTENT_VOLUME, "", volume)
        yield Create(PERSISTENT_VOLUME_CLAIM, namespace, claim)
        body = act.make.thing(path, number, op.count)[1]
        yield Create(POD, namespace, with_claim(body, f"pvc-{number}"))


def _volume_and_claim(act: Act, op: CreatePods, namespace: str, number: int) -> tuple[Body, Body]:
    """A claim `pvc-<i>` and the volume that it is bound to already."""
    claim_name, volume_name = f"pvc-{number}", f"pv-{namespace}-{number}"
    volume = act.make.data(op.persistent_volume_template_path, number, op.count)
    claim = act.make.data(op.persistent_volume_claim_template_path, number, op.count)
    reference = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": namespace,
        "name": claim_name,
    }
    bound_claim = {
        **claim,
        "metadata": _named(claim, claim_name, {_BOUND: "yes"}),
        "spec": {**claim.get("spec", {}), "volumeName": volume_name},
    }
    bound_volume = {
        **volume,
        "metadata": _named(volume, volume_name, {}),
        "spec": _with_own_source({**volume.get("spec", {}), "claimRef": reference}, volume_name),
    }
    act.stage.created.append((PERSISTENT_VOLUME, volume_name))
    return (
        act.make.body(PERSISTENT_VOLUME, bound_volume),
        act.make.body(PERSISTENT_VOLUME_CLAIM, bound_claim),
    )


def _named(data: dict[str, Any], name: str, annotations: dict[str, str]) -> dict[str, Any]:
    metadata = {**data.get("metadata", {}), "name": name}
    metadata.pop("generateName", None)
    found = {**metadata.get("annotations", {}), **annotations}
    return {**metadata, "annotations": found} if found else metadata


def _with_own_source(spec: dict[str, Any], volume: str) -> dict[str, Any]:
    """Each volume is a disk of its own: nodes count disks, not objects."""
    if "csi" in spec:
        return {**spec, "csi": {**spec["csi"], "volumeHandle": volume}}
    if "awsElasticBlockStore" in spec:
        return {
            **spec,
            "awsElasticBlockStore": {**spec["awsElasticBlockStore"], "volumeID": volume},
        }
    return spec
