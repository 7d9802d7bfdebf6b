"""/metrics/resources: what pods request and are limited to."""

from __future__ import annotations

from typing import Any

from stowplan.objects.pod import Pod
from stowplan.runtime.resource_metrics import resource_text
from stowplan.state.pod_info import PodInfo
from tests.builders import pod
from tests.runtime.prometheus import Read, parse

REQUEST, LIMIT = "kube_pod_resource_request", "kube_pod_resource_limit"


def read(*pods: Pod) -> dict[str, Read]:
    return parse("".join(resource_text([PodInfo(one) for one in pods])))


def container(requests: dict[str, Any], limits: dict[str, Any]) -> dict[str, Any]:
    resources = {"requests": requests, "limits": limits}
    return {"name": "c", "image": "app", "resources": resources}


def test_labels_say_which_pod_where_and_of_whom() -> None:
    one = pod("web", cpu="250m", node="n1", spec={"priority": 5})

    found = read(one)[REQUEST]

    assert found.label_names == {
        ("namespace", "pod", "node", "scheduler", "priority", "resource", "unit")
    }
    labels = ("default", "web", "n1", "default-scheduler", "5")
    assert found.value(*labels, "cpu", "cores") == 0.25


def test_units_go_by_resource() -> None:
    requests = {
        "cpu": "1",
        "memory": "1Ki",
        "ephemeral-storage": "2",
        "hugepages-2Mi": "4Mi",
        "attachable-volumes-x": "3",
        "example.com/gpu": "2",
    }
    found = read(pod("web", spec={"containers": [container(requests, {})]}))[REQUEST]

    labels = ("default", "web", "", "default-scheduler", "")
    assert found.value(*labels, "cpu", "cores") == 1
    assert found.value(*labels, "memory", "bytes") == 1024
    assert found.value(*labels, "ephemeral-storage", "bytes") == 2
    assert found.value(*labels, "hugepages-2Mi", "bytes") == 4 * 2**20
    assert found.value(*labels, "attachable-volumes-x", "integer") == 3
    assert found.value(*labels, "example.com/gpu", "") == 2


def test_zero_is_left_out() -> None:
    found = read(pod("web", requests={"cpu": "0", "memory": "1"}))

    assert len(found[REQUEST].samples) == 1
    assert not found[LIMIT].samples


def test_containers_add_up_and_the_largest_init_container_counts() -> None:
    spec = {
        "containers": [
            container({"cpu": "1"}, {"cpu": "2"}),
            container({"cpu": "1"}, {"cpu": "3"}),
        ],
        "initContainers": [container({"cpu": "5"}, {"cpu": "4"})],
        "overhead": {"cpu": "500m", "memory": "1Mi"},
    }
    found = read(pod("web", spec=spec))

    labels = ("default", "web", "", "default-scheduler", "", "cpu", "cores")
    assert found[REQUEST].value(*labels) == 5.5
    assert found[LIMIT].value(*labels) == 5.5, "2 + 3, and overhead"
    assert len(found[LIMIT].samples) == 1, "no limit, no overhead on it"


def test_pods_alike_but_for_their_limits_are_told_apart() -> None:
    one = pod("one", spec={"containers": [container({"cpu": "1"}, {"cpu": "2"})]})
    other = pod("other", spec={"containers": [container({"cpu": "1"}, {"cpu": "4"})]})

    found = read(one, other)[LIMIT]

    rest = ("", "default-scheduler", "", "cpu", "cores")
    assert found.value("default", "one", *rest) == 2
    assert found.value("default", "other", *rest) == 4
