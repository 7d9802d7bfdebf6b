"""What a pod costs, counted instead of timed: bytecodes and calls, the same in every run.

    python -m tests.bench.count_bytecodes [--functions] [WORKLOAD...]

A small cluster in virtual time, and a tracer that sees every step of the interpreter from before
the first measured pod is created until the last event is written.  So the figures compare two
versions of the code on any machine, busy or not; what NumPy and msgspec do inside is not in them.
`--functions` also names those that most of it is spent in.  docs/performance.md quotes the figures.
"""

from __future__ import annotations

import sys
from collections import Counter
from types import CodeType, FrameType
from typing import Any

from stowplan.bench.catalogue import choose, resized, shipped
from stowplan.bench.engine import VirtualTime
from stowplan.bench.language import Workload
from stowplan.bench.run import Options, run_workload
from stowplan.bench.sampler import Sampler

NODES = 200
FUNCTIONS_SHOWN = 40
SIZES = {
    "SchedulingBasic": {"init_pods": 100, "pods": 300},
    "SchedulingAnySize": {"init_pods": 100, "pods": 300},
    "SchedulingCSIPVs": {"init_pods": 100, "pods": 300},
    "DeviceClaims": {"init_pods": 100, "pods": 300},
    "PreemptionBasic": {"init_pods": 4 * NODES, "pods": NODES},
}


class BytecodeCounter(Sampler):
    """Counts between `start` and `stop`, for the thread that calls them."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0
        self.by_code: Counter[CodeType] = Counter()

    def start(self) -> None:
        # Those who wait further down the stack are not called anew: they are told one by one.
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            frame.f_trace = self._step
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
            frame = frame.f_back
        sys.settrace(self._enter)

    def stop(self) -> None:
        sys.settrace(None)

    @property
    def bytecodes(self) -> int:
        return sum(self.by_code.values())

    def _enter(self, frame: FrameType, event: str, argument: Any) -> Any:
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        self.calls += 1
        return self._step

    def _step(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event == "opcode":
            self.by_code[frame.f_code] += 1
        return self._step


def counted(workload: Workload) -> tuple[BytecodeCounter, int]:
    """What the measured part took, and for how many pods."""
    counter = BytecodeCounter()
    options = Options(yardstick=False, sampler=counter, tune=False)
    result = run_workload(workload, options, engine=VirtualTime())
    return counter, result["pods"]


def small(name: str) -> Workload:
    """The main workload of this name, on a small cluster if it is one of `SIZES`."""
    (workload,) = choose([name], shipped())
    sizes = SIZES.get(name)
    return workload if sizes is None else resized(workload, nodes=NODES, **sizes)


def main() -> None:
    names = [argument for argument in sys.argv[1:] if argument != "--functions"] or [*SIZES]
    for name in names:
        workload = small(name)
        counter, pods = counted(workload)
        per_pod = f"{counter.bytecodes / pods:,.0f} bytecodes, {counter.calls / pods:,.1f} calls"
        print(f"{name}: {per_pod} per pod ({pods} pods)", flush=True)
        if "--functions" in sys.argv[1:]:
            for code, count in counter.by_code.most_common(FUNCTIONS_SHOWN):
                print(f"{count / pods:10,.1f}  {code.co_qualname} ({code.co_filename})")


if __name__ == "__main__":
    main()
