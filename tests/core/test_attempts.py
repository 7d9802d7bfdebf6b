"""What came of recent attempts: kept within bounds, told to everybody who listens."""

from __future__ import annotations

from typing import Any

from stowplan.core.attempts import AttemptLog
from tests.builders import node, pod
from tests.core.harness import Cluster, Notes, make_plugin


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


def test_pods_that_are_bound_together_are_told_of_before_their_plugins_say_more() -> None:
    def boom(self: Any, cycle: Any, pod: Any, node: str) -> None:
        raise RuntimeError("after the event")

    cluster = Cluster(node("node-1"), plugins=(make_plugin("Late", post_bind=boom),))
    heard: list[str] = []

    class Hearing:
        def bound(self, attempts: Any, now_s: float) -> None:
            heard.extend(attempt.decision.pod for attempt in attempts)

        def plugin_error(self, plugin: str, point: str, cause: Exception) -> None:
            heard.append(f"{plugin} at {point}")

        def __getattr__(self, name: str) -> Any:
            return lambda *args: None

    cluster.machine.log.observe(Hearing())
    for name in ("a", "b"):
        cluster.store.put(pod(name))
    cluster.settle()

    assert heard == ["default/a", "Late at PostBind", "default/b", "Late at PostBind"]
