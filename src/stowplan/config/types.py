"""KubeSchedulerConfiguration v1 as structs: one per object of the file, one field per key.

`load` reads a file into these, `defaults` completes them, `validate` checks them, `write` prints
them.  A field's default is what an absent (or null) key means; what upstream fills in for a value
that is *zero* (a lease of 0s, a queue rate of 0) is filled in by `defaults`.

Mirrors kube-scheduler's `config/v1/types.go` and `types_pluginargs.go`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar

import msgspec

from stowplan.config.duration import Duration
from stowplan.objects.pod import NodeAffinity, TopologySpreadConstraint

API_VERSION = "kubescheduler.config.k8s.io/v1"
KIND = "KubeSchedulerConfiguration"

Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1, title="int32")]
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1, title="int64")]
Float32 = Annotated[float, msgspec.Meta(title="float32")]


class Config(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The base of every struct here: camelCase in the file, unknown keys refused."""

    written: ClassVar[tuple[str, ...] | None] = ()
    """The fields that are written even when they are empty, by their names in the file; None: all.
    The others are left out then."""


class PluginRef(Config, frozen=True):
    written = None
    name: str = ""
    weight: Int32 = 0
    """Only score and placementScore read it; 0 means 1."""


class PluginSet(Config, frozen=True):
    enabled: list[PluginRef] = []
    disabled: list[PluginRef] = []


class Plugins(Config, frozen=True):
    written = None
    pre_enqueue: PluginSet = PluginSet()
    queue_sort: PluginSet = PluginSet()
    pre_filter: PluginSet = PluginSet()
    filter: PluginSet = PluginSet()
    post_filter: PluginSet = PluginSet()
    pre_score: PluginSet = PluginSet()
    score: PluginSet = PluginSet()
    reserve: PluginSet = PluginSet()
    permit: PluginSet = PluginSet()
    pre_bind: PluginSet = PluginSet()
    bind: PluginSet = PluginSet()
    post_bind: PluginSet = PluginSet()
    multi_point: PluginSet = PluginSet()
    placement_generate: PluginSet = PluginSet()
    placement_score: PluginSet = PluginSet()

    def sets(self) -> Iterator[tuple[str, PluginSet]]:
        """Each extension point by its name in the file (`preFilter`), multiPoint among them."""
        for field in msgspec.structs.fields(self):
            yield field.encode_name, getattr(self, field.name)

    def at(self, point: str) -> PluginSet:
        return dict(self.sets())[point]

    def enabled_names(self) -> set[str]:
        """Every plugin enabled anywhere: these and only these are instantiated."""
        return {plugin.name for _, plugins in self.sets() for plugin in plugins.enabled}


class UtilizationShapePoint(Config, frozen=True):
    written = None
    utilization: Int32 = 0
    score: Int32 = 0


class ResourceSpec(Config, frozen=True):
    written = ("name",)
    name: str = ""
    weight: Int64 = 0
    """0 becomes 1."""


class RequestedToCapacityRatioParam(Config, frozen=True):
    shape: list[UtilizationShapePoint] | None = None


class ScoringStrategy(Config, frozen=True):
    type: str = ""
    """LeastAllocated, MostAllocated or RequestedToCapacityRatio; no default in a given object."""
    resources: list[ResourceSpec] = []
    requested_to_capacity_ratio: RequestedToCapacityRatioParam | None = None


class DefaultPreemptionArgs(Config, frozen=True):
    written = None
    min_candidate_nodes_percentage: Int32 = 10
    min_candidate_nodes_absolute: Int32 = 100


class InterPodAffinityArgs(Config, frozen=True):
    written = None
    hard_pod_affinity_weight: Int32 = 1
    ignore_preferred_terms_of_existing_pods: bool = False


class NodeAffinityArgs(Config, frozen=True):
    added_affinity: NodeAffinity | None = None
    """ANDed onto the affinity of every pod of the profile."""


class NodeResourcesFitArgs(Config, frozen=True):
    ignored_resources: list[str] = []
    ignored_resource_groups: list[str] = []
    scoring_strategy: ScoringStrategy | None = None
    """None only before defaulting."""


class NodeResourcesBalancedAllocationArgs(Config, frozen=True):
    resources: list[ResourceSpec] = []


class PodTopologySpreadArgs(Config, frozen=True):
    default_constraints: list[TopologySpreadConstraint] = []
    defaulting_type: str = ""
    """System or List; the plugin knows what System means."""


class VolumeBindingArgs(Config, frozen=True):
    written = ("bindTimeoutSeconds",)
    bind_timeout_seconds: Int64 = 600
    shape: list[UtilizationShapePoint] | None = None


class DynamicResourcesArgs(Config, frozen=True):
    written = ("filterTimeout",)
    filter_timeout: Duration | None = None
    """Per node; zero is no limit."""
    binding_timeout: Duration | None = None


ARGS_BY_PLUGIN: dict[str, type[Config]] = {
    "DefaultPreemption": DefaultPreemptionArgs,
    "DynamicResources": DynamicResourcesArgs,
    "InterPodAffinity": InterPodAffinityArgs,
    "NodeAffinity": NodeAffinityArgs,
    "NodeResourcesBalancedAllocation": NodeResourcesBalancedAllocationArgs,
    "NodeResourcesFit": NodeResourcesFitArgs,
    "PodTopologySpread": PodTopologySpreadArgs,
    "VolumeBinding": VolumeBindingArgs,
}
"""The plugins whose args have a kind of their own, `<plugin>Args`."""


class PluginConfig(Config, frozen=True):
    name: str = ""
    args: Any = None
    """A struct for a plugin of `ARGS_BY_PLUGIN`; of any other, what the file says, untouched."""


class Profile(Config, frozen=True):
    written = ("schedulerName", "plugins")
    scheduler_name: str = ""
    percentage_of_nodes_to_score: Int32 | None = None
    """None: the value of the whole configuration."""
    plugins: Plugins = Plugins()
    plugin_config: list[PluginConfig] = []

    def args(self, plugin: str) -> Any:
        """The args configured for `plugin`, or None."""
        return next((entry.args for entry in self.plugin_config if entry.name == plugin), None)


class LeaderElection(Config, frozen=True):
    written = None
    leader_elect: bool = True
    lease_duration: Duration = Duration()
    renew_deadline: Duration = Duration()
    retry_period: Duration = Duration()
    resource_lock: str = ""
    resource_name: str = ""
    resource_namespace: str = ""


class ClientConnection(Config, frozen=True):
    written = None
    kubeconfig: str = ""
    """Empty, and no --master: the configuration of the pod this runs in."""
    accept_content_types: str = ""
    content_type: str = ""
    qps: Float32 = 0.0
    """Negative: no limit."""
    burst: Int32 = 0


class ExtenderManagedResource(Config, frozen=True):
    written = ("name",)
    name: str = ""
    ignored_by_scheduler: bool = False


class ExtenderTLSConfig(Config, frozen=True):
    """`*_data` is PEM, base64 in the file, and beats `*_file`."""

    insecure: bool = False
    server_name: str = ""
    cert_file: str = ""
    key_file: str = ""
    ca_file: str = ""
    cert_data: bytes = b""
    key_data: bytes = b""
    ca_data: bytes = b""


class ExtenderConfig(Config, frozen=True):
    written = ("urlPrefix", "httpTimeout")
    url_prefix: str = ""
    filter_verb: str = ""
    preempt_verb: str = ""
    prioritize_verb: str = ""
    weight: Int64 = 0
    bind_verb: str = ""
    enable_https: bool = msgspec.field(default=False, name="enableHTTPS")
    tls_config: ExtenderTLSConfig | None = None
    http_timeout: Duration = Duration()
    """Zero only before defaulting."""
    node_cache_capable: bool = False
    managed_resources: list[ExtenderManagedResource] = []
    ignorable: bool = False


class SchedulerConfig(Config, frozen=True):
    written = (
        "parallelism",
        "leaderElection",
        "clientConnection",
        "enableProfiling",
        "enableContentionProfiling",
        "percentageOfNodesToScore",
        "podInitialBackoffSeconds",
        "podMaxBackoffSeconds",
    )
    parallelism: Int32 = 16
    leader_election: LeaderElection = LeaderElection()
    client_connection: ClientConnection = ClientConnection()
    enable_profiling: bool = True
    enable_contention_profiling: bool | None = None
    """None only before defaulting: then it is on where profiling is."""
    percentage_of_nodes_to_score: Int32 = 0
    """0: adaptive."""
    pod_initial_backoff_seconds: Int64 = 1
    pod_max_backoff_seconds: Int64 = 10
    profiles: list[Profile] = []
    extenders: list[ExtenderConfig] = []
    delay_cache_until_active: bool = False
    assumed_pod_ttl_seconds: Int64 = msgspec.field(default=0, name="assumedPodTTLSeconds")
    """Ours, not upstream's: an assumed pod that no watch event confirms is given up this long
    after its binding finished.  0: never, which is what kube-scheduler 1.36 does."""
    features: frozenset[str] = msgspec.field(default=frozenset(), name="")
    """Feature gates that are on and change what the scheduler does (`feature_gates.SWITCHES`): no
    part of the file, so it has no name there."""

    def profile(self, scheduler_name: str) -> Profile | None:
        return next((p for p in self.profiles if p.scheduler_name == scheduler_name), None)
