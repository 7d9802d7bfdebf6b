"""What each path says, asked without a socket."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from stowplan.config import load_config, to_dict
from stowplan.objects.api import Delete
from stowplan.objects.kinds import NODE
from stowplan.runtime.endpoints import Endpoints, Question, Reply
from stowplan.runtime.explanations import BURST
from tests.builders import node, pod
from tests.core.harness import PROFILE
from tests.runtime.prometheus import parse
from tests.runtime.surfaces import Served


class Port:
    """The endpoints of a scheduler, there from before its first decision."""

    def __init__(self, *objects: Any, **config: Any) -> None:
        self.served = Served(**config)
        self.endpoints = Endpoints(self.served.surface)
        for thing in objects:
            self.served.store.put(thing)
        self.served.settle()

    def ask(self, path: str, method: str = "GET", **options: Any) -> Reply:
        path, _, query = path.partition("?")
        pairs: dict[str, list[str]] = {}
        for part in filter(None, query.split("&")):
            name, _, value = part.partition("=")
            pairs.setdefault(name, []).append(value)
        return self.endpoints.answer(Question(method, path, pairs, **options))

    def text(self, path: str) -> str:
        reply = self.ask(path)
        assert reply.status == 200, reply
        return "".join(reply.body)

    def json(self, path: str) -> Any:
        reply = self.ask(path, accept="application/json")
        assert (reply.status, reply.content_type) == (200, "application/json")
        return json.loads("".join(reply.body))


# -- the index ------------------------------------------------------------------------------


def test_one_page_names_all_pages_for_people() -> None:
    port = Port(node("n1"), pod("web"))
    known = {path for path in port.endpoints._pages if path.startswith("/debug/")} - {"/debug/"}

    pages = port.json("/debug")["pages"]

    assert {page["path"] for page in pages} == known | {"/debug/decisions/NAMESPACE/POD"}
    lines = port.text("/debug/").splitlines()
    for page, line in zip(pages, lines, strict=False):
        assert line.split(maxsplit=1) == [page["path"], page["about"]]
        assert "\n" not in page["about"]
        path = page["path"].replace("NAMESPACE/POD", "default/web")
        assert port.ask(path).status in (200, 406), "there is such a page"
    assert port.ask("/debug", "POST").status == 405


# -- decisions ------------------------------------------------------------------------------

TAINTED = node("tainted", taints=[{"key": "a", "value": "b", "effect": "NoSchedule"}])


def test_a_placed_pod_shows_what_each_plugin_said_of_each_node() -> None:
    port = Port(node("small", cpu="2"), node("large", cpu="64"), TAINTED, pod("web", cpu="1"))

    data = port.json("/debug/decisions/default/web")

    assert data["node"] == "large"
    assert [entry["node"] for entry in data["feasible"]] == ["large", "small"], "the best first"
    best = data["feasible"][0]
    assert best["total"] == data["score"] == sum(best["scores"].values())
    assert {"NodeResourcesFit", "NodeResourcesBalancedAllocation", "TaintToleration"} <= set(
        best["scores"]
    )
    (rejected,) = data["rejected"]
    assert rejected == {
        "node": "tainted",
        "plugin": "TaintToleration",
        "code": "UnschedulableAndUnresolvable",
        "reasons": ["node(s) had untolerated taint(s)"],
    }


def test_the_scores_are_those_of_the_decision_however_the_cluster_went_on() -> None:
    port = Port(node("a", cpu="4"), node("b", cpu="4"), TAINTED, pod("first", cpu="1"))
    before = port.json("/debug/decisions/default/first")
    assert [entry["node"] for entry in before["rejected"]] == ["tainted"]

    port.served.store.execute(Delete(NODE, "", "tainted"))
    port.served.add(*(pod(cpu="1") for _ in range(5)))
    assert port.json("/debug/decisions/default/first") == before
    port.served.add(node("c", cpu="64"), pod("late", cpu="1"))

    assert port.served.node_of("late") == "c"
    assert port.json("/debug/decisions/default/first") == before


def test_a_pod_that_fits_nowhere_shows_why_not_for_each_node() -> None:
    port = Port(node("small", cpu="2"), TAINTED, pod("web", cpu="3"))

    data = port.json("/debug/decisions/default/web")
    text = port.text("/debug/decisions/default/web")

    assert "node" not in data
    assert data["message"].startswith("0/2 nodes are available: ")
    found = {entry["node"]: (entry["plugin"], entry["reasons"]) for entry in data["rejected"]}
    assert found == {
        "small": ("NodeResourcesFit", ["Insufficient cpu"]),
        "tainted": ("TaintToleration", ["node(s) had untolerated taint(s)"]),
    }
    lines = [line.split() for line in text.splitlines()]
    assert ["small", "NodeResourcesFit", "Insufficient", "cpu"] in lines


def test_the_text_is_a_table_of_nodes_and_plugins() -> None:
    port = Port(node("small", cpu="2"), node("large", cpu="64"), pod("web", cpu="1"))

    lines = port.text("/debug/decisions/default/web").splitlines()

    data = port.json("/debug/decisions/default/web")
    best = data["feasible"][0]
    assert lines[0] == f"pod default/web: placed on large, score {data['score']}"
    assert lines[1] == "2 nodes, 2 looked at, 2 feasible"
    title, first = (line.split() for line in lines[3:5])
    assert title == ["FEASIBLE", "NODE", "TOTAL", *best["scores"]]
    assert first == ["large", str(best["total"]), *map(str, best["scores"].values())]


def test_only_one_feasible_node_has_nothing_to_compare() -> None:
    port = Port(node("only"), TAINTED, pod("web"))

    data = port.json("/debug/decisions/default/web")

    assert data["feasible"] == [{"node": "only"}]
    assert [entry["node"] for entry in data["rejected"]] == ["tainted"]
    assert "score" not in data


def test_preemption_shows_the_victims() -> None:
    port = Port(node("n1", cpu="1"), pod("low", cpu="1", spec={"terminationGracePeriodSeconds": 9}))
    port.served.add(pod("high", cpu="1", spec={"priority": 10}))

    data = port.json("/debug/decisions/default/high")

    assert (data["nominatedNode"], data["victims"]) == ("n1", ["default/low"])
    assert "evicts from n1: default/low\n" in port.text("/debug/decisions/default/high")


def test_explanations_of_many_placed_pods_are_limited_but_never_wrong() -> None:
    port = Port(node("a", cpu="1000", pods=1000), node("b", cpu="1000", pods=1000))
    count = int(BURST) + 50
    port.served.add(*(pod(f"p{n}", cpu="1m") for n in range(count)))

    explained = [
        n for n in range(count) if "feasible" in port.json(f"/debug/decisions/default/p{n}")
    ]

    assert BURST <= len(explained) <= BURST + 1, "no time has passed: the budget is the burst"
    assert "was not kept" in port.text(f"/debug/decisions/default/p{count - 1}")
    port.served.run(1.0)
    port.served.add(pod("later", cpu="1m"))
    assert "feasible" in port.json("/debug/decisions/default/later")


def test_pods_that_fit_nowhere_are_always_explained() -> None:
    port = Port(node("n1", cpu="1"))
    count = int(BURST) + 50
    port.served.add(*(pod(f"p{n}", cpu="8") for n in range(count)))

    for n in range(count):
        assert port.json(f"/debug/decisions/default/p{n}")["rejected"]


def test_explanations_take_a_bounded_amount_of_memory() -> None:
    port = Port(node("n1", cpu="1"))
    explanations = port.endpoints._explanations
    explanations._bytes_max = 10_000
    port.served.add(*(pod(f"p{n}", cpu="8") for n in range(100)))

    kept = [decision.explanation for decision in port.served.driver.machine.log.decisions()]
    sizes = [explanation.byte_count for explanation in kept if explanation is not None]

    assert 1 <= len(sizes) < 20
    assert explanations._byte_count == sum(sizes) <= 10_000
    assert "feasible" in port.json("/debug/decisions/default/p99")
    assert "feasible" not in port.json("/debug/decisions/default/p0"), "the brief form stays"


def test_explanations_are_bounded_in_number_too() -> None:
    port = Port(node("n1", cpu="1"))
    explanations = port.endpoints._explanations
    explanations._count_max = 7
    port.served.add(*(pod(f"p{n}", cpu="8") for n in range(100)))

    kept = {d.pod: d.explanation for d in port.served.driver.machine.log.decisions()}
    sizes = {pod: found.byte_count for pod, found in kept.items() if found is not None}
    assert list(sizes) == [f"default/p{n}" for n in range(93, 100)]
    assert explanations._byte_count == sum(sizes.values())


def test_a_reconfigured_scheduler_goes_on_explaining() -> None:
    port = Port(node("n1"))
    port.served.driver.reconfigure(load_config(None))
    port.served.add(pod("web"))

    assert port.json("/debug/decisions/default/web")["feasible"] == [{"node": "n1"}]


@pytest.mark.parametrize("path", ["", "/", "/default", "/default/", "/default/a/b", "/default/no"])
def test_no_such_decision(path: str) -> None:
    assert Port().ask(f"/debug/decisions{path}").status == 404


# -- queue and cache ------------------------------------------------------------------------


def test_the_queue_shows_who_waits_where_and_because_of_whom() -> None:
    gated = pod("gated", spec={"schedulingGates": [{"name": "wait"}]})
    port = Port(node("n1", cpu="1"), pod("large", cpu="8", spec={"priority": 7}), gated)
    port.served.run(2.0)

    data = port.json("/debug/queue")
    text = port.text("/debug/queue")

    counts = {"active": 0, "backoff": 0, "unschedulable": 1, "gated": 1, "in flight": 0}
    assert data["counts"] == counts
    pods = {entry["pod"]: entry for entry in data["pods"]}
    assert pods["default/large"] == {
        "pod": "default/large",
        "queue": "unschedulable",
        "priority": 7,
        "attempts": 1,
        "waitingSeconds": 2.0,
        "rejectedBy": ["NodeResourcesFit"],
    }
    assert pods["default/gated"]["gatedBy"] == "SchedulingGates"
    assert "wait" in pods["default/gated"]["gate"]
    lines = [line.split() for line in text.splitlines()]
    assert ["default/large", "unschedulable", "7", "1", "2s", "NodeResourcesFit"] in lines


def test_the_queue_shows_who_lets_others_go_first() -> None:
    port = Port()
    port.served.driver.active = False
    port.served.add(pod("large"), pod("web", namespace="shop"))
    port.served.machine.queue.owe("default/large", 2.0)

    data = port.json("/debug/queue")
    text = port.text("/debug/queue")

    assert data["counts"]["held back"] == 1
    held = {entry["pod"]: entry.get("heldBackSeconds") for entry in data["pods"]}
    assert held == {"default/large": 18.0, "shop/web": None}
    because = "an attempt at default/large took 2.00 s"
    assert f"namespace default lets others go first for 18.0 s: {because}\n" in text


def test_the_cache_shows_nodes_and_their_pods() -> None:
    port = Port(node("n1", cpu="4"), node("n2"), pod("web", cpu="1", node="n1"))

    data = port.json("/debug/cache")
    one = port.json("/debug/cache?node=n1")

    assert (data["nodeCount"], data["podCount"]) == (2, 1)
    assert {entry["name"] for entry in data["nodes"]} == {"n1", "n2"}
    (found,) = one["nodes"]
    assert found["requested"]["cpu"] == 1000
    assert [entry["name"] for entry in found["pods"]] == ["web"]
    assert "Node name: n1\n" in port.text("/debug/cache?node=n1")
    assert "n2" not in port.text("/debug/cache?node=n1")
    assert port.ask("/debug/cache?node=n3").status == 404


def test_an_empty_scheduler_shows_empty_pages() -> None:
    port = Port()

    assert port.json("/debug/queue")["pods"] == []
    assert port.json("/debug/cache")["nodes"] == []


def test_no_secret_of_a_pod_is_on_any_page() -> None:
    secret = "hunter2-in-an-environment"
    container = {
        "name": "main",
        "image": "app",
        "env": [{"name": "PASSWORD", "value": secret}],
        "args": [secret],
    }
    described = {"annotations": {"kubectl.kubernetes.io/last-applied-configuration": secret}}
    one = pod("one", spec={"containers": [container]}, metadata=described)
    two = pod("two", cpu="999", metadata=described)
    port = Port(node("n1"), one, two)

    for path in (
        "/debug/queue",
        "/debug/cache",
        "/debug/decisions/default/one",
        "/debug/decisions/default/two",
        "/metrics",
        "/metrics/resources",
    ):
        for output in ("text", "json"):
            assert secret not in "".join(port.ask(f"{path}?output={output}").body), path
    assert secret not in port.served.out.getvalue()


def test_bottlenecks_are_a_report() -> None:
    port = Port(node("n1"), pod("a"))

    data = port.json("/debug/bottlenecks")

    assert data["results"] == {"scheduled": 1}
    assert {"Filter", "scheduling cycle"} <= {phase["name"] for phase in data["phases"]}
    assert "no bottleneck" in port.text("/debug/bottlenecks")


# -- for machines ---------------------------------------------------------------------------


def test_metrics_are_there_and_can_be_reset() -> None:
    port = Port(node("n1"), pod("a"))
    attempts = "scheduler_schedule_attempts_total"
    assert parse(port.text("/metrics"))[attempts].value("scheduled", PROFILE) == 1
    assert port.ask("/metrics").content_type.startswith("text/plain; version=0.0.4")

    reply = port.ask("/metrics", "DELETE")

    assert (reply.status, reply.body) == (200, "metrics reset\n")
    assert parse(port.text("/metrics"))[attempts].value("scheduled", PROFILE) == 0


def test_metrics_say_who_leads_and_what_is_enabled() -> None:
    port = Port()
    found = parse(port.text("/metrics"))
    assert found["leader_election_master_status"].value("kube-scheduler") == 1
    features = found["kubernetes_feature_enabled"]
    assert features.value("SchedulerQueueingHints", "") == 1
    assert features.value("OpportunisticBatching", "BETA") == 1
    assert features.value("GangScheduling", "ALPHA") == 0
    assert found["process_resident_memory_bytes"].value() > 2**20
    assert found["process_open_fds"].value() >= 3

    port.served.leading = False

    again = parse(port.text("/metrics"))
    assert again["leader_election_master_status"].value("kube-scheduler") == 0


def test_resources_are_shown_by_the_leader_only() -> None:
    port = Port(node("n1"), pod("a", cpu="1"))
    assert 'kube_pod_resource_request{namespace="default",pod="a",node="n1"' in port.text(
        "/metrics/resources"
    )

    port.served.leading = False

    found = parse(port.text("/metrics/resources"))
    assert not found["kube_pod_resource_request"].samples
    assert not found["kube_pod_resource_limit"].samples


def test_configz_is_the_configuration_in_use() -> None:
    port = Port(podMaxBackoffSeconds=20)

    config = port.json("/configz")["componentconfig"]

    assert config == json.loads(json.dumps(to_dict(port.served.machine.config)))
    assert config["podMaxBackoffSeconds"] == 20
    assert config["kind"] == "KubeSchedulerConfiguration"


def test_configz_keeps_the_keys_of_extenders_to_itself() -> None:
    key = base64.b64encode(b"-----BEGIN PRIVATE KEY-----").decode()
    extender = {
        "urlPrefix": "https://example.invalid",
        "filterVerb": "filter",
        "enableHTTPS": True,
        "tlsConfig": {"certData": base64.b64encode(b"cert").decode(), "keyData": key},
    }
    port = Port(extenders=[extender])

    text = port.text("/configz")

    assert key not in text
    (shown,) = json.loads(text)["componentconfig"]["extenders"]
    assert set(shown["tlsConfig"]) == {"certData"}


def test_verbosity_can_be_changed() -> None:
    port = Port()

    assert port.ask("/debug/flags/v", "PUT", body=b"4").body == (
        "successfully set klog.logging.verbosity to 4\n"
    )
    assert port.served.lines.verbosity.level == 4
    assert port.ask("/debug/flags/v") == Reply(406, "unsupported http method\n")
    for wrong in ("much", "-1", "1.5", ""):
        reply = port.ask("/debug/flags/v", "PUT", body=wrong.encode())
        problem = f'strconv.ParseUint: parsing "{wrong}": invalid syntax\n'
        assert (reply.status, reply.body) == (400, problem)
    assert port.served.lines.verbosity.level == 4


def test_without_profiling_verbosity_is_not_served() -> None:
    port = Port(enableProfiling=False)

    assert port.ask("/debug/flags/v", "PUT", body=b"4").status == 404
    assert port.served.lines.verbosity.level == 0


def test_flagz_and_statusz() -> None:
    port = Port()
    port.served.run(3725.0)

    assert "secure-port=10259\nv=2\n" in port.text("/flagz")
    assert "Up: 1 hr 02 min 05 sec\n" in port.text("/statusz")
    assert port.json("/flagz")["flags"] == {"secure-port": "10259", "v": "2"}
    status = port.json("/statusz")
    assert (status["kind"], status["apiVersion"]) == ("Statusz", "config.k8s.io/v1beta1")
    assert status["binaryVersion"] == "1.36.4"
    assert "/metrics" in status["paths"]


@pytest.mark.parametrize(
    ("media", "read"), [("application/json", json.loads), ("application/yaml", yaml.safe_load)]
)
@pytest.mark.parametrize("kind", ["Flagz", "Statusz"])
def test_flagz_and_statusz_as_the_objects_that_are_asked_for(
    kind: str, media: str, read: Callable[[str], Any]
) -> None:
    accept = f"text/html, {media}; v=v1beta1;g=config.k8s.io ;as={kind}, */*"

    reply = Port().ask(f"/{kind.lower()}", accept=accept)

    assert reply.content_type == f"{media};g=config.k8s.io;v=v1beta1;as={kind}"
    found = read("".join(reply.body))
    assert (found["kind"], found["apiVersion"]) == (kind, "config.k8s.io/v1beta1")
    assert found["metadata"] == {"name": "kube-scheduler"}


def test_another_version_of_them_is_not_made_up() -> None:
    reply = Port().ask("/flagz", accept="application/yaml;v=v1;g=config.k8s.io;as=Flagz, */*")

    assert reply.content_type.startswith("text/plain")


def test_slis_count_the_checks_that_were_made() -> None:
    port = Port()
    port.served.problem = "a reason"
    for _ in range(2):
        port.ask("/readyz")

    found = parse(port.text("/metrics/slis"))

    assert found["kubernetes_healthcheck"].value("shutdown", "readyz") == 0
    assert found["kubernetes_healthcheck"].value("ping", "readyz") == 1
    assert found["kubernetes_healthchecks_total"].value("shutdown", "readyz", "error") == 2


def test_only_what_makes_sense_is_allowed() -> None:
    port = Port()

    for path in ("/metrics", "/configz", "/debug/queue", "/debug/decisions/a/b"):
        assert port.ask(path, "POST").status == 405, path
    assert port.ask("/configz", "DELETE").status == 405
    assert port.ask("/debug/queue?output=xml").status == 400
    for path in ("/", "/nowhere", "/healthzz", "/debug/queue/", "/debug/pprof/"):
        assert port.ask(path).status == 404, path
