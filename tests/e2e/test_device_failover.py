"""Two replicas of Stowplan and a claim that is half done: whoever takes over goes on with it."""

from __future__ import annotations

from collections.abc import Callable

from tests.e2e.devices.cases_choosing import gpu_class
from tests.e2e.devices.objects import device, exactly
from tests.e2e.devices.stage import Stage
from tests.e2e.harness.kinds import only_on_kubernetes
from tests.e2e.harness.scheduler import QUICK_ELECTION, Scheduler
from tests.e2e.harness.world import World

PROFILE = "default-scheduler"


class Replicas:
    """What a stage needs to know of them."""

    profile = PROFILE
    is_stock = False

    def start(self) -> None: ...

    def kill(self) -> None: ...


@only_on_kubernetes
def test_another_replica_goes_on_with_a_claim_that_was_being_attached(
    world: World, new_scheduler: Callable[..., Scheduler]
) -> None:
    first = new_scheduler(name="first", leaderElection=QUICK_ELECTION).start()
    new_scheduler(name="second", leaderElection=QUICK_ELECTION).start()
    with Stage(world.api, Replicas(), "failover") as stage:
        gpu_class(stage)
        slow = {"bindingConditions": ["Attached"], "bindingFailureConditions": ["Broken"]}
        stage.on_nodes("n1", made=lambda: [device(name, **slow) for name in ("d", "other")])
        stage.claim("c", exactly("r", "gpu"))
        stage.pod("p", "c")
        stage.allocated("c")
        before = stage.get("ResourceClaim", "c")["status"]["allocation"]

        first.process.kill()
        stage.report("c", "d", "n1", Attached="True")
        stage.bound("p")

        status = stage.get("ResourceClaim", "c")["status"]
        assert status["allocation"] == before
        assert [it["name"] for it in status["reservedFor"]] == ["p"]
