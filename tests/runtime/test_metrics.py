"""Every metric of kube-scheduler, by its name, labels and buckets; and what they count."""

from __future__ import annotations

import ast
import inspect
from random import Random
from typing import Any

import pytest

from stowplan.cluster.http_request import HttpRequest
from stowplan.core.messages import Added, Tick, Updated
from stowplan.framework.events import Action, ClusterEvent, EventRegistration, Resource
from stowplan.framework.plugin import Wait
from stowplan.framework.status import Code, Status
from stowplan.framework.timing import Recorders
from stowplan.objects.workloads import Namespace
from stowplan.runtime import metrics as metrics_module
from stowplan.runtime.exposition import Kind, text_of
from stowplan.runtime.metric_table import SPECS
from stowplan.runtime.metrics import Metrics
from tests.builders import node, pod
from tests.core.harness import make_plugin
from tests.runtime.prometheus import Read, parse
from tests.runtime.surfaces import Served

PROFILE = "default-scheduler"

# As kube-scheduler 1.36 has them: name, kind with (start, factor, count) of its buckets, labels,
# and how stable it is.
UPSTREAM = """
schedule_attempts_total                         counter   result,profile                S
scheduling_attempt_duration_seconds             .001,2,15 result,profile                S
scheduling_algorithm_duration_seconds           .001,2,15 -                             A
event_handling_duration_seconds                 .0001,2,12 event                        A
preemption_victims                              1,2,7     -                             S
preemption_attempts_total                       counter   -                             S
pending_pods                                    gauge     queue                         S
pod_scheduling_sli_duration_seconds             .01,2,20  attempts                      B
pod_scheduling_attempts                         1,2,5     -                             S
pod_scheduled_after_flush_total                 counter   -                             A
framework_extension_point_duration_seconds      .0001,2,12 extension_point,status,profile S
plugin_execution_duration_seconds               .00001,1.5,20 plugin,extension_point,status A
queue_incoming_pods_total                       counter   queue,event                   S
goroutines                                      gauge     operation                     B
permit_wait_duration_seconds                    .001,2,15 result                        B
cache_size                                      gauge     type                          A
unschedulable_pods                              gauge     plugin,profile                B
plugin_evaluation_total                         counter   plugin,extension_point,profile B
batch_attempts_total                            counter   profile,result                A
batch_cache_flushed_total                       counter   profile,reason                A
get_node_hint_duration_seconds                  .00001,2,12 hinted,profile              A
store_schedule_results_duration_seconds         .00001,2,12 profile                     A
queueing_hint_execution_duration_seconds        .00001,1.5,20 plugin,event,hint         A
inflight_events                                 gauge     event                         A
preemption_goroutines_duration_seconds          .01,2,20  result                        A
preemption_goroutines_execution_total           counter   result                        A
async_api_call_execution_total                  counter   call_type,result              A
async_api_call_execution_duration_seconds       .001,2,15 call_type,result              A
pending_async_api_calls                         gauge     call_type                     A
resourceclaim_creates_total                     counter   status                        A
dra_bindingconditions_allocations_total         counter   profile,driver,status         A
dra_bindingconditions_wait_duration_seconds     .1,2,14   profile,driver,status         A
podgroup_schedule_attempts_total                counter   result,profile                A
podgroup_scheduling_attempt_duration_seconds    .001,2,15 result,profile                A
podgroup_scheduling_algorithm_duration_seconds  .001,2,15 -                             A
volume_scheduling_stage_error_total             counter   operation                     A
volume_binder_cache_requests_total              counter   operation                     A
"""
LEVELS = {"S": "STABLE", "B": "BETA", "A": "ALPHA"}


def rows() -> list[Any]:
    found = [line.split() for line in UPSTREAM.split("\n") if line]
    return [pytest.param(*row, id=row[0]) for row in found]


def filled() -> dict[str, Read]:
    """The text with a value in every family."""
    metrics = Metrics(Random(0))
    for family in metrics.families.values():
        labels = [f"a {name}" for name in family.spec.labels]
        if family.spec.kind is Kind.HISTOGRAM:
            family.observe(*labels, value=0.5)
        else:
            family.set(*labels, value=1)
    return parse(text_of(metrics.families.values()))


@pytest.mark.parametrize(("name", "kind", "labels", "level"), rows())
def test_is_there_as_upstream_has_it(name: str, kind: str, labels: str, level: str) -> None:
    found = filled()[f"scheduler_{name}"]

    assert found.level == LEVELS[level]
    assert found.label_names == {() if labels == "-" else tuple(labels.split(","))}
    if kind in ("counter", "gauge"):
        assert found.kind == kind
    else:
        start, factor, count = (float(part) for part in kind.split(","))
        (bounds,) = found.bounds()
        assert found.kind == "histogram"
        assert bounds[-1] == "+Inf"
        assert len(bounds) == count + 1
        wanted = [start * factor**n for n in range(int(count))]
        assert [float(bound) for bound in bounds[:-1]] == pytest.approx(wanted)


def test_nothing_claims_to_be_of_kube_scheduler_that_is_not() -> None:
    upstream = {f"scheduler_{line.split()[0]}" for line in UPSTREAM.split("\n") if line}

    ours = {spec.name for spec in SPECS if spec.name.startswith("scheduler_")}

    assert ours == upstream


def test_what_every_process_of_kubernetes_has_is_there() -> None:
    found = filled()

    for name in (
        "leader_election_master_status",
        "leader_election_slowpath_total",
        "rest_client_requests_total",
        "rest_client_request_duration_seconds",
        "kubernetes_build_info",
        "kubernetes_feature_enabled",
        "version_info",
        "process_cpu_seconds_total",
        "process_resident_memory_bytes",
        "process_open_fds",
        "process_start_time_seconds",
    ):
        assert name in found


def read(served: Served) -> dict[str, Read]:
    return parse(served.metrics.text(served.machine))


def test_scheduled_and_unschedulable_pods_are_counted_apart() -> None:
    served = Served(node("n1", cpu="2"), pod("fits", cpu="1"), pod("large", cpu="8"))

    found = read(served)

    attempts = found["scheduler_schedule_attempts_total"]
    assert attempts.value("scheduled", PROFILE) == 1
    assert attempts.value("unschedulable", PROFILE) == 1
    assert attempts.value("error", PROFILE) == 0
    durations = found["scheduler_scheduling_attempt_duration_seconds"]
    assert durations.value("scheduled", PROFILE, suffix="_count") == 1
    assert found["scheduler_pod_scheduling_attempts"].value(suffix="_count") == 1
    assert found["scheduler_pending_pods"].value("unschedulable") == 1
    assert found["scheduler_unschedulable_pods"].value("NodeResourcesFit", PROFILE) == 1
    assert found["scheduler_queue_incoming_pods_total"].value("active", "UnschedulablePodAdd") == 2
    assert found["scheduler_scheduling_algorithm_duration_seconds"].value(suffix="_count") == 2
    assert found["scheduler_preemption_attempts_total"].value() == 1
    size = found["scheduler_cache_size"]
    assert (size.value("nodes"), size.value("pods"), size.value("assumed_pods")) == (1, 1, 0)


def test_the_sli_counts_from_when_a_pod_was_first_ready() -> None:
    gated = pod("late", cpu="8", spec={"schedulingGates": [{"name": "wait"}]})
    served = Served(node("n1", cpu="2"), gated)
    served.run(100.0)
    served.add(pod("late", cpu="8", metadata={"uid": gated.metadata.uid}))
    served.run(30.0)
    served.add(node("n2", cpu="16"))
    served.run(20.0)

    found = read(served)["scheduler_pod_scheduling_sli_duration_seconds"]

    (total,) = [v for (name, _), v in found.samples.items() if name.endswith("_sum")]
    assert served.node_of("late") == "n2"
    assert 30 <= total <= 50, "the 100 s behind the gate do not count"
    assert found.label_names == {("attempts",)}


def test_pods_that_are_bound_together_count_each_by_its_own_attempts() -> None:
    served = Served(node("n1", cpu="2"))
    served.add(pod("large", cpu="8"))
    served.add(node("n2", cpu="16"), pod("small", cpu="1"))
    served.run(20.0)

    found = read(served)

    assert (served.node_of("large"), served.node_of("small")) != ("", "")
    sli = found["scheduler_pod_scheduling_sli_duration_seconds"]
    assert [sli.value(tries, suffix="_count") for tries in ("1", "2")] == [1, 1]
    tries = found["scheduler_pod_scheduling_attempts"]
    assert (tries.value(suffix="_count"), tries.value(suffix="_sum")) == (2, 3)
    attempts = found["scheduler_schedule_attempts_total"]
    assert attempts.value("scheduled", PROFILE) == 2
    assert attempts.value("unschedulable", PROFILE) == 1
    assert found["scheduler_pending_async_api_calls"].value("pod_binding") == 0


def test_points_and_plugins_are_timed_by_name_and_outcome() -> None:
    served = Served(node("n1", cpu="2"), node("n2"))
    served.metrics._chance = lambda: 0.0
    served.add(pod("fits", cpu="1"), pod("large", cpu="80"))

    found = read(served)

    points = found["scheduler_framework_extension_point_duration_seconds"]
    for point in ("PreEnqueue", "PreFilter", "Filter", "PreScore", "Score", "Bind"):
        assert points.value(point, "Success", PROFILE, suffix="_count") >= 1, point
    assert points.value("PostFilter", "Unschedulable", PROFILE, suffix="_count") == 1
    plugins = found["scheduler_plugin_execution_duration_seconds"]
    assert plugins.value("NodeResourcesFit", "Filter", "Success", suffix="_count") >= 1
    assert plugins.value("DefaultBinder", "Bind", "Success", suffix="_count") == 1


def test_a_tenth_of_the_cycles_has_its_plugins_timed() -> None:
    served = Served(node("n1", cpu="100", pods=1000))
    sampled = []

    class Watching:
        def begin(self, *args: Any) -> None:
            sampled.append(served.metrics.sampled)

        def __getattr__(self, name: str) -> Any:
            return lambda *args: None

    served.attempts.observe(Watching())
    served.add(*(pod(cpu="1m") for _ in range(500)))

    assert len(sampled) == 500
    assert 30 <= sum(sampled) <= 75


def test_waiting_at_permit_is_timed_by_outcome() -> None:
    patient = make_plugin(
        "Patient",
        permit=lambda self, cycle, pod, node: Wait(10.0),
    )
    served = Served(node("n1"), pod("a"), plugins=(patient,))
    served.run(10.5)

    waits = read(served)["scheduler_permit_wait_duration_seconds"]

    assert waits.value("Unschedulable", suffix="_sum") == pytest.approx(10.0)


def test_a_failing_plugin_counts_as_an_error() -> None:
    broken = make_plugin(
        "Broken", filter_node=lambda self, cycle, pod, node: Status(Code.ERROR, ("oh",))
    )
    served = Served(node("n1"), pod("a"), plugins=(broken,))

    assert read(served)["scheduler_schedule_attempts_total"].value("error", PROFILE) == 1


def test_pods_that_only_a_flush_brought_to_a_node_are_counted() -> None:
    tries = []

    def fickle(self: Any, cycle: Any, pod: Any, node: Any) -> Status | None:
        tries.append(pod.key)
        return Status(Code.UNSCHEDULABLE, ("not now",)) if len(tries) == 1 else None

    nodes_only = (EventRegistration(ClusterEvent(Resource.NODE, Action.ADD)),)
    plugin = make_plugin("Fickle", filter_node=fickle, events_to_register=lambda self: nodes_only)
    served = Served(node("n1"), pod("a"), plugins=(plugin,))
    served.run(290.0)
    assert read(served)["scheduler_pod_scheduled_after_flush_total"].value() == 0

    served.run(60.0)

    assert served.node_of("a") == "n1"
    assert read(served)["scheduler_pod_scheduled_after_flush_total"].value() == 1


def test_preemption_counts_its_victims() -> None:
    low = [pod(f"low{n}", cpu="1", node="n1") for n in range(2)]
    served = Served(node("n1", cpu="2"), *low)
    served.add(pod("high", cpu="2", spec={"priority": 100}))

    found = read(served)

    assert found["scheduler_preemption_victims"].value(suffix="_sum") == 2
    assert found["scheduler_preemption_attempts_total"].value() == 1
    assert found["scheduler_preemption_goroutines_execution_total"].value("success") == 1


def test_events_and_hints_are_timed_by_what_happened() -> None:
    served = Served(node("n1", cpu="1"))
    served.add(pod("large", cpu="8"))
    served.run(2.0)
    served.add(node("n2", cpu="1"))

    found = read(served)

    events = found["scheduler_event_handling_duration_seconds"]
    assert events.value("NodeAdd", suffix="_count") == 1
    assert events.value("UnschedulablePodAdd", suffix="_count") == 1
    hints = found["scheduler_queueing_hint_execution_duration_seconds"]
    assert hints.value("NodeResourcesFit", "NodeAdd", "QueueSkip", suffix="_count") == 1


def test_kept_answers_show_how_often_they_served() -> None:
    served = Served(node("n1", cpu="100", pods=1000))
    served.add(*(pod(cpu="1m") for _ in range(10)))

    kept = read(served)["stowplan_kept_answers_total"]

    assert kept.value(PROFILE, "miss") == 1
    assert kept.value(PROFILE, "hit") == 9


def test_a_reset_starts_every_count_from_nothing() -> None:
    served = Served(node("n1", cpu="2"), pod("fits", cpu="1"), pod("large", cpu="8"))
    read(served)

    served.metrics.reset(served.machine)
    found = read(served)

    assert found["scheduler_schedule_attempts_total"].value("scheduled", PROFILE) == 0
    assert found["scheduler_scheduling_algorithm_duration_seconds"].value(suffix="_count") == 0
    assert not found["scheduler_framework_extension_point_duration_seconds"].samples
    assert found["scheduler_pending_pods"].value("unschedulable") == 1, "how things are, stays"


def test_what_is_collected_is_counted_once_however_often_it_is_read() -> None:
    served = Served(node("n1", cpu="100", pods=2000))
    served.add(*(pod(cpu="1m") for _ in range(1100)))

    for _ in range(2):
        found = read(served)
        points = found["scheduler_framework_extension_point_duration_seconds"]
        assert points.value("Filter", "Success", PROFILE, suffix="_count") == 1100
        assert found["scheduler_pod_scheduling_attempts"].value(suffix="_sum") == 1100
        algorithm = found["scheduler_scheduling_algorithm_duration_seconds"]
        assert algorithm.value(suffix="_count") == 1100


def test_requests_to_the_api_server_are_counted_by_code() -> None:
    metrics = Metrics(Random(0))
    sent = metrics.sender("api:6443")
    sent(HttpRequest("POST", "/api/v1/namespaces/a/pods/b/binding"), 201, 0.01, 0.0)
    sent(HttpRequest("GET", "/api/v1/pods"), 0, 0.5, 0.2)

    found = parse(text_of(metrics.families.values()))

    requests = found["rest_client_requests_total"]
    assert requests.value("201", "api:6443", "POST") == 1
    assert requests.value("<error>", "api:6443", "GET") == 1
    calls = found["scheduler_async_api_call_execution_total"]
    assert calls.value("pod_binding", "success") == 1


def test_on_the_way_of_a_pod_nothing_is_formatted_or_sorted() -> None:
    """The hooks that run for every attempt only append; the cost per pod depends on it."""
    for name in ("begin", "decided"):
        source = inspect.getsource(getattr(metrics_module.Metrics, name))
        tree = ast.parse(source.strip())
        assert not any(isinstance(part, ast.JoinedStr | ast.For) for part in ast.walk(tree)), name


def test_events_that_came_together_are_counted_each_by_what_it_is_about() -> None:
    metrics = Metrics(Random(0))
    things = [pod("a"), pod("b", node="n1"), node("n1"), pod("c"), Namespace()]

    metrics.handled([Added(thing) for thing in things], 0.5)
    metrics.handled([Updated(thing, thing) for thing in things[:2]], 0.5)
    metrics.handled([Tick()], 0.5)
    metrics._count_handled()

    histograms = metrics.families["scheduler_event_handling_duration_seconds"].histograms
    assert {labels: (h.count, h.sum) for labels, h in histograms.items()} == {
        ("UnschedulablePodAdd",): (2, pytest.approx(0.2)),
        ("AssignedPodAdd",): (1, pytest.approx(0.1)),
        ("NodeAdd",): (1, pytest.approx(0.1)),
        ("UnschedulablePodUpdate",): (1, pytest.approx(0.25)),
        ("AssignedPodUpdate",): (1, pytest.approx(0.25)),
    }


def test_several_listeners_hear_the_same() -> None:
    one, other = Metrics(Random(0)), Metrics(Random(1))
    recorders = Recorders(one, other)
    for n in range(1000):
        recorders.point("Filter", PROFILE, "Success", n / 1e6)
    recorders.catch_up()

    key = ("Filter", "Success", PROFILE)
    assert one._points[key].count == other._points[key].count == 1000
    assert one._points[key].sum == pytest.approx(sum(range(1000)) / 1e6)


def test_namespaces_that_are_held_back_are_named() -> None:
    served = Served()
    served.driver.active = False
    served.add(pod("a", namespace="greedy"), pod("b", namespace="shop"))
    queue = served.machine.queue
    queue.owe("greedy/a", 2.0)
    assert read(served)["stowplan_held_back_pods"].value() == 1

    queue.pop()
    served.machine.handle(Tick(), served.clock.now() + 3.0)

    held_back = read(served)["stowplan_namespace_held_back_seconds_total"]
    assert held_back.value("greedy") == 3.0
