"""A minute of a cluster in no time: six pods, room for four, and a second node that comes late.

The whole scheduler runs on an embedded cluster under a virtual clock: queue, backoff, binding.
The same seed gives the same run.

python examples/simulation/late_node.py
"""

from __future__ import annotations

from typing import Any

from stowplan.apiserver.store import Store
from stowplan.clock import VirtualClock
from stowplan.embedded import connect_scheduler
from stowplan.objects.api import Create
from stowplan.objects.kinds import NODE, POD


def node(name: str) -> dict[str, Any]:
    room = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    return {"metadata": {"name": name}, "status": {"allocatable": room}}


def pod(name: str) -> dict[str, Any]:
    requests = {"cpu": "1", "memory": "1Gi"}
    container = {"name": "main", "image": "app", "resources": {"requests": requests}}
    return {"metadata": {"name": name}, "spec": {"containers": [container]}}


clock = VirtualClock()
store = Store(clock)
scheduler = connect_scheduler(store, clock, clock.at, seed=1)
scheduler.start()


def show() -> None:
    pods = scheduler.machine.pods.values()
    pending = [pod.key for pod in pods if not pod.node_name]
    print(f"after {clock.now():g} s: {len(pods) - len(pending)} bound, {len(pending)} pending")
    for key in pending:
        decision = scheduler.machine.decision_of(key)
        print(f"  {key}: {decision.message if decision else 'not tried yet'}")


store.execute(Create(NODE, "", node("early")))
for number in range(6):
    store.execute(Create(POD, "default", pod(f"p{number}")))
clock.run(until_s=1)
show()
clock.run(until_s=60)
store.execute(Create(NODE, "", node("late")))
clock.run(until_s=61)
show()
