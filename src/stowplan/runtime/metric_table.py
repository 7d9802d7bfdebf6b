"""Every metric: its name, kind, labels, buckets and how stable it is.

The names are kube-scheduler's, so dashboards and alerts written for it go on working.  What fills
each of them is in `runtime.metrics`; docs/operations.md lists those that mean something else here.

Mirrors kube-scheduler's `metrics/metrics.go`, and what its component-base adds to every process.
"""

from __future__ import annotations

from stowplan.runtime.exposition import Kind, Level, Spec, exponential

_COUNTER, _GAUGE, _HISTOGRAM = Kind.COUNTER, Kind.GAUGE, Kind.HISTOGRAM
_STABLE, _BETA, _ALPHA = Level.STABLE, Level.BETA, Level.ALPHA

ATTEMPT_S = exponential(0.001, 2, 15)
POINT_S = exponential(0.0001, 2, 12)
PLUGIN_S = exponential(0.00001, 1.5, 20)
BATCH_S = exponential(0.00001, 2, 12)
SLI_S = exponential(0.01, 2, 20)
REQUEST_S = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)

RESULTS = ("scheduled", "unschedulable", "error")


def _scheduler(
    name: str, kind: Kind, labels: str, level: Level, help_: str, bounds: tuple[float, ...] = ()
) -> Spec:
    return Spec(f"scheduler_{name}", kind, tuple(labels.split()), level, help_, bounds)


ATTEMPTS: tuple[Spec, ...] = (
    _scheduler(
        "schedule_attempts_total",
        _COUNTER,
        "result profile",
        _STABLE,
        "Attempts to schedule a pod; 'unschedulable' fits nowhere, 'error' is a failure of ours.",
    ),
    _scheduler(
        "scheduling_attempt_duration_seconds",
        _HISTOGRAM,
        "result profile",
        _STABLE,
        "From taking the pod off the queue to its being bound or turned down.",
        ATTEMPT_S,
    ),
    _scheduler(
        "scheduling_algorithm_duration_seconds",
        _HISTOGRAM,
        "",
        _ALPHA,
        "The part of an attempt that chooses a node, preemption included.",
        ATTEMPT_S,
    ),
    _scheduler(
        "pod_scheduling_sli_duration_seconds",
        _HISTOGRAM,
        "attempts",
        _BETA,
        "From when a pod was first ready to be scheduled to its being bound.",
        SLI_S,
    ),
    _scheduler(
        "pod_scheduling_attempts",
        _HISTOGRAM,
        "",
        _STABLE,
        "Attempts that pods needed until they were bound.",
        exponential(1, 2, 5),
    ),
    _scheduler(
        "pod_scheduled_after_flush_total",
        _COUNTER,
        "",
        _ALPHA,
        "Pods bound only after they were tried again for having waited five minutes.",
    ),
    _scheduler(
        "framework_extension_point_duration_seconds",
        _HISTOGRAM,
        "extension_point status profile",
        _STABLE,
        "All plugins of an extension point together.",
        POINT_S,
    ),
    _scheduler(
        "plugin_execution_duration_seconds",
        _HISTOGRAM,
        "plugin extension_point status",
        _ALPHA,
        "One plugin at one extension point, in a tenth of the cycles.",
        PLUGIN_S,
    ),
    _scheduler(
        "plugin_evaluation_total",
        _COUNTER,
        "plugin extension_point profile",
        _BETA,
        "Attempts in which a plugin had a say (PreFilter, Filter, PreScore, Score).",
    ),
    _scheduler(
        "permit_wait_duration_seconds",
        _HISTOGRAM,
        "result",
        _BETA,
        "How long pods waited to be let go by Permit plugins.",
        ATTEMPT_S,
    ),
    _scheduler(
        "event_handling_duration_seconds",
        _HISTOGRAM,
        "event",
        _ALPHA,
        "Taking in one change of the cluster.",
        POINT_S,
    ),
)

PREEMPTION: tuple[Spec, ...] = (
    _scheduler(
        "preemption_victims",
        _HISTOGRAM,
        "",
        _STABLE,
        "Pods chosen to make room, per preemption.",
        exponential(1, 2, 7),
    ),
    _scheduler(
        "preemption_attempts_total",
        _COUNTER,
        "",
        _STABLE,
        "Attempts to make room for a pod by preemption.",
    ),
    _scheduler(
        "preemption_goroutines_duration_seconds",
        _HISTOGRAM,
        "result",
        _ALPHA,
        "Taken when an eviction starts, as kube-scheduler does: near zero.",
        SLI_S,
    ),
    _scheduler(
        "preemption_goroutines_execution_total",
        _COUNTER,
        "result",
        _ALPHA,
        "Preemptions that were started.",
    ),
)

STATE: tuple[Spec, ...] = (
    _scheduler(
        "pending_pods",
        _GAUGE,
        "queue",
        _STABLE,
        "Pods that wait: 'active' for their turn, 'backoff' for a while, 'unschedulable' for a "
        "change in the cluster, 'gated' to be let in.",
    ),
    _scheduler(
        "queue_incoming_pods_total",
        _COUNTER,
        "queue event",
        _STABLE,
        "Pods that entered a queue, by what brought them there.",
    ),
    _scheduler(
        "unschedulable_pods",
        _GAUGE,
        "plugin profile",
        _BETA,
        "Waiting pods by plugin that turned them down; a pod counts once for each.",
    ),
    _scheduler(
        "queueing_hint_execution_duration_seconds",
        _HISTOGRAM,
        "plugin event hint",
        _ALPHA,
        "Asking a plugin whether a change is worth another try.",
        PLUGIN_S,
    ),
    _scheduler(
        "inflight_events",
        _GAUGE,
        "event",
        _ALPHA,
        "Changes kept for pods that are being scheduled.",
    ),
    _scheduler(
        "cache_size",
        _GAUGE,
        "type",
        _ALPHA,
        "Nodes, pods and assumed pods in the cache.",
    ),
    _scheduler(
        "goroutines",
        _GAUGE,
        "operation",
        _BETA,
        "Calls under way: bindings and other writes, and questions to extenders.",
    ),
)

_BATCHING: tuple[Spec, ...] = (
    _scheduler(
        "batch_attempts_total",
        _COUNTER,
        "profile result",
        _ALPHA,
        "Always zero: answers are kept per kind of pod and node instead of per batch.",
    ),
    _scheduler(
        "batch_cache_flushed_total", _COUNTER, "profile reason", _ALPHA, "Always zero: no batches."
    ),
    _scheduler(
        "get_node_hint_duration_seconds",
        _HISTOGRAM,
        "hinted profile",
        _ALPHA,
        "Always empty: no batches.",
        BATCH_S,
    ),
    _scheduler(
        "store_schedule_results_duration_seconds",
        _HISTOGRAM,
        "profile",
        _ALPHA,
        "Always empty: no batches.",
        BATCH_S,
    ),
)

CALLS: tuple[Spec, ...] = (
    _scheduler(
        "async_api_call_execution_total",
        _COUNTER,
        "call_type result",
        _ALPHA,
        "Calls to the API server that carry out a decision.",
    ),
    _scheduler(
        "async_api_call_execution_duration_seconds",
        _HISTOGRAM,
        "call_type result",
        _ALPHA,
        "How long they took.",
        ATTEMPT_S,
    ),
    _scheduler(
        "pending_async_api_calls",
        _GAUGE,
        "call_type",
        _ALPHA,
        "Calls to the API server that have no answer yet.",
    ),
)

_OTHERS: tuple[Spec, ...] = (
    _scheduler(
        "resourceclaim_creates_total",
        _COUNTER,
        "status",
        _ALPHA,
        "Claims created for extended resources.",
    ),
    _scheduler(
        "dra_bindingconditions_allocations_total",
        _COUNTER,
        "profile driver status",
        _ALPHA,
        "Allocations of devices that had to be prepared first.",
    ),
    _scheduler(
        "dra_bindingconditions_wait_duration_seconds",
        _HISTOGRAM,
        "profile driver status",
        _ALPHA,
        "How long such a preparation took.",
        exponential(0.1, 2, 14),
    ),
    _scheduler(
        "podgroup_schedule_attempts_total",
        _COUNTER,
        "result profile",
        _ALPHA,
        "Attempts to schedule a group of pods.",
    ),
    _scheduler(
        "podgroup_scheduling_attempt_duration_seconds",
        _HISTOGRAM,
        "result profile",
        _ALPHA,
        "How long they took.",
        ATTEMPT_S,
    ),
    _scheduler(
        "podgroup_scheduling_algorithm_duration_seconds",
        _HISTOGRAM,
        "",
        _ALPHA,
        "The part that chooses nodes for a group.",
        ATTEMPT_S,
    ),
    _scheduler(
        "volume_scheduling_stage_error_total",
        _COUNTER,
        "operation",
        _ALPHA,
        "Failures of volume binding, by stage.",
    ),
    _scheduler(
        "volume_binder_cache_requests_total",
        _COUNTER,
        "operation",
        _ALPHA,
        "Never counted, as in kube-scheduler.",
    ),
)

COMPONENT: tuple[Spec, ...] = (
    Spec(
        "leader_election_master_status",
        _GAUGE,
        ("name",),
        _ALPHA,
        "1 while this replica leads, 0 while it follows.",
    ),
    Spec(
        "leader_election_slowpath_total",
        _COUNTER,
        ("name",),
        _ALPHA,
        "Renewals of the lease that had to look at it first.",
    ),
    Spec(
        "rest_client_requests_total",
        _COUNTER,
        ("code", "host", "method"),
        _ALPHA,
        "Requests to the API server by status code; <error> where no answer came.",
    ),
    Spec(
        "rest_client_request_duration_seconds",
        _HISTOGRAM,
        ("host", "verb"),
        _ALPHA,
        "How long requests to the API server took; watches are not counted.",
        REQUEST_S,
    ),
    Spec(
        "rest_client_rate_limiter_duration_seconds",
        _HISTOGRAM,
        ("host", "verb"),
        _ALPHA,
        "How long requests were held back on our side to keep to clientConnection.qps.",
        REQUEST_S,
    ),
    Spec(
        "kubernetes_build_info",
        _GAUGE,
        ("git_version", "major", "minor", "platform"),
        _BETA,
        "Always 1: which version of Kubernetes this behaves as.",
    ),
    Spec(
        "kubernetes_feature_enabled",
        _GAUGE,
        ("name", "stage"),
        _BETA,
        "1 where a feature gate is on, 0 where it is off.",
    ),
    Spec(
        "version_info",
        _GAUGE,
        ("component", "binary", "emulation", "min_compat"),
        _ALPHA,
        "Always 1: the versions of Kubernetes this is compatible with.",
    ),
    Spec(
        "registered_metrics_total",
        _COUNTER,
        ("stability_level", "deprecated_version"),
        _BETA,
        "Metrics that there are; none is deprecated.",
    ),
    Spec(
        "disabled_metrics_total",
        _COUNTER,
        (),
        _BETA,
        "Names given to --disabled-metrics.",
    ),
    Spec("hidden_metrics_total", _COUNTER, (), _BETA, "Those of them that are not shown here."),
    Spec(
        "cardinality_enforcement_unexpected_categorizations_total",
        _COUNTER,
        (),
        _ALPHA,
        "Label values that --allow-metric-labels turned into 'unexpected', each counted once.",
    ),
)

OWN: tuple[Spec, ...] = (
    Spec(
        "stowplan_build_info",
        _GAUGE,
        ("version", "python"),
        _ALPHA,
        "Always 1: the version of Stowplan.",
    ),
    Spec(
        "stowplan_events_dropped_total",
        _COUNTER,
        (),
        _ALPHA,
        "Events for users that were not written: too many at once, refused, or never heard.",
    ),
    Spec(
        "stowplan_config_reloads_total",
        _COUNTER,
        ("result",),
        _ALPHA,
        "Reloads of the configuration: accepted or refused.",
    ),
    Spec(
        "stowplan_kept_answers_total",
        _COUNTER,
        ("profile", "result"),
        _ALPHA,
        "Attempts that found answers kept for their kind of pod (hit), or none (miss).",
    ),
    Spec(
        "stowplan_kept_answer_rows_total",
        _COUNTER,
        ("profile",),
        _ALPHA,
        "Nodes that had to be asked about again because they had changed, or were new.",
    ),
    Spec(
        "stowplan_namespace_held_back_seconds_total",
        _COUNTER,
        ("namespace",),
        _ALPHA,
        "How long pods of a namespace were passed over because its attempts had been long.",
    ),
    Spec(
        "stowplan_held_back_pods",
        _GAUGE,
        (),
        _ALPHA,
        "Active pods that let others go first because attempts of their namespace were long.",
    ),
)

PROCESS: tuple[Spec, ...] = (
    Spec(
        "process_cpu_seconds_total",
        _COUNTER,
        (),
        _ALPHA,
        "Seconds of processor time, of user and system.",
    ),
    Spec("process_open_fds", _GAUGE, (), _ALPHA, "Open file descriptors."),
    Spec("process_max_fds", _GAUGE, (), _ALPHA, "File descriptors that may be open."),
    Spec("process_resident_memory_bytes", _GAUGE, (), _ALPHA, "Memory that is in use."),
    Spec("process_virtual_memory_bytes", _GAUGE, (), _ALPHA, "Memory that is mapped."),
    Spec("process_virtual_memory_max_bytes", _GAUGE, (), _ALPHA, "Memory that may be mapped."),
    Spec("process_network_receive_bytes_total", _COUNTER, (), _ALPHA, "Bytes from the network."),
    Spec("process_network_transmit_bytes_total", _COUNTER, (), _ALPHA, "Bytes to the network."),
    Spec(
        "process_start_time_seconds",
        _GAUGE,
        (),
        _ALPHA,
        "When the process started, in seconds since the Unix epoch.",
    ),
)

SPECS: tuple[Spec, ...] = (
    *ATTEMPTS,
    *PREEMPTION,
    *STATE,
    *_BATCHING,
    *CALLS,
    *_OTHERS,
    *COMPONENT,
    *OWN,
    *PROCESS,
)

RESOURCE_LABELS = ("namespace", "pod", "node", "scheduler", "priority", "resource", "unit")

RESOURCE_REQUEST = Spec(
    "kube_pod_resource_request",
    _GAUGE,
    RESOURCE_LABELS,
    _STABLE,
    "What a pod requests, as scheduling counts it.",
)
RESOURCE_LIMIT = Spec(
    "kube_pod_resource_limit",
    _GAUGE,
    RESOURCE_LABELS,
    _STABLE,
    "What a pod is limited to, as scheduling counts it.",
)

HEALTH_CHECK = Spec(
    "kubernetes_healthcheck",
    _GAUGE,
    ("name", "type"),
    _STABLE,
    "1 where the last run of a health check passed, 0 where it failed.",
)
HEALTH_CHECKS = Spec(
    "kubernetes_healthchecks_total",
    _COUNTER,
    ("name", "type", "status"),
    _STABLE,
    "Runs of health checks by outcome: success, error or pending.",
)
