"""The row of a pod in `kubectl get pods`: containers that are ready, and one word for its state.

Works on JSON data.  Mirrors `printPod` of `pkg/printers/internalversion/printers.go`.
"""

from __future__ import annotations

from typing import Any

from stowplan.apiserver.http.durations import age
from stowplan.objects.pod import ENDED_PHASES
from stowplan.objects.times import parse_time

Data = dict[str, Any]

NONE = "<none>"


def pod_cells(pod: Data, now_s: float) -> list[Any]:
    spec, status, metadata = (pod.get(key) or {} for key in ("spec", "status", "metadata"))
    ready, total, restarts = _counts(spec, status)
    return [
        metadata.get("name", ""),
        f"{ready}/{total}",
        pod_state(pod),
        _restarts_text(restarts, status, now_s),
        age(metadata.get("creationTimestamp"), now_s),
        status.get("podIP") or NONE,
        spec.get("nodeName") or NONE,
        status.get("nominatedNodeName") or NONE,
        _readiness_gates(spec, status),
    ]


def pod_state(pod: Data) -> str:
    """The word in the column STATUS.

    >>> pod_state({"status": {"phase": "Pending"}})
    'Pending'
    """
    spec, status, metadata = (pod.get(key) or {} for key in ("spec", "status", "metadata"))
    state = str(status.get("reason") or status.get("phase") or "")
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("reason") == "SchedulingGated":
            state = "SchedulingGated"
    starting = _initializing(spec, status)
    if starting:
        state = starting
    else:
        state = _from_containers(state, status)
    if metadata.get("deletionTimestamp"):
        if status.get("reason") == "NodeLost":
            return "Unknown"
        if status.get("phase") not in ENDED_PHASES:
            return "Terminating"
    return state


def _initializing(spec: Data, status: Data) -> str:
    """What the first unfinished init container says, or nothing when there is none."""
    init = spec.get("initContainers") or []
    sidecars = {one.get("name") for one in init if one.get("restartPolicy") == "Always"}
    for index, one in enumerate(status.get("initContainerStatuses") or ()):
        state = one.get("state") or {}
        ended, waiting = state.get("terminated"), state.get("waiting")
        if ended is not None and not ended.get("exitCode"):
            continue
        if one.get("name") in sidecars and one.get("started"):
            continue
        if ended is not None:
            return f"Init:{_why_ended(ended)}"
        if waiting and waiting.get("reason") not in (None, "", "PodInitializing"):
            return f"Init:{waiting['reason']}"
        return f"Init:{index}/{len(init)}"
    return ""


def _from_containers(state: str, status: Data) -> str:
    has_running = False
    for one in reversed(status.get("containerStatuses") or []):
        now = one.get("state") or {}
        ended, waiting = now.get("terminated"), now.get("waiting")
        if waiting and waiting.get("reason"):
            state = waiting["reason"]
        elif ended is not None:
            state = _why_ended(ended)
        elif one.get("ready") and now.get("running") is not None:
            has_running = True
    if state == "Completed" and has_running:
        state = "Running" if _is_ready(status) else "NotReady"
    return state


def _why_ended(ended: Data) -> str:
    if ended.get("reason"):
        return str(ended["reason"])
    if ended.get("signal"):
        return f"Signal:{ended['signal']}"
    return f"ExitCode:{ended.get('exitCode', 0)}"


def _is_ready(status: Data) -> bool:
    return any(
        condition.get("type") == "Ready" and condition.get("status") == "True"
        for condition in status.get("conditions") or ()
    )


def _counts(spec: Data, status: Data) -> tuple[int, int, int]:
    """Containers that are ready, containers in all, restarts."""
    sidecars = {
        one.get("name")
        for one in spec.get("initContainers") or ()
        if one.get("restartPolicy") == "Always"
    }
    statuses = list(status.get("containerStatuses") or ())
    statuses += [
        one for one in status.get("initContainerStatuses") or () if one.get("name") in sidecars
    ]
    ready = sum(
        1
        for one in statuses
        if one.get("ready") and (one.get("state") or {}).get("running") is not None
    )
    restarts = sum(int(one.get("restartCount") or 0) for one in statuses)
    return ready, len(spec.get("containers") or ()) + len(sidecars), restarts


def _restarts_text(restarts: int, status: Data, now_s: float) -> str:
    ended = [
        str(finished)
        for one in status.get("containerStatuses") or ()
        if (finished := ((one.get("lastState") or {}).get("terminated") or {}).get("finishedAt"))
    ]
    if not restarts or not ended:
        return str(restarts)
    return f"{restarts} ({age(max(ended, key=parse_time), now_s)} ago)"


def _readiness_gates(spec: Data, status: Data) -> str:
    gates = [gate.get("conditionType") for gate in spec.get("readinessGates") or ()]
    if not gates:
        return NONE
    true = {
        condition.get("type")
        for condition in status.get("conditions") or ()
        if condition.get("status") == "True"
    }
    return f"{sum(1 for gate in gates if gate in true)}/{len(gates)}"
