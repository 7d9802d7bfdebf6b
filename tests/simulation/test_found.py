"""What the simulation has found, each told as the smallest story; docs/reliability.md lists them.

The seed that found it may tell another story once the simulation has changed; these do not.
"""

from __future__ import annotations

from typing import Any

from stowplan.framework.plugin import Wait
from stowplan.objects.api import Delete
from stowplan.objects.kinds import POD
from tests.builders import node, pod
from tests.core.harness import Cluster, is_a, make_plugin

WEB = {"app": "web"}


def test_a_preemptor_hears_of_victims_that_ended_while_it_was_held_back() -> None:
    """Seed 109: the evictions took so long that the victims went before they were through."""
    victims = [pod(name, node="node-1", cpu="1") for name in ("one", "two")]
    cluster = Cluster(node("node-1", cpu="2"), *victims)
    cluster.api.hold(is_a(Delete))
    cluster.add(pod("urgent", cpu="2", spec={"priority": 100}))

    cluster.delete("one")
    cluster.delete("two")
    # Until the evictions are through the preemptor is not to be tried; and no pod ends after them.
    assert cluster.place("urgent") == "gated"
    cluster.api.release()
    cluster.run(15)

    assert cluster.node_of("urgent") == "node-1"


def test_a_pod_hears_that_one_has_other_labels_than_when_it_was_decided_on() -> None:
    """Seed 41162: a pod was labelled while it waited at Permit, and its new labels came with it."""

    def permit(self: Any, cycle: Any, pod: Any, node: str) -> Wait | None:
        return Wait(60.0) if pod.key.endswith("first") else None

    cluster = Cluster(node("node-1"), plugins=(make_plugin("Slow", permit=permit),))
    cluster.add(pod("first", labels=WEB))
    apart = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": WEB}}
    terms = {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}
    cluster.add(pod("second", spec={"affinity": {"podAntiAffinity": terms}}))
    assert not cluster.node_of("second")

    cluster.patch(POD, "first", {"metadata": {"labels": {"app": "other"}}})
    cluster.machine.waiting.allow(cluster.pod("first").metadata.uid, "Slow")
    cluster.add(pod("third"))
    cluster.run(15)

    assert cluster.node_of("first") == "node-1"
    assert cluster.node_of("second") == "node-1"


def test_a_pod_hears_when_it_has_become_the_first_of_its_sort() -> None:
    """Seed 43950: where nobody is left whom it wants to be near, it may go anywhere."""
    near = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": WEB}}
    terms = {"requiredDuringSchedulingIgnoredDuringExecution": [near]}
    other = pod("other", node="node-1", labels=WEB, cpu="1")
    cluster = Cluster(node("node-1", cpu="1"), node("node-2", cpu="1"), other)
    cluster.patch_node("node-1", {"spec": {"unschedulable": True}})
    cluster.add(pod("web", labels=WEB, cpu="1", spec={"affinity": {"podAffinity": terms}}))
    assert not cluster.node_of("web")

    cluster.delete("other")
    cluster.run(15)

    assert cluster.node_of("web") == "node-2"
