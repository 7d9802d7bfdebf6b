"""DynamicResources: a pod goes where its claims have devices, or where devices for them can be had.

PreFilter looks at the claims, Filter searches devices node by node (`filtering`, `allocator`),
Reserve takes note of what was found on the chosen node, PreBind writes it into the claims
(`claim_writes`) and waits until their drivers are ready.  A claim that keeps its pod off every node
may be given back by PostFilter.  Mirrors kube-scheduler's `dynamicresources/dynamicresources.go`.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from functools import partial
from operator import attrgetter
from typing import Any, Protocol

import numpy as np

from stowplan.framework.cycle import DETAILS, Cycle
from stowplan.framework.diagnosis import Diagnosis
from stowplan.framework.errors import filter_failed
from stowplan.framework.events import Action, EventRegistration, Hint, Resource, on
from stowplan.framework.groups import GroupCycle, Placement
from stowplan.framework.handle import Handle
from stowplan.framework.plugin import BindingSteps, PostFilterResult, PreFlight
from stowplan.framework.reads import Reads
from stowplan.framework.status import (
    SKIP,
    SKIP_ALWAYS,
    Rows,
    Scores,
    Status,
    Verdict,
    error,
    unresolvable,
    unschedulable,
)
from stowplan.objects.devices import DeviceClass, DeviceRequest, ResourceClaim
from stowplan.objects.node_selector import compile_node_selector
from stowplan.objects.pod import Pod
from stowplan.plugins._shared.device_classes import ResourceClasses
from stowplan.plugins._shared.device_totals import DeviceTotals
from stowplan.plugins._shared.normalize import normalize
from stowplan.plugins._shared.rows import all_passed
from stowplan.plugins.dynamic_resources.attempt import Attempt, OwnClaim
from stowplan.plugins.dynamic_resources.binding import ClaimBinding
from stowplan.plugins.dynamic_resources.claim_cache import ClaimCache
from stowplan.plugins.dynamic_resources.claim_writes import (
    deallocate,
    delete_claim,
    is_reserved_for,
    unreserve_claim,
)
from stowplan.plugins.dynamic_resources.class_counts import ClassCounts
from stowplan.plugins.dynamic_resources.extended_resources import SPECIAL_NAME, new_special_claim
from stowplan.plugins.dynamic_resources.filtering import REASONS, DeviceFilter
from stowplan.plugins.dynamic_resources.group_claims import GroupClaims, consumer_of
from stowplan.plugins.dynamic_resources.group_room import devices_needed
from stowplan.plugins.dynamic_resources.pod_claims import (
    CONCERNED,
    ClaimProblem,
    claims_of,
    has_freed_devices,
    is_made_for,
    owned_claims_of,
)
from stowplan.plugins.dynamic_resources.pools import Slices
from stowplan.plugins.dynamic_resources.requests import AllocationError
from stowplan.plugins.dynamic_resources.results import allocation_of
from stowplan.plugins.dynamic_resources.scoring import has_alternatives, points_before, score_of
from stowplan.state.node_info import NodeInfo
from stowplan.state.node_table import NodeTable
from stowplan.state.pod_info import PodInfo

FILTER_TIMEOUT_S = 10.0
BINDING_TIMEOUT_S = 600.0

_has_claims = attrgetter("kind.pod.spec.resource_claims")
"""Asked of every pod: a function of ours takes several times as long."""


class Duration(Protocol):
    @property
    def seconds(self) -> float: ...


class Args(Protocol):
    filter_timeout: Duration | None
    binding_timeout: Duration | None


class DynamicResources:
    name = "DynamicResources"
    reads = Reads.CLUSTER | Reads.SIZE
    skips_any_size = True
    only_passing = True

    def __init__(self, args: Args | None, handle: Handle) -> None:
        self._handle = handle
        self._claims = handle.derived(ClaimCache)
        self._classes = handle.objects.all(DeviceClass)
        self._resources = handle.derived(ResourceClasses)
        timeout = args.filter_timeout if args is not None else None
        binding_timeout = args.binding_timeout if args is not None else None
        timeouts_s = (
            FILTER_TIMEOUT_S if timeout is None else timeout.seconds,
            BINDING_TIMEOUT_S if binding_timeout is None else binding_timeout.seconds,
        )
        self._filter = DeviceFilter(
            self._claims,
            handle.derived(Slices),
            self._resources,
            self._classes,
            handle.objects,
            handle.now,
            timeouts_s,
        )
        self._binding = ClaimBinding(handle, self._claims, timeouts_s[1])
        totals = handle.derived(DeviceTotals)
        totals.counter = totals.counter or ClassCounts(self._claims, handle.derived(Slices))
        self._group_claims = GroupClaims(handle)

    # -- before the queue -------------------------------------------------------------------

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        if not pod.kind.spec.resource_claims:
            return None
        problem = self._problem(pod.pod)
        return None if problem is None else unresolvable(problem)

    def pre_enqueue_all(self, pods: list[PodInfo]) -> list[Status | None]:
        if not any(map(_has_claims, pods)):
            return [None] * len(pods)
        return list(map(self.pre_enqueue, pods))

    def _problem(self, pod: Pod) -> str | None:
        try:
            for _ in claims_of(pod, self._claims.get, self._group_claims.group_of(pod)):
                pass
        except ClaimProblem as problem:
            return str(problem)
        return None

    def events_to_register(self) -> Sequence[EventRegistration]:
        nodes = Action.ADD | Action.UPDATE_NODE_LABEL | Action.UPDATE_NODE_ALLOCATABLE
        made = Action.ADD | Action.UPDATE
        return (
            on(Resource.NODE, nodes),
            on(
                Resource.RESOURCE_CLAIM,
                made | Action.DELETE,
                self._after_claim_change,
                concerned=CONCERNED,
            ),
            on(Resource.POD, Action.DELETE, self._after_pod_left),
            on(Resource.POD, Action.UPDATE_POD_GENERATED_RESOURCE_CLAIM, self._after_pod_change),
            on(Resource.DEVICE_CLASS, made),
            on(Resource.RESOURCE_SLICE, made),
        )

    def _after_claim_change(
        self, pod: Pod, old: ResourceClaim | None, new: ResourceClaim | None
    ) -> Hint:
        try:
            group = self._group_claims.group_of(pod)
            own = {claim.metadata.uid for claim in claims_of(pod, self._claims.get, group)}
        except ClaimProblem:
            return Hint.SKIP
        if has_freed_devices(old, new):
            return Hint.QUEUE
        if new is None:
            # One that an earlier attempt left behind: it stood in the pod's own way.
            return Hint.QUEUE if is_made_for(pod, old) else Hint.SKIP
        if new.metadata.uid not in own:
            return Hint.SKIP
        return Hint.SKIP if old is not None and old.status == new.status else Hint.QUEUE

    def _after_pod_left(self, pod: Pod, old: Pod, new: Pod | None) -> Hint:
        """Devices that were kept for it and never written down are free without any other word."""
        if self._problem(pod) is not None:
            return Hint.SKIP
        try:
            claims = list(claims_of(old, self._claims.get))
        except ClaimProblem:
            claims = []
        if any(claim.status.allocation is None for claim in claims):
            return Hint.QUEUE
        resources = self._resources.by_resource
        for container in (*(old.spec.init_containers or ()), *(old.spec.containers or ())):
            if resources and not resources.keys().isdisjoint(container.resources.requests or ()):
                return Hint.QUEUE if self._claims.special_of(old) is None else Hint.SKIP
        return Hint.SKIP

    def _after_pod_change(self, pod: Pod, old: Pod | None, new: Pod) -> Hint:
        if new.metadata.uid != pod.metadata.uid or self._problem(new) is not None:
            return Hint.SKIP
        return Hint.QUEUE

    # -- PreFilter --------------------------------------------------------------------------

    def pre_filter(self, cycle: Cycle, pod: PodInfo) -> Status | None:
        if not pod.kind.spec.resource_claims and not self._may_want_devices(pod):
            # Until another class stands for what it asks for: then all that is kept is dropped.
            return SKIP_ALWAYS
        attempt = cycle.data[self.name] = Attempt([])
        try:
            group = self._group_claims.group_of(pod.pod)
            found = list(owned_claims_of(pod.pod, self._claims.get, group))
        except ClaimProblem as problem:
            return unresolvable(str(problem))
        claims = [OwnClaim(claim, group=owner) for claim, owner in found]
        special = self._special_claim(pod)
        if special is not None:
            claims.append(OwnClaim(special, is_special=True))
        if not claims:
            return SKIP
        for own in claims:
            status = self._look_at(own, pod.pod)
            if status is not None:
                return status
        attempt.hold(claims)
        cycle.data[DETAILS] = attempt.details
        return None

    def _may_want_devices(self, pod: PodInfo) -> bool:
        """Whether it names an extended resource that a device class stands for."""
        by_resource = self._resources.by_resource
        return bool(by_resource) and not by_resource.keys().isdisjoint(pod.kind.extended_resources)

    def _special_claim(self, pod: PodInfo) -> ResourceClaim | None:
        if not self._may_want_devices(pod):
            return None
        by_resource = self._resources.by_resource
        if not any(n > 0 and name in by_resource for name, n in pod.kind.requests.items()):
            return None
        return self._claims.special_of(pod.pod) or new_special_claim(pod.pod)

    def _look_at(self, own: OwnClaim, pod: Pod) -> Status | None:
        claim = own.claim
        allocation = claim.status.allocation
        if allocation is None:
            sharing = self._group_claims.sharing(pod)
            allocation = own.shared = self._claims.shared_with(claim, sharing)
        if allocation is not None:
            own.places = compile_node_selector(allocation.node_selector)
            if own.places is not None and own.places.problems:
                return error(own.places.problems[0])
            return None
        if self._claims.is_in_flight(claim):
            return unresolvable(f"resource claim {claim.key} is in the process of being allocated")
        if own.is_special:
            return None
        for request in claim.spec.devices.requests or ():
            status = self._look_at_request(claim, request)
            if status is not None:
                return status
        return None

    def _look_at_request(self, claim: ResourceClaim, request: DeviceRequest) -> Status | None:
        asked: list[tuple[str, str]] = []
        if request.exactly is not None:
            asked = [(request.name, request.exactly.device_class_name)]
        elif request.first_available:
            asked = [
                (f"{request.name}/{sub.name}", sub.device_class_name)
                for sub in request.first_available
            ]
        else:
            return unresolvable(
                f"resource claim {claim.key}, request {request.name}: unknown request type"
            )
        for name, class_name in asked:
            if not class_name:
                return error(f"request {name}: unsupported request type")
            if class_name not in self._classes:
                return unresolvable(f"request {name}: device class {class_name} does not exist")
        return None

    # -- Filter -----------------------------------------------------------------------------

    def filter_node(self, cycle: Cycle, pod: PodInfo, node: NodeInfo) -> Status | None:
        try:
            reason = self._filter.on_node(cycle.data[self.name], pod, node)
        except AllocationError as problem:
            return error(str(problem))
        return None if reason is None else unresolvable(reason)

    def filter_nodes(
        self, cycle: Cycle, pod: PodInfo, nodes: NodeTable, rows: Rows | slice
    ) -> Verdict:
        attempt: Attempt = cycle.data[self.name]
        why, errors = self._filter.on_nodes(attempt, pod, nodes, rows)
        if errors:
            failures = {node: filter_failed(self.name, text) for node, text in errors.items()}
            attempt.errors = {node: str(failure) for node, failure in failures.items()}
            raise next(iter(failures.values()))
        if why is None:
            return all_passed(REASONS, nodes, rows)
        return Verdict(REASONS, why, np.ones(len(why), np.bool_))

    def most_members(self, cycle: GroupCycle, placement: Placement) -> int:
        """For how many of the members there are devices, whichever those are."""
        count = len(cycle.members)
        if self.name not in cycle.data:
            cycle.data[self.name] = self._devices_needed(cycle)
        needed: int = cycle.data[self.name]
        if not needed:
            return count
        return min(count, self._filter.group_room.most_members(cycle.nodes, placement.rows, needed))

    def _devices_needed(self, cycle: GroupCycle) -> int:
        pods = [member.pod for member in cycle.members]
        if not all(pod.spec.resource_claims for pod in pods):
            return 0
        try:
            return devices_needed(
                [[*claims_of(it, self._claims.get, self._group_claims.group_of(it))] for it in pods]
            )
        except ClaimProblem:
            return 0

    # -- PostFilter -------------------------------------------------------------------------

    def post_filter(
        self, cycle: Cycle, pod: PodInfo
    ) -> Generator[Any, Any, tuple[PostFilterResult | None, Status | None]]:
        attempt: Attempt | None = cycle.data.get(self.name)
        if attempt is None and not self._was_reached(cycle):
            # Another PreFilter ended the attempt before ours ran; upstream reports it so.
            return None, error("not found")
        if attempt is None or not attempt.claims:
            return None, unschedulable("no new claims to deallocate")
        attempt.has_failed = True
        if attempt.needs_devices:
            attempt.unmet = partial(self._filter.unmet, attempt, cycle.nodes)
        status = yield from self._deallocate(attempt, pod)
        return None, status

    def _was_reached(self, cycle: Cycle) -> bool:
        """Whether it came to our PreFilter, had it had anything to say."""
        diagnosis: Diagnosis | None = cycle.statuses
        framework = self._handle.framework
        if diagnosis is None or diagnosis.candidates is not None or framework is None:
            return True
        ended = diagnosis.absent.plugin if diagnosis.absent is not None else ""
        enders = {ended} if ended else diagnosis.unschedulable_plugins
        order = [getattr(plugin, "name", "") for plugin in framework.plugins.pre_filter]
        return any(name in enders for name in order[order.index(self.name) :])

    def _deallocate(self, attempt: Attempt, pod: PodInfo) -> Generator[Any, Any, Status]:
        """Give one claim back that keeps the pod off all nodes for where its devices are."""
        candidates = sorted(attempt.unavailable)
        self._handle.random.shuffle(candidates)
        for number in candidates:
            own = attempt.claims[number]
            if own.shared is not None:
                continue  # Nothing is written yet that could be given back.
            if own.group is not None and self._group_claims.is_unscheduled(own.group):
                consumer = consumer_of(pod.pod, own.group)
                if is_reserved_for(own.claim, consumer):
                    problem = yield from unreserve_claim(own.claim, consumer)
                    if problem is not None:
                        return error(problem.message)
                    return unschedulable("ResourceClaim unreserved for PodGroup")
            if own.is_special or not _is_only_for(own.claim, pod.pod):
                continue
            problem = yield from deallocate(own.claim)
            if problem is not None:
                return error(problem.message)
            attempt.deallocated.append(own.claim.key)
            return unschedulable("deallocation of ResourceClaim completed")
        last = attempt.claims[-1]
        if last.is_special and last.claim.metadata.name != SPECIAL_NAME:
            problem = yield from delete_claim(last.claim)
            if problem is not None:
                return error(problem.message)
            attempt.deallocated.append(f"{last.claim.key} deleted")
            return unschedulable("deletion of ResourceClaim completed")
        return unschedulable("still not schedulable")

    # -- Score ------------------------------------------------------------------------------

    def score_node(self, cycle: Cycle, pod: PodInfo, node: NodeInfo) -> int:
        attempt: Attempt | None = cycle.data.get(self.name)
        return 0 if attempt is None else score_of(attempt, node.name)

    def score_nodes(
        self, cycle: Cycle, pod: PodInfo, nodes: NodeTable, rows: Rows | slice
    ) -> Scores | int:
        attempt: Attempt | None = cycle.data.get(self.name)
        if attempt is None or not attempt.pending or not has_alternatives(attempt):
            return 0
        numbers: Rows = np.arange(nodes.size)[rows]
        if attempt.found is None or attempt.nodes:
            names = nodes.names
            return np.array([score_of(attempt, names[row]) for row in numbers.tolist()], np.int64)
        return attempt.found.points(numbers) + points_before(attempt)

    def normalize_scores(
        self, cycle: Cycle, pod: PodInfo, nodes: NodeTable, rows: Rows, scores: Scores
    ) -> Scores:
        return normalize(scores, reverse=False)

    # -- Reserve and PreBind ----------------------------------------------------------------

    def reserve(self, cycle: Cycle, pod: PodInfo, node: str) -> Status | None:
        attempt: Attempt | None = cycle.data.get(self.name)
        if attempt is None:
            return None
        sharing = self._group_claims.sharing(pod.pod)
        for number, own in enumerate(attempt.claims):
            if own.shared is not None:
                attempt.given[number] = own.shared
                self._claims.begin(own.claim, own.shared, sharing)
        if not attempt.needs_devices:
            return None
        pending = attempt.pending
        found = attempt.on(node)
        if found is None or found.choices is None:
            if all(attempt.claims[number].is_special for number in pending):
                return None  # A device plugin serves it.
            return error("claim allocation not found for node")
        getrandbits = self._handle.random.getrandbits
        for number, choices in zip(pending, found.choices, strict=True):
            own = attempt.claims[number]
            if own.is_special and found.special is not None:
                own.claim, attempt.mappings = found.special.claim, found.special.mappings
            allocation = allocation_of(own.claim, choices, node, getrandbits)
            attempt.given[number] = allocation
            self._claims.begin(own.claim, allocation, sharing)
        return None

    def unreserve(self, cycle: Cycle, pod: PodInfo, node: str) -> None:
        attempt: Attempt | None = cycle.data.get(self.name)
        if attempt is not None:
            self._binding.undo(attempt, pod)

    def pre_bind_pre_flight(self, cycle: Cycle, pod: PodInfo, node: str) -> PreFlight | Status:
        attempt: Attempt | None = cycle.data.get(self.name)
        if attempt is None or not attempt.claims:
            return SKIP
        return PreFlight(allow_parallel=True)

    def pre_bind(self, cycle: Cycle, pod: PodInfo, node: str) -> BindingSteps:
        return self._binding.bind(cycle.data[self.name], pod, node)


def _is_only_for(claim: ResourceClaim, pod: Pod) -> bool:
    return all(it.uid == pod.metadata.uid for it in claim.status.reserved_for or ())
