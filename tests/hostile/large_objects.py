"""Large objects: one for every list and map that a pod, a node or a claim has.

A shape takes the size `n` and a number `k`, by which two that are otherwise alike differ, and says
what becomes of a plain pod, of the plain nodes, and which objects there are besides.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from stowplan.objects.base import KubeObject
from stowplan.objects.storage import (
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)

Json = dict[str, Any]

HOST = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"

NODE_COUNT = 20


@dataclass
class Large:
    spec: Json = field(default_factory=dict)
    """Laid over the spec of a plain pod."""
    metadata: Json = field(default_factory=dict)
    status: Json = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    node: Json = field(default_factory=dict)
    """For `builders.node`, of each node."""
    objects: list[KubeObject] = field(default_factory=list)


Shape = Callable[[int, int], Large]


def _container(n: int, **more: Any) -> Json:
    return {"name": f"c{n}", "image": f"image-{n}", **more}


def _main(**more: Any) -> list[Json]:
    return [{"name": "main", "image": "app", **more}]


def _expression(key: str, operator: str, *values: str) -> Json:
    return {"key": key, "operator": operator, **({"values": list(values)} if values else {})}


def _matching(*expressions: Json) -> Json:
    return {"matchExpressions": list(expressions)}


# -- node affinity ----------------------------------------------------------------------------


def _node_terms(terms: list[Json]) -> Large:
    return Large({"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}})


def _node_preferences(terms: list[Json]) -> Large:
    preferred = [{"weight": 1 + n % 100, "preference": term} for n, term in enumerate(terms)]
    return Large({"affinity": {"nodeAffinity": {PREFERRED: preferred}}})


NODE_TERMS: dict[str, Callable[[int, int], list[Json]]] = {
    "of hosts": lambda n, k: [
        _matching(_expression(HOST, "NotIn", f"host-{k}-{i}")) for i in range(n)
    ],
    "of unknown hosts": lambda n, k: [
        _matching(_expression(HOST, "In", f"host-{k}-{i}")) for i in range(n)
    ],
    "of distinct keys": lambda n, k: [
        _matching(_expression(f"key-{i}", "Exists")) for i in range(n)
    ],
    "without distinct keys": lambda n, k: [
        _matching(_expression(f"key-{i}", "DoesNotExist"), _expression(f"k{k}", "Exists"))
        for i in range(n)
    ],
    "comparing": lambda n, k: [_matching(_expression("rank", "Gt", str(i + k))) for i in range(n)],
    "by name": lambda n, k: [
        {"matchFields": [_expression("metadata.name", "In", f"node-{k}-{i}")]} for i in range(n)
    ],
    "not by name": lambda n, k: [
        {"matchFields": [_expression("metadata.name", "NotIn", f"node-{k}-{i}")]} for i in range(n)
    ],
    "one of many expressions": lambda n, k: [
        _matching(*(_expression(HOST, "NotIn", f"host-{k}-{i}") for i in range(n)))
    ],
    "one of many keys": lambda n, k: [
        _matching(*(_expression(f"key-{k}-{i}", "DoesNotExist") for i in range(n)))
    ],
    "one of many values": lambda n, k: [
        _matching(_expression(HOST, "NotIn", *(f"host-{k}-{i}" for i in range(n))))
    ],
    "one that allows many values": lambda n, k: [
        _matching(_expression(ZONE, "In", "zone-0", *(f"zone-{k}-{i}" for i in range(n))))
    ],
    "ten expressions each": lambda n, k: [
        _matching(
            *(_expression(f"key-{e}-{i}", "NotIn", f"v-{k}") for e in range(9)),
            _expression(ZONE, "In", f"zone-{i}-{k}"),
        )
        for i in range(n // 10)
    ],
}

# -- pod affinity -----------------------------------------------------------------------------

POD_TERMS: dict[str, Callable[[int, int], list[Json]]] = {
    "that match nobody": lambda n, k: [
        {"topologyKey": HOST, "labelSelector": _matching(_expression("app", "In", f"no-{k}-{i}"))}
        for i in range(n)
    ],
    "that match everybody": lambda n, k: [
        {
            "topologyKey": HOST,
            "labelSelector": _matching(_expression("app", "NotIn", f"no-{k}-{i}")),
            "namespaceSelector": {},
        }
        for i in range(n)
    ],
    "of distinct keys": lambda n, k: [
        {
            "topologyKey": f"key-{i}",
            "labelSelector": _matching(_expression("app", "NotIn", f"no-{k}-{i}")),
            "namespaceSelector": {},
        }
        for i in range(n)
    ],
    "all the same": lambda n, k: [
        {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "x", "k": str(k)}}}
        for i in range(n)
    ],
    "one of many namespaces": lambda n, k: [
        {
            "topologyKey": HOST,
            "labelSelector": _matching(_expression("app", "In", f"no-{k}")),
            "namespaces": [f"ns-{i}" for i in range(n)],
        }
    ],
    "of namespaces each": lambda n, k: [
        {
            "topologyKey": HOST,
            "labelSelector": _matching(_expression("app", "In", f"no-{k}")),
            "namespaces": [f"ns-{i}"],
        }
        for i in range(n)
    ],
    "one of many namespaces and values": lambda n, k: [
        {
            "topologyKey": HOST,
            "labelSelector": _matching(
                _expression("app", "In", *(f"no-{k}-{i}" for i in range(n // 2)))
            ),
            "namespaces": [f"ns-{i}" for i in range(n // 2)],
        }
    ],
    "of namespace selectors": lambda n, k: [
        {
            "topologyKey": HOST,
            "labelSelector": _matching(_expression("app", "In", f"no-{k}")),
            "namespaceSelector": _matching(_expression("team", "In", f"team-{i}")),
        }
        for i in range(n)
    ],
    "one of many requirements": lambda n, k: [
        {
            "topologyKey": HOST,
            "labelSelector": _matching(
                *(_expression(f"label-{k}-{i}", "DoesNotExist") for i in range(n)),
                _expression("app", "In", "nobody"),
            ),
        }
    ],
    "one of many match labels": lambda n, k: [
        {
            "topologyKey": HOST,
            "labelSelector": {"matchLabels": {f"label-{k}-{i}": "v" for i in range(n)}},
        }
    ],
    "one of many match label keys": lambda n, k: [
        {
            "topologyKey": HOST,
            "labelSelector": _matching(_expression("app", "In", f"nobody-{k}")),
            "matchLabelKeys": [f"label-{i}" for i in range(n)],
        }
    ],
}


def _pod_terms(stanza: str, terms: list[Json]) -> Large:
    return Large({"affinity": {stanza: {REQUIRED: terms}}})


def _pod_preferences(stanza: str, terms: list[Json]) -> Large:
    preferred = [{"weight": 1 + n % 100, "podAffinityTerm": term} for n, term in enumerate(terms)]
    return Large({"affinity": {stanza: {PREFERRED: preferred}}})


# -- topology spread --------------------------------------------------------------------------


def _constraint(i: int, k: int, **more: Any) -> Json:
    return {
        "maxSkew": 1 + i,
        "topologyKey": HOST,
        "labelSelector": {"matchLabels": {"app": "x"}},
        **more,
    }


CONSTRAINTS: dict[str, Callable[[int, int], list[Json]]] = {
    "of the same key": lambda n, k: [_constraint(i, k) for i in range(n)],
    "of distinct keys": lambda n, k: [_constraint(i, k, topologyKey=f"key-{i}") for i in range(n)],
    "of distinct selectors": lambda n, k: [
        _constraint(i, k, labelSelector=_matching(_expression("app", "NotIn", f"no-{k}-{i}")))
        for i in range(n)
    ],
    "that honor taints": lambda n, k: [
        _constraint(i, k, nodeTaintsPolicy="Honor", topologyKey=ZONE) for i in range(n)
    ],
    "one of many match label keys": lambda n, k: [
        _constraint(0, k, matchLabelKeys=[f"label-{k}-{i}" for i in range(n)])
    ],
    "one of many values": lambda n, k: [
        _constraint(
            0, k, labelSelector=_matching(_expression("app", "In", "x", *_names(f"v-{k}", n)))
        )
    ],
}


def _names(prefix: str, n: int) -> list[str]:
    return [f"{prefix}-{i}" for i in range(n)]


def _spread(action: str, constraints: list[Json]) -> Large:
    given = [{**constraint, "whenUnsatisfiable": action} for constraint in constraints]
    return Large({"topologySpreadConstraints": given})


# -- volumes ----------------------------------------------------------------------------------


def _volumes(n: int, source: Callable[[int], Json]) -> Large:
    return Large({"volumes": [{"name": f"v{i}", **source(i)} for i in range(n)]})


def _claims(n: int, k: int, *, bound: bool, affinity: bool = False) -> Large:
    large = _volumes(n, lambda i: {"persistentVolumeClaim": {"claimName": f"claim-{k}-{i}"}})
    for i in range(n):
        claim = {
            "metadata": {"name": f"claim-{k}-{i}", "namespace": "default", "uid": f"uid-c-{k}-{i}"},
            "spec": {
                "accessModes": ["ReadWriteMany"],
                "storageClassName": "late",
                "resources": {"requests": {"storage": "1Gi"}},
                **({"volumeName": f"volume-{k}-{i}"} if bound else {}),
            },
            "status": {"phase": "Bound" if bound else "Pending"},
        }
        if bound:
            claim["metadata"]["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}  # type: ignore[index]
            large.objects.append(_volume(k, i, affinity=affinity))
        large.objects.append(msgspec.convert(claim, PersistentVolumeClaim))
    large.objects.append(_storage_class())
    return large


def _volume(k: int, i: int, *, affinity: bool = False, terms: list[Json] | None = None) -> Any:
    volume = {
        "metadata": {"name": f"volume-{k}-{i}", "uid": f"uid-v-{k}-{i}"},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteMany"],
            "storageClassName": "late",
            "csi": {"driver": "csi.example.com", "volumeHandle": f"handle-{k}-{i}"},
            "claimRef": {
                "namespace": "default",
                "name": f"claim-{k}-{i}",
                "uid": f"uid-c-{k}-{i}",
            },
        },
        "status": {"phase": "Bound"},
    }
    if affinity:
        terms = [_matching(_expression(ZONE, "In", "zone-0", "zone-1"))]
    if terms is not None:
        volume["spec"]["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}  # type: ignore[index]
    return msgspec.convert(volume, PersistentVolume)


def _storage_class(**more: Any) -> StorageClass:
    return msgspec.convert(
        {
            "metadata": {"name": "late", "uid": "uid-late"},
            "provisioner": "csi.example.com",
            "volumeBindingMode": "WaitForFirstConsumer",
            **more,
        },
        StorageClass,
    )


def _one_claim(k: int, *objects: KubeObject, bound: bool) -> Large:
    large = _claims(1, k, bound=bound)
    large.objects = [*(o for o in large.objects if type(o) not in map(type, objects)), *objects]
    return large


def _csi_nodes(n: int, k: int) -> Large:
    large = _claims(1, k, bound=True)
    drivers = [
        {"name": f"driver-{i}", "nodeID": "x", "topologyKeys": [f"key-{i}"]} for i in range(n)
    ]
    drivers.append({"name": "csi.example.com", "nodeID": "x", "allocatable": {"count": 30}})
    large.objects += [
        msgspec.convert({"metadata": {"name": f"n{i}"}, "spec": {"drivers": drivers}}, CSINode)
        for i in range(NODE_COUNT)
    ]
    return large


# -- all of them ------------------------------------------------------------------------------

PODS: dict[str, Shape] = {
    "labels": lambda n, k: Large(labels={f"label-{i}": str(k) for i in range(n)}),
    "annotations": lambda n, k: Large(
        metadata={"annotations": {f"note-{i}": str(k) for i in range(n)}}
    ),
    "owner references": lambda n, k: Large(
        metadata={
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "Thing", "name": f"o-{i}-{k}", "uid": f"o-{i}"}
                for i in range(n)
            ]
        }
    ),
    "finalizers": lambda n, k: Large(metadata={"finalizers": _names(f"example.com/f{k}", n)}),
    "containers": lambda n, k: Large(
        {"containers": [_container(i, resources={"requests": {"cpu": "1n"}}) for i in range(n)]}
    ),
    "init containers": lambda n, k: Large(
        {"initContainers": [_container(i, restartPolicy="Always") for i in range(n)]}
    ),
    "host ports": lambda n, k: Large(
        {
            "containers": _main(
                ports=[{"containerPort": i + 1, "hostPort": i + 1 + 2000 * k} for i in range(n)]
            )
        }
    ),
    "host addresses": lambda n, k: Large(
        {
            "containers": _main(
                ports=[
                    {
                        "containerPort": 80,
                        "hostPort": 80 + k,
                        "hostIP": f"10.0.{i // 250}.{i % 250}",
                    }
                    for i in range(n)
                ]
            )
        }
    ),
    "ports": lambda n, k: Large({"containers": _main(ports=[{"containerPort": 1}] * n)}),
    "requests": lambda n, k: Large(
        {
            "containers": _main(
                resources={"requests": {f"example.com/r-{k}-{i}": "0" for i in range(n)}}
            )
        }
    ),
    "requests that nodes have": lambda n, k: Large(
        {
            "containers": _main(
                resources={"requests": {f"example.com/r-{i}": "1" for i in range(n)}}
            )
        },
        node={"allocatable": {f"example.com/r-{i}": "1000" for i in range(n)}},
    ),
    "overhead": lambda n, k: Large({"overhead": {f"example.com/r-{k}-{i}": "0" for i in range(n)}}),
    "tolerations": lambda n, k: Large(
        {
            "tolerations": [
                {"key": f"taint-{i}", "operator": "Equal", "value": str(k), "effect": "NoSchedule"}
                for i in range(n)
            ]
        }
    ),
    "tolerations of taints": lambda n, k: Large(
        {"tolerations": [{"key": f"taint-{i}", "operator": "Exists"} for i in range(n)]},
        node={
            "taints": [
                {"key": f"taint-{i}", "value": "v", "effect": "PreferNoSchedule"} for i in range(30)
            ]
        },
    ),
    "node selector": lambda n, k: Large({"nodeSelector": {f"key-{i}": str(k) for i in range(n)}}),
    "gates": lambda n, k: Large(
        {"schedulingGates": [{"name": f"example.com/gate-{i}"} for i in range(n)]}
    ),
    "claims": lambda n, k: _claims(n, k, bound=True),
    "claims of volumes in zones": lambda n, k: _claims(n, k, bound=True, affinity=True),
    "unbound claims": lambda n, k: _claims(n, k, bound=False),
    "missing claims": lambda n, k: _volumes(
        n, lambda i: {"persistentVolumeClaim": {"claimName": f"missing-{k}-{i}"}}
    ),
    "config maps": lambda n, k: _volumes(n, lambda i: {"configMap": {"name": f"map-{i}"}}),
    "gce disks": lambda n, k: _volumes(
        n, lambda i: {"gcePersistentDisk": {"pdName": f"d-{k}-{i}"}}
    ),
    "aws disks": lambda n, k: _volumes(
        n, lambda i: {"awsElasticBlockStore": {"volumeID": f"d-{k}-{i}"}}
    ),
    "rbd images": lambda n, k: _volumes(
        n, lambda i: {"rbd": {"monitors": [f"m-{i}", "m"], "pool": "p", "image": f"i-{k}-{i}"}}
    ),
    "rbd monitors": lambda n, k: _volumes(
        1, lambda i: {"rbd": {"monitors": _names("m", n), "pool": "p", "image": f"i-{k}"}}
    ),
    "iscsi": lambda n, k: _volumes(
        n, lambda i: {"iscsi": {"targetPortal": "t", "iqn": f"iqn-{k}-{i}", "lun": i}}
    ),
    "inline csi": lambda n, k: _volumes(n, lambda i: {"csi": {"driver": f"driver-{i}"}}),
    "image volumes": lambda n, k: _volumes(n, lambda i: {"image": {"reference": f"image-{i}"}}),
    "conditions": lambda n, k: Large(
        status={"conditions": [{"type": f"t-{i}", "status": "True"} for i in range(n)]}
    ),
    **{
        f"node terms {name}": (lambda n, k, terms=terms: _node_terms(terms(n, k)))
        for name, terms in NODE_TERMS.items()
    },
    **{
        f"node preferences {name}": (lambda n, k, terms=terms: _node_preferences(terms(n, k)))
        for name, terms in NODE_TERMS.items()
        if "by name" not in name
    },
    **{
        f"{stanza} {name}": (
            lambda n, k, stanza=stanza, terms=terms: _pod_terms(stanza, terms(n, k))
        )
        for stanza in ("podAffinity", "podAntiAffinity")
        for name, terms in POD_TERMS.items()
    },
    **{
        f"preferred {stanza} {name}": (
            lambda n, k, stanza=stanza, terms=terms: _pod_preferences(stanza, terms(n, k))
        )
        for stanza in ("podAffinity", "podAntiAffinity")
        for name, terms in POD_TERMS.items()
    },
    **{
        f"{action} {name}": (lambda n, k, action=action, given=given: _spread(action, given(n, k)))
        for action in ("DoNotSchedule", "ScheduleAnyway")
        for name, given in CONSTRAINTS.items()
    },
    "spread over keys that nodes have": lambda n, k: Large(
        _spread("DoNotSchedule", CONSTRAINTS["of distinct keys"](n, k)).spec,
        node={"labels": {f"key-{i}": "v" for i in range(n)}},
    ),
    "anti-affinity over keys that nodes have": lambda n, k: Large(
        _pod_terms("podAntiAffinity", POD_TERMS["of distinct keys"](n, k)).spec,
        node={"labels": {f"key-{i}": "v" for i in range(n)}},
    ),
    "preferences over keys that nodes have": lambda n, k: Large(
        _pod_preferences("podAffinity", POD_TERMS["of distinct keys"](n, k)).spec,
        node={"labels": {f"key-{i}": "v" for i in range(n)}},
    ),
}

NODES: dict[str, Shape] = {
    "node labels": lambda n, k: Large(node={"labels": {f"key-{i}": f"v-{k}" for i in range(n)}}),
    "node annotations": lambda n, k: Large(
        node={"metadata": {"annotations": {f"note-{i}": f"v-{k}" for i in range(n)}}}
    ),
    "taints": lambda n, k: Large(
        node={
            "taints": [
                {"key": f"taint-{i}", "value": str(k), "effect": "PreferNoSchedule"}
                for i in range(n)
            ]
        }
    ),
    "taints that turn down": lambda n, k: Large(
        {"tolerations": [{"key": f"taint-{i}", "operator": "Exists"} for i in range(20)]},
        node={
            "taints": [
                {"key": f"taint-{i % 20}", "value": str(i), "effect": "NoSchedule"}
                for i in range(n)
            ]
        },
    ),
    "images": lambda n, k: Large(
        node={
            "status": {
                "allocatable": {"cpu": "4", "memory": "32Gi", "pods": 110},
                "images": [
                    {"names": [f"image-{i}", f"image@{i}"], "sizeBytes": 10**8} for i in range(n)
                ],
            }
        }
    ),
    "names of an image": lambda n, k: Large(
        node={
            "status": {
                "allocatable": {"cpu": "4", "memory": "32Gi", "pods": 110},
                "images": [{"names": _names("app", n), "sizeBytes": 10**8}],
            }
        }
    ),
    "allocatable": lambda n, k: Large(
        node={"allocatable": {f"example.com/r-{i}": "1" for i in range(n)}}
    ),
    "features": lambda n, k: Large(
        node={
            "status": {
                "allocatable": {"cpu": "4", "memory": "32Gi", "pods": 110},
                "declaredFeatures": _names("F", n),
            }
        }
    ),
    "drivers": _csi_nodes,
    "terms of a volume": lambda n, k: _one_claim(
        k,
        _volume(k, 0, terms=[_matching(_expression(ZONE, "In", f"z-{i}")) for i in range(n)]),
        bound=True,
    ),
    "expressions of a volume": lambda n, k: _one_claim(
        k,
        _volume(
            k, 0, terms=[_matching(*(_expression(f"key-{i}", "DoesNotExist") for i in range(n)))]
        ),
        bound=True,
    ),
    "zones of a volume": lambda n, k: _one_claim(
        k,
        _volume(k, 0, terms=[_matching(_expression(ZONE, "In", "zone-0", *_names("z", n)))]),
        bound=True,
    ),
    "allowed topologies": lambda n, k: _one_claim(
        k,
        _storage_class(
            allowedTopologies=[
                {"matchLabelExpressions": [{"key": ZONE, "values": [f"z-{i}"]}]} for i in range(n)
            ]
        ),
        bound=False,
    ),
    "values of an allowed topology": lambda n, k: _one_claim(
        k,
        _storage_class(
            allowedTopologies=[
                {"matchLabelExpressions": [{"key": ZONE, "values": ["zone-0", *_names("z", n)]}]}
            ]
        ),
        bound=False,
    ),
}
