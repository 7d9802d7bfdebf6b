"""The nodes from which a bound volume can be reached.

An in-tree volume has two affinities: its own, and the one it has in the eyes of the CSI driver
that took over.  Which one counts is up to the node, by an annotation of its CSINode.
"""

from __future__ import annotations

import numpy as np

from stowplan.framework.status import NodeMask, Rows
from stowplan.objects.storage import CSINode, PersistentVolume
from stowplan.plugins._shared.csi_migration import (
    InTreePlugin,
    TranslationError,
    is_migrated_on,
    plugin_of,
    translated_affinity,
)
from stowplan.plugins.volume_binding.places import Places, places_of_volume
from stowplan.state.node_info import NodeInfo
from stowplan.state.node_table import NodeTable
from stowplan.state.object_index import ObjectIndex


class VolumeAffinity:
    """Every answer may raise `TranslationError`."""

    def __init__(self, objects: ObjectIndex) -> None:
        self._objects = objects

    def is_anywhere(self, volume: PersistentVolume) -> bool:
        """Plainly reachable from every node; False when one has to look closer."""
        spec = volume.spec
        affinity = spec.node_affinity
        if affinity is not None and affinity.required is not None:
            return False
        return spec.csi is not None or not volume.metadata.labels

    def accepts(self, volume: PersistentVolume, node: NodeInfo) -> bool:
        if self.is_anywhere(volume):
            return True
        plugin = _migratable(volume)
        if plugin is not None and is_migrated_on(self._objects.get(CSINode, node.name), plugin):
            return _translated(plugin, volume).accepts(node.labels)
        return _own(volume).accepts(node.labels)

    def mask(self, volume: PersistentVolume, nodes: NodeTable) -> NodeMask:
        plugin = _migratable(volume)
        own = _own(volume).mask(nodes)
        if plugin is None:
            return own
        migrated = self._migrated(plugin, nodes)
        if not migrated.any():
            return own
        return np.where(migrated, _translated(plugin, volume).mask(nodes), own)

    def _migrated(self, plugin: InTreePlugin, nodes: NodeTable) -> NodeMask:
        """Rows whose CSINode lists the plugin; asked again when a CSINode or the node changes."""
        objects = self._objects

        def member(table: NodeTable, rows: Rows) -> NodeMask:
            names = (table.names[row] for row in rows.tolist())
            nodes_say = (is_migrated_on(objects.get(CSINode, name), plugin) for name in names)
            return np.fromiter(nodes_say, np.bool_, len(rows))

        key = ("migrated", plugin.name, objects.version(CSINode))
        return nodes.row_set(key, member).mask


def _migratable(volume: PersistentVolume) -> InTreePlugin | None:
    plugin = plugin_of(volume.spec) if volume.spec.csi is None else None
    return plugin if plugin is not None and plugin.is_on else None


def _own(volume: PersistentVolume) -> Places:
    affinity = volume.spec.node_affinity
    return places_of_volume(affinity.required if affinity is not None else None)


def _translated(plugin: InTreePlugin, volume: PersistentVolume) -> Places:
    try:
        return places_of_volume(translated_affinity(plugin, volume))
    except TranslationError as problem:
        raise TranslationError(f"could not translate pv: {problem}") from problem
