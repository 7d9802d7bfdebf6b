"""What is written is upstream's form, and reads back to the same."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from stowplan.config import SchedulerConfig, load_config, parse_feature_gates, to_dict, to_yaml
from tests.config.builders import FULL, configuration, load, plugin_args


def read_back(config: SchedulerConfig) -> SchedulerConfig:
    return load_config(to_yaml(config).encode())


def test_the_default_reads_back() -> None:
    config = load_config()

    assert read_back(config) == config


@pytest.mark.parametrize(
    "source",
    [
        FULL,
        configuration(enableProfiling=False),
        configuration(profiles=[{"schedulerName": "a"}, {"schedulerName": "b"}]),
        plugin_args("NodeResourcesFit", ignoredResources=["example.com/a"]),
        configuration(
            profiles=[{"plugins": {"multiPoint": {"disabled": [{"name": "*"}]}}}],
        ),
    ],
    ids=["full", "no-profiling", "two-profiles", "args", "nothing-enabled"],
)
def test_any_configuration_reads_back(source: Any) -> None:
    config = load_config(source)

    again = read_back(config)

    assert to_dict(again) == to_dict(config)
    assert read_back(again) == again


def test_the_form_of_the_default() -> None:
    data = to_dict(load_config())

    assert data["apiVersion"] == "kubescheduler.config.k8s.io/v1"
    assert data["kind"] == "KubeSchedulerConfiguration"
    assert data["leaderElection"] == {
        "leaderElect": True,
        "leaseDuration": "15s",
        "renewDeadline": "10s",
        "resourceLock": "leases",
        "resourceName": "kube-scheduler",
        "resourceNamespace": "kube-system",
        "retryPeriod": "2s",
    }
    assert data["clientConnection"] == {
        "acceptContentTypes": "",
        "burst": 100,
        "contentType": "application/vnd.kubernetes.protobuf",
        "kubeconfig": "",
        "qps": 50,
    }
    assert set(data) == {
        "apiVersion",
        "kind",
        "parallelism",
        "leaderElection",
        "clientConnection",
        "enableProfiling",
        "enableContentionProfiling",
        "percentageOfNodesToScore",
        "podInitialBackoffSeconds",
        "podMaxBackoffSeconds",
        "profiles",
    }
    (profile,) = data["profiles"]
    assert profile["plugins"]["bind"] == {}
    assert profile["plugins"]["multiPoint"]["enabled"][4] == {
        "name": "TaintToleration",
        "weight": 3,
    }
    assert profile["pluginConfig"][1] == {
        "name": "DynamicResources",
        "args": {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "DynamicResourcesArgs",
            "bindingTimeout": "10m0s",
            "filterTimeout": "10s",
        },
    }


def test_plugins_are_merged_but_not_expanded() -> None:
    config = load(profiles=[{"plugins": {"score": {"disabled": [{"name": "NodeAffinity"}]}}}])

    (profile,) = to_dict(config)["profiles"]

    assert profile["plugins"]["score"] == {"disabled": [{"name": "NodeAffinity", "weight": 0}]}
    assert len(profile["plugins"]["multiPoint"]["enabled"]) == 20


def test_plugin_config_is_of_enabled_plugins_sorted_by_name() -> None:
    config = load(
        profiles=[
            {
                "plugins": {
                    "multiPoint": {"disabled": [{"name": "*"}]},
                    "filter": {"enabled": [{"name": "Mine"}, {"name": "Bare"}]},
                    "score": {"enabled": [{"name": "InterPodAffinity"}]},
                },
                "pluginConfig": [
                    {"name": "Mine", "args": {"x": 1}},
                    {"name": "Bare"},
                    {"name": "VolumeBinding", "args": {"bindTimeoutSeconds": 1}},
                ],
            }
        ]
    )

    (profile,) = to_dict(config)["profiles"]

    assert [entry["name"] for entry in profile["pluginConfig"]] == ["InterPodAffinity", "Mine"]
    assert profile["pluginConfig"][1]["args"] == {"x": 1}


def test_an_extender_shows_the_timeout_it_has() -> None:
    data = to_dict(load(extenders=[{"urlPrefix": "http://a"}]))

    assert data["extenders"] == [{"urlPrefix": "http://a", "httpTimeout": "5s"}]


def test_texts_are_quoted_as_upstream_quotes_them() -> None:
    disabled = [{"name": name} for name in ("*", "1e3", "yes", "plain")]

    text = to_yaml(load(profiles=[{"plugins": {"score": {"disabled": disabled}}}]))

    for quoted in ("'*'", '"1e3"', '"yes"', "plain"):
        assert f"      - name: {quoted}\n" in text


def test_a_time_that_a_gate_turns_off_is_null() -> None:
    gates = parse_feature_gates("DRASchedulerFilterTimeout=false")

    text = to_yaml(load_config(gates=gates))

    assert "filterTimeout: null\n" in text


def test_certificates_are_base64() -> None:
    data = to_dict(load_config(FULL))

    assert data["extenders"][0]["tlsConfig"]["certData"] == "Y2VydA=="


def test_the_dictionary_is_json() -> None:
    assert json.loads(json.dumps(to_dict(load_config(FULL)))) == to_dict(load_config(FULL))


def test_the_text_has_sorted_keys_and_no_anchors() -> None:
    text = to_yaml(load_config())

    assert "&id" not in text
    assert list(yaml.safe_load(text)) == sorted(to_dict(load_config()))


@given(st.text())
def test_any_text_reads_back(text: str) -> None:
    config = load_config(plugin_args("Mine", text=text, k=[text]))
    written = to_yaml(_enabled(config)).encode("utf-8", "surrogatepass")

    assert load_config(written).profiles[0].args("Mine") == {"text": text, "k": [text]}


@pytest.mark.parametrize("word", ["y", "no", "1e3", "012", "0x1f", "1_000", "~", "", "<<", "12:30"])
def test_words_that_mean_something_else_are_quoted(word: str) -> None:
    config = _enabled(load_config(plugin_args("Mine", text=word)))

    assert read_back(config).profiles[0].args("Mine") == {"text": word}


def _enabled(config: SchedulerConfig) -> SchedulerConfig:
    args = config.profiles[0].args("Mine")
    return load(
        profiles=[
            {
                "plugins": {
                    "multiPoint": {"disabled": [{"name": "*"}], "enabled": [{"name": "Mine"}]}
                },
                "pluginConfig": [{"name": "Mine", "args": args}],
            }
        ]
    )
