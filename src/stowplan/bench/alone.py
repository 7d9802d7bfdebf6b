"""One workload in a process of its own, so that no other has warmed or filled the memory.

`stowplan bench` starts `python -m stowplan.bench.alone` for each of several workloads, hands the
request in on stdin as JSON and reads the result from stdout; progress goes to stderr as ever.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from stowplan.bench import simulating, start
from stowplan.bench.catalogue import choose, resized, shipped
from stowplan.bench.language import Workload, read_workloads
from stowplan.bench.progress import Progress
from stowplan.bench.results import Result
from stowplan.bench.run import Options, run_workload
from stowplan.errors import StowplanError


def perform(request: dict[str, Any], options: Options) -> Result:
    """Run what the request names, here and now."""
    if start.is_start(request["workload"]):
        return start.run_start(request["workload"], options, **_sizes(request))
    if simulating.is_simulation(request["workload"]):
        return simulating.run_simulation(request["workload"], options)
    return run_workload(chosen_workload(request), options)


def chosen_workload(request: dict[str, Any]) -> Workload:
    """What the request names, in the size it asks for."""
    file = request.get("file")
    known = read_workloads(Path(file)) if file else shipped()
    (workload,) = choose([request["workload"]], known)
    return resized(workload, **_sizes(request))


def _sizes(request: dict[str, Any]) -> dict[str, int | None]:
    return {name: request.get(name) for name in ("nodes", "init_pods", "pods")}


def perform_alone(request: dict[str, Any]) -> Result:
    """The same in a new process; a failure becomes the result's `error`."""
    run = subprocess.run(
        [sys.executable, "-m", "stowplan.bench.alone"],
        input=json.dumps(request),
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    try:
        result: Result = json.loads(run.stdout)
    except ValueError:
        return {"workload": request["workload"], "error": f"ended with code {run.returncode}"}
    return result


def main() -> None:
    request = json.load(sys.stdin)
    progress = Progress(request["workload"])
    try:
        result = perform(request, Options(progress=progress.show))
    except StowplanError as error:
        result = {"workload": request["workload"], "error": str(error)}
    finally:
        progress.end()
    json.dump(result, sys.stdout)


if __name__ == "__main__":
    main()
