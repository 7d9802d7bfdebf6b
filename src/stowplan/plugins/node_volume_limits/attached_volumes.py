"""How many volumes of each CSI driver are attached to each node, kept as columns.

The definition is a set union per node: the volumes of its pods, and those that VolumeAttachments
name.  A volume that two pods share counts once.  So each volume knows on which rows it is and how
often, and a driver's column changes only when a volume comes to a row or leaves it for good.

`refresh` follows what changed since the last call: rows of the node table, claims and volumes
(which decide what a pod's claim stands for), attachments, and CSINodes (which bring the limits).
NodeVolumeLimits asks here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stowplan.objects.base import KubeObject
from stowplan.objects.storage import (
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from stowplan.plugins._shared.volumes import ClaimUse, claims_of
from stowplan.plugins.node_volume_limits.csi_volumes import (
    CSIVolume,
    inline_of_running,
    limits_of,
    volume_of_attachment,
    volume_of_running,
)
from stowplan.state.node_table import NodeTable
from stowplan.state.object_index import ObjectIndex
from stowplan.state.pod_info import PodInfo
from stowplan.state.row_follower import RowFollower

NO_LIMIT = 2**62

Ints = NDArray[np.int64]
Links = dict[str, dict[str, None]]
"""Name -> names that hang on it, in the order they came."""


class AttachedVolumes:
    def __init__(self, table: NodeTable, objects: ObjectIndex) -> None:
        self._table = table
        self._objects = objects
        self._claims = objects.all(PersistentVolumeClaim)
        self._follower = RowFollower()
        self._change_count = -1
        """Of all objects; while it stays, those looked at here have not changed either."""
        self._seen: dict[type[KubeObject], int] = {}
        self._limits = _Columns(table, NO_LIMIT, np.minimum)
        self._limited: dict[int, tuple[str, ...]] = {}
        self._presence = _VolumeRows(table)
        self._names: list[str] = []
        self._row_of: dict[str, int] = {}
        """When rows were last followed; the table itself may be ahead."""
        self._pods: list[dict[str, PodInfo]] = []
        self._uses: dict[str, dict[str, _Use]] = {}
        """Claim -> uid of the pod for an ephemeral one, else "" -> use."""
        self._claims_of_volume: Links = {}
        self._attachments: dict[str, _Attachment] = {}
        self._attachments_of_node: Links = {}
        self._attachments_of_volume: Links = {}

    # -- what NodeVolumeLimits reads --------------------------------------------------------

    def count(self, driver: str) -> Ints:
        """Per row, the volumes of this driver."""
        return self._presence.counts.of(driver)

    def limit(self, driver: str) -> Ints:
        """Per row, NO_LIMIT where the node gives none."""
        return self._limits.of(driver)

    def has_room(self, driver: str, added: int) -> bool:
        """Whether every node can surely hold so many more volumes of this driver.

        The fullest node and the lowest limit tell: only when they come close are rows compared.
        """
        counts, limits = self._presence.counts, self._limits
        if driver not in limits or counts.extreme(driver) + added <= limits.extreme(driver):
            return True
        return counts.look_up_extreme(driver) + added <= limits.look_up_extreme(driver)

    def rows_in_use(self, volume: CSIVolume) -> Collection[int]:
        """Rows where a pod uses this volume."""
        return self._presence.rows_in_use(volume)

    def attached_to(self, node: str) -> set[CSIVolume]:
        """The volumes that VolumeAttachments name for this node."""
        self._follow_objects()
        found = {self._attachments[name].volume for name in self._attachments_of_node.get(node, ())}
        return {volume for volume in found if volume is not None}

    def refresh(self) -> None:
        # Objects first: pods that are new here are then resolved once, by what holds now.
        if self._change_count != self._objects.change_count:
            self._follow_objects()
            self._follow_limits()
            self._change_count = self._objects.change_count
        self._follow_rows()

    # -- rows -------------------------------------------------------------------------------

    def _follow_rows(self) -> None:
        table = self._table
        changed = self._follower.changed(table)
        while len(self._names) < table.size:
            self._names.append("")
            self._pods.append({})
        for row in range(table.size) if changed is None else changed:
            self._follow_row(row)

    def _follow_row(self, row: int) -> None:
        info = self._table.infos[row]
        name = info.name if info is not None else ""
        if name != self._names[row]:
            self._rename_row(row, name)
        known = self._pods[row]
        current = info.pods if info is not None else {}
        for uid in known.keys() - current.keys():
            self._count_pod(known.pop(uid), row, -1)
        for uid in current.keys() - known.keys():
            known[uid] = current[uid]
            self._count_pod(current[uid], row, 1)

    def _rename_row(self, row: int, name: str) -> None:
        before = self._names[row]
        if self._row_of.get(before) == row:
            del self._row_of[before]
        self._count_attachments(before, row, -1)
        self._names[row] = name
        if name:
            self._row_of[name] = row
        self._count_attachments(name, row, 1)
        self._set_limits(row, name)

    def _count_attachments(self, node: str, row: int, sign: int) -> None:
        for name in self._attachments_of_node.get(node, ()) if node else ():
            volume = self._attachments[name].volume
            if volume is not None:
                self._presence.count(volume, row, sign, by_pods=False)

    def _follow_limits(self) -> None:
        names = self._changed(CSINode)
        for name in self._row_of if names is None else names:
            if name in self._row_of:
                self._set_limits(self._row_of[name], name)

    def _set_limits(self, row: int, node: str) -> None:
        limits = limits_of(self._objects.get(CSINode, node))
        for driver in self._limited.get(row, ()):
            self._limits.set(driver, row, NO_LIMIT)
        for driver, limit in limits.items():
            self._limits.set(driver, row, limit)
        self._limited[row] = tuple(limits)

    # -- pods and their claims --------------------------------------------------------------

    def _count_pod(self, pod: PodInfo, row: int, sign: int) -> None:
        if not pod.kind.volumes:
            return
        for volume in inline_of_running(pod):
            self._presence.count(volume, row, sign, by_pods=True)
        for claim in claims_of(pod):
            self._count_use(claim, pod, row, sign)

    def _count_use(self, claim: ClaimUse, pod: PodInfo, row: int, sign: int) -> None:
        uses = self._uses.setdefault(claim.key, {})
        owner = pod.uid if claim.is_ephemeral else ""
        use = uses.get(owner)
        if use is None:
            use = uses[owner] = _Use(claim, pod)
            self._resolve(use)
        if use.volume is not None:
            self._presence.count(use.volume, row, sign, by_pods=True)
        _add(use.rows, row, sign)
        if not use.rows:
            del uses[owner]
            if not uses:
                del self._uses[claim.key]
                _unlink(self._claims_of_volume, use.volume_name, claim.key)

    def _resolve(self, use: _Use) -> None:
        key = use.claim.key
        use.volume = volume_of_running(self._objects, use.claim, use.pod)
        claim = self._claims.get(key)
        name = claim.spec.volume_name if claim is not None else ""
        if name != use.volume_name:
            _unlink(self._claims_of_volume, use.volume_name, key)
            _link(self._claims_of_volume, name, key)
            use.volume_name = name

    def _resolve_again(self, claims: Iterable[str]) -> None:
        """These claims, or the volumes behind them, changed."""
        for key in claims:
            for use in self._uses.get(key, {}).values():
                before = use.volume
                self._resolve(use)
                if use.volume == before:
                    continue
                for row, amount in use.rows.items():
                    if before is not None:
                        self._presence.count(before, row, -amount, by_pods=True)
                    if use.volume is not None:
                        self._presence.count(use.volume, row, amount, by_pods=True)

    # -- objects ----------------------------------------------------------------------------

    def _changed(self, struct: type[KubeObject]) -> list[str] | None:
        """Keys changed since the last call; None when everything has to be looked at."""
        seen, version = self._seen.get(struct, 0), self._objects.version(struct)
        if version == seen:
            return []
        self._seen[struct] = version
        return self._objects.changed_since(struct, seen)

    def _follow_objects(self) -> None:
        claims = self._changed(PersistentVolumeClaim)
        volumes = self._changed(PersistentVolume)
        attachments = self._changed(VolumeAttachment)
        if self._changed(StorageClass) != [] or claims is None or volumes is None:
            claims = list(self._uses)
        for name in volumes or ():
            claims.extend(self._claims_of_volume.get(name, ()))
        self._resolve_again(claims)
        if volumes is None or attachments is None:
            attachments = [*self._attachments, *self._objects.all(VolumeAttachment)]
        for name in volumes or ():
            attachments.extend(self._attachments_of_volume.get(name, ()))
        for name in attachments:
            self._follow_attachment(name)

    def _follow_attachment(self, name: str) -> None:
        known = self._attachments.pop(name, None)
        if known is not None:
            self._count_attachment(known, -1)
            _unlink(self._attachments_of_node, known.node, name)
            _unlink(self._attachments_of_volume, known.volume_name, name)
        attachment = self._objects.get(VolumeAttachment, name)
        if attachment is None:
            return
        spec, volume = attachment.spec, volume_of_attachment(self._objects, attachment)
        found = _Attachment(spec.node_name, spec.source.persistent_volume_name or "", volume)
        self._attachments[name] = found
        self._count_attachment(found, 1)
        _link(self._attachments_of_node, found.node, name)
        _link(self._attachments_of_volume, found.volume_name, name)

    def _count_attachment(self, attachment: _Attachment, sign: int) -> None:
        row = self._row_of.get(attachment.node)
        if row is not None and attachment.volume is not None:
            self._presence.count(attachment.volume, row, sign, by_pods=False)


class _Attachment(NamedTuple):
    node: str
    volume_name: str
    volume: CSIVolume | None


class _Use:
    """One claim as running pods use it: what it stands for now, and row -> number of uses."""

    __slots__ = ("claim", "pod", "rows", "volume", "volume_name")

    def __init__(self, claim: ClaimUse, pod: PodInfo) -> None:
        self.claim = claim
        self.pod = pod
        """Any one of its pods; of an ephemeral claim, the only one."""
        self.volume: CSIVolume | None = None
        self.volume_name = ""
        self.rows: dict[int, int] = {}


class _VolumeRows:
    """On which rows each volume is: row -> uses, by pods and by attachments."""

    def __init__(self, table: NodeTable) -> None:
        self.counts = _Columns(table, 0, np.maximum)
        self._rows: dict[CSIVolume, tuple[dict[int, int], dict[int, int]]] = {}

    def rows_in_use(self, volume: CSIVolume) -> Collection[int]:
        found = self._rows.get(volume)
        return found[0].keys() if found is not None else ()

    def count(self, volume: CSIVolume, row: int, amount: int, *, by_pods: bool) -> None:
        found = self._rows.get(volume)
        if found is None:
            found = self._rows[volume] = ({}, {})
        pods, attachments = found
        before = row in pods or row in attachments
        _add(pods if by_pods else attachments, row, amount)
        after = row in pods or row in attachments
        if before != after:
            self.counts.add(volume[0], row, 1 if after else -1)
        if not pods and not attachments:
            del self._rows[volume]


class _Columns:
    """One column per driver, as long as the node table."""

    def __init__(self, table: NodeTable, fill: int, pick: np.ufunc) -> None:
        self._table = table
        self._fill = fill
        self._pick = pick
        self._pick_of_two: Callable[[int, int], int] = max if pick is np.maximum else min
        self._columns: dict[str, Ints] = {}
        self._extremes: dict[str, int] = {}
        """Per driver what `pick` picks of all values its column had since `look_up_extreme`."""

    def __contains__(self, driver: str) -> bool:
        return driver in self._columns

    def of(self, driver: str) -> Ints:
        return self._whole(driver)[: self._table.size]

    def set(self, driver: str, row: int, value: int) -> None:
        self._whole(driver).data[row] = value
        self._note(driver, value)

    def add(self, driver: str, row: int, amount: int) -> None:
        cells = self._whole(driver).data
        cells[row] = value = cells[row] + amount
        self._note(driver, value)

    def _note(self, driver: str, value: int) -> None:
        self._extremes[driver] = self._pick_of_two(self._extremes[driver], value)

    def extreme(self, driver: str) -> int:
        """At least as extreme as any value in the column."""
        return self._extremes.get(driver, self._fill)

    def look_up_extreme(self, driver: str) -> int:
        """The most extreme value in the column."""
        found = self._extremes[driver] = int(self._pick.reduce(self.of(driver), initial=self._fill))
        return found

    def _whole(self, driver: str) -> Ints:
        """The column with room for rows to come."""
        column = self._columns.get(driver)
        if column is None or len(column) < self._table.size:
            grown = np.full(self._table.capacity, self._fill, np.int64)
            if column is not None:
                grown[: len(column)] = column
            column = self._columns[driver] = grown
            self._extremes.setdefault(driver, self._fill)
        return column


def _add(counts: dict[int, int], row: int, amount: int) -> None:
    count = counts.get(row, 0) + amount
    if count:
        counts[row] = count
    else:
        del counts[row]


def _link(links: Links, key: str, name: str) -> None:
    if key:
        links.setdefault(key, {})[name] = None


def _unlink(links: Links, key: str, name: str) -> None:
    if key in links:
        links[key].pop(name, None)
        if not links[key]:
            del links[key]
