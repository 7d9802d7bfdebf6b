"""Loading: the sources, the flags, the place of a problem, and a file with every field."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stowplan.config import Duration, ExtenderConfig, ExtenderTLSConfig, load_config
from stowplan.config.types import ExtenderManagedResource
from stowplan.config.validate import problems
from stowplan.errors import ConfigError
from tests.config.builders import (
    FULL,
    YAML_HEAD,
    configuration,
    load,
    plugin_args,
    refused,
    refused_text,
)


class TestSources:
    def test_a_path(self, tmp_path: Path) -> None:
        file = tmp_path / "scheduler.yaml"
        file.write_text(YAML_HEAD + "parallelism: 3\n")

        assert load_config(str(file)).parallelism == 3
        assert load_config(file).parallelism == 3

    def test_a_path_names_the_place_of_a_problem(self, tmp_path: Path) -> None:
        file = tmp_path / "scheduler.yaml"
        file.write_text(YAML_HEAD + "parallelism: 0\n")

        assert refused(file).where == f"{file}:3"

    def test_a_path_that_is_not_there(self, tmp_path: Path) -> None:
        error = refused(tmp_path / "none.yaml")

        assert error.problem == f"open {tmp_path / 'none.yaml'}: no such file or directory"

    def test_json(self) -> None:
        text = json.dumps(configuration(parallelism=3)).encode()

        assert load_config(text) == load(parallelism=3)

    def test_json_with_tabs(self) -> None:
        text = json.dumps(configuration(parallelism=3), indent="\t").encode()

        assert load_config(text) == load(parallelism=3)

    @pytest.mark.parametrize(
        ("text", "where"),
        [
            (b'{"a": 1,\n "b"}', "f:2"),
            (b"a: 1\nb: [1\n", "f:3"),
            (b"a: \xff\n", "f"),
            (b'{"a": "\xff"}', "f"),
        ],
    )
    def test_broken_text(self, text: bytes, where: str) -> None:
        error = refused(text, where="f")

        assert "not readable as" in error.problem
        assert error.where.startswith(where)

    def test_broken_text_without_a_name(self) -> None:
        assert refused(b"a: 1\nb: [1\n").where == "line 3"

    def test_of_several_documents_the_first_counts(self) -> None:
        text = f"---\n{YAML_HEAD}parallelism: 3\n---\n{YAML_HEAD}parallelism: 4\n"

        assert load_config(text.encode()).parallelism == 3

    def test_words_mean_what_they_mean_to_kubectl(self) -> None:
        config = load_config(f"{YAML_HEAD}enableProfiling: off\nparallelism: 012\n".encode())

        assert config.enable_profiling is False
        assert config.parallelism == 10

    def test_anchors_and_merges(self) -> None:
        text = (
            f"{YAML_HEAD}profiles:\n- &base\n  schedulerName: a\n  percentageOfNodesToScore: 7\n"
            "- <<: *base\n  schedulerName: b\n"
        )

        profiles = load_config(text.encode()).profiles

        assert [p.percentage_of_nodes_to_score for p in profiles] == [7, 7]

    def test_deep_nesting_is_refused(self) -> None:
        assert "too deep" in refused(b'{"a":' * 100_000).problem

    def test_data_is_left_as_it_was(self) -> None:
        source = plugin_args("Mine", list=[1, 2])
        before = json.dumps(source)

        config = load_config(source)
        config.profiles[0].args("Mine")["list"].append(3)

        assert json.dumps(source) == before


class TestFlags:
    def test_overwrite_the_file_before_it_is_validated(self) -> None:
        source = configuration(leaderElection={"resourceLock": "endpoints", "resourceName": "x"})

        config = load_config(
            source, leader_election={"leader_elect": False, "resource_name": "mine"}
        )

        assert config.leader_election.leader_elect is False
        assert config.leader_election.resource_name == "mine"

    def test_are_validated_with_a_file(self) -> None:
        with pytest.raises(ConfigError, match="must be greater than `RenewDeadline`"):
            load_config(configuration(), leader_election={"lease_duration": Duration()})

    def test_are_not_validated_without_one(self) -> None:
        config = load_config(leader_election={"resource_lock": "foo"})

        assert config.leader_election.resource_lock == "foo"
        assert problems(config)


class TestPlugins:
    def test_args_of_a_users_plugin_stay_as_written(self) -> None:
        config = load_config(plugin_args("Mine", any={"thing": [1, "x"]}, kind="Whatever"))

        assert config.profiles[0].args("Mine") == {"any": {"thing": [1, "x"]}, "kind": "Whatever"}

    def test_a_plugin_without_args_has_none(self) -> None:
        config = load(profiles=[{"pluginConfig": [{"name": "Mine"}]}])

        assert config.profiles[0].args("Mine") is None
        assert config.profiles[0].args("Other") is None

    def test_profiles_are_found_by_name(self) -> None:
        config = load(profiles=[{"schedulerName": "a"}, {"schedulerName": "b"}])

        found = config.profile("b")
        assert found is not None
        assert found.scheduler_name == "b"
        assert config.profile("c") is None


@pytest.mark.parametrize(
    ("text", "where"),
    [
        pytest.param("parallelism: 0\n", "scheduler.yaml:3", id="a-field"),
        pytest.param(
            "profiles:\n- schedulerName: a\n- percentageOfNodesToScore: 5\n",
            "scheduler.yaml:5",
            id="an-absent-field-is-at-its-object",
        ),
        pytest.param(
            "profiles:\n- pluginConfig:\n  - name: VolumeBinding\n    args:\n"
            "      bindTimeoutSeconds: -1\n",
            "scheduler.yaml:7",
            id="inside-args",
        ),
        pytest.param(
            "profiles:\n- pluginConfig:\n  - name: NodeResourcesFit\n    args:\n"
            "      scoringStrategy: {}\n",
            "scheduler.yaml:6, profiles[0].pluginConfig[0].args",
            id="the-path-that-upstream-leaves-out",
        ),
        pytest.param(
            "profiles:\n- plugins:\n    queueSort:\n      enabled: [{name: A}, {name: B}]\n",
            "scheduler.yaml:5",
            id="a-path-that-is-not-spelled-as-in-the-file",
        ),
    ],
)
def test_rules_point_at_the_line(text: str, where: str) -> None:
    assert refused_text(text).where == where


def test_several_broken_rules_list_their_lines() -> None:
    error = refused_text("parallelism: 0\npodInitialBackoffSeconds: 0\n")

    assert error.where == "scheduler.yaml"
    assert error.hint == "line 3: parallelism; line 4: podInitialBackoffSeconds"


def test_a_file_with_every_field_loads() -> None:
    config = load_config(FULL)

    assert config.parallelism == 32
    assert config.leader_election.lease_duration == Duration.of_seconds(60)
    assert config.client_connection.qps == 12.5
    assert config.assumed_pod_ttl_seconds == 30
    assert config.delay_cache_until_active is True
    assert config.extenders == [
        ExtenderConfig(
            url_prefix="https://extender:8443/x/",
            filter_verb="filter",
            preempt_verb="preempt",
            prioritize_verb="prioritize",
            weight=3,
            bind_verb="bind",
            enable_https=True,
            tls_config=ExtenderTLSConfig(
                insecure=True,
                server_name="extender",
                cert_file="/c",
                key_file="/k",
                ca_file="/a",
                cert_data=b"cert",
                key_data=b"key",
                ca_data=b"ca",
            ),
            http_timeout=Duration.of_seconds(7),
            node_cache_capable=True,
            managed_resources=[
                ExtenderManagedResource(name="example.com/foo", ignored_by_scheduler=True)
            ],
            ignorable=True,
        )
    ]
    first, second = config.profiles
    assert first.percentage_of_nodes_to_score == 10
    assert second.percentage_of_nodes_to_score is None
    assert {point for point, plugins in first.plugins.sets() if plugins.enabled} == {
        "preEnqueue",
        "queueSort",
        "preFilter",
        "preScore",
        "score",
        "reserve",
        "permit",
        "preBind",
        "bind",
        "postBind",
        "multiPoint",
        "placementGenerate",
        "placementScore",
    }
    affinity = first.args("NodeAffinity").added_affinity
    assert affinity.required.node_selector_terms[0].match_expressions[0].values == ["a", "b"]
    constraint = first.args("PodTopologySpread").default_constraints[0]
    assert (constraint.min_domains, constraint.match_label_keys) == (2, ["app"])
    assert first.args("DynamicResources").binding_timeout == Duration.of_seconds(300)
    assert first.args("P") == {"deep": {"value": [1, 2.5, "y", "1e3", None]}}
