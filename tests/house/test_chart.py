"""deploy/chart: rendered with its own values it is deploy/, and the values do what they say.

Rendered by helm where there is one, and always by the few lines below, which know the part of its
language that the chart keeps to.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml

from stowplan._version import __version__
from tests.house.test_deploy import DEPLOY, by_name, documents, manifests

CHART = DEPLOY / "chart"
NAMESPACE = "kube-system"

Data = dict[str, Any]
Render = Callable[[Data], list[Data]]

_ACTION = re.compile(r"(?P<left>\s*)\{\{(?P<trim>-?) (?P<text>.*?) \}\}")


# -- two ways to render ---------------------------------------------------------------------


def merged(base: Data, over: Data) -> Data:
    both = dict(base)
    for key, value in over.items():
        inside = isinstance(value, dict) and isinstance(base.get(key), dict)
        both[key] = merged(base[key], value) if inside else value
    return both


def evaluate(text: str, scope: Data) -> Any:
    """A path such as `.Values.image.tag`, and what it is piped into."""
    head, *pipes = (part.strip() for part in text.split("|"))
    function, _, path = head.rpartition(" ")
    value: Any = scope
    for name in path.removeprefix(".").split("."):
        value = value[name]
    if function == "toYaml":
        value = yaml.safe_dump(value).rstrip("\n")
    else:
        assert not function, f"{function} is not known here"
    for pipe in pipes:
        name, argument = pipe.split()
        if name == "default":
            value = value or evaluate(argument, scope)
        else:
            assert name == "nindent", f"{name} is not known here"
            lines = str(value).splitlines()
            value = "".join(f"\n{' ' * int(argument)}{line}" for line in lines)
    return value


def expand(template: str, scope: Data) -> Iterator[str]:
    """The pieces of the text; `if`, `else` and `end` do not nest in this chart."""
    shown, at = True, 0
    for action in _ACTION.finditer(template):
        before = template[at : action.start()] + ("" if action["trim"] else action["left"])
        if shown:
            yield before
        at = action.end()
        text = action["text"]
        if text.startswith("if "):
            shown = bool(evaluate(text.removeprefix("if "), scope))
        elif text in ("else", "end"):
            shown = not shown if text == "else" else True
        elif shown:
            yield str(evaluate(text, scope))
    yield template[at:]


def render_here(values: Data) -> list[Data]:
    (chart,), (defaults,) = documents(CHART / "Chart.yaml"), documents(CHART / "values.yaml")
    scope = {
        "Values": merged(defaults, values),
        "Release": {"Namespace": NAMESPACE},
        "Chart": {"AppVersion": chart["appVersion"]},
    }
    found = []
    for path in sorted((CHART / "templates").iterdir()):
        found += yaml.safe_load_all("".join(expand(path.read_text(), scope)))
    return [item for item in found if item]


def render_with_helm(values: Data) -> list[Data]:
    helm = shutil.which("helm")
    if helm is None:
        pytest.skip("there is no helm")
    done = subprocess.run(
        [helm, "template", "stowplan", CHART, "--namespace", NAMESPACE, "--values", "-"],
        input=yaml.safe_dump(values),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return [item for item in yaml.safe_load_all(done.stdout) if item]


@pytest.fixture(params=[render_here, render_with_helm], ids=["here", "helm"])
def render(request: pytest.FixtureRequest) -> Render:
    found: Render = request.param
    return found


# -- what comes of it -----------------------------------------------------------------------


def test_the_chart_is_deploy(render: Render) -> None:
    assert by_name(render({})) == by_name(manifests())


def test_with_a_monitor_it_is_all_of_deploy(render: Render) -> None:
    files = set(DEPLOY.glob("*.yaml")) - {DEPLOY / "kustomization.yaml", DEPLOY / "stowplan.yaml"}
    everything = [item for path in files for item in documents(path)]

    assert by_name(render({"serviceMonitor": {"enabled": True}})) == by_name(everything)


def test_the_values_do_what_they_say(render: Render) -> None:
    found = by_name(
        render(
            {
                "image": {"repository": "example.com/stowplan", "tag": "2"},
                "replicas": 3,
                "schedulerName": "other",
                "leaseName": "kube-scheduler",
                "verbosity": 4,
                "resources": {"limits": {"memory": "4Gi"}},
                "networkPolicy": {"enabled": False},
            }
        )
    )

    spec = found["Deployment", NAMESPACE, "stowplan"]["spec"]
    (container,) = spec["template"]["spec"]["containers"]
    config = yaml.safe_load(found["ConfigMap", NAMESPACE, "stowplan"]["data"]["config.yaml"])
    assert (spec["replicas"], container["image"]) == (3, "example.com/stowplan:2")
    assert "-v=4" in container["args"]
    assert container["resources"]["limits"] == {"memory": "4Gi"}
    assert config["profiles"] == [{"schedulerName": "other"}]
    assert config["leaderElection"]["resourceName"] == "kube-scheduler"
    assert ["kube-scheduler"] in [
        rule.get("resourceNames")
        for rule in found["Role", NAMESPACE, "stowplan-leader-election"]["rules"]
    ]
    assert ("NetworkPolicy", NAMESPACE, "stowplan") not in found


def test_a_configuration_of_ones_own(render: Render) -> None:
    text = "kind: KubeSchedulerConfiguration\nprofiles:\n- schedulerName: mine\n"

    found = by_name(render({"config": text}))

    shown = found["ConfigMap", NAMESPACE, "stowplan"]["data"]["config.yaml"]
    assert yaml.safe_load(shown) == yaml.safe_load(text)


def test_the_chart_is_of_this_version() -> None:
    (chart,) = documents(CHART / "Chart.yaml")

    assert (chart["version"], chart["appVersion"]) == (__version__, __version__)


def test_every_value_is_used() -> None:
    templates = "".join(path.read_text() for path in (CHART / "templates").iterdir())
    (values,) = documents(CHART / "values.yaml")

    for name in values:
        assert f".Values.{name}" in templates
