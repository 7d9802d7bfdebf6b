"""Several features at once, and the edges of each: where two rules meet, one is forgotten."""

from __future__ import annotations

from tests.e2e.devices.case import case
from tests.e2e.devices.cases_choosing import gpu_class
from tests.e2e.devices.cases_sharing import label_for_admins
from tests.e2e.devices.objects import (
    device,
    devices,
    exactly,
    first_available,
    named,
    sub,
    taint,
)
from tests.e2e.devices.stage import Data, Stage

TOLERANT = {"tolerations": [{"operator": "Exists"}]}


def _memory(amount: str) -> Data:
    return {"capacity": {"requests": {"memory": amount}}}


def _shared(name: str, memory: str = "40Gi", **fields: object) -> Data:
    return device(name, allowMultipleAllocations=True, capacity={"memory": memory}, **fields)


def _takes(memory: str) -> list[Data]:
    return [{"counterSet": "card", "counters": {"memory": {"value": memory}}}]


def _card(stage: Stage, made: list[Data], *, count: int = 2, memory: str = "40Gi") -> None:
    card = {"name": "card", "counters": {"memory": {"value": memory}}}
    stage.slice("counters", [], pool="n1", count=count, sharedCounters=[card])
    stage.slice("parts", made, pool="n1", count=count)


@case('"device": "shared"', "cannot allocate all claims")
def a_shared_part_takes_from_counters_once(stage: Stage) -> None:
    gpu_class(stage)
    stage.nodes("n1")
    _card(
        stage,
        [
            _shared("shared", consumesCounters=_takes("30Gi")),
            device("other", consumesCounters=_takes("20Gi")),
        ],
    )
    for name in "ab":
        stage.claim(name, exactly("r", "gpu", **_memory("10Gi")))
        stage.pod(f"p{name}", name)
        stage.bound(f"p{name}")
    stage.claim("c", exactly("r", "gpu", count=2))
    stage.pod("pc", "c")
    stage.rejected("pc", "cannot allocate all claims")


@case('"adminAccess": true', '"shareID": "UID"')
def administration_of_a_shared_device(stage: Stage) -> None:
    label_for_admins(stage, "true")
    gpu_class(stage)
    stage.on_nodes("n1", made=lambda: [_shared("d")])
    stage.claim("c", exactly("r", "gpu", adminAccess=True, **_memory("30Gi")))
    stage.pod("p", "c")
    stage.bound("p")
    stage.claim("d", exactly("r", "gpu", **_memory("30Gi")))
    stage.pod("q", "d")
    stage.bound("q")


@case('"device": "a1"', '"device": "b"', '"device": "a2"')
def neighbours_alone_have_to_differ(stage: Stage) -> None:
    gpu_class(stage)
    made = [device(name, attributes={"example.com/row": name[0]}) for name in ("a1", "b", "a2")]
    stage.on_nodes("n1", made=lambda: made)
    differ = [{"distinctAttribute": "example.com/row"}]
    stage.claim("c", exactly("r", "gpu", count=3), constraints=differ)
    stage.pod("p", "c")
    stage.bound("p")


@case("cannot allocate all claims")
def versions_agree_to_the_letter(stage: Stage) -> None:
    gpu_class(stage)
    made = [
        device(f"d{n}", attributes={"example.com/v": {"version": it}})
        for n, it in enumerate(("1.0.0", "1.0.0+b"))
    ]
    stage.on_nodes("n1", made=lambda: made)
    agree = [{"matchAttribute": "example.com/v"}]
    stage.claim("c", exactly("r", "gpu", count=2), constraints=agree)
    stage.pod("p", "c")
    stage.rejected("p", "cannot allocate all claims")


@case("because a claim constraint would not be satisfied", "SchedulerError")
def all_devices_and_they_do_not_agree(stage: Stage) -> None:
    gpu_class(stage)
    made = [device(f"d{n}", attributes={"example.com/row": n}) for n in range(2)]
    stage.on_nodes("n1", made=lambda: made)
    agree = [{"matchAttribute": "example.com/row"}]
    stage.claim("c", exactly("r", "gpu", allocationMode="All"), constraints=agree)
    stage.pod("p", "c")
    stage.rejected("p", "would not be satisfied")


@case("cannot allocate all claims", '"device": "sick"')
def all_devices_with_a_tainted_one(stage: Stage) -> None:
    gpu_class(stage)
    stage.on_nodes("n1", made=lambda: [device("well"), device("sick", taints=[taint("ill")])])
    stage.claim("c", exactly("r", "gpu", allocationMode="All"))
    stage.pod("p", "c")
    stage.rejected("p", "cannot allocate all claims")
    stage.claim("d", exactly("r", "gpu", allocationMode="All", **TOLERANT))
    stage.pod("q", "d")
    stage.bound("q")


@case('"request": "r/second"', '"device": "sick"')
def the_alternative_that_tolerates(stage: Stage) -> None:
    gpu_class(stage)
    made = [device("sick", taints=[taint("ill", "NoExecute", "very")])]
    stage.on_nodes("n1", made=lambda: made)
    wrong = {"tolerations": [{"key": "ill", "operator": "Equal", "value": "slightly"}]}
    asked = first_available(
        "r", sub("first", "gpu", **wrong), sub("second", "gpu", count=1, **TOLERANT)
    )
    stage.claim("c", asked)
    stage.pod("p", "c")
    stage.bound("p")


@case('"device": "known"')
def a_taint_without_effect(stage: Stage) -> None:
    gpu_class(stage)
    stage.on_nodes("n1", made=lambda: [device("known", taints=[taint("seen", "None")])])
    stage.claim("c", exactly("r", "gpu"))
    stage.pod("p", "c")
    stage.bound("p")


@case('"node": "n1"', theirs="Duplicate value")
def a_claim_that_a_pod_names_twice(stage: Stage) -> None:
    gpu_class(stage)
    stage.on_nodes("n1", made=lambda: devices(2))
    stage.claim("c", exactly("r", "gpu"))
    stage.pod("p", named("c"), {"name": "again", "resourceClaimName": "c"})
    if stage.side.is_stock:
        stage.rejected("p", "Duplicate value")
    else:
        stage.bound("p")


@case('"request": "r/few"', '"device": "dev-24"')
def the_alternative_with_which_a_claim_stays_within_its_limit(stage: Stage) -> None:
    gpu_class(stage)
    stage.on_nodes("n1", made=lambda: devices(60))
    asked = first_available("r", sub("many", "gpu", count=20), sub("few", "gpu", count=5))
    stage.claim("c", exactly("q", "gpu", count=20), asked)
    stage.pod("p", "c")
    stage.bound("p")


@case('"device": "dev-39"')
def two_claims_with_more_than_one_could_have(stage: Stage) -> None:
    gpu_class(stage)
    stage.on_nodes("n1", made=lambda: devices(40))
    for name in "ab":
        stage.claim(name, exactly("r", "gpu", count=20))
    stage.pod("p", "a", "b")
    stage.bound("p")


@case("cannot allocate all claims", '"memory": "500m"')
def shares_beyond_the_range_and_of_less_than_one(stage: Stage) -> None:
    gpu_class(stage)
    policy = {"default": "1", "validRange": {"min": "500m", "max": "30"}}
    memory = {"value": "40", "requestPolicy": policy}
    made = [device("d", allowMultipleAllocations=True, capacity={"memory": memory})]
    stage.on_nodes("n1", made=lambda: made)
    stage.claim("c", exactly("r", "gpu", **_memory("31")))
    stage.pod("p", "c")
    stage.rejected("p", "cannot allocate all claims")
    stage.claim("d", exactly("r", "gpu", **_memory("100m")))
    stage.pod("q", "d")
    stage.bound("q")


@case('"memory": "7Gi"')
def a_share_where_nothing_but_a_default_is_said(stage: Stage) -> None:
    gpu_class(stage)
    memory = {"value": "40Gi", "requestPolicy": {"default": "4Gi"}}
    made = [device("d", allowMultipleAllocations=True, capacity={"memory": memory})]
    stage.on_nodes("n1", made=lambda: made)
    stage.claim("c", exactly("r", "gpu"), exactly("s", "gpu", **_memory("7Gi")))
    stage.pod("p", "c")
    stage.bound("p")


@case("cannot allocate all claims")
def counters_used_on_another_node(stage: Stage) -> None:
    gpu_class(stage)
    stage.nodes("n1", "n2")
    _card(stage, [device("one", consumesCounters=_takes("30Gi"))], count=3)
    far = [device("two", consumesCounters=_takes("20Gi"))]
    stage.slice("far", far, pool="n1", count=3, nodeName="n2")
    for name in "ab":
        stage.claim(name, exactly("r", "gpu"))
    stage.pod("pa", "a", nodeSelector={"kubernetes.io/hostname": "n2"})
    stage.bound("pa")
    stage.pod("pb", "b", nodeSelector={"kubernetes.io/hostname": "n1"})
    stage.rejected("pb", "cannot allocate all claims")


@case('"key": "rack"', '"key": "topology.kubernetes.io/zone"')
def devices_of_a_zone_and_of_a_rack(stage: Stage) -> None:
    gpu_class(stage)
    stage.nodes("n1", labels={"topology.kubernetes.io/zone": "z", "rack": "r"})
    for key, value in (("topology.kubernetes.io/zone", "z"), ("rack", "r")):
        of = {"key": key, "operator": "In", "values": [value]}
        where = {"nodeSelectorTerms": [{"matchExpressions": [of]}]}
        stage.slice(value, devices(1), pool=value, nodeSelector=where)
    stage.claim("c", exactly("r", "gpu", count=2))
    stage.pod("p", "c")
    stage.bound("p")


@case('"device": "dev-1"', '"name": "p"')
def a_claim_with_devices_beside_one_without(stage: Stage) -> None:
    gpu_class(stage)
    stage.on_nodes("n1", "n2", made=lambda: devices(2))
    for name in "ab":
        stage.claim(name, exactly("r", "gpu"))
    stage.allocate("a", "dev-0", pool="n2")
    stage.pod("p", "a", "b")
    stage.bound("p")


@case("is currently invalid", "SchedulerError")
def all_devices_beside_a_pool_that_contradicts_itself(stage: Stage) -> None:
    gpu_class(stage)
    stage.on_nodes("n1", made=lambda: devices(1))
    stage.slice("odd-1", [device("same")], pool="odd", count=2, nodeName="n1")
    stage.slice("odd-2", [device("same")], pool="odd", count=2, nodeName="n1")
    stage.claim("c", exactly("r", "gpu", allocationMode="All"))
    stage.pod("p", "c")
    stage.rejected("p", "is currently invalid")
