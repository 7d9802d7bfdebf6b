"""Subresources with a shape of their own: scale, binding, eviction.

Each reads, decides and writes in one go, in one turn of the loop.  Mirrors
`pkg/registry/core/pod/storage` and `pkg/registry/apps/*/storage`.
"""

from __future__ import annotations

from typing import Any

from stowplan.apiserver import answers
from stowplan.apiserver.http.encoding import Item
from stowplan.apiserver.http.options import DeleteQuery, delete_query
from stowplan.apiserver.http.paths import Target
from stowplan.apiserver.http.status import CausedError
from stowplan.apiserver.http.table_cells import selector_text
from stowplan.apiserver.patch import apply_patch
from stowplan.apiserver.store import Store, view
from stowplan.cluster.port import ListOptions
from stowplan.errors import ApiError, BadRequest
from stowplan.objects.api import Bind, Delete, Patch
from stowplan.objects.base import KubeObject
from stowplan.objects.kinds import POD, POD_DISRUPTION_BUDGET, Kind
from stowplan.objects.labels import compile_selector
from stowplan.objects.pod import ENDED_PHASES, Pod
from stowplan.objects.workloads import PodDisruptionBudget

Data = dict[str, Any]

_SCALE = Kind("autoscaling", "v1", "Scale", "scales", True, KubeObject)


# Scale.


def scale_of(target: Target, item: Item) -> Data:
    data = view(target.resource.kind, *item)
    metadata, spec, status = (data.get(key) or {} for key in ("metadata", "spec", "status"))
    shown = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    selector = selector_text(spec.get("selector"))
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {key: metadata[key] for key in shown if key in metadata},
        "spec": {"replicas": spec["replicas"]} if spec.get("replicas") else {},
        "status": {
            "replicas": status.get("replicas", 0),
            "selector": "" if selector == "<none>" else selector,
        },
    }


def put_scale(store: Store, target: Target, body: Data) -> Data:
    store.read(target.resource.kind, target.namespace, target.name)
    spec, metadata = body.get("spec") or {}, body.get("metadata") or {}
    replicas = spec.get("replicas", 0)
    if not isinstance(replicas, int) or isinstance(replicas, bool):
        raise BadRequest(f"spec.replicas must be a number, not {replicas!r}")
    if replicas < 0:
        problem = answers.invalid("spec.replicas", replicas, "must be greater than or equal to 0")
        raise answers.InvalidObject(_SCALE, target.name, [problem])
    patch: Data = {"spec": {"replicas": replicas}}
    # Only what the client knows is a precondition.
    known = {key: metadata[key] for key in ("uid", "resourceVersion") if metadata.get(key)}
    if known:
        patch["metadata"] = known
    request = Patch(target.resource.kind, target.namespace, target.name, patch, "merge")
    thing, rest = store.execute_whole(request)
    assert thing is not None, "a patch is answered with the object"
    return scale_of(target, (thing, rest))


def patch_scale(store: Store, target: Target, patch_type: str, body: Any) -> Data:
    current = scale_of(target, store.read(target.resource.kind, target.namespace, target.name))
    patched = apply_patch(patch_type, "Scale", current, body)
    if patched.get("metadata", {}).get("resourceVersion") == current["metadata"]["resourceVersion"]:
        patched = {**patched, "metadata": {}}
    return put_scale(store, target, patched)


# Binding.


def binding_request(namespace: str, name: str, body: Data) -> Bind:
    metadata, wanted = body.get("metadata") or {}, body.get("target") or {}
    check_namespace(namespace, metadata)
    if name and metadata.get("name") != name:
        raise BadRequest("name in URL does not match name in Binding object")
    kind, node = wanted.get("kind", ""), wanted.get("name", "")
    # These two are no Status of their own upstream, so they come out as 500.
    if kind not in ("", "Node"):
        raise answers.internal(
            f'target.kind: Unsupported value: "{kind}": supported values: "Node", "<empty>"'
        )
    if not node:
        raise answers.internal("target.name: Required value")
    uid, annotations = metadata.get("uid", ""), metadata.get("annotations")
    return Bind(namespace, metadata.get("name", ""), uid, node, annotations)


# Eviction.


def evict(store: Store, namespace: str, name: str, body: Data, *, dry_run: bool) -> None:
    """Delete a pod if its disruption budget allows; 429 if not now."""
    metadata = body.get("metadata") or {}
    check_namespace(namespace, metadata)
    if metadata.get("name") != name:
        raise BadRequest("name in URL does not match name in Eviction object")
    pod, _ = store.read(POD, namespace, name)
    assert isinstance(pod, Pod)
    options = delete_query({}, body.get("deleteOptions") or {})
    check_preconditions(POD, pod, options)
    budget = None if _needs_no_budget(pod) else _budget_of(store, pod)
    if budget is not None:
        _spend(store, budget, pod, dry_run=dry_run)
    if not dry_run:
        grace_s = options.grace_period_s
        store.execute(Delete(POD, namespace, name, uid=pod.uid, grace_period_seconds=grace_s))


def check_preconditions(kind: Kind, thing: KubeObject, options: DeleteQuery) -> None:
    """Raise 409 unless the object is the one, and as, that the client means."""
    if options.uid and options.uid != thing.uid:
        raise answers.wrong_uid_to_delete(kind, thing.name, options.uid, thing.uid)
    found = thing.metadata.resource_version
    if options.resource_version and options.resource_version != found:
        raise answers.conflict(
            kind,
            thing.name,
            f"the ResourceVersion in the precondition ({options.resource_version}) does not match "
            f"the ResourceVersion in record ({found}). The object might have been modified",
            called=kind.name,
        )


def check_namespace(namespace: str, metadata: Data) -> None:
    if (metadata.get("namespace") or namespace) != namespace:
        raise BadRequest(
            "the namespace of the provided object does not match the namespace sent on the request"
        )


def _needs_no_budget(pod: Pod) -> bool:
    """Whoever is not there yet, or not any more, is not disrupted."""
    phase = pod.status.phase
    return (
        phase in ENDED_PHASES or phase == "Pending" or pod.metadata.deletion_timestamp is not None
    )


def _budget_of(store: Store, pod: Pod) -> PodDisruptionBudget | None:
    labels = pod.metadata.labels or {}
    items, _ = store.select(POD_DISRUPTION_BUDGET, ListOptions(pod.namespace))
    found = [
        thing
        for thing, _ in items
        if isinstance(thing, PodDisruptionBudget)
        and thing.spec.selector is not None
        and compile_selector(thing.spec.selector).matches(labels)
    ]
    if len(found) > 1:
        raise ApiError(
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does "
            "not support."
        )
    return found[0] if found else None


def _spend(store: Store, budget: PodDisruptionBudget, pod: Pod, *, dry_run: bool) -> None:
    status = view(
        POD_DISRUPTION_BUDGET, *store.read(POD_DISRUPTION_BUDGET, pod.namespace, budget.name)
    ).get("status", {})
    healthy, wanted = status.get("currentHealthy", 0), status.get("desiredHealthy", 0)
    if not _is_ready(pod) and healthy >= wanted > 0:
        # It does not count as healthy, so nothing is lost with it.
        return
    left = int(status.get("disruptionsAllowed", 0))
    if left <= 0:
        raise CausedError(
            "Cannot evict pod as it would violate the pod's disruption budget.",
            code=429,
            reason="TooManyRequests",
            causes=[
                {
                    "reason": "DisruptionBudget",
                    "message": f"The disruption budget {budget.name} needs {wanted} healthy pods "
                    f"and has {healthy} currently",
                }
            ],
        )
    if not dry_run:
        patch = {"status": {"disruptionsAllowed": left - 1}}
        request = Patch(
            POD_DISRUPTION_BUDGET, budget.namespace, budget.name, patch, "merge", "status"
        )
        store.execute(request)


def _is_ready(pod: Pod) -> bool:
    return any(
        condition.type == "Ready" and condition.status == "True"
        for condition in pod.status.conditions or ()
    )
