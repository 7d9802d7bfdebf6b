"""Why not: nodes that are turned down for the same cause, with names and amounts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from msgspec import to_builtins

from stowplan.answers.generators.pod_affinity import REQUIRED, compiled, term_text
from stowplan.answers.generators.taints import taint_text
from stowplan.answers.generators.volume_places import ties
from stowplan.answers.situation import SCHEDULER, Situation
from stowplan.answers.words import count_of, shown, some_of
from stowplan.core.group_outcome import GroupOutcome
from stowplan.objects.pod import Pod
from stowplan.state.pod_info import kind_of

Data = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Cause:
    plugin: str
    reason: str
    """As kube-scheduler words it."""
    nodes: list[str]
    detail: str = ""
    """Names and amounts."""
    alone: list[str] = field(default_factory=list)
    """Nodes that nobody else turns down: near misses."""

    def to_dict(self) -> Data:
        return {
            "plugin": self.plugin,
            "reason": self.reason,
            "nodes": self.nodes,
            "detail": self.detail,
            "nearMisses": list(self.alone),
        }


def causes_of(s: Situation) -> list[Cause]:
    """Those with near misses first, then those of the most nodes."""
    found = [_of_the_pod(s, family) for family in sorted(s.whole)]
    if s.group is not None and not s.whole and not s.group.is_placed:
        found.append(_of_group(s, s.group))
    if not s.names:
        found.append(Cause("Nodes", "there is no node", []))
    count = s.objections.count()
    for plugin in [each for each in s.objections.plugins if each not in s.whole]:
        rows = s.objections.rejected[plugin].nonzero()[0].tolist()
        by_reason: dict[tuple[str, str], list[int]] = {}
        for row in rows:
            reason = ", ".join(s.objections.reasons(plugin, row))
            split = _split(s, plugin, row)
            by_reason.setdefault((reason, split), []).append(row)
        for (reason, split), own in by_reason.items():
            found.append(
                Cause(
                    plugin,
                    reason,
                    [s.names[row] for row in own],
                    _detail(s, plugin, reason, split, own),
                    [s.names[row] for row in own if count[row] == 1],
                )
            )
    return sorted(found, key=lambda cause: (bool(cause.nodes), not cause.alone, -len(cause.nodes)))


def _of_the_pod(s: Situation, family: str) -> Cause:
    if family == SCHEDULER:
        name = s.pod.spec.scheduler_name
        known = ", ".join(s.cluster.profiles)
        return Cause(family, f"no profile is for scheduler {name!r}", [], f"there are: {known}")
    if SCHEDULER in s.whole:
        gates = ", ".join(gate.name for gate in s.pod.spec.scheduling_gates or ())
        return Cause(family, f"scheduling gates: {gates}", [])
    return Cause(family, s.cluster.decision(s.key).message, [], _of_gang(s))


def _of_group(s: Situation, group: GroupOutcome) -> Cause:
    """It is placed with its group or not at all."""
    plugin = "TopologyPlacementGenerator" if group.topology_key else "GangScheduling"
    had = f"{len(group.placed)} of {count_of(group.member_count, 'pod')} had a place"
    return Cause(plugin, s.cluster.decision(s.key).message, [], f"group {group.group}: {had}")


def _of_gang(s: Situation) -> str:
    """How many pods a gang lacks before anybody looks for nodes."""
    group = s.group
    if group is None or group.member_count >= group.needed:
        return ""
    there = count_of(group.member_count, "pod")
    return f"group {group.group} needs {group.needed}, and has {there}"


def _split(s: Situation, plugin: str, row: int) -> str:
    """What tells nodes apart that are turned down with the same words."""
    if plugin == "TaintToleration":
        return ", ".join(taint_text(taint) for taint in s.untolerated(row))
    return ""


def _detail(s: Situation, plugin: str, reason: str, split: str, rows: list[int]) -> str:
    if plugin == "NodeResourcesFit":
        return "; ".join(_amounts(s, name, rows) for name in _short_of(reason))
    make = {
        "NodeName": _of_name,
        "NodeAffinity": _of_labels,
        "PodTopologySpread": _of_spread,
        "InterPodAffinity": _of_affinity,
        "NodePorts": _of_ports,
        "VolumeBinding": _of_volumes,
        "VolumeZone": _of_volumes,
        "VolumeRestrictions": _of_users,
        "NodeVolumeLimits": _of_limits,
    }.get(plugin)
    if make is not None:
        return make(s, rows)
    return split


def _short_of(reason: str) -> list[str]:
    names = [each.removeprefix("Insufficient ") for each in reason.split(", ")]
    return ["pods" if name == "Too many pods" else name for name in names]


def _amounts(s: Situation, name: str, rows: list[int]) -> str:
    wanted = 1 if name == "pods" else s.requests.get(name, 0)
    free, whole = s.free.get(name), s.allocatable.get(name)
    if free is None or whole is None or not whole.any():
        return f"wants {shown(name, wanted)} {name}; no node has it"
    best = max(rows, key=lambda row: int(free[row]))
    large = sum(int(whole[row]) >= wanted for row in rows)
    in_all = f"{large} have" if large != 1 else "1 has"
    return (
        f"wants {shown(name, wanted)} {name}; the most free on one node is "
        f"{shown(name, int(free[best]))} ({s.names[best]}); {in_all} {shown(name, wanted)} in all"
    )


def _of_name(s: Situation, rows: list[int]) -> str:
    name = s.pod.spec.node_name
    return f"it names the node {name}, which there is not: no scheduler looks at it"


def _of_labels(s: Situation, rows: list[int]) -> str:
    parts = []
    spec = s.manifest["spec"]
    wanted = [(key, [str(value)]) for key, value in (spec.get("nodeSelector") or {}).items()]
    affinity = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(REQUIRED) or {}
    fields: list[str] = []
    for term in affinity.get("nodeSelectorTerms") or ():
        labels, names = term.get("matchExpressions") or (), term.get("matchFields") or ()
        wanted += [(each.get("key", ""), [_requirement(each)]) for each in labels]
        fields += [f"wants {each.get('key', '')} {_requirement(each)}" for each in names]
    for key, values in wanted:
        have = Counter(s.labels(row)[key] for row in rows if key in s.labels(row))
        told = some_of([f"{value} ({count})" for value, count in have.most_common()], 4)
        parts.append(f"wants {key} {' '.join(values)}; there: {told or 'not on any of them'}")
    return "; ".join([*parts, *fields])


def _requirement(each: Data) -> str:
    return f"{each.get('operator', '')} {','.join(map(str, each.get('values') or ()))}".strip()


def _of_spread(s: Situation, rows: list[int]) -> str:
    parts = []
    for each in s.manifest["spec"].get("topologySpreadConstraints") or ():
        if each.get("whenUnsatisfiable", "DoNotSchedule") != "DoNotSchedule":
            continue
        key = each.get("topologyKey", "")
        counts = _matching_by_domain(s, each.get("labelSelector"), key, {s.pod.namespace})
        told = ", ".join(f"{value} has {count}" for value, count in sorted(counts.items())[:6])
        skew = each.get("maxSkew", 1)
        parts.append(f"max skew {skew} over {key}: {told or 'no node has the label'}")
    return "; ".join(parts)


def _matching_by_domain(s: Situation, selector: Any, key: str, spaces: set[str]) -> Counter[str]:
    match = compiled(selector)
    domains = {s.names[n]: s.labels(n).get(key) for n in range(len(s.names))}
    counts: Counter[str] = Counter({value: 0 for value in domains.values() if value is not None})
    for pod in s.running:
        value = domains.get(pod.spec.node_name)
        if value is not None and pod.namespace in spaces and match(pod.metadata.labels or {}):
            counts[value] += 1
    return counts


def _of_affinity(s: Situation, rows: list[int]) -> str:
    parts = []
    affinity = s.manifest["spec"].get("affinity") or {}
    for stanza, word in (("podAffinity", "wants"), ("podAntiAffinity", "keeps away from")):
        for term in (affinity.get(stanza) or {}).get(REQUIRED) or ():
            spaces = set(term.get("namespaces") or [s.pod.namespace])
            key = term.get("topologyKey", "")
            counts = _matching_by_domain(s, term.get("labelSelector"), key, spaces)
            there = [f"{value} has {n}" for value, n in counts.most_common() if n]
            parts.append(f"{word} {term_text(term)}: {some_of(there, 4) or 'no such pod runs'}")
    return "; ".join([*parts, *_kept_away_by(s)])


def _kept_away_by(s: Situation) -> Iterator[str]:
    """Terms of running pods that this one matches, and whose they are."""
    by_term: dict[str, list[str]] = {}
    for pod, term in s.opposing:
        by_term.setdefault(term_text(to_builtins(term)), []).append(pod.key)
    for text, pods in by_term.items():
        yield f"{some_of(pods)} {'keeps' if len(pods) == 1 else 'keep'} away from {text}"


def _of_ports(s: Situation, rows: list[int]) -> str:
    wanted = {port for _, _, port in kind_of(s.pod).host_ports}
    holders = [
        pod.key
        for row in rows
        for pod in s.by_node.get(s.names[row], ())
        if any(port in wanted for _, _, port in kind_of(pod).host_ports)
    ]
    return f"host port {', '.join(map(str, sorted(wanted)))} is taken by {some_of(holders)}"


def _of_users(s: Situation, rows: list[int]) -> str:
    """Who has the volumes that the pod wants."""
    wanted = _sources(s.pod)
    users = [pod.key for pod in s.running if wanted & _sources(pod)]
    return f"its volumes are in use by {some_of(users)}" if users else ""


def _sources(pod: Pod) -> set[str]:
    """Its claims, and disks that it names itself."""
    found = set()
    for each in pod.spec.volumes or ():
        if each.persistent_volume_claim is not None:
            found.add(f"{pod.namespace}/{each.persistent_volume_claim.claim_name}")
        for disk in (each.gce_persistent_disk, each.aws_elastic_block_store, each.rbd, each.iscsi):
            if disk is not None:
                found.add(str(disk))
    return found


def _of_limits(s: Situation, rows: list[int]) -> str:
    """How many volumes nodes take."""
    names = {s.names[row] for row in rows}
    told = [
        f"{driver.name} takes {driver.allocatable.count} on {each.name}"
        for each in s.objects("CSINode")
        if each.name in names
        for driver in each.spec.drivers or ()
        if driver.allocatable is not None and driver.allocatable.count is not None
    ]
    return some_of(told, 4)


def _of_volumes(s: Situation, rows: list[int]) -> str:
    parts = []
    volumes = {volume.name: volume for volume in s.objects("PersistentVolume")}
    claims = {claim.key: claim for claim in s.objects("PersistentVolumeClaim")}
    for each in s.pod.spec.volumes or ():
        if each.persistent_volume_claim is None:
            continue
        claim = claims.get(f"{s.pod.namespace}/{each.persistent_volume_claim.claim_name}")
        volume = volumes.get(claim.spec.volume_name) if claim is not None else None
        if claim is not None and volume is not None and ties(volume):
            told = ", ".join(f"{key}={value}" for key, value in ties(volume))
            parts.append(f"claim {claim.name} has volume {volume.name}, which is tied to {told}")
    return "; ".join(parts)
