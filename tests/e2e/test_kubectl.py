"""The real kubectl drives `stowplan up`, as a person at a terminal would.

One cluster for all of it, a namespace for each test.  What is claimed is what kubectl prints and
how it exits, nothing that only Stowplan knows.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.build_control_plane import cache_folder
from tests.e2e.harness.cluster import STOWPLAN
from tests.e2e.harness.processes import Process, eventually

CALL_TIMEOUT_S = 60.0
NODES = ("node-1", "node-2", "node-3", "node-4")

_numbers = count(1)


def find_kubectl() -> str | None:
    folders = (os.environ.get("KUBEBUILDER_ASSETS"), cache_folder(os.environ))
    for folder in filter(None, folders):
        program = Path(folder) / "kubectl"
        if program.exists():
            return str(program)
    return shutil.which("kubectl")


class Kubectl:
    """Runs kubectl in one namespace; a command that fails is an error unless it is expected."""

    def __init__(self, program: str, kubeconfig: Path, namespace: str = "default") -> None:
        self._program = program
        self._kubeconfig = kubeconfig
        self.namespace = namespace

    def run(self, *arguments: str, manifest: Any = None) -> subprocess.CompletedProcess[str]:
        text = manifest if isinstance(manifest, str | None) else json.dumps(manifest)
        home = str(self._kubeconfig.parent)
        return subprocess.run(
            [self._program, "--namespace", self.namespace, *arguments],
            input=text,
            capture_output=True,
            text=True,
            timeout=CALL_TIMEOUT_S,
            # Nothing of the user's: neither their clusters nor their discovery cache.
            env={**os.environ, "KUBECONFIG": str(self._kubeconfig), "HOME": home},
            check=False,
        )

    def __call__(self, *arguments: str, manifest: Any = None) -> str:
        __tracebackhide__ = True
        done = self.run(*arguments, manifest=manifest)
        if done.returncode != 0:
            pytest.fail(f"kubectl {' '.join(arguments)}: {done.stderr}")
        return done.stdout.strip()

    def refused(self, *arguments: str, manifest: Any = None) -> str:
        """What it complains about."""
        done = self.run(*arguments, manifest=manifest)
        assert done.returncode == 1, f"{done.returncode}: {done.stdout}"
        return done.stderr.strip()

    def json(self, *arguments: str) -> Any:
        return json.loads(self(*arguments, "-o", "json"))

    def nodes_of_pods(self) -> list[str]:
        found = self("get", "pods", "-o", "jsonpath={.items[*].spec.nodeName}")
        return found.split()


@pytest.fixture(scope="module")
def admin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubectl]:
    """A cluster of four nodes, and a kubectl that knows it."""
    program = find_kubectl()
    if program is None:
        pytest.skip("no kubectl: not in KUBEBUILDER_ASSETS, not built by `make e2e`, not in PATH")
    folder = tmp_path_factory.mktemp("up")
    kubeconfig = folder / "kubeconfig"
    flags = ["--port", "0", "--nodes", str(len(NODES)), "--write-kubeconfig", kubeconfig]
    server = Process("stowplan up", [STOWPLAN, "up", *flags], folder / "up.log", {})
    try:
        eventually("there is a kubeconfig", kubeconfig.exists, must_live=server)
        kubectl = Kubectl(program, kubeconfig)
        eventually("it is ready", lambda: kubectl.run("get", "--raw", "/readyz").returncode == 0)
        yield kubectl
    finally:
        server.stop()
    # Clients that hang on, such as a watch, must not keep it from ending well.
    assert server.exit_code == 0, server.tail()
    assert " E" not in server.text(), server.tail()


@pytest.fixture
def kubectl(admin: Kubectl) -> Iterator[Kubectl]:
    """In a namespace of its own."""
    namespace = f"test-{next(_numbers)}"
    admin("create", "namespace", namespace)
    yield Kubectl(admin._program, admin._kubeconfig, namespace)
    admin("delete", "namespace", namespace)
    admin("uncordon", *NODES)


def deployment(replicas: int = 3, image: str = "web:1", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "labels": {"app": "web"}},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "main", "image": image}], **spec},
            },
        },
    }


def pod(name: str, **spec: Any) -> dict[str, Any]:
    container = {"name": "main", "image": "web:1"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {"containers": [container], **spec},
    }


# -- what is there ------------------------------------------------------------------------


def test_nodes(admin: Kubectl) -> None:
    lines = admin("get", "nodes").splitlines()

    assert lines[0].split() == ["NAME", "STATUS", "ROLES", "AGE", "VERSION"]
    assert [line.split()[:2] for line in lines[1:]] == [[name, "Ready"] for name in NODES]


def test_wide_tables(admin: Kubectl) -> None:
    title, *_ = admin("get", "nodes", "-o", "wide").splitlines()

    assert "INTERNAL-IP" in title
    assert "CONTAINER-RUNTIME" in title


def test_api_resources(admin: Kubectl) -> None:
    listed = admin("api-resources", "--no-headers")
    names = {line.split()[0] for line in listed.splitlines()}

    assert {"pods", "nodes", "deployments", "statefulsets", "jobs", "daemonsets"} <= names
    assert {"poddisruptionbudgets", "priorityclasses", "leases", "csinodes"} <= names


def test_explain(admin: Kubectl) -> None:
    text = admin("explain", "deployment.spec.template.spec.topologySpreadConstraints")

    assert "maxSkew\t<integer>" in text
    assert "labelSelector\t<LabelSelector>" in text


def test_who_am_i_and_what_may_i(admin: Kubectl) -> None:
    assert "system:admin" in admin("auth", "whoami")
    assert admin("auth", "can-i", "delete", "nodes") == "yes"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("get", "pod", "nope"), 'Error from server (NotFound): pods "nope" not found'),
        (("get", "nopes"), 'error: the server doesn\'t have a resource type "nopes"'),
        (
            ("get", "pods", "--field-selector", "spec.nope=1"),
            "Error from server (BadRequest): Unable to find",
        ),
        (
            ("create", "namespace", "default"),
            'Error from server (AlreadyExists): namespaces "default" already exists',
        ),
        (
            ("get", "--raw", "/nope"),
            "Error from server (NotFound): the server could not find the requested resource",
        ),
    ],
)
def test_complaints(admin: Kubectl, arguments: tuple[str, ...], complaint: str) -> None:
    assert admin.refused(*arguments).startswith(complaint)


def test_an_object_that_breaks_a_rule(kubectl: Kubectl) -> None:
    complaint = kubectl.refused("create", "-f", "-", manifest=pod("Bad_Name"))

    assert complaint.startswith('The Pod "Bad_Name" is invalid: metadata.name: Invalid value')


def test_a_misspelled_field(kubectl: Kubectl) -> None:
    complaint = kubectl.refused("create", "-f", "-", manifest=pod("a", nodeNaem="x"))

    assert 'strict decoding error: unknown field "spec.nodeNaem"' in complaint


# -- workloads ----------------------------------------------------------------------------


def test_create_scale_and_delete(kubectl: Kubectl) -> None:
    created = kubectl("create", "deployment", "web", "--image", "web:1", "--replicas", "2")
    assert created == "deployment.apps/web created"
    rolled_out = kubectl("rollout", "status", "deployment/web", "--timeout=30s")
    assert rolled_out.endswith('deployment "web" successfully rolled out')

    kubectl("scale", "deployment/web", "--replicas", "5")
    kubectl("wait", "deployment/web", "--for=jsonpath={.status.readyReplicas}=5", "--timeout=30s")
    row = kubectl("get", "deployment", "web", "--no-headers").split()
    assert row[:4] == ["web", "5/5", "5", "5"]
    assert len(kubectl.nodes_of_pods()) == 5

    kubectl("delete", "deployment", "web")
    kubectl("wait", "pods", "--all", "--for=delete", "--timeout=30s")
    assert kubectl("get", "all", "-o", "name") == ""


def test_apply_changes_only_what_changed(kubectl: Kubectl) -> None:
    assert kubectl("apply", "-f", "-", manifest=deployment(2)) == "deployment.apps/web created"
    assert kubectl("apply", "-f", "-", manifest=deployment(2)) == "deployment.apps/web unchanged"
    kubectl("annotate", "deployment", "web", "by=hand")
    configured = kubectl("apply", "-f", "-", manifest=deployment(3, image="web:2"))

    found = kubectl.json("get", "deployment", "web")
    assert configured == "deployment.apps/web configured"
    assert found["spec"]["replicas"] == 3
    assert found["spec"]["template"]["spec"]["containers"][0]["image"] == "web:2"
    assert found["metadata"]["annotations"]["by"] == "hand"


def test_apply_on_the_server(kubectl: Kubectl) -> None:
    def apply(manager: str, *flags: str) -> tuple[str, ...]:
        return ("apply", "--server-side", "--field-manager", manager, *flags, "-f", "-")

    mine, yours = deployment(2), deployment(4)
    assert kubectl(*apply("me"), manifest=mine) == "deployment.apps/web serverside-applied"
    complaint = kubectl.refused(*apply("you"), manifest=yours)
    assert 'conflict with "me": .spec.replicas' in complaint
    kubectl(*apply("you", "--force-conflicts"), manifest=yours)

    assert kubectl("get", "deployment", "web", "-o", "jsonpath={.spec.replicas}") == "4"


def test_a_new_version_rolls_out_and_back(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", manifest=deployment(4))
    kubectl("rollout", "status", "deployment/web", "--timeout=30s")
    kubectl("set", "image", "deployment/web", "main=web:2")
    kubectl("rollout", "status", "deployment/web", "--timeout=30s")
    images = kubectl("get", "pods", "-o", "jsonpath={.items[*].spec.containers[0].image}")
    assert images.split() == ["web:2"] * 4

    kubectl("rollout", "undo", "deployment/web")
    kubectl("rollout", "status", "deployment/web", "--timeout=30s")
    history = kubectl("rollout", "history", "deployment/web").splitlines()
    assert [line.split()[0] for line in history[2:]] == ["2", "3"]
    assert kubectl("get", "deployment", "web", "-o", "jsonpath={..image}") == "web:1"


def test_a_job_runs_to_its_end(kubectl: Kubectl) -> None:
    kubectl("create", "job", "once", "--image", "job:1")
    kubectl("wait", "job/once", "--for=condition=Complete", "--timeout=30s")

    assert kubectl("get", "job", "once", "--no-headers").split()[1:3] == ["Complete", "1/1"]
    assert kubectl("get", "pods", "--no-headers").split()[2] == "Completed"


def test_a_stateful_set_counts_its_pods(kubectl: Kubectl) -> None:
    manifest = deployment(3)
    manifest |= {"kind": "StatefulSet", "spec": {**manifest["spec"], "serviceName": "web"}}
    kubectl("apply", "-f", "-", manifest=manifest)
    kubectl("rollout", "status", "statefulset/web", "--timeout=30s")
    assert kubectl("get", "pods", "-o", "name").split() == [f"pod/web-{n}" for n in range(3)]

    kubectl("scale", "statefulset/web", "--replicas", "1")
    kubectl("wait", "pod/web-1", "pod/web-2", "--for=delete", "--timeout=30s")
    assert kubectl("get", "pods", "-o", "name") == "pod/web-0"


def test_a_daemon_set_has_a_pod_on_every_node(kubectl: Kubectl) -> None:
    manifest = deployment()
    del manifest["spec"]["replicas"]
    kubectl("apply", "-f", "-", manifest={**manifest, "kind": "DaemonSet"})
    kubectl("rollout", "status", "daemonset/web", "--timeout=30s")

    assert sorted(kubectl.nodes_of_pods()) == sorted(NODES)


def test_what_helm_waits_for_comes_true(kubectl: Kubectl) -> None:
    """The conditions of `helm install --wait --wait-for-jobs`, one by one."""
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    web, each = deployment(2, volumes=[volume]), deployment()
    store = {**deployment(2), "kind": "StatefulSet", "metadata": {"name": "store"}}
    templates = [{"metadata": {"name": "disk"}, "spec": claim}]
    store["spec"] |= {"serviceName": "store", "volumeClaimTemplates": templates}
    for manifest, app in ((store, "store"), (each, "each")):
        manifest["metadata"] = {"name": app}
        manifest["spec"]["selector"]["matchLabels"] = {"app": app}
        manifest["spec"]["template"]["metadata"]["labels"] = {"app": app}
    del each["spec"]["replicas"]
    service = {"selector": {"app": "web"}, "ports": [{"port": 80}]}
    job = {"template": {"spec": {**pod("x")["spec"], "restartPolicy": "Never"}}}
    release = [
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": service},
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"},
         "spec": claim},
        web, store, {**each, "kind": "DaemonSet"},
        {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "init"}, "spec": job},
    ]  # fmt: skip
    kubectl("apply", "-f", "-", manifest={"apiVersion": "v1", "kind": "List", "items": release})

    def state(thing: str) -> dict[str, Any]:
        found: dict[str, Any] = kubectl.json("get", thing)
        return found

    def is_ready() -> bool:
        web, store, each = map(state, ("deployment/web", "statefulset/store", "daemonset/each"))
        wanted = each["status"].get("desiredNumberScheduled")
        return (
            state("service/web")["spec"]["clusterIP"] != ""
            and state("pvc/data")["status"]["phase"] == "Bound"
            and web["status"].get("observedGeneration") == web["metadata"]["generation"]
            and web["status"].get("readyReplicas") == 2
            and any(
                it["type"] == "Available" and it["status"] == "True"
                for it in web["status"].get("conditions", ())
            )
            and store["status"].get("readyReplicas") == store["status"].get("updatedReplicas") == 2
            and store["status"]["currentRevision"] == store["status"]["updateRevision"]
            and each["status"].get("updatedNumberScheduled") == wanted == len(NODES)
            and each["status"].get("numberReady") == wanted
            and state("job/init")["status"].get("succeeded") == 1
        )

    eventually("all that helm waits for", is_ready, timeout_s=60.0, poll_s=0.5)
    claims = kubectl.json("get", "pvc")["items"]
    assert {it["status"]["phase"] for it in claims} == {"Bound"}
    assert len(claims) == 3


def test_cascades(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", manifest=deployment(2))
    kubectl("rollout", "status", "deployment/web", "--timeout=30s")
    kubectl("delete", "deployment", "web", "--cascade=orphan")
    assert len(kubectl("get", "replicasets,pods", "-o", "name").split()) == 3

    kubectl("delete", "replicasets", "--all", "--cascade=foreground")
    assert kubectl("get", "replicasets,pods", "-o", "name") == ""


# -- one pod ------------------------------------------------------------------------------


def test_describe_shows_events(kubectl: Kubectl) -> None:
    kubectl("run", "one", "--image", "web:1")
    kubectl("wait", "pod/one", "--for=condition=Ready", "--timeout=30s")
    text = kubectl("describe", "pod", "one")

    node = kubectl("get", "pod", "one", "-o", "jsonpath={.spec.nodeName}")
    assert f"Successfully assigned {kubectl.namespace}/one to {node}" in text
    assert "default-scheduler" in text.partition("Events:")[2]
    assert "State:          Running" in text


def test_describe_says_why_a_pod_is_pending(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", manifest=pod("picky", nodeSelector={"disk": "none"}))
    kubectl(
        *("wait", "pod/picky", "--timeout=30s"),
        '--for=jsonpath={.status.conditions[?(@.type=="PodScheduled")].reason}=Unschedulable',
    )

    def events() -> str:
        return kubectl("describe", "pod", "picky").partition("Events:")[2]

    eventually("there is an event", lambda: "FailedScheduling" in events())
    assert "0/4 nodes are available: 4 node(s) didn't match Pod's node affinity" in events()


def test_a_pending_pod_is_scheduled_when_a_label_comes(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", manifest=pod("picky", nodeSelector={"disk": "late"}))
    kubectl("label", "node", "node-2", "disk=late")
    kubectl("wait", "pod/picky", "--for=condition=Ready", "--timeout=30s")
    kubectl("label", "node", "node-2", "disk-")

    assert kubectl.nodes_of_pods() == ["node-2"]


@pytest.mark.parametrize(
    ("type_", "patch"),
    [
        ("strategic", '{"metadata":{"labels":{"tier":"front"}}}'),
        ("merge", '{"metadata":{"labels":{"tier":"front"}}}'),
        ("json", '[{"op":"add","path":"/metadata/labels/tier","value":"front"}]'),
    ],
)
def test_patches(kubectl: Kubectl, type_: str, patch: str) -> None:
    kubectl("apply", "-f", "-", manifest=pod("one"))
    kubectl("patch", "pod", "one", "--type", type_, "-p", patch)

    found = kubectl.json("get", "pod", "one")["metadata"]["labels"]
    assert found["tier"] == "front"
    assert found["app"] == "one"
    assert kubectl("get", "pods", "-l", "tier=front,app in (one)", "-o", "name") == "pod/one"
    assert kubectl("get", "pods", "-l", "!tier", "-o", "name") == ""


def test_a_json_patch_that_does_not_apply(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", manifest=pod("one"))
    gone = '[{"op":"remove","path":"/spec/nope"}]'
    complaint = kubectl.refused("patch", "pod", "one", "--type", "json", "-p", gone)
    assert complaint.startswith("The request is invalid: the server rejected our request")


def test_an_editor(kubectl: Kubectl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nsed -i "s/replicas: 1/replicas: 2/" "$1"\n')
    editor.chmod(0o755)
    monkeypatch.setenv("KUBE_EDITOR", str(editor))
    kubectl("apply", "-f", "-", manifest=deployment(1))

    assert kubectl("edit", "deployment", "web") == "deployment.apps/web edited"
    assert kubectl("get", "deployment", "web", "-o", "jsonpath={.spec.replicas}") == "2"


def test_a_dry_run_on_the_server_writes_nothing(kubectl: Kubectl) -> None:
    shown = kubectl("create", "-f", "-", "--dry-run=server", "-o", "yaml", manifest=pod("one"))

    assert "schedulerName: default-scheduler" in shown
    assert "resourceVersion" not in shown
    assert kubectl("get", "pods", "-o", "name") == ""


def test_diff(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", manifest=deployment(1))
    done = kubectl.run("diff", "-f", "-", manifest=deployment(1, image="web:2"))

    changed = [line for line in done.stdout.splitlines() if line[:1] in "+-"][2:]
    assert done.returncode == 1
    assert [line.split()[1:] for line in changed if "image" in line] == [
        ["-", "image:", "web:1"],
        ["-", "image:", "web:2"],
    ]
    assert not [line for line in changed if "resourceVersion" in line]


def test_delete_at_once(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", manifest=pod("one", schedulerName="nobody"))
    gone = kubectl("delete", "pod", "one", "--force", "--grace-period=0")

    assert gone == f'pod "one" force deleted{_from(kubectl, gone)}'
    assert kubectl("get", "pods", "-o", "name") == ""


def _from(kubectl: Kubectl, text: str) -> str:
    """Newer kubectls name the namespace too."""
    return f" from {kubectl.namespace} namespace" if "namespace" in text else ""


def test_a_watch_shows_what_happens(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", manifest=pod("one"))
    kubectl("wait", "pod/one", "--for=condition=Ready", "--timeout=30s")
    watching = subprocess.Popen(
        [kubectl._program, "-n", kubectl.namespace, "get", "pods", "-w", "-o", "name"],
        env={**os.environ, "KUBECONFIG": str(kubectl._kubeconfig)},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert watching.stdout is not None
        assert watching.stdout.readline() == "pod/one\n"
        kubectl("apply", "-f", "-", manifest=pod("two"))
        assert watching.stdout.readline() == "pod/two\n"
    finally:
        watching.kill()
        watching.communicate()


def test_pages(kubectl: Kubectl) -> None:
    for name in ("a", "b", "c"):
        kubectl("apply", "-f", "-", manifest=pod(name))

    listed = kubectl("get", "pods", "--chunk-size=1", "-o", "name").split()
    assert listed == ["pod/a", "pod/b", "pod/c"]
    everywhere = kubectl("get", "pods", "-A", "--chunk-size=2", "--no-headers")
    assert sum(kubectl.namespace in line for line in everywhere.splitlines()) == 3


def test_pods_are_selected_by_node(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", manifest=deployment(4))
    kubectl("rollout", "status", "deployment/web", "--timeout=30s")
    node = kubectl.nodes_of_pods()[0]
    found = kubectl.json("get", "pods", "--field-selector", f"spec.nodeName={node}")

    expected = kubectl.nodes_of_pods().count(node)
    assert [it["spec"]["nodeName"] for it in found["items"]] == [node] * expected


def test_there_are_no_logs(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", manifest=pod("one"))

    assert "the nodes of this cluster are simulated" in kubectl.refused("logs", "one")
    assert "the nodes of this cluster are simulated" in kubectl.refused("exec", "one", "--", "ls")


# -- nodes --------------------------------------------------------------------------------


def test_cordoned_nodes_get_no_pods(kubectl: Kubectl) -> None:
    for name in NODES[:3]:
        assert kubectl("cordon", name) == f"node/{name} cordoned"
    listed = kubectl("get", "nodes", "--no-headers").splitlines()
    assert [line.split()[1] for line in listed] == ["Ready,SchedulingDisabled"] * 3 + ["Ready"]
    kubectl("apply", "-f", "-", manifest=deployment(4))
    kubectl("rollout", "status", "deployment/web", "--timeout=30s")
    assert kubectl.nodes_of_pods() == [NODES[3]] * 4

    kubectl("uncordon", *NODES[:3])
    kubectl("scale", "deployment/web", "--replicas", "8")
    kubectl("wait", "deployment/web", "--for=jsonpath={.status.readyReplicas}=8", "--timeout=30s")
    assert set(kubectl.nodes_of_pods()) > {NODES[3]}


def test_a_taint_keeps_pods_away_and_drives_them_out(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", manifest=deployment(4))
    kubectl("rollout", "status", "deployment/web", "--timeout=30s")
    assert "node-1" in kubectl.nodes_of_pods()
    kubectl("taint", "node", "node-1", "broken=yes:NoExecute")
    try:
        eventually("its pods have gone", lambda: "node-1" not in kubectl.nodes_of_pods())
        kubectl("rollout", "status", "deployment/web", "--timeout=30s")
        assert "broken=yes:NoExecute" in kubectl("describe", "node", "node-1")
        assert "node-1" not in kubectl.nodes_of_pods()
    finally:
        assert kubectl("taint", "node", "node-1", "broken-") == "node/node-1 untainted"


def test_a_drain_respects_the_disruption_budget(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", manifest=deployment(4))
    kubectl("rollout", "status", "deployment/web", "--timeout=30s")
    kubectl("create", "pdb", "web", "--selector", "app=web", "--min-available", "4")
    path = "--for=jsonpath={.status.currentHealthy}=4"
    kubectl("wait", "pdb/web", path, "--timeout=30s")
    node = kubectl.nodes_of_pods()[0]
    complaint = kubectl.refused("drain", node, "--timeout=1s")
    assert "Cannot evict pod as it would violate the pod's disruption budget" in complaint
    assert node in kubectl.nodes_of_pods()

    kubectl("delete", "pdb", "web")
    drained = kubectl("drain", node, "--timeout=30s")
    assert drained.endswith(f"node/{node} drained")
    assert node not in kubectl.nodes_of_pods()


def test_describe_a_node(kubectl: Kubectl) -> None:
    requests = {"requests": {"cpu": "1", "memory": "1Gi"}}
    busy = pod("busy", nodeName="node-2")
    busy["spec"]["containers"][0]["resources"] = requests
    kubectl("apply", "-f", "-", manifest=busy)
    text = kubectl("describe", "node", "node-2")

    row = next(line for line in text.splitlines() if line.split()[1:2] == ["busy"])
    assert row.split()[:4] == [kubectl.namespace, "busy", "1", "(12%)"]
