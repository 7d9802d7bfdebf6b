"""What the cache tells the node table: the short list of things that changed since last time."""

from __future__ import annotations

from enum import Enum


class CacheChange(Enum):
    NODE_SET = "node set"
    """A node was added or updated; payload: the pods on it at that moment."""
    NODE_SWAPPED = "node swapped"
    """A newer object that says the same (a heartbeat); payload: the node."""
    NODE_REMOVED = "node removed"
    """Payload: the pods still on it at that moment."""
    POD_ADDED = "pod added"
    """Payload: the pod."""
    POD_SWAPPED = "pod swapped"
    """A newer object of the same kind: the sums stand."""
    POD_REDEFINED = "pod redefined"
    """Of another kind now, with other labels say: the sums stand.  Payload: the pod before, now."""
    POD_REMOVED = "pod removed"
