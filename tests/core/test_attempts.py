"""What came of recent attempts: kept within bounds, told to everybody who listens."""

from __future__ import annotations

from stowplan.core.attempts import AttemptLog
from tests.builders import node, pod
from tests.core.harness import Cluster, Notes


def test_the_last_decision_on_a_pod_can_be_asked_for() -> None:
    cluster = Cluster(node("node-1", cpu="1"))
    cluster.add(pod("web"), pod("big", cpu="64"))

    web, big = (cluster.machine.decision_of(f"default/{name}") for name in ("web", "big"))

    assert web is not None
    assert big is not None
    assert (web.node, big.node) == ("node-1", "")
    assert big.reasons == {"Insufficient cpu": 1}
    assert cluster.machine.decision_of("default/nobody") is None


def test_only_so_many_are_kept_the_oldest_goes_first() -> None:
    log = AttemptLog(decisions_max=3)
    cluster = Cluster(node("node-1"), log=log)

    cluster.add(*[pod(f"pod-{n}") for n in range(5)])

    assert [decision.pod for decision in log.decisions()] == [
        *("default/pod-2", "default/pod-3", "default/pod-4"),
    ]


def test_everybody_who_listens_hears_everything() -> None:
    first, second = Notes(), Notes()
    log = AttemptLog(first)
    log.observe(second)

    Cluster(node("node-1"), log=log).add(pod("web"))

    assert first.begun == second.begun == ["web"]
    assert first.ended == second.ended == [("web", "node-1")]
