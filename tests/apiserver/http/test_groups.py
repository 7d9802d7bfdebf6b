"""Groups and workloads: served where their gate is on, refused and shown as kube-apiserver does.

Each claim was checked against kube-apiserver 1.36; `tests/e2e/test_same_groups.py` compares more.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from stowplan.apiserver.gated_fields import without_gated
from stowplan.objects.pod_groups import GENERIC_WORKLOAD, GROUP_GATES, PROTECTION
from tests.apiserver.http.serving import PODS, Served, serve
from tests.apiserver.things import pod_data

Data = dict[str, Any]

ROOT = "/apis/scheduling.k8s.io/v1alpha2"
GROUPS = f"{ROOT}/namespaces/default/podgroups"
WORKLOADS = f"{ROOT}/namespaces/default/workloads"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
MEMBER = {"podGroupName": "g"}


@pytest.fixture
async def server() -> AsyncIterator[Served]:
    served = await serve(gates=frozenset(GROUP_GATES))
    yield served
    await served.close()


@pytest.fixture
async def generic() -> AsyncIterator[Served]:
    """With nothing on but that there are groups."""
    served = await serve(gates=frozenset({GENERIC_WORKLOAD}))
    yield served
    await served.close()


@pytest.fixture
async def off() -> AsyncIterator[Served]:
    served = await serve()
    yield served
    await served.close()


def group(name: str = "g", **spec: Any) -> Data:
    policy = {"gang": {"minCount": 2}}
    return {"metadata": {"name": name}, "spec": {"schedulingPolicy": policy, **spec}}


def workload(*templates: Data, name: str = "w") -> Data:
    return {"metadata": {"name": name}, "spec": {"podGroupTemplates": [*templates]}}


def template(name: str = "t") -> Data:
    return {"name": name, "schedulingPolicy": {"basic": {}}}


async def refusal(server: Served, path: str, body: Data) -> str:
    answer = await server.post(path, body)
    assert answer.code in (403, 422), answer.body
    message: str = answer.data["message"]
    return message.partition(" is invalid: ")[2] or message.partition(" is forbidden: ")[2]


async def test_without_the_gate_there_are_no_groups(off: Served) -> None:
    assert (await off.get(GROUPS)).code == 404
    assert (await off.post(GROUPS, group())).code == 404
    assert (await off.get(ROOT)).code == 404
    versions = (await off.get("/apis/scheduling.k8s.io")).data["versions"]
    assert [it["version"] for it in versions] == ["v1"]


async def test_without_the_gate_pods_are_in_no_group(off: Served) -> None:
    made = await off.post(PODS, pod_data("p", schedulingGroup=MEMBER))
    assert made.code == 201
    assert "schedulingGroup" not in made.data["spec"]
    spec = {"template": {"spec": {**pod_data("p")["spec"], "restartPolicy": "Never"}}}
    spec["template"]["spec"]["schedulingGroup"] = MEMBER
    job = await off.post(JOBS, {"metadata": {"name": "j"}, "spec": spec})
    assert "schedulingGroup" not in job.data["spec"]["template"]["spec"]


async def test_a_pod_stays_in_its_group(server: Served) -> None:
    made = await server.post(PODS, pod_data("p", schedulingGroup=MEMBER))
    assert made.data["spec"]["schedulingGroup"] == MEMBER
    other = {"spec": {"schedulingGroup": {"podGroupName": "other"}}}
    assert (await server.patch(f"{PODS}/p", other)).code == 422
    nobody = await refusal(server, PODS, pod_data("q", schedulingGroup={}))
    place = "spec.schedulingGroup.podGroupName: Invalid value: "
    assert nobody == f"{place}null: must specify one of: `podGroupName`"
    misnamed = pod_data("q", schedulingGroup={"podGroupName": "A_b"})
    assert (await refusal(server, PODS, misnamed)).startswith(f'{place}"A_b": a lowercase RFC 1123')


async def test_what_is_filled_in(server: Served, generic: Served) -> None:
    made = (await server.post(GROUPS, group())).data
    assert made["spec"] == {
        "schedulingPolicy": {"gang": {"minCount": 2}},
        "podGroupTemplateRef": None,
        "disruptionMode": "Pod",
        "priority": 0,
    }
    assert made["metadata"]["finalizers"] == [PROTECTION]
    assert "generation" not in made["metadata"]
    bare = (await generic.post(GROUPS, group())).data
    assert "priority" not in bare["spec"]


async def test_fields_of_gates_that_are_off_are_left_out(generic: Served) -> None:
    plan = {
        "schedulingConstraints": {"topology": [{"key": "a"}, {"key": "b"}]},
        "resourceClaims": [{"name": "c"}],
        "disruptionMode": "PodGroup",
        "priorityClassName": "missing",
        "priority": 7,
    }
    made = (await generic.post(GROUPS, group(**plan))).data["spec"]
    assert made["disruptionMode"] == "Pod"
    assert not made.keys() & (plan.keys() - {"disruptionMode"})
    kept = (await generic.post(WORKLOADS, workload({**template(), **plan}))).data
    assert kept["spec"]["podGroupTemplates"] == [{**template(), "schedulingConstraints": None}]


CLAIM = {"name": "c", "resourceClaimName": "r"}
REFUSED = {
    "no policy": (
        {"schedulingPolicy": {}},
        'schedulingPolicy: Invalid value: "": must specify one of: `basic`, `gang`',
    ),
    "both policies": (
        {"schedulingPolicy": {"basic": {}, "gang": {"minCount": 1}}},
        (
            'schedulingPolicy: Invalid value: "{basic, gang}": '
            "must specify exactly one of: `basic`, `gang`"
        ),
    ),
    "none": (
        {"schedulingPolicy": {"gang": {}}},
        "schedulingPolicy.gang.minCount: Required value",
    ),
    "less than none": (
        {"schedulingPolicy": {"gang": {"minCount": -1}}},
        "schedulingPolicy.gang.minCount: Invalid value: -1: must be greater than or equal to 1",
    ),
    "two topologies": (
        {"schedulingConstraints": {"topology": [{"key": "a"}, {"key": "b"}]}},
        "schedulingConstraints.topology: Too many: 2: must have at most 1 item",
    ),
    "no key": (
        {"schedulingConstraints": {"topology": [{"key": ""}]}},
        "schedulingConstraints.topology[0].key: Required value",
    ),
    "unknown mode": (
        {"disruptionMode": "All"},
        'disruptionMode: Unsupported value: "All": supported values: "Pod", "PodGroup"',
    ),
    "five claims": (
        {"resourceClaims": [{**CLAIM, "name": f"c{n}"} for n in range(5)]},
        "resourceClaims: Too many: 5: must have at most 4 items",
    ),
    "one claim twice": (
        {"resourceClaims": [CLAIM, CLAIM]},
        'resourceClaims[1]: Duplicate value: {"name":"c","resourceClaimName":"r"}',
    ),
    "a claim of nothing": (
        {"resourceClaims": [{"name": "c"}]},
        (
            'resourceClaims[0]: Invalid value: "": '
            "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
        ),
    ),
}


@pytest.mark.parametrize("name", REFUSED)
async def test_what_no_group_may_say(server: Served, name: str) -> None:
    spec, text = REFUSED[name]
    assert await refusal(server, GROUPS, group(**spec)) == f"spec.{text}"
    if name == "none":
        return
    held = await refusal(server, WORKLOADS, workload({"name": "t", **group(**spec)["spec"]}))
    assert held == f"spec.podGroupTemplates[0].{text}"


async def test_workloads_have_some_templates(server: Served) -> None:
    place = "spec.podGroupTemplates"
    assert await refusal(server, WORKLOADS, workload()) == f"{place}: Required value"
    many = workload(*(template(f"t{n}") for n in range(9)))
    assert await refusal(server, WORKLOADS, many) == (
        f"{place}: Too many: 9: must have at most 8 items"
    )
    unnamed = workload(template(""))
    assert await refusal(server, WORKLOADS, unnamed) == f"{place}[0].name: Required value"


async def test_nothing_of_a_spec_changes(server: Served) -> None:
    await server.post(GROUPS, group())
    await server.post(WORKLOADS, workload(template()))
    for path, spec in (
        (f"{GROUPS}/g", {"schedulingPolicy": {"gang": {"minCount": 3}}}),
        (f"{GROUPS}/g", {"disruptionMode": "PodGroup"}),
        (f"{GROUPS}/g", {"priority": 1}),
        (f"{WORKLOADS}/w", {"podGroupTemplates": [template("other")]}),
    ):
        (field,) = spec
        answer = await server.patch(path, {"spec": spec})
        assert answer.code == 422
        text = f"spec.{field}: Invalid value: null: field is immutable"
        assert answer.data["message"].endswith(text)
    labelled = await server.patch(f"{GROUPS}/g", {"metadata": {"labels": {"a": "b"}}})
    assert labelled.code == 200


async def test_priority_comes_from_the_class(server: Served) -> None:
    await server.post(CLASSES, {"metadata": {"name": "high"}, "value": 1000})
    made = (await server.post(GROUPS, group(priorityClassName="high"))).data
    assert made["spec"]["priority"] == 1000
    missing = await refusal(server, GROUPS, group("h", priorityClassName="missing"))
    assert missing == "no PriorityClass with name missing was found"
    assert await refusal(server, GROUPS, group("h", priority=5)) == (
        "priority set in the pod group (5) must match the priority computed (0) based on the "
        "priority class set in the spec"
    )


async def test_a_group_is_made_from_a_template_that_exists(server: Served) -> None:
    await server.post(WORKLOADS, workload(template()))

    def made_from(workload_name: str, name: str) -> Data:
        reference = {"workloadName": workload_name, "podGroupTemplateName": name}
        return group(podGroupTemplateRef={"workload": reference})

    assert await refusal(server, GROUPS, made_from("missing", "t")) == (
        'PodGroup rejected: Workload "missing" not found'
    )
    assert await refusal(server, GROUPS, made_from("w", "missing")) == (
        'PodGroup rejected: PodGroupTemplate "missing" not found in Workload "w"'
    )
    assert (await server.post(GROUPS, made_from("w", "t"))).code == 201


async def test_the_status_is_written_apart(server: Served) -> None:
    await server.post(GROUPS, group(resourceClaims=[CLAIM]))
    condition = {
        "type": "PodGroupScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    status = {"conditions": [condition], "resourceClaimStatuses": [{"name": "c"}]}
    assert (await server.patch(f"{GROUPS}/g", {"status": status})).data["status"] == {}
    changed = {"status": status, "spec": {"priority": 9}}
    answer = (await server.patch(f"{GROUPS}/g/status", changed)).data
    assert answer["status"] == status
    assert answer["spec"]["priority"] == 0
    unknown = {"status": {"resourceClaimStatuses": [{"name": "other"}]}}
    assert (await server.patch(f"{GROUPS}/g/status", unknown)).code == 422


async def test_the_table_of_groups(server: Served) -> None:
    await server.post(WORKLOADS, workload(template()))
    reference = {"workload": {"workloadName": "w", "podGroupTemplateName": "t"}}
    await server.post(GROUPS, group("a", podGroupTemplateRef=reference))
    await server.post(GROUPS, group("b", schedulingPolicy={"basic": {}}))
    condition = {
        "type": "PodGroupScheduled",
        "status": "True",
        "reason": "Scheduled",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    await server.patch(f"{GROUPS}/b/status", {"status": {"conditions": [condition]}})
    table = (await server.get(GROUPS, Accept=TABLE)).data
    names = [it["name"] for it in table["columnDefinitions"]]
    assert names == ["Name", "Policy", "Workload", "Status", "Age"]
    assert [row["cells"] for row in table["rows"]] == [
        ["a", "Gang", "w", "Pending", "0s"],
        ["b", "Basic", "<none>", "Scheduled", "0s"],
    ]


def test_a_gate_that_is_turned_off_takes_nothing_away() -> None:
    old = group(disruptionMode="PodGroup", priority=7)
    new = group(disruptionMode="PodGroup", priority=7, resourceClaims=[CLAIM])

    assert without_gated("PodGroup", new, old, {GENERIC_WORKLOAD}) == old
