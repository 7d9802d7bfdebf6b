"""What a plugin's answer for a node depends on: said once, in `reads`, and all else follows.

    class TaintToleration:
        reads = Reads.NODE

Where the answer depends on the pod and on one node, it is kept for pods alike, and asked for again
once what it was made of has changed on that node.  A plugin that says nothing may read anything,
and is asked about every pod.
"""

from __future__ import annotations

from enum import Flag
from typing import Any


class Reads(Flag):
    """Of nodes, each includes those before it; of the pod, what is read beside its labels and spec.

    In `Reads.SUMS | Reads.SIZE` a plugin reads what pods take up on the node, and what the pod
    asks for.
    """

    NODE = 1
    """The node object: labels, taints, allocatable, images, features."""
    SUMS = 3
    """And what the pods on the node take up in sum: requests, ports, how many they are."""
    PODS = 7
    """And those pods one by one."""
    CLUSTER = 15
    """And anything else: other nodes, other objects, whatever `handle` reaches.  Nothing is kept
    then, but what the plugin says of pods before any node is looked at."""
    SIZE = 16
    """How much the pod asks for."""
    ANNOTATIONS = 32
    """The pod's annotations, its name, the names of its claims and of volumes that need no place:
    all in which replicas may differ.  `signature` has to say what of it counts."""


ANYTHING = Reads.CLUSTER | Reads.SIZE | Reads.ANNOTATIONS

_OF_ONE_POD = Reads.SIZE | Reads.ANNOTATIONS


def reads_of(plugin: Any) -> Reads:
    reads: Reads = getattr(plugin, "reads", ANYTHING)
    return reads


def is_node_local(plugin: Any) -> bool:
    """Whether the answer for a node depends on the pod and that node alone."""
    return Reads.CLUSTER not in reads_of(plugin)


def is_node_only(plugin: Any) -> bool:
    """Whether of that node it depends on the object alone, never on the pods there."""
    return Reads.SUMS not in reads_of(plugin)


def is_by_traits(plugin: Any) -> bool:
    """Whether all pods that differ in nothing but their size are one to the plugin."""
    return not reads_of(plugin) & _OF_ONE_POD


def skips_by_traits(plugin: Any) -> bool:
    """Whether it skips, for longer than one pod, all that differ in nothing but their size.

    One that reads the size of some pods may say so of itself: it knows which pods do not concern
    it, of whatever size, before it looks at that.
    """
    return is_by_traits(plugin) or bool(getattr(plugin, "skips_any_size", False))
