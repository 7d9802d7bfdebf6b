"""The operations of a workload, as data: one struct per `opcode`.

A field that ends in `Param` holds `$name`; `language` fills the field it stands for from the
workload's parameters.  What is written here is all that is allowed: an unknown field is an error.
`ops` carries them out.  Mirrors the op types of `test/integration/scheduler_perf`.
"""

from __future__ import annotations

from typing import Any

import msgspec


class Strict(msgspec.Struct, forbid_unknown_fields=True, frozen=True, rename="camel"):
    """Part of a workload file."""


class Opcode(Strict, frozen=True, tag_field="opcode"):
    """One step of a workload."""


class CsiLimit(Strict, frozen=True):
    count: int


class NodeAllocatableStrategy(Strict, frozen=True):
    """What the nodes can take, and a CSINode for each of them."""

    node_allocatable: dict[str, Any] = {}
    csi_node_allocatable: dict[str, CsiLimit] = {}
    migrated_plugins: list[str] = []


class LabelNodePrepareStrategy(Strict, frozen=True):
    """A label on each node; its values in turn."""

    label_key: str
    label_values: list[str]


class UniqueNodeLabelStrategy(Strict, frozen=True):
    """A label with another value on each node."""

    label_key: str


class CreateNodes(Opcode, frozen=True, tag="createNodes"):
    count: int = 0
    count_param: str = ""
    node_template_path: str = ""
    node_allocatable_strategy: NodeAllocatableStrategy | None = None
    label_node_prepare_strategy: LabelNodePrepareStrategy | None = None
    unique_node_label_strategy: UniqueNodeLabelStrategy | None = None
    declared_features: int = 0
    """So many entries in `status.declaredFeatures`; upstream's harness does this in Go."""
    declared_features_param: str = ""


class CreateNamespaces(Opcode, frozen=True, tag="createNamespaces"):
    prefix: str
    count: int = 0
    count_param: str = ""
    namespace_template_path: str = ""


class CreatePods(Opcode, frozen=True, tag="createPods"):
    count: int = 0
    count_param: str = ""
    namespace: str = ""
    """When empty: `namespace-<position of this op>`."""
    pod_template_path: str = ""
    collect_metrics: bool = False
    skip_wait_to_completion: bool = False
    steady_state: bool = False
    steady_state_param: str = ""
    duration: str = ""
    duration_param: str = ""
    persistent_volume_template_path: str = ""
    persistent_volume_claim_template_path: str = ""


class CreatePodSets(Opcode, frozen=True, tag="createPodSets"):
    """The same `createPods` in `<namespacePrefix>-<i>`, one namespace after the other."""

    namespace_prefix: str
    create_pods_op: CreatePods
    count: int = 0
    count_param: str = ""


class DeletePods(Opcode, frozen=True, tag="deletePods"):
    namespace: str
    label_selector: dict[str, str] = {}
    delete_pods_per_second: int = 0
    """0: all at once."""
    skip_wait_to_completion: bool = False


class Churn(Opcode, frozen=True, tag="churn"):
    """Objects that come (and go) in the background, until the workload ends."""

    mode: str
    template_paths: list[str]
    number: int = 0
    interval_milliseconds: int = 500
    namespace: str = ""


class CreateAny(Opcode, frozen=True, tag="createAny"):
    template_path: str
    namespace: str = ""
    count: int = 0
    count_param: str = ""


class UpdateAny(Opcode, frozen=True, tag="updateAny"):
    template_path: str
    namespace: str = ""
    count: int = 0
    count_param: str = ""
    update_per_second: int = 0
    """0: as fast as it goes."""
    subresources: list[str] = []


class Barrier(Opcode, frozen=True, tag="barrier"):
    """Wait for the pods of earlier ops that did not wait themselves."""

    namespaces: list[str] = []
    label_selector: dict[str, str] = {}
    stage_requirement: str = "Scheduled"


class Sleep(Opcode, frozen=True, tag="sleep"):
    duration: str = ""
    duration_param: str = ""


class StartCollectingMetrics(Opcode, frozen=True, tag="startCollectingMetrics"):
    namespaces: list[str]
    name: str = ""
    label_selector: dict[str, str] = {}


class StopCollectingMetrics(Opcode, frozen=True, tag="stopCollectingMetrics"):
    pass


class CreateResourceDriver(Opcode, frozen=True, tag="createResourceDriver"):
    driver_name: str
    nodes: str
    max_claims_per_node: int = 0
    max_claims_per_node_param: str = ""


class CreateResourceClaims(Opcode, frozen=True, tag="createResourceClaims"):
    namespace: str
    template_path: str
    count: int = 0
    count_param: str = ""


class AllocResourceClaims(Opcode, frozen=True, tag="allocResourceClaims"):
    namespace: str = ""


Op = (
    CreateNodes
    | CreateNamespaces
    | CreatePods
    | CreatePodSets
    | DeletePods
    | Churn
    | CreateAny
    | UpdateAny
    | Barrier
    | Sleep
    | StartCollectingMetrics
    | StopCollectingMetrics
    | CreateResourceDriver
    | CreateResourceClaims
    | AllocResourceClaims
)
