"""A class that says what the plugin contract does not know, or says it wrongly, is refused."""

from __future__ import annotations

from typing import Any

import pytest

from stowplan.config import load_config
from stowplan.core.profiles import check_config
from stowplan.errors import ConfigError
from stowplan.framework import Reads
from stowplan.framework.plugin import check_plugin
from stowplan.plugins import IN_TREE
from tests.core.harness import make_plugin

GO: dict[str, Any] = {"filter_node": lambda *_: None}


@pytest.mark.parametrize(
    ("members", "said"),
    [
        pytest.param({"filter_nods": 1}, "did you mean `filter_nodes`?", id="misspelt"),
        pytest.param({"raeds": Reads.NODE}, "did you mean `reads`?", id="misspelt declaration"),
        pytest.param({"cache": {}}, "start with an underscore", id="a name of its own"),
        pytest.param({"node_only": True}, "reads = Reads.NODE", id="as it was said before"),
        pytest.param({"weighted_scores": 1}, "Normalized(scores)", id="a method of before"),
        pytest.param({"reads": "node"}, "reads is 'node'", id="not Reads"),
        pytest.param({"reads": Reads(0)}, "must be made of", id="reads nothing"),
        pytest.param({"signature": lambda *_: 1}, "takes `reads", id="signature alone"),
        pytest.param({"reads": Reads.NODE, "signature": 3}, "must be a method", id="no method"),
        pytest.param(
            {"reads": Reads.CLUSTER, "signature": lambda *_: 1}, "takes `reads", id="of the cluster"
        ),
        pytest.param(
            {"reads": Reads.NODE | Reads.ANNOTATIONS}, "must say what", id="annotations unsigned"
        ),
        pytest.param({"score_nodes": 1}, "lacks score_node", id="one form only"),
    ],
)
def test_it_is_refused_with_one_clear_line(members: dict[str, Any], said: str) -> None:
    with pytest.raises(TypeError) as caught:
        check_plugin(make_plugin("Wrong", **GO, **members))

    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_a_base_class_says_counts() -> None:
    class Base:
        node_onyl = True

    with pytest.raises(TypeError, match="`node_onyl` is not part of the plugin contract"):
        check_plugin(type("Heir", (Base,), {"name": "Heir", **GO}))


@pytest.mark.parametrize("name", sorted(IN_TREE))
def test_plugins_that_are_shipped_keep_to_it(name: str) -> None:
    check_plugin(IN_TREE[name])


def test_a_configuration_with_such_a_plugin_does_not_start() -> None:
    from random import Random

    plugin = make_plugin("Wrong", **GO, filter_nods=1)
    enabled = {"plugins": {"multiPoint": {"enabled": [{"name": "Wrong"}]}}}
    config = load_config(
        {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "profiles": [enabled],
        }
    )
    with pytest.raises(ConfigError, match='initializing plugin "Wrong": `filter_nods` is not part'):
        check_config(config, random=Random(0), registry={**IN_TREE, "Wrong": plugin})
