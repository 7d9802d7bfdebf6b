"""Claims of pods: made from templates, given back when pods end, deleted when nobody needs them.

A pod that names a template gets a claim of its own, and its status says which.  A reservation goes
when its pod has ended or gone; with the last one goes the allocation, and so the devices are free.
Mirrors `pkg/controller/resourceclaim`.
"""

from __future__ import annotations

from typing import Any

from msgspec import to_builtins

from stowplan.apiserver.controllers.calls import Calls
from stowplan.apiserver.controllers.reporting import Reporter
from stowplan.apiserver.controllers.shared import Shared
from stowplan.cluster.port import Answer, call_one
from stowplan.errors import ApiError, NotFound
from stowplan.objects.api import Create, Delete, Get, Patch
from stowplan.objects.base import KubeObject, ObjectMeta, OwnerReference
from stowplan.objects.devices import ConsumerReference, ResourceClaim, ResourceClaimTemplate
from stowplan.objects.kinds import POD, POD_GROUP, RESOURCE_CLAIM, RESOURCE_CLAIM_TEMPLATE
from stowplan.objects.pod import ENDED_PHASES, Pod, PodResourceClaim

POD_CLAIM_NAME = "resource.kubernetes.io/pod-claim-name"
FINALIZER = "resource.kubernetes.io/delete-protection"
RESERVED_MAX = 256
NAME_BASE_MAX = 57
GONE_MAX = 500
"""Pods that are remembered to have gone."""

_FOR_POD, _FOR_CLAIM = "pod:", "claim:"


class ResourceClaimController:
    def __init__(self, shared: Shared, *, with_groups: bool = False) -> None:
        """`with_groups`: claims may be reserved for groups of pods."""
        self._shared = shared
        self.queue = shared.queue("resource claim", self.sync)
        self.calls = Calls(shared, self.queue)
        self._reporter = Reporter(shared, "resource-claim-controller")
        self._users: dict[str, set[str]] = {}
        """Claims and templates, by kind and key -> the pods that name them."""
        self._gone: dict[str, bool] = {}
        """The uids of pods and groups that were deleted."""
        self._consumers = {("", POD.plural): POD}
        """Whom claims are reserved for."""
        shared.listen(POD, self._pod_changed)
        if with_groups:
            self._consumers[POD_GROUP.group, POD_GROUP.plural] = POD_GROUP
            shared.listen(POD_GROUP, self._group_changed)
        shared.listen(RESOURCE_CLAIM, self._claim_changed)
        shared.listen(RESOURCE_CLAIM_TEMPLATE, self._template_changed)

    # What happens to pods, claims and templates.

    def _pod_changed(self, old: KubeObject | None, new: KubeObject | None) -> None:
        pod = new if new is not None else old
        assert isinstance(pod, Pod)
        if not pod.spec.resource_claims and pod.status.extended_resource_claim_status is None:
            return
        if new is None:
            self._note_gone(pod.uid)
        for key in _named_by(pod):
            users = self._users.setdefault(key, set())
            if new is not None:
                users.add(pod.key)
            else:
                users.discard(pod.key)
                if not users:
                    del self._users[key]
        if new is None or is_done(pod):
            for name in _claim_names(pod):
                self.queue.add(f"{_FOR_CLAIM}{pod.namespace}/{name}")
        elif pod.metadata.deletion_timestamp is None and self._lacks(pod):
            self.queue.add(f"{_FOR_POD}{pod.key}")

    def _group_changed(self, old: KubeObject | None, new: KubeObject | None) -> None:
        if new is not None or old is None:
            return
        self._note_gone(old.uid)
        for claim in self._shared.in_namespace(RESOURCE_CLAIM, old.namespace):
            if isinstance(claim, ResourceClaim) and any(
                it.uid == old.uid for it in claim.status.reserved_for or ()
            ):
                self.queue.add(f"{_FOR_CLAIM}{claim.key}")

    def _note_gone(self, uid: str) -> None:
        self._gone[uid] = True
        if len(self._gone) > GONE_MAX:
            del self._gone[next(iter(self._gone))]

    def _claim_changed(self, old: KubeObject | None, new: KubeObject | None) -> None:
        if isinstance(new, ResourceClaim) and self._can_shrink(new):
            self.queue.add(f"{_FOR_CLAIM}{new.key}")
        claim = new if new is not None else old
        assert claim is not None
        self._wake_users(f"{_FOR_CLAIM}{claim.key}")

    def _template_changed(self, old: KubeObject | None, new: KubeObject | None) -> None:
        if new is not None:
            self._wake_users(f"template:{new.key}")

    def _wake_users(self, key: str) -> None:
        for user in self._users.get(key, ()):
            pod = self._shared.get(POD, user)
            if isinstance(pod, Pod) and not is_done(pod) and self._lacks(pod):
                self.queue.add(f"{_FOR_POD}{user}")

    def sync(self, key: str) -> None:
        if not self.calls.settled(key):
            return
        prefix, _, name = key.partition(":")
        if prefix == "pod":
            pod = self._shared.get(POD, name)
            if isinstance(pod, Pod) and pod.metadata.deletion_timestamp is None:
                self._sync_pod(key, pod)
            return
        claim = self._shared.get(RESOURCE_CLAIM, name)
        if isinstance(claim, ResourceClaim):
            self._sync_claim(key, claim)

    # Pods.

    def _lacks(self, pod: Pod) -> bool:
        """Whether a claim of the pod is still to be made, or to be reserved."""
        if any(not self._has_claim(pod, it) for it in pod.spec.resource_claims or ()):
            return True
        return bool(pod.spec.node_name) and any(self._unreserved(pod))

    def _has_claim(self, pod: Pod, wanted: PodResourceClaim) -> bool:
        if wanted.resource_claim_template_name is None:
            return True
        known = [it for it in pod.status.resource_claim_statuses or () if it.name == wanted.name]
        if not known:
            return False
        name = known[0].resource_claim_name
        claim = (
            None if name is None else self._shared.get(RESOURCE_CLAIM, f"{pod.namespace}/{name}")
        )
        return name is None or (claim is not None and _is_for(claim, pod))

    def _unreserved(self, pod: Pod) -> list[ResourceClaim]:
        """The claims of a pod that got its node without them being reserved for it."""
        names = _claim_names(pod) if pod.spec.resource_claims else ()
        found = (self._shared.get(RESOURCE_CLAIM, f"{pod.namespace}/{name}") for name in names)
        return [
            claim
            for claim in found
            if isinstance(claim, ResourceClaim)
            and claim.status.allocation is not None
            and len(claim.status.reserved_for or ()) < RESERVED_MAX
            and all(it.uid != pod.uid for it in claim.status.reserved_for or ())
        ]

    def _sync_pod(self, key: str, pod: Pod) -> None:
        made = []
        for wanted in pod.spec.resource_claims or ():
            if self._has_claim(pod, wanted):
                continue
            claim = self._made_for(pod, wanted)
            if claim is not None:
                made.append({"name": wanted.name, "resourceClaimName": claim.name})
            else:
                self._make(key, pod, wanted)
        if made:
            body = {"metadata": {"uid": pod.uid}, "status": {"resourceClaimStatuses": made}}
            request = Patch(POD, pod.namespace, pod.name, body, "strategic", "status")
            self.calls.send(key, request)
        for claim in self._unreserved(pod) if pod.spec.node_name else ():
            consumer = {"resource": "pods", "name": pod.name, "uid": pod.uid}
            self._patch(key, claim, {"status": {"reservedFor": [consumer]}}, "status")

    def _made_for(self, pod: Pod, wanted: PodResourceClaim) -> KubeObject | None:
        for claim in self._shared.owned(RESOURCE_CLAIM, pod.uid):
            if (claim.metadata.annotations or {}).get(POD_CLAIM_NAME) == wanted.name:
                return claim
        return None

    def _make(self, key: str, pod: Pod, wanted: PodResourceClaim) -> None:
        name = wanted.resource_claim_template_name
        template = self._shared.get(RESOURCE_CLAIM_TEMPLATE, f"{pod.namespace}/{name}")
        if not isinstance(template, ResourceClaimTemplate):
            why = f'resourceclaimtemplate.resource.k8s.io "{name}" not found'
            # A template that comes wakes the pod.
            self._failed(pod, wanted, f'resource claim template "{name}": {why}')
            return

        def tell(answer: Answer) -> None:
            if isinstance(answer, ApiError):
                self._failed(pod, wanted, f"create ResourceClaim : {answer.message}")

        self.calls.send(
            key, Create(RESOURCE_CLAIM, pod.namespace, _claim(pod, wanted, template)), tell
        )

    def _failed(self, pod: Pod, wanted: PodResourceClaim, why: str) -> None:
        note = f"PodResourceClaim {wanted.name}: {why}"
        self._reporter.report(pod, "FailedResourceClaimCreation", note, warning=True)

    # Claims.

    def _can_shrink(self, claim: ResourceClaim) -> bool:
        """Whether a look at the claim may lead to anything."""
        if claim.metadata.deletion_timestamp is not None:
            return True
        reserved = claim.status.reserved_for
        if reserved:
            return any(self._is_over(claim, it) is not False for it in reserved)
        owner = self._owner(claim)
        return owner is not None and is_done(owner)

    def _sync_claim(self, key: str, claim: ResourceClaim) -> None:
        reserved = claim.status.reserved_for or []
        over = [self._is_over(claim, it) for it in reserved]
        for consumer, is_over in zip(reserved, over, strict=True):
            if is_over is None:
                self._ask(key, claim, consumer)
        remaining = [it for it, is_over in zip(reserved, over, strict=True) if not is_over]
        protected = FINALIZER in (claim.metadata.finalizers or ())
        unused = not remaining and protected
        if len(remaining) < len(reserved):
            self._shrink(key, claim, remaining, clear=unused)
        elif unused and claim.metadata.deletion_timestamp is not None:
            if claim.status.allocation is not None:
                self._shrink(key, claim, remaining, clear=True)
            else:
                self._unprotect(key, claim)
        if not remaining and claim.metadata.deletion_timestamp is None:
            owner = self._owner(claim)
            if owner is not None and is_done(owner):
                request = Delete(RESOURCE_CLAIM, claim.namespace, claim.name, uid=claim.uid)
                self.calls.send(key, request)

    def _is_over(self, claim: ResourceClaim, consumer: ConsumerReference) -> bool | None:
        """Whether what a claim is reserved for needs it no more; None where nobody knows yet."""
        if consumer.uid in self._gone:
            return True
        kind = self._consumers.get((consumer.api_group, consumer.resource))
        if kind is None:
            return False
        found = self._shared.get(kind, f"{claim.namespace}/{consumer.name}")
        if found is None:
            return None
        return found.uid != consumer.uid or (isinstance(found, Pod) and is_done(found))

    def _ask(self, key: str, claim: ResourceClaim, consumer: ConsumerReference) -> None:
        """The watch of pods may be behind that of claims: ask the API itself."""

        def tell(answer: Answer) -> None:
            replaced = isinstance(answer, KubeObject) and answer.uid != consumer.uid
            if replaced or isinstance(answer, NotFound):
                self._gone[consumer.uid] = True
                self.queue.add(key)

        kind = self._consumers[consumer.api_group, consumer.resource]
        call_one(self._shared.cluster, Get(kind, claim.namespace, consumer.name), tell)

    def _owner(self, claim: ResourceClaim) -> Pod | None:
        """The pod that a claim was made for; one that has replaced it counts as ended."""
        owner = claim.metadata.controller()
        if owner is None or (owner.api_version, owner.kind) != ("v1", "Pod"):
            return None
        pod = self._shared.get(POD, f"{claim.namespace}/{owner.name}")
        return pod if isinstance(pod, Pod) else None

    def _shrink(
        self, key: str, claim: ResourceClaim, remaining: list[ConsumerReference], *, clear: bool
    ) -> None:
        """Drop reservations, and with `clear` the allocation, and then what protects the claim."""
        status: dict[str, Any] = {"reservedFor": to_builtins(remaining) or None}
        if clear:
            status["allocation"] = None

        def tell(answer: Answer) -> None:
            if clear and isinstance(answer, ResourceClaim):
                self._unprotect(key, answer)

        version = {"resourceVersion": claim.metadata.resource_version}
        body = {"metadata": version, "status": status}
        request = Patch(RESOURCE_CLAIM, claim.namespace, claim.name, body, "merge", "status")
        self.calls.send(key, request, tell)

    def _unprotect(self, key: str, claim: ResourceClaim) -> None:
        body = {"metadata": {"$deleteFromPrimitiveList/finalizers": [FINALIZER]}}
        self._patch(key, claim, body)

    def _patch(
        self, key: str, claim: ResourceClaim, body: dict[str, Any], subresource: str = ""
    ) -> None:
        body = {**body, "metadata": {**body.get("metadata", {}), "uid": claim.uid}}
        request = Patch(RESOURCE_CLAIM, claim.namespace, claim.name, body, "strategic", subresource)
        self.calls.send(key, request)


def is_done(pod: Pod) -> bool:
    """Whether a pod will run no more, or never."""
    unplaced = pod.metadata.deletion_timestamp is not None and not pod.spec.node_name
    return pod.status.phase in ENDED_PHASES or unplaced


def _is_for(claim: KubeObject, pod: Pod) -> bool:
    owner = claim.metadata.controller()
    return owner is not None and owner.uid == pod.uid


def _claim_names(pod: Pod) -> list[str]:
    """The claims of a pod that it is known to have."""
    statuses = {it.name: it.resource_claim_name for it in pod.status.resource_claim_statuses or ()}
    names = [
        it.resource_claim_name or statuses.get(it.name) for it in pod.spec.resource_claims or ()
    ]
    extended = pod.status.extended_resource_claim_status
    if extended is not None:
        names.append(extended.resource_claim_name)
    return [name for name in names if name]


def _named_by(pod: Pod) -> list[str]:
    templates = (it.resource_claim_template_name for it in pod.spec.resource_claims or ())
    found = [f"template:{pod.namespace}/{name}" for name in templates if name]
    return [*found, *(f"{_FOR_CLAIM}{pod.namespace}/{name}" for name in _claim_names(pod))]


def claim_name_base(pod: str, claim: str) -> str:
    """What the name of a generated claim begins with; both parts are shortened alike.

    >>> claim_name_base("pod", "gpu")
    'pod-gpu-'
    """
    base = f"{pod}-{claim}-"
    if len(base) <= NAME_BASE_MAX:
        return base
    kept = NAME_BASE_MAX
    return f"{pod[: len(pod) * kept // len(base)]}-{claim[: len(claim) * kept // len(base)]}"


def _claim(pod: Pod, wanted: PodResourceClaim, template: ResourceClaimTemplate) -> ResourceClaim:
    meta = template.spec.metadata
    return ResourceClaim(
        metadata=ObjectMeta(
            generate_name=claim_name_base(pod.name, wanted.name),
            labels=meta.labels,
            annotations={**(meta.annotations or {}), POD_CLAIM_NAME: wanted.name},
            owner_references=[
                OwnerReference(
                    api_version="v1", kind="Pod", name=pod.name, uid=pod.uid, controller=True
                )
            ],
        ),
        spec=template.spec.spec,
    )
