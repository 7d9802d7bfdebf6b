"""resource.k8s.io: its versions, what is refused, what clients are shown.

Each claim was checked against kube-apiserver 1.36; `tests.e2e.differential --devices` compares many
more.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.apiserver.http.serving import PODS, Served
from tests.apiserver.things import pod_data

Data = dict[str, Any]

ROOT = "/apis/resource.k8s.io"
CLAIMS = f"{ROOT}/v1/namespaces/default/resourceclaims"
SLICES = f"{ROOT}/v1/resourceslices"
CLASSES = f"{ROOT}/v1/deviceclasses"
ASK = {"deviceClassName": "gpu"}
RESULT = {"request": "r", "driver": "d.example.com", "pool": "p", "device": "d"}
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


def claim(name: str = "c", **exactly: Any) -> Data:
    requests = [{"name": "r", "exactly": {**ASK, **exactly}}]
    return {"metadata": {"name": name}, "spec": {"devices": {"requests": requests}}}


def slice_(name: str = "s", **spec: Any) -> Data:
    pool = {"name": "p", "resourceSliceCount": 1}
    plain = {"driver": "d.example.com", "nodeName": "n", "pool": pool, "devices": [{"name": "d"}]}
    return {"metadata": {"name": name}, "spec": {**plain, **spec}}


def allocated(**status: Any) -> Data:
    return {"status": {"allocation": {"devices": {"results": [RESULT]}}, **status}}


async def test_defaults(server: Served) -> None:
    made = (await server.post(CLAIMS, claim(tolerations=[{"key": "k"}]))).data

    assert made["spec"]["devices"]["requests"][0]["exactly"] == {
        "deviceClassName": "gpu",
        "allocationMode": "ExactCount",
        "count": 1,
        "tolerations": [{"key": "k", "operator": "Equal"}],
    }
    everything = await server.post(CLAIMS, claim("all", allocationMode="All"))
    assert "count" not in everything.data["spec"]["devices"]["requests"][0]["exactly"]


async def test_each_version_has_its_shape(server: Served) -> None:
    older = {"metadata": {"name": "c"}, "spec": {"devices": {"requests": [{"name": "r", **ASK}]}}}
    made = await server.post(CLAIMS.replace("v1", "v1beta1", 1), older)
    assert made.code == 201
    assert made.data["apiVersion"] == "resource.k8s.io/v1beta1"
    request = {"name": "r", **ASK, "allocationMode": "ExactCount", "count": 1}
    assert made.data["spec"]["devices"]["requests"] == [request]

    stored = (await server.get(f"{CLAIMS}/c")).data
    name = request.pop("name")
    assert stored["spec"]["devices"]["requests"] == [{"name": name, "exactly": request}]

    await server.post(SLICES, slice_(devices=[{"name": "d", "attributes": {"a": {"int": 1}}}]))
    for version, device in (
        ("v1beta1", {"name": "d", "basic": {"attributes": {"a": {"int": 1}}}}),
        ("v1beta2", {"name": "d", "attributes": {"a": {"int": 1}}}),
    ):
        shown = (await server.get(f"{ROOT}/{version}/resourceslices/s")).data
        assert shown["apiVersion"] == f"resource.k8s.io/{version}"
        assert shown["spec"]["devices"] == [device]


async def test_a_patch_is_about_the_shape_of_its_version(server: Served) -> None:
    await server.post(SLICES, slice_())
    body = {"spec": {"devices": [{"name": "d", "basic": {"attributes": {"a": {"int": 2}}}}]}}
    path = f"{ROOT}/v1beta1/resourceslices/s"
    patched = await server.ask("PATCH", path, body, type_="application/merge-patch+json")
    assert patched.code == 200

    stored = (await server.get(f"{SLICES}/s")).data
    assert stored["spec"]["devices"] == [{"name": "d", "attributes": {"a": {"int": 2}}}]
    assert stored["metadata"]["generation"] == 2


async def test_discovery_prefers_v1(server: Served) -> None:
    group = (await server.get(ROOT)).data

    assert group["preferredVersion"]["version"] == "v1"
    assert {it["version"] for it in group["versions"]} == {"v1", "v1beta1", "v1beta2"}


@pytest.mark.parametrize(
    ("exactly", "message"),
    [
        ({"deviceClassName": ""}, "requests[0].exactly.deviceClassName: Required value"),
        ({"count": -1}, "exactly.count: Invalid value: -1: must be greater than zero"),
        ({"allocationMode": "Some"}, 'Unsupported value: "Some": supported values: "All", "Exact'),
        ({"selectors": [{}]}, "exactly.selectors[0].cel: Required value"),
        ({"selectors": [{"cel": {"expression": "1"}}]}, "must evaluate to bool"),
        ({"selectors": [{"cel": {"expression": "x" * 10241}}]}, "may not be more than 10240 bytes"),
        ({"selectors": [{"cel": {"expression": "true"}}] * 33}, "must have at most 32 items"),
        ({"adminAccess": True}, "adminAccess: Forbidden: admin access to devices requires the"),
        ({"tolerations": [{"key": "k", "effect": "No"}]}, '"NoExecute", "NoSchedule", "None"'),
    ],
)
async def test_claims_that_are_refused(server: Served, exactly: Data, message: str) -> None:
    refused = await server.post(CLAIMS, claim(**exactly))

    assert refused.code == 422
    assert message in refused.data["message"]


async def test_admin_access_needs_a_labelled_namespace(server: Served) -> None:
    labels = {"resource.kubernetes.io/admin-access": "true"}
    body = {"metadata": {"name": "admins", "labels": labels}}
    await server.post("/api/v1/namespaces", body)
    path = CLAIMS.replace("default", "admins")

    assert (await server.post(path, claim(adminAccess=True))).code == 201


def device(**fields: Any) -> Data:
    return {"devices": [{"name": "d", **fields}]}


def devices(count: int, **fields: Any) -> Data:
    return {"devices": [{"name": f"d{n}", **fields} for n in range(count)]}


TAINTS = [{"key": "k", "effect": "None"}]
POLICY = {"m": {"value": "1", "requestPolicy": {"default": "1"}}}
COUNTERS = [{"name": "s", "counters": {"c": {"value": "1"}}}]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"nodeName": None}, "exactly one of `nodeName`, `nodeSelector`, `allNodes`"),
        ({"allNodes": True}, 'Invalid value: "{`nodeName`, `allNodes`}": exactly one of'),
        ({"pool": {"name": "p"}}, "resourceSliceCount: Invalid value: 0: must be greater than"),
        ({"devices": [{"name": "d"}] * 2}, 'spec.devices[1]: Duplicate value: "d"'),
        (devices(128), ""),
        (devices(129), "Too many: 129: must have at most 128"),
        (devices(64, taints=TAINTS), ""),
        (devices(65, taints=TAINTS), "Too many: 65: must have at most 64"),
        ({"sharedCounters": COUNTERS}, "only one of `sharedCounters` or `devices` is allowed"),
        (device(attributes={"a": {}}), "exactly one value must be specified"),
        (device(attributes={"a": {"version": "1"}}), "semver.org spec 2.0.0"),
        (device(capacity=POLICY), "requestPolicy: Forbidden: allowMultipleAllocations must be"),
        (device(capacity=POLICY, allowMultipleAllocations=True), ""),
        (device(bindingConditions=["a"]), "bindingFailureConditions are required to use"),
    ],
)
async def test_slices_that_are_refused(server: Served, spec: Data, message: str) -> None:
    answer = await server.post(SLICES, slice_(**spec))

    assert answer.code == (422 if message else 201), answer.data
    assert message in answer.data.get("message", "")


async def test_what_stays_as_it_is(server: Served) -> None:
    await server.post(CLAIMS, claim())
    changed = await server.ask("PUT", f"{CLAIMS}/c", claim(count=2))
    assert changed.code == 422
    assert (
        'spec: Invalid value: {"Devices":{"Requests":[{"Name":"r","Exactly":{"Dev'
        in (changed.data["message"])
    )
    assert changed.data["message"].endswith("field is immutable")

    async def tell(body: Data) -> Any:
        path, type_ = f"{CLAIMS}/c/status", "application/merge-patch+json"
        return await server.ask("PATCH", path, body, type_=type_)

    assert (await tell({"status": {"reservedFor": [{}]}})).code == 422
    assert (await tell(allocated())).code == 200
    other = {"allocation": {"devices": {"results": [{**RESULT, "device": "e"}]}}}
    assert "status.allocation: Invalid value" in (await tell({"status": other})).data["message"]
    users = [{"resource": "pods", "name": "p", "uid": str(n)} for n in range(257)]
    full = await tell({"status": {"reservedFor": users}})
    assert "reservedFor: Too many: 257: must have at most 256 items" in full.data["message"]
    assert (await tell({"status": {"reservedFor": users[:-1]}})).code == 200
    assert (await tell({"status": {"allocation": None, "reservedFor": None}})).code == 200


async def test_what_drivers_said_goes_with_the_device(server: Served) -> None:
    await server.post(CLAIMS, claim())
    said = {"driver": "d.example.com", "pool": "p", "device": "d"}
    path, type_ = f"{CLAIMS}/c/status", "application/merge-patch+json"
    told = await server.ask("PATCH", path, allocated(devices=[said]), type_=type_)
    assert told.data["status"]["devices"] == [{**said, "conditions": None}]

    freed = await server.ask("PATCH", path, {"status": {"allocation": None}}, type_=type_)
    assert freed.data["status"] == {}


async def test_taints_say_since_when(server: Served) -> None:
    taint = {"key": "k", "effect": "NoSchedule"}
    made = await server.post(SLICES, slice_(devices=[{"name": "d", "taints": [taint]}]))

    assert made.data["spec"]["devices"][0]["taints"][0]["timeAdded"] == "2026-01-01T00:00:00Z"


async def test_slices_are_selected_by_node_and_driver(server: Served) -> None:
    await server.post(SLICES, slice_("a"))
    await server.post(SLICES, slice_("b", nodeName=None, allNodes=True))

    async def selected(text: str) -> list[str]:
        found = (await server.get(f"{SLICES}?fieldSelector={text}")).data["items"]
        return [it["metadata"]["name"] for it in found]

    assert await selected("spec.nodeName=n") == ["a"]
    assert await selected("spec.nodeName=") == ["b"]
    assert await selected("spec.driver=d.example.com") == ["a", "b"]


async def test_tables(server: Served) -> None:
    await server.post(CLAIMS, claim())
    await server.post(SLICES, slice_())

    async def rows(path: str) -> tuple[list[str], list[list[Any]]]:
        table = (await server.get(path, Accept=TABLE)).data
        columns = [it["name"] for it in table["columnDefinitions"]]
        return columns, [row["cells"] for row in table["rows"]]

    assert await rows(CLAIMS) == (["Name", "State", "Age"], [["c", "pending", "0s"]])
    columns = ["Name", "Node", "Driver", "Pool", "Age"]
    assert await rows(SLICES) == (columns, [["s", "n", "d.example.com", "p", "0s"]])
    users = [{"resource": "pods", "name": "p", "uid": "u"}]
    path, type_ = f"{CLAIMS}/c/status", "application/merge-patch+json"
    await server.ask("PATCH", path, allocated(reservedFor=users), type_=type_)
    assert (await rows(CLAIMS))[1] == [["c", "allocated,reserved", "0s"]]


USED = "spec.containers[0].resources.claims"
OWN = {"name": "r", "resourceClaimName": "c"}


@pytest.mark.parametrize(
    ("used", "claims", "message"),
    [
        ([{"name": "r"}], [OWN], ""),
        ([{"name": "r", "request": "a"}, {"name": "r", "request": "b"}], [OWN], ""),
        ([{"name": "r", "request": "a"}, {"name": "r"}], [OWN], f'{USED}[1]: Duplicate value: "r"'),
        ([{"name": "x"}], [OWN], 'Not found: "x": must be one of the names in pod.spec.resource'),
        ([{"name": "x"}], [], "pod.spec.resourceClaims which is empty"),
        ([], [OWN, OWN], 'spec.resourceClaims[1].name: Duplicate value: "r"'),
        ([], [{"name": "r"}], "must specify one of: `resourceClaimName`, `resourceClaimTemplate"),
        ([], [{**OWN, "resourceClaimTemplateName": "t"}], "at most one of `resourceClaimName` or"),
        ([], [{"name": "r", "resourceClaimName": ""}], "resourceClaims[0].resourceClaimName: Inv"),
    ],
)
async def test_claims_of_pods(
    server: Served, used: list[Data], claims: list[Data], message: str
) -> None:
    body = pod_data("p", resourceClaims=claims)
    body["spec"]["containers"][0]["resources"] = {"claims": used}
    answer = await server.post(PODS, body)

    assert answer.code == (422 if message else 201), answer.data
    assert message in answer.data.get("message", "")


async def test_what_a_status_says_of_claims(server: Served) -> None:
    await server.post(PODS, pod_data("p", resourceClaims=[OWN]))

    async def tell(**status: Any) -> str:
        path, type_ = f"{PODS}/p/status", "application/merge-patch+json"
        answer = await server.ask("PATCH", path, {"status": status}, type_=type_)
        assert answer.code in (200, 422)
        return str(answer.data.get("message", ""))

    assert not await tell(resourceClaimStatuses=[{"name": "r", "resourceClaimName": "c"}])
    assert "must match the name of an entry in `spec.resourceClaims`" in (
        await tell(resourceClaimStatuses=[{"name": "x"}])
    )
    mapping = {"containerName": "c", "resourceName": "example.com/g", "requestName": "r"}
    extended = {"resourceClaimName": "x", "requestMappings": [mapping]}
    assert "requestMappings[0].resourceName: Invalid value" in (
        await tell(extendedResourceClaimStatus=extended)
    )
