"""What DynamicResources writes into claims, against races, and what it waits for."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import msgspec
import pytest

from stowplan.errors import ApiError, Conflict, Invalid, Unavailable
from stowplan.framework.effects import Sleep
from stowplan.objects.api import Create, Delete, Get, Patch, Update
from stowplan.objects.codec import convert
from stowplan.objects.devices import Allocation, ResourceClaim
from stowplan.objects.kinds import POD as POD_KIND
from stowplan.objects.pod import ContainerExtendedResourceRequest
from stowplan.plugins.dynamic_resources.attempt import Attempt, OwnClaim
from stowplan.plugins.dynamic_resources.binding import ClaimBinding
from stowplan.plugins.dynamic_resources.claim_cache import ClaimCache
from stowplan.plugins.dynamic_resources.claim_writes import (
    FINALIZER,
    TRIES,
    WriteFailed,
    bind_claim,
    delete_claim,
)
from stowplan.plugins.dynamic_resources.device_counts import DeviceCounts
from stowplan.plugins.dynamic_resources.extended_resources import new_special_claim
from stowplan.plugins.dynamic_resources.group_claims import consumer_of
from tests.builders import World, info, pod
from tests.plugins.device_objects import allocated, claim, claiming, device_class

POD = claiming("c")
CONSUMER = consumer_of(POD, None)
GIVEN = convert(allocated("gpu-0")["allocation"], Allocation)
PROTECTED = claim("c", finalizers=[FINALIZER])


def driven(steps: Generator[Any, Any, Any], *answers: Any) -> tuple[Any, list[Any]]:
    """What came of it, and the requests; pauses are answered by nothing."""
    asked: list[Any] = []
    left = list(answers)
    try:
        wanted = next(steps)
        while True:
            if isinstance(wanted, Sleep):
                wanted = steps.send(None)
                continue
            asked.append(wanted)
            wanted = steps.send(left.pop(0))
    except StopIteration as stop:
        assert not left
        return stop.value, asked


def test_the_claim_is_protected_first_and_then_allocated_and_reserved_at_once() -> None:
    written, asked = driven(bind_claim(claim("c"), GIVEN, CONSUMER, 0.0), PROTECTED, PROTECTED)

    assert written is PROTECTED
    assert [(it.subresource, it.patch_type) for it in asked] == [("", "merge"), ("status", "merge")]
    assert asked[0].body["metadata"]["finalizers"] == [FINALIZER]
    status = asked[1].body["status"]
    assert status["allocation"]["allocationTimestamp"] == "1970-01-01T00:00:00Z"
    assert status["reservedFor"] == [{"resource": "pods", "name": "p", "uid": POD.metadata.uid}]
    assert all(it.body["metadata"]["resourceVersion"] == "1" for it in asked)


def test_a_lost_race_is_run_again_on_the_claim_as_it_is_then() -> None:
    lost = Conflict("changed")
    fresh = claim("c", finalizers=[FINALIZER], resourceVersion="7")

    _, asked = driven(bind_claim(PROTECTED, GIVEN, CONSUMER, 0.0), lost, fresh, fresh)

    assert [type(it) for it in asked] == [Patch, Get, Patch]
    assert asked[2].body["metadata"]["resourceVersion"] == "7"


@pytest.mark.parametrize(
    ("answers", "problem"),
    [
        ((Invalid("no"),), "add allocation and reservation to claim default/c: no"),
        (
            (Conflict("x"), claim("c", status=allocated("gpu-1"))),
            "claim default/c got allocated elsewhere in the meantime",
        ),
        (
            (Conflict("x"), claim("c", deletionTimestamp="2026-01-01T00:00:00Z")),
            "claim default/c got deleted in the meantime",
        ),
        (
            (Conflict("x"), *[PROTECTED, Conflict("x")] * (TRIES - 1)),
            "add allocation and reservation to claim default/c: x",
        ),
    ],
)
def test_what_cannot_be_written(answers: tuple[Any, ...], problem: str) -> None:
    with pytest.raises(WriteFailed) as failed:
        driven(bind_claim(PROTECTED, GIVEN, CONSUMER, 0.0), *answers)

    assert str(failed.value) == problem


def test_a_claim_that_lost_its_allocation_cannot_be_reserved() -> None:
    with pytest.raises(WriteFailed, match="claim default/c got deallocated elsewhere"):
        driven(bind_claim(claim("c"), None, CONSUMER, 0.0))


# -- a whole PreBind -------------------------------------------------------------------------

CONDITIONS = {"bindingConditions": ["Ready"], "bindingFailureConditions": ["Broken"]}


class Binding:
    """One pod with one claim that waits for its driver; time passes as it sleeps."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.started: list[Any] = []
        self.world = World(device_class(), PROTECTED)
        self.world.handle.now = lambda: self.now_s
        self.world.handle.start = self.started.append
        self.cache = self.world.objects.derived(ClaimCache)
        self.attempt = Attempt([OwnClaim(PROTECTED)])
        self.attempt.given[0] = convert(allocated("gpu-0", **CONDITIONS)["allocation"], Allocation)
        self.cache.begin(PROTECTED, self.attempt.given[0])
        self.binding = ClaimBinding(self.world.handle, self.cache, 600.0)

    def stored(self, version: int, *conditions: str) -> ResourceClaim:
        status = {**allocated("gpu-0", **CONDITIONS), "reservedFor": [{"uid": POD.metadata.uid}]}
        status["allocation"]["allocationTimestamp"] = "1970-01-01T00:00:00Z"
        said = [{"type": it, "status": "True", "reason": "R", "message": "M"} for it in conditions]
        about = {"driver": "gpu.example.com", "pool": "a", "device": "gpu-0", "conditions": said}
        return claim("c", status={**status, "devices": [about]}, resourceVersion=str(version))

    def run(self, *shown: ResourceClaim) -> Any:
        """PreBind's answer; each pause shows the next claim."""
        steps = self.binding.bind(self.attempt, info(POD), "a")
        left = list(shown)
        try:
            wanted = next(steps)
            while True:
                answer: ResourceClaim | ApiError | None = None
                if isinstance(wanted, Sleep):
                    self.now_s += wanted.seconds
                    if left:
                        self.world.add(left.pop(0))
                else:
                    answer = self.stored(2)
                wanted = steps.send(answer)
        except StopIteration as stop:
            return stop.value


def test_binding_waits_for_the_driver() -> None:
    run = Binding()

    assert run.run(run.stored(3), run.stored(4, "Ready")) is None
    assert run.now_s == 10.0
    assert not run.cache.is_in_flight(PROTECTED)
    assert run.cache.held.is_used(("gpu.example.com", "a", "gpu-0"))


def test_devices_that_need_no_driver_are_not_waited_for_nor_talked_about() -> None:
    run = Binding()
    told: list[Any] = []
    run.world.handle.record = lambda *note: told.append(note)
    run.attempt.given[0] = GIVEN
    run.stored = lambda version, *_: claim("c", status=allocated("gpu-0"))  # type: ignore[method-assign]

    assert run.run() is None
    assert (run.now_s, told) == (0.0, [])
    assert run.world.objects.derived(DeviceCounts).waits == []

    waits = Binding()
    waits.world.handle.record = lambda *note: told.append(note)
    waits.run(waits.stored(3, "Ready"))
    note = "waiting for binding conditions for device on node a"
    assert told == [(POD, "Normal", "BindingConditionsPending", "Scheduling", note)]


def test_a_driver_that_fails_or_never_answers_ends_it() -> None:
    failing, silent = Binding(), Binding()

    failed = failing.run(failing.stored(3, "Broken"))
    assert failed.message == 'device binding failed: claim=c, reason=R, message="M"'
    late = silent.run()
    assert late.message.startswith("device binding timeout: ")
    assert silent.now_s == 600.0
    counted = [run.world.objects.derived(DeviceCounts) for run in (failing, silent)]
    profile, driver = POD.spec.scheduler_name, "gpu.example.com"
    assert [dict(it.prepared) for it in counted] == [
        {(profile, driver, "failure"): 1},
        {(profile, driver, "timeout"): 1},
    ]
    assert counted[1].waits == [((profile, driver, "timeout"), 600.0)]


def test_unreserving_keeps_the_allocation_and_gives_back_the_reservation() -> None:
    run = Binding()
    run.run(run.stored(3, "Broken"))

    run.binding.undo(run.attempt, info(POD))

    (steps,) = run.started
    patch = next(steps)
    assert patch.patch_type == "strategic"
    assert patch.body["status"] == {"reservedFor": [{"$patch": "delete", "uid": POD.metadata.uid}]}
    assert run.cache.held.is_used(("gpu.example.com", "a", "gpu-0"))


def test_what_was_only_reserved_is_free_again() -> None:
    run = Binding()
    assert run.cache.held.is_used(("gpu.example.com", "a", "gpu-0"))

    run.binding.undo(run.attempt, info(POD))

    assert not run.started
    assert not run.cache.held.is_used(("gpu.example.com", "a", "gpu-0"))


# -- what must not change ---------------------------------------------------------------------

OPAQUE = {"opaque": {"driver": "gpu.example.com", "parameters": {"z": 1, "a": None}}}


def configured(**fields: Any) -> ResourceClaim:
    made = claim("c", **fields)
    devices = msgspec.structs.replace(made.spec.devices, config=[OPAQUE])
    return msgspec.structs.replace(made, spec=msgspec.structs.replace(made.spec, devices=devices))


def test_a_claim_with_opaque_parameters_is_appended_to_and_its_allocation_put() -> None:
    """A patch would sort the keys of what is opaque, and leave out what is null in it."""
    config = [{**OPAQUE, "source": "FromClaim"}]
    devices = msgspec.structs.replace(GIVEN.devices, config=config)
    given = msgspec.structs.replace(GIVEN, devices=devices)
    protected = configured(finalizers=[FINALIZER])

    _, (first, second) = driven(bind_claim(configured(), given, POD, 0.0), protected, protected)

    assert (first.patch_type, first.body["metadata"]["finalizers"]) == ("append", [FINALIZER])
    assert isinstance(second, Update)
    written = second.body["status"]["allocation"]["devices"]["config"][0]
    assert list(written["opaque"]["parameters"].items()) == [("z", 1), ("a", None)]
    assert second.body["metadata"]["resourceVersion"] == "1"


@pytest.mark.parametrize("is_opaque", [False, True])
def test_a_further_reservation_leaves_the_allocation_alone(is_opaque: bool) -> None:
    """It may not change any more, not even to say when it was made."""
    status = allocated("gpu-0")
    status["reservedFor"] = [{"resource": "pods", "name": "first", "uid": "1"}]
    if is_opaque:
        status["allocation"]["devices"]["config"] = [{**OPAQUE, "source": "FromClaim"}]
    held = claim("c", status=status)

    _, (asked,) = driven(bind_claim(held, None, CONSUMER, 0.0), held)

    mine = {"resource": "pods", "name": "p", "uid": POD.metadata.uid}
    others = [] if is_opaque else status["reservedFor"]
    assert asked.patch_type == ("append" if is_opaque else "merge")
    assert asked.body["status"] == {"reservedFor": [*others, mine]}


def test_another_claim_of_the_same_name_is_not_given_what_was_found_for_this_one() -> None:
    """Simulated seed 211: it was deleted and made again, and may ask for something else."""
    other = claim("c", finalizers=[FINALIZER], uid="another")

    with pytest.raises(WriteFailed, match="claim default/c got deleted in the meantime"):
        driven(bind_claim(PROTECTED, GIVEN, CONSUMER, 0.0), Conflict("x"), other)


def test_what_protects_a_special_claim_by_now_is_taken_off_before_it_is_deleted() -> None:
    """Simulated seed 211: the answer to the write that protected it was lost."""
    _, asked = driven(delete_claim(claim("c")), PROTECTED, PROTECTED, None)

    assert [type(it) for it in asked] == [Get, Patch, Delete]
    assert asked[1].body["metadata"]["finalizers"] is None


LOST = Unavailable("the connection was lost")


def test_a_write_whose_answer_was_lost_is_found_to_have_arrived() -> None:
    mine = {"resource": "pods", "name": "p", "uid": POD.metadata.uid}
    arrived = claim("c", status={**allocated("gpu-0"), "reservedFor": [mine]})

    written, asked = driven(bind_claim(PROTECTED, GIVEN, POD, 0.0), LOST, LOST, arrived)

    assert written is arrived
    assert [type(it) for it in asked] == [Patch, Get, Get], "asked until there is an answer"


def test_a_write_that_was_lost_is_sent_again_on_the_same_version() -> None:
    """So that, should the first one still arrive, one of the two is refused."""
    _, asked = driven(bind_claim(PROTECTED, GIVEN, POD, 0.0), LOST, PROTECTED, PROTECTED)

    assert [type(it) for it in asked] == [Patch, Get, Patch]
    assert asked[0].body == asked[2].body


def test_a_reservation_whose_answer_was_lost_is_not_made_twice() -> None:
    mine = {"resource": "pods", "name": "p", "uid": POD.metadata.uid}
    held = claim("c", status=allocated("gpu-0"))
    arrived = claim("c", status={**allocated("gpu-0"), "reservedFor": [mine]})

    written, asked = driven(bind_claim(held, None, POD, 0.0), LOST, arrived)

    assert written is arrived
    assert [type(it) for it in asked] == [Patch, Get]


def test_a_server_that_fails_every_write_is_believed_in_the_end() -> None:
    answers = (LOST, *[PROTECTED, LOST] * (TRIES - 1))
    with pytest.raises(WriteFailed, match="add allocation and reservation"):
        driven(bind_claim(PROTECTED, GIVEN, POD, 0.0), *answers)


# -- the claim for extended resources (spec/dra.md, 9.3) --------------------------------------

WANTS = pod("p", requests={"example.com/gpu": "1"})
MAPPED = ContainerExtendedResourceRequest(
    container_name="main", resource_name="example.com/gpu", request_name="container-0-request-0"
)
NAME = "p-extended-resources-x7"


class SpecialBinding:
    """A pod whose claim is made on the way; time passes as it sleeps."""

    def __init__(self, *mappings: ContainerExtendedResourceRequest) -> None:
        self.now_s = 0.0
        self.asked: list[Any] = []
        self.world = World(device_class())
        self.world.handle.now = lambda: self.now_s
        self.cache = self.world.objects.derived(ClaimCache)
        self.attempt = Attempt([OwnClaim(new_special_claim(WANTS), is_special=True)])
        self.attempt.given[0] = GIVEN
        self.attempt.mappings = mappings
        self.cache.begin(self.attempt.claims[0].claim, GIVEN)
        self.binding = ClaimBinding(self.world.handle, self.cache, 600.0)
        self.counts = self.world.objects.derived(DeviceCounts).creates

    def run(self, *, shown_after_s: float = 0.0, refused: type[Any] | None = None) -> str:
        """What PreBind says; requests of the type `refused` are."""
        made = claim(NAME, finalizers=[FINALIZER])
        given = claim(NAME, status=allocated("gpu-0"), resourceVersion="2")
        steps, answer = self.binding.bind(self.attempt, info(WANTS), "a"), None
        try:
            while True:
                wanted = steps.send(answer)
                answer = None
                if isinstance(wanted, Sleep):
                    self.now_s += wanted.seconds
                else:
                    self.asked.append(wanted)
                    about_pod = isinstance(wanted, Patch) and wanted.kind is POD_KIND
                    answer = made if isinstance(wanted, Create) else WANTS if about_pod else given
                    if refused is not None and isinstance(wanted, refused):
                        answer = Invalid("no")
                if self.now_s >= shown_after_s and len(self.asked) > 1:
                    self.world.add(made)
        except StopIteration as stop:
            return "" if stop.value is None else str(stop.value.message)


def test_a_claim_for_extended_resources_is_made_written_awaited_and_told_to_the_kubelet() -> None:
    run = SpecialBinding(MAPPED)

    assert run.run(shown_after_s=3.0) == ""
    assert run.now_s == 3.0
    create, allocate, mapping = run.asked
    assert isinstance(create, Create)
    metadata = create.body.metadata  # type: ignore[union-attr]
    assert (metadata.name, metadata.uid, metadata.generate_name) == (
        "",
        "",
        "p-extended-resources-",
    )
    assert (allocate.name, allocate.subresource) == (NAME, "status")
    assert (mapping.kind, mapping.name, mapping.subresource) == (POD_KIND, "p", "status")
    assert mapping.body["metadata"] == {"uid": WANTS.uid}
    told = mapping.body["status"]["extendedResourceClaimStatus"]
    assert told["resourceClaimName"] == NAME
    assert told["requestMappings"] == [
        {
            "containerName": "main",
            "resourceName": "example.com/gpu",
            "requestName": "container-0-request-0",
        }
    ]
    assert dict(run.counts) == {"success": 1}
    assert run.cache.held.is_used(("gpu.example.com", "a", "gpu-0"))


def test_what_can_go_wrong_with_a_claim_for_extended_resources() -> None:
    refused, unseen, unmapped, unheard = (
        SpecialBinding(*mappings) for mappings in ([MAPPED], [MAPPED], [], [MAPPED])
    )
    text = "create claim for extended resources default/<extended-resources>: no"
    assert refused.run(refused=Create) == text
    assert dict(refused.counts) == {"failure": 1}
    assert not refused.cache.held.is_used(("gpu.example.com", "a", "gpu-0"))

    late = f"wait for claim default/{NAME} in the assume cache: context deadline exceeded"
    assert unseen.run(shown_after_s=1000.0) == late
    assert unseen.now_s == 120.0

    nothing = "nil or empty request mappings, no update of pod default/p"
    assert unmapped.run() == f"{nothing} ExtendedResourceClaimStatus"

    assert (
        unheard.run(refused=Patch) == f"add allocation and reservation to claim default/{NAME}: no"
    )
