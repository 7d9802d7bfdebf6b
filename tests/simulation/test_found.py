"""What the simulation has found, each told as the smallest story; docs/reliability.md lists them.

The seed that found it may tell another story once the simulation has changed; these do not.
"""

from __future__ import annotations

from stowplan.objects.api import Delete
from tests.builders import node, pod
from tests.core.harness import Cluster, is_a


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
