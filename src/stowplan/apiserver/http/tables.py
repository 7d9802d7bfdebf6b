"""Tables for `kubectl get`: the columns of each kind, and a row per object.

The server decides what kubectl prints.  Columns marked wide show with `-o wide`.  Works on JSON
data; mirrors `pkg/printers/internalversion/printers.go`.  `encoding` wraps the result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from stowplan.apiserver.http import table_cells as cells
from stowplan.apiserver.http.durations import UNKNOWN
from stowplan.apiserver.http.pod_cells import pod_cells
from stowplan.objects.kinds import Kind

Data = dict[str, Any]
Row = list[Any]


class Table(NamedTuple):
    columns: list[Data]
    rows: list[Row]


class Columns(NamedTuple):
    definitions: list[Data]
    cells: Callable[[Data, float], Row]


def table_of(kind: Kind, objects: Sequence[Data], now_s: float) -> Table:
    columns = _COLUMNS.get(kind.name, _GENERIC)
    return Table(columns.definitions, [_row(columns, data, now_s) for data in objects])


def _row(columns: Columns, data: Data, now_s: float) -> Row:
    try:
        return columns.cells(data, now_s)
    except (AttributeError, KeyError, TypeError, ValueError):
        # Fields that nobody checks may hold anything; one odd object must not hide the others.
        row = cells.generic(data, now_s)
        return [row[0], *[UNKNOWN] * (len(columns.definitions) - 1)]


def _columns(text: str, make: Callable[[Data, float], Row]) -> Columns:
    """`Name Ready(s) Age | IP`: what is behind the bar is wide; a letter gives a type."""
    plain, _, wide = text.partition("|")
    definitions = [_definition(name, 0) for name in plain.split()]
    return Columns(definitions + [_definition(name, 1) for name in wide.split()], make)


def _definition(word: str, priority: int) -> Data:
    name = word.rstrip("#").replace("_", " ")
    return {
        "name": name,
        "type": "integer" if word.endswith("#") else "string",
        "format": "name" if name == "Name" else "",
        "description": "",
        "priority": priority,
    }


_WORKLOAD = "Containers Images Selector"

_GENERIC = _columns("Name Age", cells.generic)

_COLUMNS: dict[str, Columns] = {
    "Pod": _columns(
        "Name Ready Status Restarts Age | IP Node Nominated_Node Readiness_Gates", pod_cells
    ),
    "Node": _columns(
        "Name Status Roles Age Version "
        "| Internal-IP External-IP OS-Image Kernel-Version Container-Runtime",
        cells.node,
    ),
    "Namespace": _columns("Name Status Age", cells.namespace),
    "Service": _columns("Name Type Cluster-IP External-IP Port(s) Age | Selector", cells.service),
    "Deployment": _columns(
        f"Name Ready Up-to-date# Available# Age | {_WORKLOAD}", cells.deployment
    ),
    "ReplicaSet": _columns(f"Name Desired# Current# Ready# Age | {_WORKLOAD}", cells.replica_set),
    "ReplicationController": _columns(
        f"Name Desired# Current# Ready# Age | {_WORKLOAD}", cells.replica_set
    ),
    "StatefulSet": _columns("Name Ready Age | Containers Images", cells.stateful_set),
    "DaemonSet": _columns(
        f"Name Desired# Current# Ready# Up-to-date# Available# Node_Selector Age | {_WORKLOAD}",
        cells.daemon_set,
    ),
    "Job": _columns(f"Name Status Completions Duration Age | {_WORKLOAD}", cells.job),
    "PersistentVolume": _columns(
        "Name Capacity Access_Modes Reclaim_Policy Status Claim StorageClass "
        "VolumeAttributesClass Reason Age | VolumeMode",
        cells.volume,
    ),
    "PersistentVolumeClaim": _columns(
        "Name Status Volume Capacity Access_Modes StorageClass VolumeAttributesClass Age "
        "| VolumeMode",
        cells.claim,
    ),
    "StorageClass": _columns(
        "Name Provisioner ReclaimPolicy VolumeBindingMode AllowVolumeExpansion Age",
        cells.storage_class,
    ),
    "VolumeAttachment": _columns("Name Attacher PV Node Attached Age", cells.volume_attachment),
    "CSINode": _columns("Name Drivers# Age", cells.csi_node),
    "PodDisruptionBudget": _columns(
        "Name Min_Available Max_Unavailable Allowed_Disruptions# Age", cells.budget
    ),
    "PriorityClass": _columns(
        "Name Value# Global-Default Age PreemptionPolicy", cells.priority_class
    ),
    "RuntimeClass": _columns("Name Handler Age", cells.runtime_class),
    "Lease": _columns("Name Holder Age", cells.lease),
    "Event": _columns(
        "Last_Seen Type Reason Object Subobject Source Message First_Seen Count# Name", cells.event
    ),
    "ConfigMap": _columns("Name Data# Age", cells.config_map),
    "Secret": _columns("Name Type Data# Age", cells.secret),
    "ServiceAccount": _columns("Name Secrets# Age", cells.service_account),
}

for _column in _COLUMNS["Event"].definitions:
    if _column["name"] in ("Subobject", "Source", "First Seen", "Count", "Name"):
        _column["priority"] = 1
