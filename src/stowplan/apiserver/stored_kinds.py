"""Every kind that the embedded cluster stores: those that scheduling reads, and plain ones.

A plain kind is kept whole and handed back, and nothing in this process looks into it: clients
(kubectl, a stock kube-scheduler, deployment tools) expect to find it.  Adding one is adding a line.
`ledger` makes a table for each; `http.resources` says how each is served.
"""

from __future__ import annotations

from stowplan.objects.base import KubeObject
from stowplan.objects.kinds import KINDS, POD_GROUP, WORKLOAD, Kind
from stowplan.objects.pod_groups import GENERIC_WORKLOAD


class ConfigMap(KubeObject, frozen=True):
    pass


class Secret(KubeObject, frozen=True):
    pass


class ServiceAccount(KubeObject, frozen=True):
    pass


class Endpoints(KubeObject, frozen=True):
    pass


class EndpointSlice(KubeObject, frozen=True):
    pass


class ControllerRevision(KubeObject, frozen=True):
    pass


class Role(KubeObject, frozen=True):
    pass


class ClusterRole(KubeObject, frozen=True):
    pass


class RoleBinding(KubeObject, frozen=True):
    pass


class ClusterRoleBinding(KubeObject, frozen=True):
    pass


class CronJob(KubeObject, frozen=True):
    pass


class Ingress(KubeObject, frozen=True):
    pass


class IngressClass(KubeObject, frozen=True):
    pass


class NetworkPolicy(KubeObject, frozen=True):
    pass


class ResourceQuota(KubeObject, frozen=True):
    pass


class HorizontalPodAutoscaler(KubeObject, frozen=True):
    pass


def _plain(api_version: str, struct: type[KubeObject], plural: str, *, namespaced: bool) -> Kind:
    group, _, version = api_version.rpartition("/")
    return Kind(group, version, struct.__name__, plural, namespaced, struct)


_RBAC = "rbac.authorization.k8s.io/v1"
_NETWORKING = "networking.k8s.io/v1"

PLAIN_KINDS: tuple[Kind, ...] = (
    _plain("v1", ConfigMap, "configmaps", namespaced=True),
    _plain("v1", Secret, "secrets", namespaced=True),
    _plain("v1", ServiceAccount, "serviceaccounts", namespaced=True),
    _plain("v1", Endpoints, "endpoints", namespaced=True),
    _plain("discovery.k8s.io/v1", EndpointSlice, "endpointslices", namespaced=True),
    _plain("v1", ResourceQuota, "resourcequotas", namespaced=True),
    _plain("batch/v1", CronJob, "cronjobs", namespaced=True),
    _plain("autoscaling/v2", HorizontalPodAutoscaler, "horizontalpodautoscalers", namespaced=True),
    _plain(_NETWORKING, Ingress, "ingresses", namespaced=True),
    _plain(_NETWORKING, IngressClass, "ingressclasses", namespaced=False),
    _plain(_NETWORKING, NetworkPolicy, "networkpolicies", namespaced=True),
    _plain("apps/v1", ControllerRevision, "controllerrevisions", namespaced=True),
    _plain(_RBAC, Role, "roles", namespaced=True),
    _plain(_RBAC, ClusterRole, "clusterroles", namespaced=False),
    _plain(_RBAC, RoleBinding, "rolebindings", namespaced=True),
    _plain(_RBAC, ClusterRoleBinding, "clusterrolebindings", namespaced=False),
)

GATED_KINDS: dict[Kind, str] = {POD_GROUP: GENERIC_WORKLOAD, WORKLOAD: GENERIC_WORKLOAD}
"""With the feature gate without which a kind is not served."""

STORED_KINDS: tuple[Kind, ...] = (*KINDS, *PLAIN_KINDS, *GATED_KINDS)
STORED_KIND_BY_NAME: dict[tuple[str, str], Kind] = {
    (kind.api_version, kind.name): kind for kind in STORED_KINDS
}
