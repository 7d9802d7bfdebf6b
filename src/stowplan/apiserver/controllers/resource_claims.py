"""Claims of pods: made from templates, given back when pods end, deleted when nobody needs them.

A pod that names a template gets a claim of its own, and its status says which.  A group may list
templates too (DRAWorkloadResourceClaims): the claim is the group's, and its pods share it.  A
reservation goes when its pod has ended or gone, or its group has; with the last one goes the
allocation, and so the devices are free.  Mirrors `pkg/controller/resourceclaim`.
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
from stowplan.objects.kinds import POD, POD_GROUP, RESOURCE_CLAIM, RESOURCE_CLAIM_TEMPLATE, Kind
from stowplan.objects.pod import ENDED_PHASES, Pod, PodResourceClaim
from stowplan.objects.pod_groups import GROUP, V1ALPHA2, PodGroup, group_key

POD_CLAIM_NAME = "resource.kubernetes.io/pod-claim-name"
FINALIZER = "resource.kubernetes.io/delete-protection"
RESERVED_MAX = 256
NAME_BASE_MAX = 57
GONE_MAX = 500
"""Pods that are remembered to have gone."""

Claimant = Pod | PodGroup
"""Who names claims."""

_FOR_CLAIM = "claim:"


class ResourceClaimController:
    def __init__(self, shared: Shared, *, with_groups: bool = False) -> None:
        self._shared = shared
        self.queue = shared.queue("resource claim", self.sync)
        self.calls = Calls(shared, self.queue)
        self._reporter = Reporter(shared, "resource-claim-controller")
        self._kinds: dict[tuple[str, str], Kind] = {("", "pods"): POD}
        """Whose claims these are, by API group and resource, as reservations name them."""
        self._users: dict[str, set[str]] = {}
        """Claims, templates and groups, by kind and key -> who names them, in the same way."""
        self._gone: dict[str, bool] = {}
        """The uids of pods and groups that were deleted."""
        shared.listen(POD, self._claimant_changed)
        if with_groups:
            self._kinds[GROUP, "podgroups"] = POD_GROUP
            shared.listen(POD_GROUP, self._claimant_changed)
        shared.listen(RESOURCE_CLAIM, self._claim_changed)
        shared.listen(RESOURCE_CLAIM_TEMPLATE, self._template_changed)

    # What happens to pods, groups, claims and templates.

    def _claimant_changed(self, old: KubeObject | None, new: KubeObject | None) -> None:
        claimant = new if new is not None else old
        assert isinstance(claimant, Claimant)
        is_over = new is None or is_done(claimant)
        if is_over:
            # Also those that it had not heard of, and that somebody has deleted already.
            for claim in self._shared.owned(RESOURCE_CLAIM, claimant.uid):
                self.queue.add(f"{_FOR_CLAIM}{claim.key}")
        extended = isinstance(claimant, Pod) and claimant.status.extended_resource_claim_status
        if not claimant.spec.resource_claims and not extended:
            return
        if new is None:
            self._gone[claimant.uid] = True
            if len(self._gone) > GONE_MAX:
                del self._gone[next(iter(self._gone))]
        own_key = _key_of(claimant)
        for key in _named_by(claimant):
            users = self._users.setdefault(key, set())
            if new is not None:
                users.add(own_key)
            else:
                users.discard(own_key)
                if not users:
                    del self._users[key]
        if is_over:
            for name in _claim_names(claimant):
                self.queue.add(f"{_FOR_CLAIM}{claimant.namespace}/{name}")
        elif claimant.metadata.deletion_timestamp is None and self._lacks(claimant):
            self.queue.add(own_key)
        # What a group got, its pods may have been waiting for.
        self._wake_users(own_key)

    def _claim_changed(self, old: KubeObject | None, new: KubeObject | None) -> None:
        if isinstance(new, ResourceClaim) and self._can_shrink(new):
            self.queue.add(f"{_FOR_CLAIM}{new.key}")
        claim = new if new is not None else old
        assert claim is not None
        self._wake_users(f"{_FOR_CLAIM}{claim.key}")
        owner = claim.metadata.controller()
        if owner is not None and owner.kind == "PodGroup":
            # Made a moment ago: now its status can say so.
            self._wake(f"group:{claim.namespace}/{owner.name}")

    def _template_changed(self, old: KubeObject | None, new: KubeObject | None) -> None:
        if new is not None:
            self._wake_users(f"template:{new.key}")

    def _wake_users(self, key: str) -> None:
        for user in self._users.get(key, ()):
            self._wake(user)

    def _wake(self, user: str) -> None:
        claimant = self._claimant(user)
        if claimant is not None and not is_done(claimant) and self._lacks(claimant):
            self.queue.add(user)

    def _claimant(self, key: str) -> Claimant | None:
        prefix, _, name = key.partition(":")
        kind = POD if prefix == "pod" else POD_GROUP
        found = self._shared.get(kind, name) if kind in self._kinds.values() else None
        return found if isinstance(found, Claimant) else None

    def sync(self, key: str) -> None:
        if not self.calls.settled(key):
            return
        if not key.startswith(_FOR_CLAIM):
            claimant = self._claimant(key)
            if claimant is not None and claimant.metadata.deletion_timestamp is None:
                self._sync_claimant(key, claimant)
            return
        claim = self._shared.get(RESOURCE_CLAIM, key.removeprefix(_FOR_CLAIM))
        if isinstance(claim, ResourceClaim):
            self._sync_claim(key, claim)

    # Pods and groups.

    def _lacks(self, claimant: Claimant) -> bool:
        """Whether a claim of theirs is still to be made, or to be reserved."""
        if any(not self._has_claim(claimant, it) for it in claimant.spec.resource_claims or ()):
            return True
        return isinstance(claimant, Pod) and any(self._unreserved(claimant))

    def _owner_of(self, claimant: Claimant, wanted: PodResourceClaim | None) -> Claimant:
        """Whose claim it is: the group's, if it lists what the pod names."""
        if isinstance(claimant, PodGroup) or (GROUP, "podgroups") not in self._kinds:
            return claimant
        group = self._shared.get(POD_GROUP, group_key(claimant))
        if wanted is not None and isinstance(group, PodGroup) and group.lists(wanted):
            return group
        return claimant

    def _has_claim(self, claimant: Claimant, wanted: PodResourceClaim) -> bool:
        if wanted.resource_claim_template_name is None:
            return True
        statuses = claimant.status.resource_claim_statuses or ()
        known = [it for it in statuses if it.name == wanted.name]
        if not known:
            return False
        name = known[0].resource_claim_name
        if name is None:
            return True
        claim = self._shared.get(RESOURCE_CLAIM, f"{claimant.namespace}/{name}")
        owner = None if claim is None else claim.metadata.controller()
        return owner is not None and owner.uid == self._owner_of(claimant, wanted).uid

    def _unreserved(self, pod: Pod) -> list[tuple[ResourceClaim, Claimant]]:
        """The claims of a pod that got its node without them being reserved, and for whom."""
        if not pod.spec.node_name or not pod.spec.resource_claims:
            return []
        found = []
        for wanted, name in _references(pod):
            claim = self._shared.get(RESOURCE_CLAIM, f"{pod.namespace}/{name}")
            if not isinstance(claim, ResourceClaim) or claim.status.allocation is None:
                continue
            consumer = self._owner_of(pod, wanted)
            reserved = claim.status.reserved_for or ()
            if len(reserved) < RESERVED_MAX and all(it.uid != consumer.uid for it in reserved):
                found.append((claim, consumer))
        return found

    def _sync_claimant(self, key: str, claimant: Claimant) -> None:
        made = []
        for wanted in claimant.spec.resource_claims or ():
            if self._has_claim(claimant, wanted):
                continue
            owner = self._owner_of(claimant, wanted)
            claim = self._made_for(owner, wanted)
            if claim is not None:
                made.append({"name": wanted.name, "resourceClaimName": claim.name})
            elif owner is claimant:
                self._make(key, claimant, wanted)
        if made:
            self._tell_claims(key, claimant, made)
        for claim, consumer in self._unreserved(claimant) if isinstance(claimant, Pod) else ():
            reference = self._reference(consumer)
            self._patch(key, claim, {"status": {"reservedFor": [reference]}}, "status")

    def _tell_claims(self, key: str, claimant: Claimant, made: list[dict[str, str]]) -> None:
        known = claimant.status.resource_claim_statuses or ()
        new = {it["name"] for it in made}
        kept = [to_builtins(it) for it in known if it.name not in new]
        body = {"metadata": {"uid": claimant.uid}, "status": {"resourceClaimStatuses": kept + made}}
        kind = POD if isinstance(claimant, Pod) else POD_GROUP
        self.calls.send(
            key, Patch(kind, claimant.namespace, claimant.name, body, "merge", "status")
        )

    def _reference(self, consumer: Claimant) -> dict[str, str]:
        kind = POD if isinstance(consumer, Pod) else POD_GROUP
        (group, resource), *_ = (it for it, of in self._kinds.items() if of is kind)
        named = {"resource": resource, "name": consumer.name, "uid": consumer.uid}
        return {"apiGroup": group, **named} if group else named

    def _made_for(self, owner: Claimant, wanted: PodResourceClaim) -> KubeObject | None:
        for claim in self._shared.owned(RESOURCE_CLAIM, owner.uid):
            if (claim.metadata.annotations or {}).get(POD_CLAIM_NAME) == wanted.name:
                return claim
        return None

    def _make(self, key: str, owner: Claimant, wanted: PodResourceClaim) -> None:
        name = wanted.resource_claim_template_name
        template = self._shared.get(RESOURCE_CLAIM_TEMPLATE, f"{owner.namespace}/{name}")
        if not isinstance(template, ResourceClaimTemplate):
            why = f'resourceclaimtemplate.resource.k8s.io "{name}" not found'
            # A template that comes wakes the owner.
            self._failed(owner, wanted, f'resource claim template "{name}": {why}')
            return

        def tell(answer: Answer) -> None:
            if isinstance(answer, ApiError):
                self._failed(owner, wanted, f"create ResourceClaim : {answer.message}")

        self.calls.send(
            key, Create(RESOURCE_CLAIM, owner.namespace, _claim(owner, wanted, template)), tell
        )

    def _failed(self, owner: Claimant, wanted: PodResourceClaim, why: str) -> None:
        note = f"{owner.kind or 'Pod'}ResourceClaim {wanted.name}: {why}"
        self._reporter.report(owner, "FailedResourceClaimCreation", note, warning=True)

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
        kind = self._kinds.get((consumer.api_group, consumer.resource))
        if kind is None:
            return False
        if consumer.uid in self._gone:
            return True
        claimant = self._shared.get(kind, f"{claim.namespace}/{consumer.name}")
        if isinstance(claimant, Claimant):
            return claimant.uid != consumer.uid or is_done(claimant)
        return None

    def _ask(self, key: str, claim: ResourceClaim, consumer: ConsumerReference) -> None:
        """The watch of pods may be behind that of claims: ask the API itself."""
        kind = self._kinds[consumer.api_group, consumer.resource]

        def tell(answer: Answer) -> None:
            replaced = isinstance(answer, Claimant) and answer.uid != consumer.uid
            if replaced or isinstance(answer, NotFound):
                self._gone[consumer.uid] = True
                self.queue.add(key)

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


def is_done(claimant: KubeObject) -> bool:
    """Whether a pod will run no more, or never; a group needs its claims until it is gone."""
    if not isinstance(claimant, Pod):
        return False
    unplaced = claimant.metadata.deletion_timestamp is not None and not claimant.spec.node_name
    return claimant.status.phase in ENDED_PHASES or unplaced


def _key_of(claimant: Claimant) -> str:
    return f"{'pod' if isinstance(claimant, Pod) else 'group'}:{claimant.key}"


def _references(claimant: Claimant) -> list[tuple[PodResourceClaim | None, str]]:
    """The claims that they are known to have, each with where they name it."""
    statuses = {
        it.name: it.resource_claim_name for it in claimant.status.resource_claim_statuses or ()
    }
    found: list[tuple[PodResourceClaim | None, str | None]] = [
        (it, it.resource_claim_name or statuses.get(it.name))
        for it in claimant.spec.resource_claims or ()
    ]
    extended = claimant.status.extended_resource_claim_status if isinstance(claimant, Pod) else None
    if extended is not None:
        found.append((None, extended.resource_claim_name))
    return [(wanted, name) for wanted, name in found if name]


def _claim_names(claimant: Claimant) -> list[str]:
    return [name for _, name in _references(claimant)]


def _named_by(claimant: Claimant) -> list[str]:
    space = claimant.namespace
    templates = (it.resource_claim_template_name for it in claimant.spec.resource_claims or ())
    found = [f"template:{space}/{name}" for name in templates if name]
    if isinstance(claimant, Pod) and claimant.spec.scheduling_group is not None:
        found.append(f"group:{group_key(claimant)}")
    return [*found, *(f"{_FOR_CLAIM}{space}/{name}" for name in _claim_names(claimant))]


def claim_name_base(owner: str, claim: str) -> str:
    """What the name of a generated claim begins with; both parts are shortened alike.

    >>> claim_name_base("pod", "gpu")
    'pod-gpu-'
    """
    base = f"{owner}-{claim}-"
    if len(base) <= NAME_BASE_MAX:
        return base
    kept = NAME_BASE_MAX
    return f"{owner[: len(owner) * kept // len(base)]}-{claim[: len(claim) * kept // len(base)]}"


def _claim(
    owner: Claimant, wanted: PodResourceClaim, template: ResourceClaimTemplate
) -> ResourceClaim:
    meta = template.spec.metadata
    version, kind = ("v1", "Pod") if isinstance(owner, Pod) else (V1ALPHA2, "PodGroup")
    return ResourceClaim(
        metadata=ObjectMeta(
            generate_name=claim_name_base(owner.name, wanted.name),
            labels=meta.labels,
            annotations={**(meta.annotations or {}), POD_CLAIM_NAME: wanted.name},
            owner_references=[
                OwnerReference(
                    api_version=version, kind=kind, name=owner.name, uid=owner.uid, controller=True
                )
            ],
        ),
        spec=template.spec.spec,
    )
