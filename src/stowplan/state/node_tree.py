"""Node names in the order kube-scheduler lists them: zones in turn, one node of each at a time.

Mirrors `backend/cache/node_tree.go`.  The order matters only where not all nodes are looked at.
"""

from __future__ import annotations

from stowplan.objects.node import Node
from stowplan.state.pod_info import NO_LABELS

_ZONE_KEYS = ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone")
_REGION_KEYS = ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region")


def zone_of(node: Node) -> str:
    """Region and zone in one string, the beta labels winning; empty when neither is there."""
    labels = node.metadata.labels or NO_LABELS
    zone = next((labels[key] for key in _ZONE_KEYS if key in labels), "")
    region = next((labels[key] for key in _REGION_KEYS if key in labels), "")
    return f"{region}:\x00:{zone}" if region or zone else ""


class NodeTree:
    def __init__(self) -> None:
        self._zones: dict[str, dict[str, None]] = {}
        self._zone_of: dict[str, str] = {}

    def fork(self) -> NodeTree:
        fork = NodeTree()
        fork._zones = {zone: names.copy() for zone, names in self._zones.items()}
        fork._zone_of = self._zone_of.copy()
        return fork

    def __len__(self) -> int:
        return len(self._zone_of)

    def add(self, node: Node) -> None:
        """Add a node, or move it when its zone changed."""
        name, zone = node.metadata.name, zone_of(node)
        known = self._zone_of.get(name)
        if known == zone:
            return
        if known is not None:
            self.remove(name)
        self._zones.setdefault(zone, {})[name] = None
        self._zone_of[name] = zone

    def remove(self, name: str) -> None:
        zone = self._zone_of.pop(name, None)
        if zone is None:
            return
        del self._zones[zone][name]
        if not self._zones[zone]:
            del self._zones[zone]

    def names(self) -> list[str]:
        """All names, round robin over the zones in the order they were first seen."""
        rounds = [list(zone) for zone in self._zones.values()]
        longest = max((len(zone) for zone in rounds), default=0)
        return [zone[i] for i in range(longest) for zone in rounds if i < len(zone)]
