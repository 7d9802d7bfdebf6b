"""What the pod itself says: scheduling gates, its scheduler, host ports, kubelet features."""

from __future__ import annotations

from collections.abc import Iterator

from stowplan.answers.changes import Candidate, Data, Sort
from stowplan.answers.situation import Situation
from stowplan.answers.words import likeness, nearest

PORT_MAX = 65535


def gates(s: Situation, rows: list[int]) -> Iterator[Candidate]:
    found = s.manifest["spec"].get("schedulingGates") or []
    names = ", ".join(str(gate.get("name")) for gate in found)

    def edit(pod: Data) -> None:
        pod["spec"].pop("schedulingGates", None)

    word = "gate" if len(found) == 1 else "gates"
    if found:
        yield Candidate(f"remove the scheduling {word} {names}", Sort.RELEASE, pod=(edit,))


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
    taken = {port[2] for row in rows[:500] for port in _used(s, row)}
    wrong = [
        (place, number, port)
        for place, container in enumerate(spec.get("containers") or ())
        for number, port in enumerate(container.get("ports") or ())
        if _host_port(spec, port) in taken
    ]
    if not wrong:
        return
    free = iter(range(min(_host_port(spec, port) for _, _, port in wrong) + 1, PORT_MAX))
    new: dict[tuple[int, int], int] = {}
    for place, number, _ in wrong:
        own = {_host_port(spec, p) for c in spec["containers"] for p in c.get("ports") or ()}
        used = taken | own | set(new.values())
        new[place, number] = next(each for each in free if each not in used)
    words = ", ".join(
        f"{new[place, number]} instead of {_host_port(spec, port)}" for place, number, port in wrong
    )

    def change(pod: Data) -> None:
        for (place, number), value in new.items():
            port = pod["spec"]["containers"][place]["ports"][number]
            port["hostPort"] = value
            if pod["spec"].get("hostNetwork"):
                port["containerPort"] = value

    def remove(pod: Data) -> None:
        for place, number in new:
            pod["spec"]["containers"][place]["ports"][number].pop("hostPort", None)

    yield Candidate(f"use host port {words}", Sort.OTHER, len(new), pod=(change,))
    if not spec.get("hostNetwork"):
        ports = ", ".join(str(_host_port(spec, port)) for _, _, port in wrong)
        yield Candidate(f"do without the host port {ports}", Sort.DROP, len(new), pod=(remove,))


def _host_port(spec: Data, port: Data) -> int:
    return int(
        port.get("hostPort") or (port.get("containerPort") if spec.get("hostNetwork") else 0) or 0
    )


def _used(s: Situation, row: int) -> Iterator[tuple[str, str, int]]:
    for pod in s.by_node.get(s.names[row], ()):
        for container in pod.spec.containers or ():
            for port in container.ports or ():
                if port.host_port:
                    yield port.host_ip, port.protocol, port.host_port
