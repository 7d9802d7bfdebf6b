"""What pods share: kinds, whatever their claims are called, and traits, whatever their size."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.objects.pod import Pod
from stowplan.objects.resources import fit_score_requests, pod_nonzero_requests, pod_requests
from stowplan.state.pod_info import PodInfo
from tests.builders import pod


def with_claim(name: str, **more: Any) -> PodInfo:
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]
    return PodInfo(pod(spec={"volumes": volumes}, **more))


def test_replicas_of_a_stateful_set_are_of_one_kind_though_their_claims_differ() -> None:
    first, second = with_claim("data-0"), with_claim("data-1")

    assert first.kind is second.kind
    assert (first.claim_keys, second.claim_keys) == (["default/data-0"], ["default/data-1"])


def test_a_pod_with_a_claim_is_of_another_kind_than_one_without() -> None:
    ephemeral = {"volumes": [{"name": "data", "ephemeral": {}}]}

    claiming, without = with_claim("data"), PodInfo(pod())
    generic = PodInfo(pod(spec=ephemeral))

    assert len({claiming.kind, without.kind, generic.kind}) == 3
    assert [p.kind.has_claims for p in (claiming, without, generic)] == [True, False, True]
    assert without.claim_keys == generic.claim_keys == []


def test_sizes_differ_within_the_same_traits() -> None:
    small, large = PodInfo(pod(cpu="1m")), PodInfo(pod(cpu="64", memory="1Gi"))

    assert small.kind is not large.kind
    assert small.kind.traits is large.kind.traits


@pytest.mark.parametrize(
    "other",
    [
        pytest.param({"labels": {"app": "b"}}, id="labels"),
        pytest.param({"namespace": "b"}, id="namespace"),
        pytest.param({"spec": {"priority": 7}}, id="priority"),
        pytest.param({"spec": {"tolerations": [{"operator": "Exists"}]}}, id="tolerations"),
        pytest.param({"spec": {"volumes": [{"name": "v", "ephemeral": {}}]}}, id="volumes"),
        pytest.param({"spec": {"containers": [{"name": "main", "image": "other"}]}}, id="images"),
        pytest.param(
            {
                "metadata": {
                    "ownerReferences": [
                        {"apiVersion": "v1", "kind": "X", "name": "x", "uid": "1"}
                        | {"controller": True}
                    ]
                }
            },
            id="owner",
        ),
    ],
)
def test_pods_that_differ_in_more_than_size_have_other_traits(other: dict[str, Any]) -> None:
    one, another = PodInfo(pod()), PodInfo(pod(**other))

    assert one.kind.traits is not another.kind.traits


amounts = st.dictionaries(
    st.sampled_from(["cpu", "memory", "ephemeral-storage", "example.com/gpu"]),
    st.sampled_from(["0", "1", "250m", "1500m", "3Gi"]),
)
container = st.builds(
    lambda requests, always: {
        "resources": {"requests": requests},
        **({"restartPolicy": "Always"} if always else {}),
    },
    amounts,
    st.booleans(),
)


@given(
    st.lists(container, min_size=1, max_size=2),
    st.lists(container, max_size=2),
    st.none() | amounts,
    st.none() | amounts,
    st.none() | amounts,
    st.sampled_from(["", "Infeasible", "Deferred"]),
)
def test_what_a_kind_says_of_its_size_is_what_the_pod_makes(
    app: list[dict[str, Any]],
    init: list[dict[str, Any]],
    level: dict[str, str] | None,
    overhead: dict[str, str] | None,
    given: dict[str, str] | None,
    resize: str,
) -> None:
    """However much of it is worked out once and used twice."""
    spec: dict[str, Any] = {
        "containers": [{**c, "name": f"c{n}"} for n, c in enumerate(app)],
        "initContainers": [{**c, "name": f"i{n}"} for n, c in enumerate(init)],
        "overhead": overhead,
    }
    if level is not None:
        spec["resources"] = {"requests": level}
    status: dict[str, Any] = {}
    if given is not None:
        names = ("containerStatuses", "c0") if len(app) > 1 else ("initContainerStatuses", "i0")
        entry = {"name": names[1], "resources": {"requests": given}, "allocatedResources": given}
        status[names[0]] = [entry]
        if resize == "Deferred":
            status["resources"] = {"requests": given}
    if resize:
        status["conditions"] = [{"type": "PodResizePending", "status": "True", "reason": resize}]
    thing = pod(spec=spec, status=status)

    kind = PodInfo(thing).kind

    assert kind.requests == pod_requests(thing, use_status=False)
    assert kind.running_requests == pod_requests(thing, use_status=True)
    assert kind.nonzero_requests == pod_nonzero_requests(thing, use_status=True)
    assert kind.fit_score_requests == fit_score_requests(thing)


def test_running_replicas_have_in_common_what_an_api_server_sends_for_each() -> None:
    def sent(number: int) -> bytes:
        """With a claim, a group and a token's volume of its own."""
        spec = {
            "nodeName": f"node-{number % 2}",
            "tolerations": [{"key": "team", "operator": "Exists"}],
            "nodeSelector": {"disk": "ssd"},
            "schedulingGroup": {"podGroupName": f"gang-{number}"},
            "volumes": [
                {"name": f"token-{number}", "projected": {}},
                {"name": "data", "persistentVolumeClaim": {"claimName": f"data-{number}"}},
            ],
        }
        labels = {"app": "web"}
        return msgspec.json.encode(pod(f"web-{number}", cpu=1, labels=labels, spec=spec))

    lines = [sent(number) for number in range(4)]
    pods = [msgspec.json.decode(line, type=Pod) for line in lines]
    kinds = {PodInfo(each).kind for each in pods}

    assert len(kinds) == 1
    assert pods == [msgspec.json.decode(line, type=Pod) for line in lines]
    assert len({id(each.spec.containers) for each in pods}) == 1
    assert len({id(each.spec.tolerations) for each in pods}) == 1
    assert len({id(each.metadata.labels) for each in pods}) == 1
