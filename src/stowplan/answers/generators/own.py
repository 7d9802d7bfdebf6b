"""What the pod itself says: scheduling gates, its scheduler, host ports, kubelet features."""

from __future__ import annotations

from collections.abc import Iterator

from stowplan.answers.changes import Candidate, Data, Sort
from stowplan.answers.situation import Situation
from stowplan.answers.words import likeness, nearest
from stowplan.state.pod_info import ANY_IP, HostPort, kind_of

PORT_MAX = 65535
ROWS_MAX = 500
"""Nodes whose ports are looked at."""


def gates(s: Situation, rows: list[int]) -> Iterator[Candidate]:
    found = s.manifest["spec"].get("schedulingGates") or []
    names = ", ".join(str(gate.get("name")) for gate in found)

    def edit(pod: Data) -> None:
        pod["spec"].pop("schedulingGates", None)

    word = "gate" if len(found) == 1 else "gates"
    if found:
        yield Candidate(f"remove the scheduling {word} {names}", Sort.RELEASE, pod=(edit,))


def node_name(s: Situation, rows: list[int]) -> Iterator[Candidate]:
    """For a pod that names a node which there is not."""
    name = s.manifest["spec"].get("nodeName", "")
    right = nearest(name, s.names)

    def drop(pod: Data) -> None:
        del pod["spec"]["nodeName"]

    # Nobody asks whether there is room on a node that a pod names, but its kubelet.
    if right is not None and right in s.screen.feasible(s.edited([drop])):

        def edit(pod: Data) -> None:
            pod["spec"]["nodeName"] = right

        title = f"correct the node's name: {right} instead of {name}"
        amount = 1 - likeness(name, right)
        yield Candidate(title, Sort.CORRECT, amount, pod=(edit,), is_indirect=True)
    yield Candidate(f"let the scheduler choose a node instead of {name}", Sort.DROP, pod=(drop,))


def scheduler(s: Situation, rows: list[int]) -> Iterator[Candidate]:
    """For a pod that no profile is for."""
    name, known = s.pod.spec.scheduler_name, s.cluster.profiles
    right = nearest(name, known, 0.0) or known[0]

    def edit(pod: Data) -> None:
        pod["spec"]["schedulerName"] = right

    alike = likeness(name, right)
    sort = Sort.CORRECT if alike >= 0.6 else Sort.OTHER
    title = f"ask for the scheduler {right!r} instead of {name!r}"
    yield Candidate(title, sort, 1 - alike, pod=(edit,))


def features(s: Situation, rows: list[int]) -> Iterator[Candidate]:
    """Fields that only kubelets with a feature understand, which a node declares."""
    spec = s.manifest["spec"]
    if spec.get("hostNetwork") and spec.get("hostUsers") is False:
        for field in ("hostUsers", "hostNetwork"):

            def drop(pod: Data, field: str = field) -> None:
                del pod["spec"][field]

            title = f"do without {field}: {str(spec[field]).lower()}"
            yield Candidate(title, Sort.DROP, field == "hostNetwork", pod=(drop,))
    if any(_restarting(container) for container in _containers(spec)):

        def without_rules(pod: Data) -> None:
            for container in _containers(pod["spec"]):
                if _restarting(container):
                    del container["restartPolicyRules"]

        yield Candidate("drop the rules that restart all containers", Sort.DROP,
                        pod=(without_rules,))  # fmt: skip


def _containers(spec: Data) -> list[Data]:
    return [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]


def _restarting(container: Data) -> bool:
    rules = container.get("restartPolicyRules") or ()
    return any(rule.get("action") == "RestartAllContainers" for rule in rules)


def host_ports(s: Situation, rows: list[int]) -> Iterator[Candidate]:
    spec = s.manifest["spec"]
    used = {port for row in rows[:ROWS_MAX] for port in used_ports(s, row)}
    taken = {port for _, _, port in used}
    own = {_host_port(spec, port) for _, port in _ports(spec)}
    wrong = [(where, port) for where, port in _ports(spec) if _is_taken(spec, port, used)]
    if not wrong:
        return
    new: dict[Where, int] = {}
    for where, port in wrong:
        new[where] = _free_port(_host_port(spec, port), taken | own | set(new.values()))
    words = ", ".join(f"{new[where]} instead of {_host_port(spec, port)}" for where, port in wrong)

    def change(pod: Data) -> None:
        for (field, place, number), value in new.items():
            port = pod["spec"][field][place]["ports"][number]
            port["hostPort"] = value
            if pod["spec"].get("hostNetwork"):
                port["containerPort"] = value

    def remove(pod: Data) -> None:
        for field, place, number in new:
            pod["spec"][field][place]["ports"][number].pop("hostPort", None)

    yield Candidate(f"use host port {words}", Sort.OTHER, len(new), pod=(change,))
    if not spec.get("hostNetwork"):
        ports = ", ".join(str(_host_port(spec, port)) for _, port in wrong)
        yield Candidate(f"do without the host port {ports}", Sort.DROP, len(new), pod=(remove,))


Where = tuple[str, int, int]
"""Which list of containers, which of them, which of its ports."""


def _ports(spec: Data) -> Iterator[tuple[Where, Data]]:
    """Those that a node has to have free: of containers that run as long as the pod does."""
    for field in ("containers", "initContainers"):
        for place, container in enumerate(spec.get(field) or ()):
            if field == "containers" or container.get("restartPolicy") == "Always":
                for number, port in enumerate(container.get("ports") or ()):
                    yield (field, place, number), port


def _is_taken(spec: Data, port: Data, used: set[HostPort]) -> bool:
    ip, protocol = port.get("hostIP") or ANY_IP, port.get("protocol") or "TCP"
    number = _host_port(spec, port)
    return any(
        (protocol, number) == other[1:] and (ANY_IP in (ip, other[0]) or ip == other[0])
        for other in used
    )


def _free_port(wanted: int, used: set[int]) -> int:
    """The next one above; above the last there are those below."""
    above = range(wanted + 1, PORT_MAX + 1)
    below = range(wanted - 1, 0, -1)
    return next((each for each in (*above, *below) if each not in used), wanted)


def _host_port(spec: Data, port: Data) -> int:
    return int(
        port.get("hostPort") or (port.get("containerPort") if spec.get("hostNetwork") else 0) or 0
    )


def used_ports(s: Situation, row: int) -> Iterator[HostPort]:
    """What pods have on a node."""
    for pod in s.by_node.get(s.names[row], ()):
        yield from kind_of(pod).host_ports
