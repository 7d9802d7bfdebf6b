"""QOSSort: priority, then class of service, then age; and the class as Kubernetes computes it."""

from __future__ import annotations

from typing import Any

import pytest

from stowplan.objects.pod import Pod
from stowplan.plugins.qos_sort import QOSClass, QOSSort, qos_class
from tests.builders import info, pod

BOTH = {"cpu": "1", "memory": "1Gi"}


def with_resources(*resources: dict[str, Any], **spec: Any) -> Pod:
    containers = [{"name": f"c{n}", "resources": given} for n, given in enumerate(resources)]
    return pod(spec={"containers": containers, **spec})


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param(with_resources({}), QOSClass.BEST_EFFORT, id="nothing"),
        pytest.param(
            with_resources({"requests": {"cpu": 0}, "limits": {"ephemeral-storage": "1Gi"}}),
            QOSClass.BEST_EFFORT,
            id="zero-and-other-resources-do-not-count",
        ),
        pytest.param(
            with_resources({"requests": {"cpu": "1000m", "memory": "1024Mi"}, "limits": BOTH}),
            QOSClass.GUARANTEED,
            id="equal-amounts-in-other-words",
        ),
        pytest.param(with_resources({"limits": BOTH}), QOSClass.BURSTABLE, id="limits-alone"),
        pytest.param(
            with_resources({"requests": {"cpu": "1"}, "limits": {"cpu": "1"}}),
            QOSClass.BURSTABLE,
            id="no-memory-limit",
        ),
        pytest.param(
            with_resources({"requests": BOTH, "limits": BOTH}, {}),
            QOSClass.BURSTABLE,
            id="one-container-without",
        ),
        pytest.param(
            with_resources(
                {"requests": BOTH, "limits": BOTH}, initContainers=[{"name": "i", "image": "x"}]
            ),
            QOSClass.BURSTABLE,
            id="init-containers-count",
        ),
        pytest.param(
            with_resources(
                {"requests": {"cpu": "2", "memory": "1Gi"}, "limits": BOTH},
                {"requests": BOTH, "limits": {"cpu": "2", "memory": "1Gi"}},
            ),
            QOSClass.GUARANTEED,
            id="only-the-sums-are-compared",
        ),
        pytest.param(
            with_resources({}, resources={"requests": BOTH, "limits": BOTH}),
            QOSClass.GUARANTEED,
            id="pod-level-alone-counts",
        ),
        pytest.param(
            with_resources(
                {"requests": BOTH, "limits": BOTH}, resources={"requests": {"cpu": "1"}}
            ),
            QOSClass.BURSTABLE,
            id="pod-level-hides-the-containers",
        ),
    ],
)
def test_class(given: Pod, expected: QOSClass) -> None:
    assert qos_class(given) == expected


def test_order() -> None:
    plugin = QOSSort()
    guaranteed = {"resources": {"requests": BOTH, "limits": BOTH}}
    early, late = ({"creationTimestamp": f"2026-01-0{day}T00:00:00Z"} for day in (1, 2))
    queue = [
        ("best effort", info(pod()), 1.0),
        ("burstable, late", info(pod(cpu=1, metadata=late)), 0.0),
        ("burstable, early", info(pod(cpu=1, metadata=early)), 5.0),
        ("guaranteed", info(pod(spec=guaranteed)), 6.0),
        ("important", info(pod(spec={"priority": 1})), 7.0),
        ("best effort, waiting since", info(pod()), 0.0),
    ]

    order = sorted(queue, key=lambda entry: plugin.sort_key(entry[1], entry[2]))

    assert [name for name, _, _ in order] == [
        "important",
        "guaranteed",
        "burstable, early",
        "burstable, late",
        "best effort, waiting since",
        "best effort",
    ]
