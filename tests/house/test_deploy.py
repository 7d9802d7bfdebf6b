"""deploy/: what is applied to a cluster fits the code, and says the same in each of its forms."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from fnmatch import fnmatch
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml

from stowplan._version import __version__
from stowplan.config import SchedulerConfig, load_config
from stowplan.core.profiles import check_config
from stowplan.objects.pod_groups import GROUP_VERSIONS
from stowplan.objects.quantity import parse_quantity
from stowplan.plugins import IN_TREE
from stowplan.runtime.driver import watched
from stowplan.runtime.endpoints import Endpoints
from stowplan.runtime.exposition import Kind
from stowplan.runtime.metric_table import SPECS
from stowplan.runtime.preflight import needed_rights
from stowplan.runtime.surface import ServingOptions
from tests.runtime.surfaces import Served

DEPLOY = Path(__file__).parents[2] / "deploy"
NAMESPACE = "kube-system"

Data = dict[str, Any]
Right = tuple[str, str, str, str]
"""(verb, group, resource, name)"""


def documents(path: Path) -> list[Data]:
    return [found for found in yaml.safe_load_all(path.read_text()) if found]


def by_name(found: Iterable[Data]) -> dict[tuple[str, str, str], Data]:
    return {
        (item["kind"], item["metadata"].get("namespace", ""), item["metadata"]["name"]): item
        for item in found
    }


def manifests() -> list[Data]:
    (kustomization,) = documents(DEPLOY / "kustomization.yaml")
    return [item for name in kustomization["resources"] for item in documents(DEPLOY / name)]


def the(kind: str, name: str = "") -> Data:
    (found,) = [
        item
        for item in manifests()
        if item["kind"] == kind and item["metadata"]["name"] == (name or _name(kind))
    ]
    return found


def _name(kind: str) -> str:
    return "stowplan-leader-election" if kind in ("Role", "RoleBinding") else "stowplan"


def config() -> SchedulerConfig:
    return load_config(yaml.safe_load(the("ConfigMap")["data"]["config.yaml"]))


# -- the manifests --------------------------------------------------------------------------


def test_kustomize_and_the_one_file_are_the_same() -> None:
    (kustomization,) = documents(DEPLOY / "kustomization.yaml")
    assert set(kustomization) == {"apiVersion", "kind", "resources"}, "no changes on the way"

    one_file = by_name(documents(DEPLOY / "stowplan.yaml"))

    assert one_file == by_name(manifests()), "kubectl kustomize deploy > deploy/stowplan.yaml"


def test_two_replicas_of_which_one_stays() -> None:
    deployment, budget = the("Deployment"), the("PodDisruptionBudget")

    assert deployment["spec"]["replicas"] == 2
    assert budget["spec"]["minAvailable"] == 1
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    for selector in (deployment["spec"]["selector"], budget["spec"]["selector"]):
        assert selector["matchLabels"].items() <= labels.items()


def test_the_process_has_no_rights_on_its_machine() -> None:
    spec = the("Deployment")["spec"]["template"]["spec"]
    (container,) = spec["containers"]

    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["runAsUser"] > 0
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert all(mount["readOnly"] for mount in container["volumeMounts"])


def test_probes_ask_paths_that_are_open() -> None:
    spec = the("Deployment")["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    options = ServingOptions()

    (port,) = container["ports"]
    assert port["containerPort"] == options.port
    for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
        asked = container[probe]["httpGet"]
        assert asked["path"] in options.auth.always_allowed
        assert (asked["port"], asked["scheme"]) == (port["name"], "HTTPS")


def test_the_configuration_loads_and_can_be_used() -> None:
    found = config()

    check_config(found, random=Random(0), registry=IN_TREE)
    assert [profile.scheduler_name for profile in found.profiles] == ["stowplan"]
    assert found.leader_election.leader_elect


def test_the_configuration_is_where_the_process_looks_for_it() -> None:
    spec = the("Deployment")["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    (volume,) = spec["volumes"]
    (mount,) = container["volumeMounts"]

    assert volume["configMap"]["name"] == the("ConfigMap")["metadata"]["name"]
    assert mount["name"] == volume["name"]
    (file,) = the("ConfigMap")["data"]
    assert f"--config={mount['mountPath']}/{file}" in container["args"]


def test_the_image_is_of_this_version() -> None:
    (container,) = the("Deployment")["spec"]["template"]["spec"]["containers"]

    assert container["image"] == f"stowplan:{__version__}"
    assert f"-t stowplan:{__version__} " in (DEPLOY / "Dockerfile").read_text()


def test_memory_has_a_limit_above_what_is_asked_for() -> None:
    (container,) = the("Deployment")["spec"]["template"]["spec"]["containers"]
    resources = container["resources"]

    asked, limit = (parse_quantity(resources[it]["memory"]) for it in ("requests", "limits"))
    assert asked < limit
    assert "cpu" not in resources["limits"], "a scheduler that is held back holds up everybody"


# -- what is around it ----------------------------------------------------------------------


def test_service_policy_and_monitor_mean_these_pods_and_this_port() -> None:
    template = the("Deployment")["spec"]["template"]
    labels = template["metadata"]["labels"]
    (port,) = template["spec"]["containers"][0]["ports"]
    service, policy = the("Service"), the("NetworkPolicy")
    (monitor,) = documents(DEPLOY / "service-monitor.yaml")

    assert service["spec"]["selector"].items() <= labels.items()
    assert [it["targetPort"] for it in service["spec"]["ports"]] == [port["name"]]
    assert policy["spec"]["podSelector"]["matchLabels"].items() <= labels.items()
    (rule,) = policy["spec"]["ingress"]
    assert [it["port"] for it in rule["ports"]] == [port["containerPort"]]
    selector = monitor["spec"]["selector"]["matchLabels"]
    assert selector.items() <= service["metadata"]["labels"].items()
    (endpoint,) = monitor["spec"]["endpoints"]
    assert endpoint["port"] == service["spec"]["ports"][0]["name"]
    assert endpoint["scheme"] == "https"


def test_a_viewer_sees_every_page_and_changes_nothing() -> None:
    (rule,) = the("ClusterRole", "stowplan-viewer")["rules"]
    allowed = rule["nonResourceURLs"]

    assert rule["verbs"] == ["get"]
    for path in Endpoints(Served().surface)._pages:
        assert any(fnmatch(path, pattern) for pattern in allowed), path


# -- rights ---------------------------------------------------------------------------------


def granted(kind: str) -> set[Right]:
    found = set()
    for rule in the(kind)["rules"]:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                for verb in rule["verbs"]:
                    for name in rule.get("resourceNames", [""]):
                        found.add((verb, group, resource, name))
    return found


def test_exactly_the_rights_that_are_needed() -> None:
    election = config().leader_election
    lease = (election.resource_namespace, election.resource_name)
    needed = needed_rights((kind for kind, _ in watched(GROUP_VERSIONS[0])), lease)

    def of(namespaced: bool) -> set[Right]:
        return {
            (
                right.verb,
                right.kind.group,
                "/".join(filter(None, (right.kind.plural, right.subresource))),
                right.name,
            )
            for right in needed
            if bool(right.namespace) is namespaced
        }

    others = {
        # To learn whether a binding arrived whose answer was lost.
        ("get", "", "pods", ""),
        # Of the secure port: who asks, and may they.
        ("create", "authentication.k8s.io", "tokenreviews", ""),
        ("create", "authorization.k8s.io", "subjectaccessreviews", ""),
    }
    assert granted("ClusterRole") == of(namespaced=False) | others
    assert granted("Role") == of(namespaced=True)
    assert the("Role")["metadata"]["namespace"] == election.resource_namespace


def test_nothing_is_granted_by_a_star() -> None:
    for kind in ("ClusterRole", "Role"):
        assert not any("*" in right for right in granted(kind))


def test_the_rights_are_those_of_the_account_that_runs() -> None:
    account = the("ServiceAccount")["metadata"]["name"]
    subject = {"kind": "ServiceAccount", "name": account, "namespace": NAMESPACE}

    assert the("Deployment")["spec"]["template"]["spec"]["serviceAccountName"] == account
    for kind in ("ClusterRole", "Role"):
        binding = the(f"{kind}Binding")
        assert binding["subjects"] == [subject]
        assert binding["roleRef"]["kind"] == kind
        assert binding["roleRef"]["name"] == the(kind)["metadata"]["name"]


# -- the image ------------------------------------------------------------------------------


def test_the_image_is_slim_pinned_and_not_root() -> None:
    lines = (DEPLOY / "Dockerfile").read_text().splitlines()
    users = [line.split()[1] for line in lines if line.startswith("USER ")]
    bases = [line.split()[1] for line in lines if line.startswith("FROM ")]

    # One base for both stages, which a digest can be given for.
    assert bases == ["${BASE}", "${BASE}"]
    assert "ARG BASE=python:3.11-slim" in lines
    assert users, "somebody has to run it"
    assert all(int(part) > 0 for user in users for part in user.split(":"))
    assert any("--require-hashes" in line for line in lines)
    run_as = the("Deployment")["spec"]["template"]["spec"]["securityContext"]
    assert users[-1] == f"{run_as['runAsUser']}:{run_as['runAsGroup']}"


def test_what_the_image_copies_is_let_through() -> None:
    allowed = (DEPLOY / "Dockerfile.dockerignore").read_text().split()
    for line in (DEPLOY / "Dockerfile").read_text().splitlines():
        if line.startswith("COPY ") and "--from" not in line:
            for source in line.split()[1:-1]:
                assert f"!{source}" in allowed, source
                assert (DEPLOY.parent / source).exists(), source


# -- the dashboard --------------------------------------------------------------------------

BY_NAME = {spec.name: spec for spec in SPECS}
OF_PROMETHEUS = {"job", "instance", "le"}
_METRIC = re.compile(r"\b[a-z]+_[a-z_]+\b(?=[{\[,)]|$)")


def expressions() -> Iterator[Any]:
    dashboard = json.loads((DEPLOY / "grafana-dashboard.json").read_text())
    for panel in dashboard["panels"]:
        for target in panel.get("targets", ()):
            yield pytest.param(target["expr"], id=f"{panel['title']} {target['refId']}")
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            yield pytest.param(variable["query"]["query"], id=variable["name"])


def family_of(name: str) -> Any:
    if name in BY_NAME:
        return BY_NAME[name]
    stem = re.sub(r"_(bucket|sum|count)$", "", name)
    assert stem in BY_NAME, f"there is no metric {name}"
    assert BY_NAME[stem].kind is Kind.HISTOGRAM, f"{stem} is no histogram"
    return BY_NAME[stem]


@pytest.mark.parametrize("expression", list(expressions()))
def test_a_panel_asks_only_for_what_there_is(expression: str) -> None:
    names = set(_METRIC.findall(expression)) - {"extension_point"}
    assert names, "a panel without a metric"

    known = set(OF_PROMETHEUS)
    for name in names:
        known |= set(family_of(name).labels)

    grouped = re.findall(r"by \(([^)]*)\)", expression)
    matched = re.findall(r"(\w+)=\"", expression)
    used = {label.strip() for labels in grouped for label in labels.split(",")} | set(matched)
    assert used <= known
    if "histogram_quantile" in expression:
        assert all(name.endswith("_bucket") for name in names)
        assert all("le" in labels.split(", ") for labels in grouped)


def test_panels_do_not_lie_on_each_other() -> None:
    dashboard = json.loads((DEPLOY / "grafana-dashboard.json").read_text())
    taken: set[tuple[int, int]] = set()
    ids = [panel["id"] for panel in dashboard["panels"]]

    assert len(ids) == len(set(ids))
    for panel in dashboard["panels"]:
        place = panel["gridPos"]
        cells = {
            (place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])
        }
        assert place["x"] + place["w"] <= 24
        assert not cells & taken, panel["title"]
        taken |= cells
