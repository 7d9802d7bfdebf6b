"""What a pod says of its claims, checked as kube-apiserver checks it, field by field."""

from __future__ import annotations

from typing import Any

import pytest

from stowplan.apiserver.pod_claim_checks import POD_CLAIM_CHECKS

Data = dict[str, Any]
Found = list[tuple[str, str]]


def problems(check: str, value: Any, where: str = "spec") -> Found:
    """Fields and the first words of what is wrong with them."""
    found = POD_CLAIM_CHECKS[check](where, value)
    return [(it.field, it.detail.partition(":")[0]) for it in found]


NAMED = {"name": "a", "resourceClaimName": "x"}
MADE = {"name": "b", "resourceClaimTemplateName": "x"}


@pytest.mark.parametrize(
    ("claims", "found"),
    [
        (None, []),
        ([NAMED, MADE], []),
        ([{**NAMED, "name": ""}], [("claims[0].name", "Required value")]),
        ([NAMED, {**MADE, "name": "a"}], [("claims[1].name", "Duplicate value")]),
        ([{**NAMED, "name": "A"}, NAMED], [("claims[0].name", "Invalid value")]),
        ([NAMED, {"name": "b"}], [("claims[1]", "Invalid value")]),
        ([{**NAMED, **MADE}], [("claims[0]", "Invalid value")]),
        (
            [{**NAMED, "resourceClaimName": "X"}],
            [("claims[0].resourceClaimName", "Invalid value")],
        ),
        (
            [{**MADE, "resourceClaimTemplateName": "x_"}],
            [("claims[0].resourceClaimTemplateName", "Invalid value")],
        ),
    ],
)
def test_each_claim_has_a_name_of_its_own_and_one_source(claims: Any, found: Found) -> None:
    assert problems("pod_claims", claims, "claims") == found


def test_none_or_both_sources_are_told_apart() -> None:
    [none] = POD_CLAIM_CHECKS["pod_claims"]("claims", [{"name": "a"}])
    [both] = POD_CLAIM_CHECKS["pod_claims"]("claims", [{**MADE, **NAMED}])
    one, other = "`resourceClaimName`", "`resourceClaimTemplateName`"

    assert none.detail.endswith(f"must specify one of: {one}, {other}")
    assert both.detail.endswith(f"at most one of {one} or {other} may be specified")
    assert '"Name":"a"' in none.detail
    assert '"ResourceClaimName":"x"' in both.detail


def using(*claims: Data, field: str = "containers") -> Data:
    plain = {"name": "first"}
    container = {"name": "c", "resources": {"claims": list(claims)}}
    return {"resourceClaims": [NAMED, MADE], field: [plain, container]}


@pytest.mark.parametrize(
    ("claims", "found"),
    [
        ([{"name": "a"}, {"name": "b"}], []),
        ([{"name": "a", "request": "r"}, {"name": "a", "request": "s"}], []),
        ([{"request": "r"}, {"name": "a"}], [(0, "Required value")]),
        ([{"name": "a"}, {"name": "a"}], [(1, "Duplicate value")]),
        ([{"name": "a"}, {"name": "a", "request": "r"}], [(1, "Duplicate value")]),
        ([{"name": "a", "request": "r"}, {"name": "a"}], [(1, "Duplicate value")]),
        (
            [{"name": "a", "request": "r"}, {"name": "a", "request": "r"}],
            [(1, "Duplicate value")],
        ),
        (
            [{"name": "b", "request": "r"}, {"name": "a", "request": "r"}, {"name": "a"}],
            [(2, "Duplicate value")],
        ),
        ([{"name": "c"}], [(0, "Not found")]),
    ],
)
@pytest.mark.parametrize("field", ["containers", "initContainers"])
def test_containers_use_claims_of_the_pod_each_once(
    field: str, claims: list[Data], found: list[tuple[int, str]]
) -> None:
    expected = [(f"spec.{field}[1].resources.claims[{n}]", text) for n, text in found]
    assert problems("claims_of_containers", using(*claims, field=field)) == expected


def test_what_is_known_is_listed() -> None:
    check = POD_CLAIM_CHECKS["claims_of_containers"]
    [of_two] = check("spec", using({"name": "c"}))
    [of_none] = check("spec", {**using({"name": "c"}), "resourceClaims": None})
    [request] = check("spec", using({"name": "a", "request": "R"}))

    text = 'Not found: "c": must be one of the names in pod.spec.resourceClaims'
    assert of_two.detail == f"{text}: a, b"
    assert of_none.detail == f"{text} which is empty"
    assert request.field == "spec.containers[1].resources.claims[0].request"


GPU = "example.com/gpu"
MAPPED = {"containerName": "c", "resourceName": GPU, "requestName": "container-0-request-0"}
GIVEN = {"resourceClaimName": "x", "requestMappings": [MAPPED]}


def with_status(**status: Any) -> Data:
    resources = {"requests": {GPU: "1"}}
    first = {"name": "first", "resources": resources}
    spec = {
        "resourceClaims": [NAMED, MADE],
        "containers": [{"name": "c", "resources": resources}, {"name": "bare"}],
        "initContainers": [first],
    }
    return {"spec": spec, "status": status}


@pytest.mark.parametrize(
    ("statuses", "found"),
    [
        ([{"name": "b", "resourceClaimName": "x"}, {"name": "a"}], []),
        ([{"name": "c"}], [("[0].name", "Invalid value")]),
        ([{"name": "b"}, {"name": "b"}], [("[1].name", "Duplicate value")]),
        ([{"name": "b", "resourceClaimName": "X"}], [("[0].resourceClaimName", "Invalid value")]),
    ],
)
def test_statuses_are_about_claims_of_the_pod(statuses: list[Data], found: Found) -> None:
    expected = [(f"status.resourceClaimStatuses{field}", text) for field, text in found]
    assert problems("claim_statuses", with_status(resourceClaimStatuses=statuses)) == expected


@pytest.mark.parametrize(
    ("given", "found"),
    [
        (GIVEN, []),
        ({**GIVEN, "requestMappings": [MAPPED, {**MAPPED, "containerName": "first"}]}, []),
        ({"resourceClaimName": "x"}, [(".requestMappings", "Required value")]),
        ({"requestMappings": [MAPPED]}, [(".resourceClaimName", "Required value")]),
        ({**GIVEN, "resourceClaimName": "X"}, [(".resourceClaimName", "Invalid value")]),
        (
            {**GIVEN, "requestMappings": [{**MAPPED, "containerName": "d"}]},
            [(".requestMappings[0].containerName", "Invalid value")],
        ),
        (
            {**GIVEN, "requestMappings": [{**MAPPED, "containerName": "bare"}]},
            [(".requestMappings[0].resourceName", "Invalid value")],
        ),
        (
            {**GIVEN, "requestMappings": [{**MAPPED, "requestName": "R"}]},
            [(".requestName", "Invalid value")],
        ),
        (
            {**GIVEN, "requestMappings": [MAPPED, MAPPED]},
            [
                (f".requestMappings[1].{name}", "Duplicate value")
                for name in ("containerName", "resourceName", "requestName")
            ],
        ),
    ],
)
def test_mappings_of_extended_resources_are_about_containers_that_request_them(
    given: Data, found: Found
) -> None:
    expected = [(f"status.extendedResourceClaimStatus{field}", text) for field, text in found]
    value = with_status(extendedResourceClaimStatus=given)
    assert problems("claim_statuses", value) == expected
