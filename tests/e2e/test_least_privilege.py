"""Every right of deploy/ is needed: without it the start is refused, or what fails is named."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.harness.api import Api, in_parallel
from tests.e2e.harness.cluster import SCRAPER, Cluster
from tests.e2e.harness.kinds import only_on_kubernetes
from tests.e2e.harness.objects import COLLECTIONS, path_of
from tests.e2e.harness.processes import eventually
from tests.e2e.harness.rights import manifest, may
from tests.e2e.harness.scheduler import QUICK_ELECTION, Scheduler

Data = dict[str, Any]

NAMESPACE = "kube-system"
ACCOUNTS = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts"
RBAC = "rbac.authorization.k8s.io"
OF_THE_SECURE_PORT = ("tokenreviews", "subjectaccessreviews")
OF_GROUPS = ("podgroups", "podgroups/status")
"""Asked for where a gate is on; tests/runtime/test_preflight.py."""


@dataclass(frozen=True)
class Right:
    role: str
    """`ClusterRole` or `Role`."""
    group: str
    resource: str
    verb: str
    name: str = ""

    def rule(self) -> Data:
        rule = {"apiGroups": [self.group], "resources": [self.resource], "verbs": [self.verb]}
        return {**rule, "resourceNames": [self.name]} if self.name else rule

    def __str__(self) -> str:
        group = f".{self.group}" if self.group else ""
        name = f" {NAMESPACE}/{self.name}" if self.name else ""
        return f"{self.verb} {self.resource}{group}{name}"


def _rights() -> list[Right]:
    return [
        Right(role["kind"], group, resource, verb, name)
        for role in manifest()
        for rule in role.get("rules", ())
        for group in rule.get("apiGroups", ())  # A viewer's role has none: it is about pages.
        for resource in rule["resources"]
        for verb in rule["verbs"]
        for name in rule.get("resourceNames", [""])
    ]


RIGHTS = _rights()


class Accounts:
    """Service accounts that lack one right each."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.api: Api = cluster.api()
        self._made: list[str] = []

    def without(self, missing: Right) -> str:
        """The name of one."""
        name = f"without-{len(self._made)}"
        self._made.append(name)
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}
        self.api.post(ACCOUNTS, account)
        for kind in ("ClusterRole", "Role"):
            rules = [it.rule() for it in RIGHTS if it.role == kind and it != missing]
            role = {"metadata": {"name": f"e2e-{name}"}, "rules": rules}
            self.api.post(COLLECTIONS[kind], {"apiVersion": f"{RBAC}/v1", "kind": kind, **role})
            self.api.post(COLLECTIONS[f"{kind}Binding"], _binding(kind, name))
        return name

    def wait_until_in_force(self) -> None:
        """Roles reach the authorizer in the order they were made in."""
        user = f"system:serviceaccount:{NAMESPACE}:{self._made[-1]}"
        lease = {"verb": "create", "group": "coordination.k8s.io", "resource": "leases"}
        nodes = {"verb": "list", "resource": "nodes"}
        for wanted in (nodes, {**lease, "namespace": NAMESPACE}):
            spec = {"user": user, "resourceAttributes": wanted}
            eventually(f"{user} may {wanted}", lambda spec=spec: may(self.api, spec))

    def token(self, name: str) -> str:
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        token: str = self.api.post(f"{ACCOUNTS}/{name}/token", body)["status"]["token"]
        return token

    def remove(self) -> None:
        for name in self._made:
            self.api.delete(f"{ACCOUNTS}/{name}")
            for kind in ("ClusterRoleBinding", "RoleBinding", "ClusterRole", "Role"):
                self.api.delete(path_of(kind, f"e2e-{name}"))


def _binding(kind: str, account: str) -> Data:
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": f"{kind}Binding",
        "metadata": {"name": f"e2e-{account}"},
        "roleRef": {"apiGroup": RBAC, "kind": kind, "name": f"e2e-{account}"},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": NAMESPACE}],
    }


@pytest.fixture
def accounts(cluster: Cluster) -> Iterator[Accounts]:
    made = Accounts(cluster)
    yield made
    made.remove()


@pytest.fixture
def scheduler_of(accounts: Accounts, tmp_path: Path) -> Iterator[Callable[[str], Scheduler]]:
    started: list[Scheduler] = []

    def make(account: str) -> Scheduler:
        accounts.cluster.tokens[account] = accounts.token(account)
        made = Scheduler(
            accounts.cluster, tmp_path, name=account, user=account, leaderElection=QUICK_ELECTION
        )
        started.append(made)
        return made.start(wait=False)

    yield make
    for scheduler in started:
        scheduler.stop()


@only_on_kubernetes
def test_without_a_right_the_start_is_refused_and_the_right_is_named(
    cluster: Cluster, accounts: Accounts, scheduler_of: Callable[[str], Scheduler]
) -> None:
    rights = [it for it in RIGHTS if it.resource not in (*OF_THE_SECURE_PORT, *OF_GROUPS)]
    names = {it: accounts.without(it) for it in rights}
    accounts.wait_until_in_force()

    def refusal(right: Right) -> tuple[int, str]:
        process = scheduler_of(names[right]).process
        code = process.wait(60.0)
        text = process.text()
        return code, text[text.rindex("error: ") :].splitlines()[0]

    found = dict(zip(rights, in_parallel(refusal, rights, threads=3), strict=True))
    start = f"error: rights are missing at {cluster.url}:"
    assert found == {right: (3, f"{start} {right}") for right in rights}


@only_on_kubernetes
@pytest.mark.parametrize("resource", OF_THE_SECURE_PORT)
def test_without_reviews_the_secure_port_lets_nobody_in_and_says_why(
    cluster: Cluster,
    accounts: Accounts,
    scheduler_of: Callable[[str], Scheduler],
    resource: str,
) -> None:
    [right] = [it for it in RIGHTS if it.resource == resource]
    name = accounts.without(right)
    accounts.wait_until_in_force()
    scheduler = scheduler_of(name)
    scheduler.wait_until_ready()

    code, _ = scheduler.endpoint(cluster.tokens[SCRAPER]).send("GET", "/metrics")
    assert code == (401 if resource == "tokenreviews" else 500)
    assert f"{resource}.{right.group} is forbidden" in scheduler.process.text()
