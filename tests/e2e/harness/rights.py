"""The rights a scheduler is given: those of deploy/, read from there, and no others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from tests.e2e.harness.api import Api, Refused
from tests.e2e.harness.cluster import READER, SCRAPER, USERS, Cluster
from tests.e2e.harness.objects import COLLECTIONS
from tests.e2e.harness.processes import eventually

Data = dict[str, Any]

MANIFEST = Path(__file__).parents[3] / "deploy" / "stowplan.yaml"
KINDS = ("ClusterRole", "Role", "ClusterRoleBinding", "RoleBinding")


def manifest() -> list[Data]:
    """The roles and bindings of deploy/."""
    documents = yaml.safe_load_all(MANIFEST.read_text())
    return [it for it in documents if it and it["kind"] in KINDS]


def grant(cluster: Cluster) -> None:
    """The scheduler what deploy/ says; the scraper the endpoints of the secure port."""
    if not cluster.has_roles:
        return
    api = cluster.api()
    for it in [*manifest(), *scraper_rights()]:
        api.post(_collection(it), it)
    path = {"path": "/debug/queue", "verb": "get"}
    spec = {"user": USERS[SCRAPER][0], "nonResourceAttributes": path}
    eventually("the roles are in force", lambda: may(api, spec))


def grant_reader(cluster: Cluster) -> None:
    """The reader what deploy/reader.yaml says, once."""
    if not cluster.has_roles:
        return
    api, group = cluster.api(), "rbac.authorization.k8s.io"
    [role] = yaml.safe_load_all((MANIFEST.parent / "reader.yaml").read_text())
    binding = {
        "apiVersion": f"{group}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "e2e-reader"},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": role["metadata"]["name"]},
        "subjects": [{"apiGroup": group, "kind": "User", "name": USERS[READER][0]}],
    }
    for it in (role, binding):
        try:
            api.post(COLLECTIONS[it["kind"]], it)
        except Refused as refusal:
            if refusal.code != 409:
                raise
    slices = {"verb": "watch", "group": "resource.k8s.io", "resource": "resourceslices"}
    spec = {"user": USERS[READER][0], "resourceAttributes": slices}
    eventually("the reader's role is in force", lambda: may(api, spec))


def may(api: Api, spec: Data) -> bool:
    """`spec` is that of a SubjectAccessReview."""
    group = "authorization.k8s.io"
    body = {"apiVersion": f"{group}/v1", "kind": "SubjectAccessReview", "spec": spec}
    answer = api.post(f"/apis/{group}/v1/subjectaccessreviews", body)
    return bool(answer["status"]["allowed"])


def scraper_rights() -> list[Data]:
    """The role for viewers, of deploy/."""
    group = "rbac.authorization.k8s.io"
    return [
        {
            "apiVersion": f"{group}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "e2e-scraper"},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "stowplan-viewer"},
            "subjects": [{"apiGroup": group, "kind": "User", "name": USERS[SCRAPER][0]}],
        },
    ]


def _collection(it: Data) -> str:
    namespace = it["metadata"].get("namespace", "kube-system")
    return COLLECTIONS[it["kind"]].replace("kube-system", namespace)


__all__ = ["READER", "grant", "grant_reader", "manifest", "may", "scraper_rights"]
