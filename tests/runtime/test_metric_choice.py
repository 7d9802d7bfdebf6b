"""The flags about metrics: what is disabled does not show, and lists bound the values of labels.

The messages are those of kube-scheduler 1.36, as it printed them for the same flags.
"""

from __future__ import annotations

import io
from pathlib import Path
from random import Random
from typing import Any

import pytest

from stowplan.clock import VirtualClock
from stowplan.errors import InputError
from stowplan.runtime.exposition import Family, Kind, Level, Spec, text_of
from stowplan.runtime.health import PING, Health
from stowplan.runtime.log import Log
from stowplan.runtime.metric_choice import MetricChoice, read_choice
from stowplan.runtime.metric_readings import describe_build
from stowplan.runtime.metrics import Metrics
from tests.builders import node, pod
from tests.runtime.prometheus import Read, parse
from tests.runtime.surfaces import Served

FORMAT = (
    "must have keys with format `metricName,labelName` where metricName matches "
    '"[a-zA-Z_:][a-zA-Z0-9_:]*" and labelName matches "[a-zA-Z_][a-zA-Z0-9_]*"'
)

MANIFEST = "metrics.allowListMappingManifest"
WRONG_KEY = (
    f'invalid allow list mapping in manifest: [{MANIFEST}: Invalid value: {{"a":"b"}}: {FORMAT}]'
)


def shown(choice: MetricChoice) -> dict[str, Read]:
    """/metrics of a scheduler that has placed one pod and turned one down."""
    served = Served(node("n1", cpu="2"), pod("fits", cpu="1"), pod("large", cpu="8"))
    # What was counted so far was counted without the flags: they only change what is shown.
    served.metrics._choice = choice
    return parse(served.metrics.text(served.machine))


def test_what_is_disabled_does_not_show() -> None:
    everything = shown(MetricChoice())
    names = ["scheduler_goroutines", "rest_client_requests_total", "no_such_metric"]

    found = shown(read_choice(disabled=names))

    assert everything.keys() - found.keys() == set(names[:2])
    assert found["disabled_metrics_total"].value() == 3
    assert found["hidden_metrics_total"].value() == 2


def test_a_value_that_is_not_listed_shows_as_unexpected() -> None:
    choice = read_choice(allowed={"scheduler_pending_pods,queue": "active,backoff"})

    found = shown(choice)

    pending = found["scheduler_pending_pods"]
    assert {labels for _, labels in pending.samples} == {
        (("queue", "active"),),
        (("queue", "backoff"),),
        (("queue", "unexpected"),),
    }
    assert pending.value("unexpected") == 1, "the pod that is too large"
    counter = found["cardinality_enforcement_unexpected_categorizations_total"]
    assert counter.value() == 2, "unschedulable and gated"


def test_counts_and_histograms_that_now_have_the_same_labels_are_added_up() -> None:
    attempts = "scheduler_scheduling_attempt_duration_seconds,result"
    choice = read_choice(allowed={attempts: "error"})

    durations = shown(choice)["scheduler_scheduling_attempt_duration_seconds"]

    assert durations.value("unexpected", "default-scheduler", suffix="_count") == 2


def test_labels_without_a_list_stay_as_they_are() -> None:
    family = Family(Spec("m", Kind.COUNTER, ("a", "b"), Level.ALPHA, "h"))
    family.add("1", "x", amount=2)
    family.add("2", "x", amount=3)
    family.add("2", "y", amount=4)
    before = text_of([family])

    (found,) = read_choice(allowed={"m,a": "1", "other,b": ""}).shown([family])

    assert found.values == {("1", "x"): 2, ("unexpected", "x"): 3, ("unexpected", "y"): 4}
    assert text_of([family]) == before, "what is counted is not touched"


def test_the_counter_of_unexpected_values_never_falls() -> None:
    choice = read_choice(allowed={"m,a": ""})
    family = Family(Spec("m", Kind.GAUGE, ("a",), Level.ALPHA, "h"))
    family.set("1", value=1)
    list(choice.shown([family]))
    family.values.clear()
    list(choice.shown([family]))

    assert choice.unexpected == {("m", "a", "1")}


def test_checks_are_metrics_too() -> None:
    choice = read_choice(
        disabled=["kubernetes_healthcheck"],
        allowed={"kubernetes_healthchecks_total,name": "none"},
    )
    health = Health({"livez": (PING,)}, Log(VirtualClock(), stream=io.StringIO()), choice)
    health.answer("/livez", verbose=False, exclude=())

    found = parse(health.slis())

    assert found.keys() == {"kubernetes_healthchecks_total"}
    assert found["kubernetes_healthchecks_total"].value("unexpected", "livez", "success") == 1


def test_a_manifest_says_the_same_as_the_flag(tmp_path: Path) -> None:
    file = tmp_path / "lists.yaml"
    file.write_text('"m,a": "1,2"\n"m,b": ""\n"n,code": 200\n')

    found = read_choice(manifest=str(file))

    assert found == read_choice(allowed={"m,a": "1,2", "m,b": "", "n,code": "200"})
    assert found.allowed["n"]["code"] == {"200"}


def test_an_empty_manifest_lists_nothing(tmp_path: Path) -> None:
    file = tmp_path / "lists.yaml"
    file.write_text("# later\n")

    assert read_choice(manifest=str(file)) == MetricChoice()


def test_the_version_before_ours_may_be_named() -> None:
    assert read_choice(show_hidden="1.35") == MetricChoice()


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        pytest.param(
            {"show_hidden": "1.20"},
            'metrics.showHiddenMetricsForVersion: Invalid value: "1.20": must be omitted or have '
            "the value '1.35'; only the previous minor version is allowed",
            id="not-the-previous-version",
        ),
        pytest.param(
            {"disabled": ["fine", "a-b"]},
            'metrics.disabledMetrics: Invalid value: ["fine","a-b"]: must be fully qualified '
            'metric names matching "^[a-zA-Z_:][a-zA-Z0-9_:]*$", got "a-b"',
            id="no-name-of-a-metric",
        ),
        pytest.param(
            {"allowed": {"a": "b"}},
            f'metrics.allowListMapping: Invalid value: {{"a":"b"}}: {FORMAT}',
            id="no-label",
        ),
        pytest.param(
            {"manifest": "/nowhere/lists"},
            'metrics.allowListMappingManifest: Invalid value: "/nowhere/lists": '
            "failed to read allow list manifest: No such file or directory",
            id="no-manifest",
        ),
        pytest.param(
            {"allowed": {"a,b": "c"}, "manifest": "/dev/null"},
            'metrics: Invalid value: {"allowListMapping":{"a,b":"c"},'
            '"allowListMappingManifest":"/dev/null"}: '
            "cannot specify both allowListMapping and allowListMappingManifest",
            id="both",
        ),
    ],
)
def test_what_is_wrong_is_said_in_upstreams_words(flags: dict[str, Any], problem: str) -> None:
    with pytest.raises(InputError) as caught:
        read_choice(**flags)

    assert caught.value.problem == problem


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("- a\n", "failed to parse allow list manifest: it maps no names to texts"),
        ("a,b: [c]\n", "failed to parse allow list manifest: it maps no names to texts"),
        ("a: [\n", "failed to parse allow list manifest: "),
        ("a: b\n", WRONG_KEY),
    ],
)
def test_a_wrong_manifest(tmp_path: Path, text: str, problem: str) -> None:
    file = tmp_path / "lists.yaml"
    file.write_text(text)

    with pytest.raises(InputError) as caught:
        read_choice(manifest=str(file))

    where = f'{MANIFEST}: Invalid value: "{file}": '
    assert caught.value.problem.startswith(where + problem)


def test_all_that_is_wrong_is_said_at_once() -> None:
    with pytest.raises(InputError) as caught:
        read_choice(show_hidden="x", disabled=["-"])

    assert caught.value.problem.startswith("[metrics.showHiddenMetricsForVersion: ")
    assert ", metrics.disabledMetrics: " in caught.value.problem


def test_the_families_are_counted_by_level() -> None:
    served = Served()
    metrics = Metrics(Random(0))
    describe_build(metrics.families, served.surface.gates)

    found = parse(metrics.text(served.machine))

    levels = [read.level for read in found.values()]
    registered = found["registered_metrics_total"]
    for level in ("STABLE", "BETA", "ALPHA"):
        assert registered.value(level, "") == levels.count(level)
