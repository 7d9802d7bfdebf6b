"""Feature gates that an input with groups is read with, where nobody says which.

Who shows a PodGroup has a cluster that decides on groups: deciding on its pods one by one would
answer another question.  What is set by hand counts as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from stowplan.objects.manifests import Manifest
from stowplan.objects.pod_groups import (
    GANG_SCHEDULING,
    GENERIC_WORKLOAD,
    GROUP,
    GROUP_GATES,
    POD_BY_POD,
    TOPOLOGY_AWARE,
    WORKLOAD_AWARE_PREEMPTION,
    WORKLOAD_CLAIMS,
)
from stowplan.world.remarks import Remark


def implied_gates(manifests: Iterable[Manifest]) -> dict[str, bool]:
    """The gates that the groups among these need; empty without groups."""
    found = {gate for _, data in manifests if _is_group(data) for gate in _of_group(data)}
    return {gate: True for gate in GROUP_GATES if gate in found}


def remark_on_gates(gates: Mapping[str, bool]) -> Remark:
    return Remark(
        f"the input has groups: decided with {', '.join(gates)}",
        "`--feature-gates` says otherwise, such as GenericWorkload=false",
    )


def _is_group(data: Mapping[str, Any]) -> bool:
    version = str(data.get("apiVersion", ""))
    return data.get("kind") == "PodGroup" and version.startswith(f"{GROUP}/")


def _of_group(data: Mapping[str, Any]) -> Iterator[str]:
    yield from (GENERIC_WORKLOAD, GANG_SCHEDULING)
    spec = data.get("spec")
    if not isinstance(spec, dict):
        return
    constraints = spec.get("schedulingConstraints")
    if isinstance(constraints, dict) and constraints.get("topology"):
        yield TOPOLOGY_AWARE
    # The API server writes the default mode into every group.
    if spec.get("disruptionMode") not in (None, POD_BY_POD) or spec.get("priorityClassName"):
        yield WORKLOAD_AWARE_PREEMPTION
    if spec.get("resourceClaims"):
        yield WORKLOAD_CLAIMS
