"""kube-apiserver and the embedded server answer the same about groups and workloads.

Each step is a request; both servers get all of them in this order, and what they answer is
compared: the code, and the object or the refusal.  Both have the gates of groups on, or off.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.e2e.build_control_plane import MissingControlPlane, find
from tests.e2e.harness.api import Api
from tests.e2e.harness.cluster import Cluster, EmbeddedCluster, RealCluster

Data = dict[str, Any]

ROOT = "/apis/scheduling.k8s.io/v1alpha2"
GROUPS = f"{ROOT}/namespaces/default/podgroups"
WORKLOADS = f"{ROOT}/namespaces/default/workloads"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
PODS = "/api/v1/namespaces/default/pods"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"

GENERIC = "GenericWorkload=true"
ALL = (
    f"{GENERIC},GangScheduling=true,TopologyAwareWorkloadScheduling=true,"
    "WorkloadAwarePreemption=true,DRAWorkloadResourceClaims=true"
)
VOLATILE = ("uid", "resourceVersion", "creationTimestamp", "managedFields", "selfLink")
"""Of metadata: nobody can expect them to be the same."""

GANG = {"schedulingPolicy": {"gang": {"minCount": 2}}}
BASIC = {"schedulingPolicy": {"basic": {}}}
CLAIM = {"name": "net", "resourceClaimName": "c"}


class Step(NamedTuple):
    method: str
    path: str
    body: Data | None = None


def group(name: str, **spec: Any) -> Step:
    return Step("POST", GROUPS, {"metadata": {"name": name}, "spec": spec})


def workload(name: str, *templates: Data, **spec: Any) -> Step:
    body = {"metadata": {"name": name}, "spec": {"podGroupTemplates": [*templates], **spec}}
    return Step("POST", WORKLOADS, body)


def template(name: str, **plan: Any) -> Data:
    return {"name": name, **(plan or GANG)}


def from_template(workload_name: str, name: str) -> Data:
    return {"workload": {"workloadName": workload_name, "podGroupTemplateName": name}}


def pod(name: str, **spec: Any) -> Step:
    containers = [{"name": "c", "image": "i"}]
    return Step(
        "POST", PODS, {"metadata": {"name": name}, "spec": {"containers": containers, **spec}}
    )


def patch(path: str, **body: Any) -> Step:
    return Step("PATCH", path, body)


def topology(*keys: str) -> Data:
    return {"schedulingConstraints": {"topology": [{"key": key} for key in keys]}}


def condition(**fields: Any) -> Data:
    return {
        "type": "PodGroupScheduled",
        "status": "True",
        "reason": "Scheduled",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
        **fields,
    }


NEW = [
    group("gang", **GANG),
    group("basic", **BASIC),
    group("gang", **GANG),
    group("none"),
    group("both", schedulingPolicy={"basic": {}, "gang": {"minCount": 1}}),
    group("zero", schedulingPolicy={"gang": {"minCount": 0}}),
    group("less", schedulingPolicy={"gang": {"minCount": -1}}),
    group("Upper", **GANG),
    group("a.b", **GANG),
    group("rack", **GANG, **topology("rack")),
    group("racks", **GANG, **topology("a", "b")),
    group("key", **GANG, **topology("a b")),
    group("no-key", **GANG, **topology("")),
    group("whole", **GANG, disruptionMode="PodGroup"),
    group("mode", **GANG, disruptionMode="All"),
    group("claim", **GANG, resourceClaims=[CLAIM]),
    group("claims", **GANG, resourceClaims=[{**CLAIM, "name": f"n{n}"} for n in range(5)]),
    group("twice", **GANG, resourceClaims=[CLAIM, CLAIM]),
    group("no-claim", **GANG, resourceClaims=[{"name": "net"}]),
    group("two", **GANG, resourceClaims=[{**CLAIM, "resourceClaimTemplateName": "t"}]),
    group("names", **GANG, resourceClaims=[{"name": "a.b", "resourceClaimName": "C"}]),
    group("class", **GANG, priorityClassName="high"),
    group("no-class", **GANG, priorityClassName="missing"),
    group("priority", **GANG, priority=5),
    group("nothing", **GANG, priority=0),
    group("own", **GANG, priorityClassName="high", priority=1000),
]
TEMPLATES = [
    workload("w", template("a"), template("b", **BASIC)),
    workload("empty"),
    workload("many", *(template(f"t{n}") for n in range(9))),
    workload("same", template("a"), template("a")),
    workload("unnamed", template("")),
    workload("dotted", template("a.b")),
    workload("policy", {"name": "a"}),
    workload("gated", template("a", **GANG, **topology("rack"), priority=7, disruptionMode="Pod")),
    workload(
        "owned", template("a"), controllerRef={"apiGroup": "batch", "kind": "Job", "name": "j"}
    ),
    workload("owner", template("a"), controllerRef={"apiGroup": "A", "kind": "a/b", "name": ""}),
    patch(f"{WORKLOADS}/w", spec={"podGroupTemplates": [template("a")]}),
    patch(f"{WORKLOADS}/w", spec={"controllerRef": {"kind": "Job", "name": "j"}}),
    patch(f"{WORKLOADS}/w", metadata={"labels": {"a": "b"}}),
    group("made", **GANG, podGroupTemplateRef=from_template("w", "a")),
    group("no-workload", **GANG, podGroupTemplateRef=from_template("missing", "a")),
    group("no-template", **GANG, podGroupTemplateRef=from_template("w", "c")),
    group("no-ref", **GANG, podGroupTemplateRef={}),
    group("ref", **GANG, podGroupTemplateRef=from_template("W", "")),
]
CHANGES = [
    patch(f"{GROUPS}/gang", spec={"schedulingPolicy": {"gang": {"minCount": 3}}}),
    patch(f"{GROUPS}/gang", spec={"priority": 3}),
    patch(f"{GROUPS}/gang", spec=topology("rack")),
    patch(f"{GROUPS}/gang", spec={"resourceClaims": [CLAIM]}),
    patch(f"{GROUPS}/gang", metadata={"labels": {"a": "b"}}),
    patch(f"{GROUPS}/gang", status={"conditions": [condition()]}),
    patch(f"{GROUPS}/gang/status", status={"conditions": [condition()]}),
    patch(f"{GROUPS}/gang/status", status={"conditions": [condition(), condition()]}),
    patch(f"{GROUPS}/gang/status", status={"conditions": [condition(reason="no way")]}),
    patch(f"{GROUPS}/gang/status", spec={"priority": 4}, status={"conditions": []}),
    patch(f"{GROUPS}/claim/status", status={"resourceClaimStatuses": [{"name": "net"}]}),
    patch(f"{GROUPS}/claim/status", status={"resourceClaimStatuses": [{"name": "other"}]}),
    Step("GET", f"{GROUPS}/gang"),
    Step("GET", f"{GROUPS}/missing"),
    Step("GET", f"{WORKLOADS}/w/status"),
    Step("DELETE", f"{GROUPS}/gang"),
    Step("DELETE", f"{WORKLOADS}/w"),
]
MEMBERS = [
    pod("member", schedulingGroup={"podGroupName": "gang"}),
    pod("nobody", schedulingGroup={}),
    pod("unnamed", schedulingGroup={"podGroupName": ""}),
    pod("misnamed", schedulingGroup={"podGroupName": "A_b"}),
    patch(f"{PODS}/member", spec={"schedulingGroup": {"podGroupName": "basic"}}),
    patch(f"{PODS}/member", spec={"schedulingGroup": None}),
    Step("GET", ROOT),
    Step("GET", "/apis/scheduling.k8s.io"),
]
FIRST = Step("POST", CLASSES, {"metadata": {"name": "high"}, "value": 1000})
STEPS = [FIRST, *NEW, *TEMPLATES, *CHANGES, *MEMBERS]


Pair = tuple[Api, Api]


@pytest.fixture(scope="module", params=[ALL, GENERIC, ""], ids=["all", "generic", "none"])
def pair(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Pair]:
    try:
        programs = find(os.environ, ("etcd", "kube-apiserver"))
    except MissingControlPlane as problem:
        pytest.skip(str(problem))
    folder: Path = tmp_path_factory.mktemp("groups")
    features = request.param
    served = "scheduling.k8s.io/v1alpha2=true" if features else ""
    made: list[Cluster] = [
        EmbeddedCluster(folder / "embedded", features=features),
        RealCluster(
            folder / "real", programs, features=features, apis=served, protects_groups=True
        ),
    ]
    for cluster in made:
        cluster.start()
    ours, theirs = (cluster.api() for cluster in made)
    yield ours, theirs
    for cluster in made:
        cluster.stop()


def test_both_servers_answer_the_same(pair: Pair) -> None:
    ours, theirs = ([_answer(api, step) for step in STEPS] for api in pair)

    differing = [
        f"{step.method} {step.path} {json.dumps(step.body)}\n  ours   {own}\n  theirs {other}"
        for step, own, other in zip(STEPS, ours, theirs, strict=True)
        if own != other
    ]
    assert not differing, "\n".join(differing)


def _answer(api: Api, step: Step) -> tuple[int, Any]:
    kind = "application/merge-patch+json" if step.method == "PATCH" else "application/json"
    code, text = api.send(step.method, step.path, step.body, content_type=kind)
    try:
        return code, _comparable(json.loads(text))
    except ValueError:
        return code, text


def _comparable(data: Data) -> Any:
    if data.get("kind") == "Status":
        causes = (data.get("details") or {}).get("causes") or ()
        fields = [cause.get("field") for cause in causes]
        # Theirs shows what would have changed of a pod, as lines.
        return data.get("reason"), str(data.get("message")).partition("\n@@")[0], fields
    for key in VOLATILE:
        data.get("metadata", {}).pop(key, None)
    if "deletionTimestamp" in data.get("metadata", {}):
        data["metadata"]["deletionTimestamp"] = ""
    for entry in data.get("resources") or ():
        entry.pop("storageVersionHash", None)
    return data
