"""Every metric: its name, labels, kind, how stable it is, buckets, and what it tells.

The names are kube-scheduler's, so dashboards and alerts written for it go on working.  What fills
each of them is in `runtime.metrics`; docs/operations.md lists those that mean something else here.

Mirrors kube-scheduler's `metrics/metrics.go`, and what its component-base adds to every process.
"""

from __future__ import annotations

import re

from stowplan.framework.histogram import exponential
from stowplan.runtime.exposition import Kind, Level, Spec

ATTEMPT_S = exponential(0.001, 2, 15)
POINT_S = exponential(0.0001, 2, 12)
SLI_S = exponential(0.01, 2, 20)

_BOUNDS: dict[str, tuple[float, ...]] = {
    "": (),
    "ATTEMPT_S": ATTEMPT_S,
    "POINT_S": POINT_S,
    "SLI_S": SLI_S,
    "PLUGIN_S": exponential(0.00001, 1.5, 20),
    "BATCH_S": exponential(0.00001, 2, 12),
    "REQUEST_S": (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0),
    "PREPARING_S": exponential(0.1, 2, 14),
    "TRIES": exponential(1, 2, 5),
    "VICTIMS": exponential(1, 2, 7),
}

RESULTS = ("scheduled", "unschedulable", "error")

_ENTRY = re.compile(r"^(\w+)(?:{([\w ]+)})? (\w+) (\w+) ?(\w*)\n((?:    .*\n)+)", re.MULTILINE)


def _read(table: str, prefix: str = "") -> tuple[Spec, ...]:
    """Per metric `name{labels} kind level buckets`, and indented below what it tells."""
    return tuple(
        Spec(
            prefix + name,
            Kind(kind),
            tuple(labels.split()),
            Level(level),
            " ".join(told.split()),
            _BOUNDS[bounds],
        )
        for name, labels, kind, level, bounds, told in _ENTRY.findall(table)
    )


_SCHEDULER = """
schedule_attempts_total{result profile} counter STABLE
    Attempts to schedule a pod; 'unschedulable' fits nowhere, 'error' is a failure of ours.
scheduling_attempt_duration_seconds{result profile} histogram STABLE ATTEMPT_S
    From taking the pod off the queue to its being bound or turned down.
scheduling_algorithm_duration_seconds histogram ALPHA ATTEMPT_S
    The part of an attempt that chooses a node, preemption included.
pod_scheduling_sli_duration_seconds{attempts} histogram BETA SLI_S
    From when a pod was first ready to be scheduled to its being bound.
pod_scheduling_attempts histogram STABLE TRIES
    Attempts that pods needed until they were bound.
pod_scheduled_after_flush_total counter ALPHA
    Pods bound only after they were tried again for having waited five minutes.
framework_extension_point_duration_seconds{extension_point status profile} histogram STABLE POINT_S
    All plugins of an extension point together.
plugin_execution_duration_seconds{plugin extension_point status} histogram ALPHA PLUGIN_S
    One plugin at one extension point, in a tenth of the cycles.
plugin_evaluation_total{plugin extension_point profile} counter BETA
    Attempts in which a plugin had a say (PreFilter, Filter, PreScore, Score).
permit_wait_duration_seconds{result} histogram BETA ATTEMPT_S
    How long pods waited to be let go by Permit plugins.
event_handling_duration_seconds{event} histogram ALPHA POINT_S
    Taking in one change of the cluster.

preemption_victims histogram STABLE VICTIMS
    Pods chosen to make room, per preemption.
preemption_attempts_total counter STABLE
    Attempts to make room for a pod by preemption.
preemption_goroutines_duration_seconds{result} histogram ALPHA SLI_S
    Taken when an eviction starts, as kube-scheduler does: near zero.
preemption_goroutines_execution_total{result} counter ALPHA
    Preemptions that were started.

pending_pods{queue} gauge STABLE
    Pods that wait: 'active' for their turn, 'backoff' for a while, 'unschedulable' for a change in
    the cluster, 'gated' to be let in.
queue_incoming_pods_total{queue event} counter STABLE
    Pods that entered a queue, by what brought them there.
unschedulable_pods{plugin profile} gauge BETA
    Waiting pods by plugin that turned them down; a pod counts once for each.
queueing_hint_execution_duration_seconds{plugin event hint} histogram ALPHA PLUGIN_S
    Asking a plugin whether a change is worth another try.
inflight_events{event} gauge ALPHA
    Changes kept for pods that are being scheduled.
cache_size{type} gauge ALPHA
    Nodes, pods and assumed pods in the cache.
goroutines{operation} gauge BETA
    Calls under way: bindings and other writes, and questions to extenders.

batch_attempts_total{profile result} counter ALPHA
    Always zero: answers are kept per kind of pod and node instead of per batch.
batch_cache_flushed_total{profile reason} counter ALPHA
    Always zero: no batches.
get_node_hint_duration_seconds{hinted profile} histogram ALPHA BATCH_S
    Always empty: no batches.
store_schedule_results_duration_seconds{profile} histogram ALPHA BATCH_S
    Always empty: no batches.

async_api_call_execution_total{call_type result} counter ALPHA
    Calls to the API server that carry out a decision.
async_api_call_execution_duration_seconds{call_type result} histogram ALPHA ATTEMPT_S
    How long they took.
pending_async_api_calls{call_type} gauge ALPHA
    Calls to the API server that have no answer yet.

resourceclaim_creates_total{status} counter ALPHA
    Claims created for extended resources.
dra_bindingconditions_allocations_total{profile driver status} counter ALPHA
    Allocations of devices that had to be prepared first.
dra_bindingconditions_wait_duration_seconds{profile driver status} histogram ALPHA PREPARING_S
    How long such a preparation took.
podgroup_schedule_attempts_total{result profile} counter ALPHA
    Attempts to schedule a group of pods.
podgroup_scheduling_attempt_duration_seconds{result profile} histogram ALPHA ATTEMPT_S
    How long they took.
podgroup_scheduling_algorithm_duration_seconds histogram ALPHA ATTEMPT_S
    The part that chooses nodes for a group.
volume_scheduling_stage_error_total{operation} counter ALPHA
    Failures of volume binding, by stage.
volume_binder_cache_requests_total{operation} counter ALPHA
    Never counted, as in kube-scheduler.
"""

_PROCESS = """
leader_election_master_status{name} gauge ALPHA
    1 while this replica leads, 0 while it follows.
leader_election_slowpath_total{name} counter ALPHA
    Renewals of the lease that had to look at it first.
rest_client_requests_total{code host method} counter ALPHA
    Requests to the API server by status code; <error> where no answer came.
rest_client_request_duration_seconds{host verb} histogram ALPHA REQUEST_S
    How long requests to the API server took; watches are not counted.
rest_client_rate_limiter_duration_seconds{host verb} histogram ALPHA REQUEST_S
    How long requests were held back on our side to keep to clientConnection.qps.
kubernetes_build_info{git_version major minor platform} gauge BETA
    Always 1: which version of Kubernetes this behaves as.
kubernetes_feature_enabled{name stage} gauge BETA
    1 where a feature gate is on, 0 where it is off.
version_info{component binary emulation min_compat} gauge ALPHA
    Always 1: the versions of Kubernetes this is compatible with.
registered_metrics_total{stability_level deprecated_version} counter BETA
    Metrics that there are; none is deprecated.
disabled_metrics_total counter BETA
    Names given to --disabled-metrics.
hidden_metrics_total counter BETA
    Those of them that are not shown here.
cardinality_enforcement_unexpected_categorizations_total counter ALPHA
    Label values that --allow-metric-labels turned into 'unexpected', each counted once.

stowplan_build_info{version python} gauge ALPHA
    Always 1: the version of Stowplan.
stowplan_events_dropped_total counter ALPHA
    Events for users that were not written: too many at once, refused, or never heard.
stowplan_config_reloads_total{result} counter ALPHA
    Reloads of the configuration: accepted or refused.
stowplan_kept_answers_total{profile result} counter ALPHA
    Attempts that found answers kept for their kind of pod (hit), or none (miss).
stowplan_kept_answer_rows_total{profile} counter ALPHA
    Nodes that had to be asked about again because they had changed, or were new.
stowplan_namespace_held_back_seconds_total{namespace} counter ALPHA
    How long pods of a namespace were passed over because its attempts had been long.
stowplan_held_back_pods gauge ALPHA
    Active pods that let others go first because attempts of their namespace were long.

process_cpu_seconds_total counter ALPHA
    Seconds of processor time, of user and system.
process_open_fds gauge ALPHA
    Open file descriptors.
process_max_fds gauge ALPHA
    File descriptors that may be open.
process_resident_memory_bytes gauge ALPHA
    Memory that is in use.
process_virtual_memory_bytes gauge ALPHA
    Memory that is mapped.
process_virtual_memory_max_bytes gauge ALPHA
    Memory that may be mapped.
process_network_receive_bytes_total counter ALPHA
    Bytes from the network.
process_network_transmit_bytes_total counter ALPHA
    Bytes to the network.
process_start_time_seconds gauge ALPHA
    When the process started, in seconds since the Unix epoch.
"""

SPECS = (*_read(_SCHEDULER, "scheduler_"), *_read(_PROCESS))

RESOURCE_REQUEST, RESOURCE_LIMIT, HEALTH_CHECK, HEALTH_CHECKS = _read("""
kube_pod_resource_request{namespace pod node scheduler priority resource unit} gauge STABLE
    What a pod requests, as scheduling counts it.
kube_pod_resource_limit{namespace pod node scheduler priority resource unit} gauge STABLE
    What a pod is limited to, as scheduling counts it.
kubernetes_healthcheck{name type} gauge STABLE
    1 where the last run of a health check passed, 0 where it failed.
kubernetes_healthchecks_total{name type status} counter STABLE
    Runs of health checks by outcome: success, error or pending.
""")

RESOURCE_LABELS = RESOURCE_REQUEST.labels
