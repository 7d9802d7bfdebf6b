"""How long the machine takes for groups, without a cluster around it: processor time.

    python -m tests.bench.group_speed

Every binding and patch is answered at once.  What an API server, embedded or not, adds to that is
not in these figures.
"""

from __future__ import annotations

import time
from random import Random

from stowplan.config import load_config, parse_feature_gates
from stowplan.core.machine import Machine
from stowplan.core.messages import Added, Answered, Call, ScheduleNext
from stowplan.objects.api import Bind
from tests.builders import node, pod, pod_group

GATES = "GenericWorkload=true,GangScheduling=true,TopologyAwareWorkloadScheduling=true"
NODES = 5000
DOMAINS = 50
NOW_S = 1_700_000_000.0
BATCH = 1024


def measured(gangs: int, size: int, *, topology: str = "", cpu: str = "100m") -> str:
    config = load_config(None, gates=parse_feature_gates(GATES))
    machine = Machine(config, random=Random(0))
    racks = [{"rack": f"r{number % DOMAINS}"} for number in range(NODES)]
    nodes = [Added(node(f"n{number}", labels=labels)) for number, labels in enumerate(racks)]
    machine.handle_all(nodes, NOW_S)
    names = [f"g{number}" for number in range(gangs)]
    groups = [pod_group(name, min_count=size, topology=topology) for name in names]
    pods = [
        Added(pod(f"{name}-{number}", group=name, cpu=cpu, memory="100Mi"))
        for name in names
        for number in range(size)
    ]
    started_s = time.process_time()
    machine.handle_all([Added(group) for group in groups], NOW_S)
    for first in range(0, len(pods), BATCH):
        machine.handle_all(pods[first : first + BATCH], NOW_S)
    bound = 0
    while machine.has_work:
        effects = machine.handle(ScheduleNext(64), NOW_S)
        calls = [effect for effect in effects if isinstance(effect, Call)]
        bound += sum(isinstance(call.request, Bind) for call in calls)
        if calls:
            machine.handle_all([Answered(call.token, None) for call in calls], NOW_S)
    seconds = time.process_time() - started_s
    where = f" within {DOMAINS} domains" if topology else ""
    return f"{gangs} gangs of {size} pods of {cpu}{where}: {seconds:.2f} s, {bound} pods bound"


def main() -> None:
    print(measured(1000, 10), flush=True)
    print(measured(100, 100, topology="rack"), flush=True)
    print(measured(1, 1000), flush=True)
    print(measured(1, 1000, cpu="9"), flush=True)


if __name__ == "__main__":
    main()
