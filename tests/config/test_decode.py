"""Strict decoding: what is unknown, repeated or of the wrong type is refused, with its place."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stowplan.config import load_config
from stowplan.config.types import DefaultPreemptionArgs
from tests.config.builders import (
    HEAD,
    configuration,
    load,
    plugin_args,
    refused,
    refused_text,
)

ARGS = "decoding .profiles[0].pluginConfig[0]: "


class TestUnknownFields:
    @pytest.mark.parametrize(
        ("text", "field", "line"),
        [
            ("foo: bar\n", "foo", 3),
            ("leaderElection:\n  leaderElected: true\n", "leaderElection.leaderElected", 4),
            ("profiles:\n- {}\n- plugin: {}\n", "profiles[1].plugin", 5),
            (
                "profiles:\n- plugins:\n    score:\n      enabled:\n      - nam: X\n",
                "profiles[0].plugins.score.enabled[0].nam",
                7,
            ),
            ("extenders:\n- tlsConfig:\n    caDatum: x\n", "extenders[0].tlsConfig.caDatum", 5),
            ("Parallelism: 3\n", "Parallelism", 3),
        ],
    )
    def test_are_fatal_and_located(self, text: str, field: str, line: int) -> None:
        error = refused_text(text)

        assert error.problem == f'strict decoding error: unknown field "{field}"'
        assert error.where == f"scheduler.yaml:{line}"

    def test_all_of_them_are_named_with_their_lines(self) -> None:
        error = refused_text("zoo: 1\nbar: 2\nprofiles:\n- x: 1\n")

        assert error.problem == (
            'strict decoding error: unknown field "bar", unknown field "profiles[0].x", '
            'unknown field "zoo"'
        )
        assert error.where == "scheduler.yaml"
        assert error.hint == "line 4: bar; line 6: profiles[0].x; line 3: zoo"

    def test_a_near_miss_gets_a_hint(self) -> None:
        assert refused_text("paralelism: 3\n").hint == "did you mean 'parallelism'?"

    def test_of_args_repeat_the_prefix_at_every_level(self) -> None:
        error = refused(
            plugin_args(
                "NodeResourcesFit",
                scoringStrategy={
                    "requestedToCapacityRatio": {"shape": [{"Score": 2, "Utilization": 1}]}
                },
            )
        )

        shape = "scoringStrategy.requestedToCapacityRatio.shape[0]"
        assert error.problem == (
            f"strict decoding error: {ARGS}strict decoding error: decoding args for plugin "
            f'NodeResourcesFit: strict decoding error: unknown field "{shape}.Score", '
            f'unknown field "{shape}.Utilization"'
        )

    def test_of_args_are_located(self) -> None:
        error = refused_text(
            "profiles:\n- pluginConfig:\n  - name: VolumeBinding\n    args:\n"
            "      bindTimeoutSecond: 1\n"
        )

        assert error.where == (
            "scheduler.yaml:7, profiles[0].pluginConfig[0].args.bindTimeoutSecond"
        )
        assert error.hint == "did you mean 'bindTimeoutSeconds'?"

    def test_of_the_core_types_inside_args_count_too(self) -> None:
        args: dict[str, Any] = {"addedAffinity": {"required": {}}}

        assert (
            'unknown field "addedAffinity.required"'
            in refused(plugin_args("NodeAffinity", **args)).problem
        )

    def test_here_and_in_args_come_together(self) -> None:
        error = refused({**plugin_args("VolumeBinding", x=1), "y": 1})

        assert error.problem == (
            f'strict decoding error: unknown field "y", {ARGS}strict decoding error: '
            'decoding args for plugin VolumeBinding: strict decoding error: unknown field "x"'
        )


class TestRepeatedKeys:
    def test_are_fatal_in_yaml(self) -> None:
        error = refused_text("leaderElection:\n  leaderElect: true\n  leaderElect: false\n")

        assert error.problem == (
            "strict decoding error: yaml: unmarshal errors:\n"
            '  line 5: key "leaderElect" already set in map'
        )
        assert error.where == "scheduler.yaml:5, leaderElection.leaderElect"

    def test_are_fatal_in_json(self) -> None:
        head = json.dumps(HEAD)[:-1]

        error = refused(
            f'{head},\n "leaderElection": {{"leaderElect": true, "leaderElect": false}}}}'.encode(),
            where="scheduler.json",
        )

        assert error.problem == (
            'strict decoding error: duplicate field "leaderElection.leaderElect"'
        )
        assert error.where == "scheduler.json:2"

    def test_are_fatal_in_json_that_no_yaml_reader_takes(self) -> None:
        head = json.dumps(HEAD)[:-1]

        error = refused(f'{head},\n\t"parallelism": 1,\n\t"parallelism": 2}}'.encode())

        assert error.problem == 'strict decoding error: duplicate field "parallelism"'

    def test_come_together_with_unknown_fields(self) -> None:
        error = refused_text("foo: 1\nparallelism: 1\nparallelism: 2\n")

        assert error.problem == (
            "strict decoding error: yaml: unmarshal errors:\n"
            '  line 5: key "parallelism" already set in map, unknown field "foo"'
        )

    def test_inside_args_are_found_too(self) -> None:
        error = refused_text("profiles:\n- pluginConfig:\n  - name: Mine\n    args: {a: 1, a: 2}\n")

        assert 'key "a" already set in map' in error.problem


class TestWrongTypes:
    @pytest.mark.parametrize(
        ("fields", "problem", "where"),
        [
            (
                {"parallelism": "many"},
                (
                    "cannot unmarshal string into Go struct field "
                    "KubeSchedulerConfiguration.parallelism of type int32"
                ),
                "",
            ),
            (
                {"parallelism": 1.5},
                (
                    "cannot unmarshal number 1.5 into Go struct field "
                    "KubeSchedulerConfiguration.parallelism of type int32"
                ),
                "",
            ),
            (
                {"parallelism": 2**31},
                (
                    "cannot unmarshal number 2147483648 into Go struct field "
                    "KubeSchedulerConfiguration.parallelism of type int32"
                ),
                "",
            ),
            (
                {"podMaxBackoffSeconds": True},
                (
                    "cannot unmarshal bool into Go struct field "
                    "KubeSchedulerConfiguration.podMaxBackoffSeconds of type int64"
                ),
                "",
            ),
            (
                {"enableProfiling": "yes"},
                (
                    "cannot unmarshal string into Go struct field "
                    "KubeSchedulerConfiguration.enableProfiling of type bool"
                ),
                "",
            ),
            (
                {"clientConnection": {"kubeconfig": 7}},
                (
                    "cannot unmarshal number into Go struct field "
                    "ClientConnectionConfiguration.clientConnection.kubeconfig of type string"
                ),
                "",
            ),
            (
                {"clientConnection": {"qps": "fast"}},
                (
                    "cannot unmarshal string into Go struct field "
                    "ClientConnectionConfiguration.clientConnection.qps of type float32"
                ),
                "",
            ),
            (
                {"leaderElection": []},
                (
                    "cannot unmarshal array into Go struct field "
                    "KubeSchedulerConfiguration.leaderElection of type "
                    "v1.LeaderElectionConfiguration"
                ),
                "",
            ),
            (
                {"profiles": {}},
                (
                    "cannot unmarshal object into Go struct field "
                    "KubeSchedulerConfiguration.profiles of type []v1.KubeSchedulerProfile"
                ),
                "",
            ),
            (
                {"profiles": [{"plugins": {"score": {"enabled": [{"weight": "3"}]}}}]},
                (
                    "cannot unmarshal string into Go struct field "
                    "Plugin.profiles.plugins.score.enabled.weight of type int32"
                ),
                "profiles[0].plugins.score.enabled[0].weight",
            ),
            (
                {"leaderElection": {"leaseDuration": 15}},
                (
                    "cannot unmarshal number into Go struct field "
                    "LeaderElectionConfiguration.leaderElection.leaseDuration of type string"
                ),
                "",
            ),
        ],
    )
    def test_are_refused(self, fields: dict[str, Any], problem: str, where: str) -> None:
        error = refused(configuration(**fields))

        assert error.problem == f"json: {problem}"
        assert error.where == where

    @pytest.mark.parametrize(
        ("fields", "problem", "where"),
        [
            (
                {"leaderElection": {"leaseDuration": "15"}},
                'time: missing unit in duration "15"',
                "leaderElection.leaseDuration",
            ),
            (
                {"extenders": [{"tlsConfig": {"caData": "a b="}}]},
                "illegal base64 data at input byte 1",
                "extenders[0].tlsConfig.caData",
            ),
        ],
    )
    def test_texts_with_a_syntax_are_checked(
        self, fields: dict[str, Any], problem: str, where: str
    ) -> None:
        error = refused(configuration(**fields))

        assert (error.problem, error.where) == (problem, where)

    def test_of_args_name_the_plugin(self) -> None:
        error = refused(plugin_args("VolumeBinding", bindTimeoutSeconds="long"))

        assert error.problem == (
            f"{ARGS}decoding args for plugin VolumeBinding: json: cannot unmarshal string into "
            "Go struct field VolumeBindingArgs.bindTimeoutSeconds of type int64"
        )
        assert error.where == "profiles[0].pluginConfig[0].args.bindTimeoutSeconds"

    def test_are_all_reported_and_unknown_fields_after_them(self) -> None:
        error = refused(configuration(parallelism="x", enableProfiling=3, foo=1))

        assert error.problem == (
            "[json: cannot unmarshal number into Go struct field "
            "KubeSchedulerConfiguration.enableProfiling of type bool, "
            "json: cannot unmarshal string into Go struct field "
            "KubeSchedulerConfiguration.parallelism of type int32, "
            'strict decoding error: unknown field "foo"]'
        )

    def test_a_wrong_entry_does_not_move_the_others(self) -> None:
        error = refused(configuration(profiles=[7, {"pluginConfig": [{"name": "X", "y": 1}]}]))

        assert 'unknown field "profiles[1].pluginConfig[0].y"' in error.problem

    def test_a_null_entry_is_an_empty_one(self) -> None:
        config = load(profiles=[None], extenders=[None])

        assert config == load(profiles=[{}], extenders=[{}])

    @pytest.mark.parametrize(
        ("labels", "problem"),
        [
            ({"a": None}, "Forbidden: constraint must not define a selector"),
            ({"a": 1}, "into Go struct field LabelSelector.defaultConstraints.labelSelector."),
            ([], "of type map[string]string"),
        ],
    )
    def test_maps_are_checked_by_entry(self, labels: Any, problem: str) -> None:
        constraint = {
            "maxSkew": 1,
            "topologyKey": "zone",
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": labels},
        }
        source = plugin_args(
            "PodTopologySpread", defaultingType="List", defaultConstraints=[constraint]
        )

        assert problem in refused(source).problem

    def test_a_whole_float_is_an_integer(self) -> None:
        assert load(parallelism=8.0).parallelism == 8


class TestKindAndVersion:
    @pytest.mark.parametrize("version", ["v1beta3", "v1beta2", "unknown"])
    def test_other_versions_do_not_exist(self, version: str) -> None:
        group = "kubescheduler.config.k8s.io"

        error = refused({**HEAD, "apiVersion": f"{group}/{version}"})

        assert error.problem.startswith(
            'no kind "KubeSchedulerConfiguration" is registered for version '
            f'"{group}/{version}" in scheme '
        )
        assert error.hint == "only kubescheduler.config.k8s.io/v1 exists"

    def test_a_version_is_needed(self) -> None:
        error = refused({"kind": "KubeSchedulerConfiguration", "parallelism": 3})

        assert error.problem == (
            "Object 'apiVersion' is missing in "
            '\'{"kind":"KubeSchedulerConfiguration","parallelism":3}\''
        )
        assert error.hint == "add apiVersion: kubescheduler.config.k8s.io/v1"

    @pytest.mark.parametrize(
        ("text", "shown"), [(b"", "null"), (b"# nothing\n", "null"), (b"{}", "{}")]
    )
    def test_a_kind_is_needed(self, text: bytes, shown: str) -> None:
        assert refused(text).problem == f"Object 'Kind' is missing in '{shown}'"

    def test_another_kind_of_the_group_is_not_a_configuration(self) -> None:
        error = refused({**HEAD, "kind": "VolumeBindingArgs"})

        assert error.problem == (
            "couldn't decode as KubeSchedulerConfiguration, got "
            "kubescheduler.config.k8s.io/v1, Kind=VolumeBindingArgs: "
        )

    def test_an_unknown_kind_is_not_registered(self) -> None:
        error = refused({**HEAD, "kind": "KubeSchedulerConfig"})

        assert error.problem.startswith('no kind "KubeSchedulerConfig" is registered for version ')
        assert error.hint == "did you mean 'KubeSchedulerConfiguration'?"

    @pytest.mark.parametrize(
        ("text", "kind"),
        [(b"- 1\n", "array"), (b"hello\n", "string"), (b"7\n", "number"), (b"true\n", "bool")],
    )
    def test_a_file_is_an_object(self, text: bytes, kind: str) -> None:
        assert refused(text).problem.startswith(
            "couldn't get version/kind; json parse error: json: cannot unmarshal "
            f"{kind} into Go value of type struct"
        )

    def test_a_version_is_text(self) -> None:
        assert refused({**HEAD, "apiVersion": 1}).problem == (
            "couldn't get version/kind; json parse error: json: cannot unmarshal number into "
            "Go struct field .apiVersion of type string"
        )

    def test_of_args_may_be_given(self) -> None:
        config = load_config(
            plugin_args(
                "DefaultPreemption",
                apiVersion="kubescheduler.config.k8s.io/v1",
                kind="DefaultPreemptionArgs",
                minCandidateNodesPercentage=50,
            )
        )

        assert config.profiles[0].args("DefaultPreemption") == DefaultPreemptionArgs(
            min_candidate_nodes_percentage=50, min_candidate_nodes_absolute=100
        )

    def test_of_args_must_match_the_plugin(self) -> None:
        group = "kubescheduler.config.k8s.io"

        error = refused(plugin_args("DefaultPreemption", kind="InterPodAffinityArgs"))

        assert error.problem == (
            f"{ARGS}args for plugin DefaultPreemption were not of type "
            f"DefaultPreemptionArgs.{group}, got InterPodAffinityArgs.{group}"
        )

    @pytest.mark.parametrize(
        ("args", "version", "kind"),
        [
            ({"kind": "Foo"}, "kubescheduler.config.k8s.io/v1", "Foo"),
            (
                {"apiVersion": "kubescheduler.config.k8s.io/v1beta3"},
                "kubescheduler.config.k8s.io/v1beta3",
                "VolumeBindingArgs",
            ),
        ],
    )
    def test_of_args_must_exist(self, args: dict[str, str], version: str, kind: str) -> None:
        error = refused(plugin_args("VolumeBinding", **args))

        assert error.problem.startswith(
            f'{ARGS}decoding args for plugin VolumeBinding: no kind "{kind}" is registered for '
            f'version "{version}" in scheme '
        )

    def test_args_are_an_object(self) -> None:
        source = configuration(profiles=[{"pluginConfig": [{"name": "VolumeBinding", "args": []}]}])

        assert refused(source).problem.startswith(
            f"{ARGS}decoding args for plugin VolumeBinding: couldn't get version/kind; "
            "json parse error: json: cannot unmarshal array into Go value of type struct"
        )
