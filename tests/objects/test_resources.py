"""What a pod requests, in every form a request can take."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.objects.node import Node
from stowplan.objects.pod import Pod
from stowplan.objects.resources import (
    allocatable,
    fit_score_requests,
    is_attachable,
    is_extended,
    is_hugepages,
    is_native,
    is_scalar,
    pod_nonzero_requests,
    pod_request_nanos,
    pod_requests,
)

MI = 1024 * 1024


def container(name: str = "c", /, **requests: Any) -> dict[str, Any]:
    return {"name": name, "resources": {"requests": requests}}


def sidecar(name: str = "s", /, **requests: Any) -> dict[str, Any]:
    return {**container(name, **requests), "restartPolicy": "Always"}


def make(*containers: dict[str, Any], status: dict[str, Any] | None = None, **spec: Any) -> Pod:
    data = {"spec": {"containers": list(containers), **spec}, "status": status or {}}
    return msgspec.convert(data, Pod)


def test_rounding_happens_once_per_pod() -> None:
    pod = make(container(cpu="0.5m"), container(cpu="0.5m"))

    assert pod_requests(pod, use_status=False) == {"cpu": 1}


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        pytest.param(make(), {}, id="no-containers"),
        pytest.param(make({"name": "c"}), {}, id="no-resources"),
        pytest.param(
            make({"name": "c", "resources": {"limits": {"cpu": "1"}}}), {}, id="limits-do-not-count"
        ),
        pytest.param(
            make(container(cpu="100u", memory="0.1")), {"cpu": 1, "memory": 1}, id="rounded-up"
        ),
        pytest.param(make(container(memory="1500m")), {"memory": 2}, id="memory-in-milli"),
        pytest.param(
            make(container(cpu=1), initContainers=[container(cpu=3), container(cpu=2)]),
            {"cpu": 3000},
            id="init-containers-run-one-by-one",
        ),
        pytest.param(
            make(container(cpu=3), initContainers=[container(cpu=1, memory="1Mi")]),
            {"cpu": 3000, "memory": MI},
            id="per-resource-maximum",
        ),
        pytest.param(
            make(container(cpu=1), initContainers=[sidecar(cpu=2)]),
            {"cpu": 3000},
            id="a-sidecar-runs-beside",
        ),
        pytest.param(
            make(container(cpu=1), initContainers=[sidecar(cpu=2), container(cpu=5)]),
            {"cpu": 7000},
            id="init-after-a-sidecar-runs-with-it",
        ),
        pytest.param(
            make(container(cpu=1), initContainers=[container(cpu=5), sidecar(cpu=2)]),
            {"cpu": 5000},
            id="init-before-a-sidecar-runs-without-it",
        ),
        pytest.param(
            make(initContainers=[sidecar(cpu=1), sidecar(cpu=2), container(cpu="500m")]),
            {"cpu": 3500},
            id="sidecars-add-up",
        ),
        pytest.param(
            make(container(cpu=1), overhead={"cpu": "250m", "memory": "64Mi"}),
            {"cpu": 1250, "memory": 64 * MI},
            id="overhead",
        ),
        pytest.param(
            make(
                container(cpu=1, memory="1Mi", **{"hugepages-2Mi": "4Mi"}),
                resources={"requests": {"cpu": "500m", "hugepages-2Mi": "2Mi", "a.com/gpu": 7}},
                overhead={"cpu": "1m"},
            ),
            {"cpu": 501, "memory": MI, "hugepages-2Mi": 2 * MI},
            id="pod-level-replaces-even-with-less",
        ),
        pytest.param(
            make(container(cpu=1), resources={"requests": {"cpu": "2"}}),
            {"cpu": 2000},
            id="pod-level-replaces",
        ),
        pytest.param(
            make(container(cpu=1), resources={"requests": {"ephemeral-storage": "1Gi"}}),
            {"cpu": 1000},
            id="pod-level-knows-only-cpu-memory-hugepages",
        ),
        pytest.param(
            make(container(**{"ephemeral-storage": "1Ki", "a.com/gpu": 2, "foo": 3, "pods": 1})),
            {"ephemeral-storage": 1024, "a.com/gpu": 2},
            id="unknown-names-are-dropped",
        ),
        pytest.param(make(container(**{"a.com/gpu": 0})), {"a.com/gpu": 0}, id="zero-is-an-entry"),
    ],
)
def test_requests(pod: Pod, expected: dict[str, int]) -> None:
    assert pod_requests(pod, use_status=False) == expected
    assert pod_requests(pod, use_status=True) == expected


def resized(*, actual: Any = None, allocated: Any = None, reason: str = "", spec: Any = "1") -> Pod:
    status: dict[str, Any] = {"name": "c"}
    if actual is not None:
        status["resources"] = {"requests": {"cpu": actual}}
    if allocated is not None:
        status["allocatedResources"] = {"cpu": allocated}
    conditions = [{"type": "PodResizePending", "reason": reason}] if reason else []
    return make(
        container(cpu=spec), status={"containerStatuses": [status], "conditions": conditions}
    )


@pytest.mark.parametrize(
    ("pod", "milli_cpu"),
    [
        pytest.param(resized(), 1000, id="no-status"),
        pytest.param(resized(actual="2"), 2000, id="really-more"),
        pytest.param(resized(actual="500m"), 1000, id="really-less"),
        pytest.param(resized(actual="500m", allocated="3"), 3000, id="allocated-more"),
        pytest.param(resized(allocated="3"), 1000, id="allocated-alone-is-not-looked-at"),
        pytest.param(resized(spec="9", actual="2", reason="Deferred"), 9000, id="deferred"),
        pytest.param(resized(spec="9", actual="2", reason="Infeasible"), 2000, id="infeasible"),
        pytest.param(
            resized(spec="9", actual="2", allocated="3", reason="Infeasible"),
            3000,
            id="infeasible-takes-the-larger-of-the-rest",
        ),
        pytest.param(resized(spec="9", reason="Infeasible"), 9000, id="infeasible-without-status"),
    ],
)
def test_resize_in_place_counts_for_running_pods_only(pod: Pod, milli_cpu: int) -> None:
    spec = pod_requests(make(*msgspec.to_builtins(pod)["spec"]["containers"]), use_status=False)

    assert pod_requests(pod, use_status=True) == {"cpu": milli_cpu}
    assert pod_requests(pod, use_status=False) == spec


def test_resize_of_a_sidecar_counts_but_not_of_an_init_container() -> None:
    statuses = [
        {"name": "s", "resources": {"requests": {"cpu": "4"}}},
        {"name": "i", "resources": {"requests": {"cpu": "90"}}},
    ]
    pod = make(
        container(cpu=1),
        initContainers=[sidecar("s", cpu=2), container("i", cpu=1)],
        status={"initContainerStatuses": statuses},
    )

    assert pod_requests(pod, use_status=True) == {"cpu": 5000}


@pytest.mark.parametrize(
    ("reason", "milli_cpu"), [("", 4000), ("Infeasible", 3000)], ids=["spec-too", "infeasible"]
)
def test_resize_at_pod_level(reason: str, milli_cpu: int) -> None:
    pod = make(
        container(cpu=9),
        resources={"requests": {"cpu": 4}},
        overhead={"memory": 1},
        status={
            "resources": {"requests": {"cpu": 2}},
            "allocatedResources": {"cpu": 3},
            "conditions": [{"type": "PodResizePending", "reason": reason}],
        },
    )

    assert pod_requests(pod, use_status=True) == {"cpu": milli_cpu, "memory": 1}
    assert pod_requests(pod, use_status=False) == {"cpu": 4000, "memory": 1}


def test_status_at_pod_level_counts_only_for_what_the_spec_names() -> None:
    requests = {"cpu": 4, "hugepages-2Mi": "2Mi"}
    pod = make(
        container(memory=5),
        resources={"requests": requests},
        status={
            "resources": {"requests": {"cpu": 2, "memory": 9}},
            "conditions": [{"type": "PodResizePending", "reason": "Infeasible"}],
        },
    )

    assert pod_requests(pod, use_status=True) == {"cpu": 2000, "memory": 5, "hugepages-2Mi": 0}


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        pytest.param(make({"name": "c"}), (100, 200 * MI), id="nothing-requested"),
        pytest.param(make(container(cpu=0)), (0, 200 * MI), id="an-explicit-zero-stays"),
        pytest.param(make(container(cpu=1), {"name": "d"}), (1100, 400 * MI), id="per-container"),
        pytest.param(
            make(container(cpu="10m", memory=1), initContainers=[{"name": "i"}]),
            (100, 200 * MI),
            id="init-containers-too",
        ),
        pytest.param(
            make(container(memory=1), initContainers=[sidecar()]),
            (200, 200 * MI + 1),
            id="sidecars-too",
        ),
        pytest.param(
            make({"name": "c"}, resources={"requests": {"cpu": "2"}}),
            (2000, 200 * MI),
            id="pod-level-default-only-for-what-is-named-nowhere",
        ),
        pytest.param(
            make(container(memory=5), {"name": "d"}, resources={"requests": {"cpu": "2"}}),
            (2000, 5),
            id="pod-level-named-by-one-container-is-enough",
        ),
        pytest.param(
            make({"name": "c"}, resources={"requests": {"cpu": "2"}}, overhead={"memory": 7}),
            (2000, 7),
            id="overhead-names-it-too",
        ),
        pytest.param(make(), (0, 0), id="no-containers"),
    ],
)
def test_nonzero_requests(pod: Pod, expected: tuple[int, int]) -> None:
    assert pod_nonzero_requests(pod, use_status=True) == expected


def test_the_fit_score_sees_neither_pod_level_requests_nor_status() -> None:
    pod = make(
        container("a", cpu=1, **{"a.com/gpu": 1}),
        {"name": "b"},
        resources={"requests": {"cpu": 64}},
        overhead={"cpu": "5m"},
        status={"containerStatuses": [{"name": "a", "resources": {"requests": {"cpu": 32}}}]},
    )

    assert fit_score_requests(pod) == {"cpu": 1105, "memory": 400 * MI, "a.com/gpu": 1}


def test_allocatable_knows_the_number_of_pods() -> None:
    offered = {"cpu": "3920m", "memory": "1Ki", "pods": "110", "a.com/gpu": 4, "foo": 1}
    node = msgspec.convert({"status": {"allocatable": offered}}, Node)

    assert allocatable(node) == {"cpu": 3920, "memory": 1024, "pods": 110, "a.com/gpu": 4}
    assert allocatable(Node()) == {"pods": 0}


@pytest.mark.parametrize(
    ("name", "native", "extended", "scalar"),
    [
        ("cpu", True, False, False),
        ("foo", True, False, False),
        ("pods", True, False, False),
        ("hugepages-2Mi", True, False, True),
        ("attachable-volumes-aws-ebs", True, False, True),
        ("kubernetes.io/batteries", True, False, True),
        ("sub.kubernetes.io/batteries", True, False, True),
        ("deviceclass.resource.kubernetes.io/gpu", True, False, True),
        ("nvidia.com/gpu", False, True, True),
        ("requests.nvidia.com/gpu", False, False, False),
        ("nvidia.com/gpu/mig", False, False, False),
        ("Nvidia.com/gpu", False, False, False),
        ("nvidia.com/-gpu", False, False, False),
        ("nvidia.com/", False, False, False),
        (f"{'a' * 244}/b", False, True, True),
        (f"{'a' * 245}/b", False, False, False),
        (f"a.com/{'b' * 63}", False, True, True),
        (f"a.com/{'b' * 64}", False, False, False),
    ],
)
def test_kinds_of_resource_names(name: str, native: bool, extended: bool, scalar: bool) -> None:
    assert (is_native(name), is_extended(name), is_scalar(name)) == (native, extended, scalar)
    assert is_hugepages(name) is name.startswith("hugepages-")
    assert is_attachable(name) is name.startswith("attachable-volumes-")


amounts_of_one = st.dictionaries(
    st.sampled_from(["cpu", "memory", "a.com/gpu"]), st.integers(0, 5), max_size=3
)


@given(
    st.lists(amounts_of_one, max_size=3),
    st.lists(st.tuples(st.booleans(), amounts_of_one), max_size=4),
)
def test_the_sum_is_the_greediest_moment_of_the_pods_life(
    containers: list[dict[str, int]], inits: list[tuple[bool, dict[str, int]]]
) -> None:
    """The oracle plays the pod's life: what runs together at each moment."""
    pod = make(
        *(container(f"c{n}", **request) for n, request in enumerate(containers)),
        initContainers=[
            (sidecar if stays else container)(f"i{n}", **request)
            for n, (stays, request) in enumerate(inits)
        ],
    )
    staying: list[dict[str, int]] = []
    moments = []
    for stays, request in inits:
        moments.append([*staying, request])
        if stays:
            staying.append(request)
    moments.append([*staying, *containers])
    named = {name for moment in moments for request in moment for name in request}

    total = pod_request_nanos(pod)

    assert total == {
        name: max(sum(request.get(name, 0) for request in moment) for moment in moments) * 10**9
        for name in named
    }
