"""An object of every served kind, and the values that its fields are tried with.

`PLAIN` are objects that every server accepts; `TRIED` names fields and values for them, good and
bad ones: what each server makes of a value is what the comparison is about.  Fields are named by
their path; a number is an index of a list.
"""

from __future__ import annotations

from typing import Any

Data = dict[str, Any]
Path = tuple[str | int, ...]

CONTAINER = {"name": "c", "image": "i:1"}
POD_SPEC: Data = {"containers": [CONTAINER]}
_LABELS = {"app": "x"}
_TEMPLATE = {"metadata": {"labels": _LABELS}, "spec": POD_SPEC}
_WORKLOAD: Data = {"selector": {"matchLabels": _LABELS}, "template": _TEMPLATE}
_VOLUME = {
    "capacity": {"storage": "1Gi"},
    "accessModes": ["ReadWriteOnce"],
    "hostPath": {"path": "/x"},
}
_REQUEST = {"exactly": {"deviceClassName": "gpu"}, "name": "r"}
_SUBJECT = {"kind": "User", "name": "u", "apiGroup": "rbac.authorization.k8s.io"}
_RULE = {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}

PLAIN: dict[str, Data] = {
    "pods": {"metadata": {"labels": _LABELS}, "spec": POD_SPEC},
    "nodes": {"status": {"capacity": {"cpu": "4", "memory": "8Gi", "pods": "110"}}},
    "namespaces": {},
    "services": {"spec": {"selector": _LABELS, "ports": [{"port": 80}]}},
    "replicationcontrollers": {"spec": {"selector": _LABELS, "template": _TEMPLATE}},
    "persistentvolumes": {"spec": _VOLUME},
    "persistentvolumeclaims": {
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        }
    },
    "replicasets": {"spec": _WORKLOAD},
    "statefulsets": {"spec": {**_WORKLOAD, "serviceName": "s"}},
    "deployments": {"spec": _WORKLOAD},
    "daemonsets": {"spec": _WORKLOAD},
    "jobs": {"spec": {"template": {"spec": {**POD_SPEC, "restartPolicy": "Never"}}}},
    "storageclasses": {"provisioner": "example.com/p"},
    "csinodes": {"spec": {"drivers": []}},
    "csidrivers": {"spec": {}},
    "csistoragecapacities": {"storageClassName": "sc"},
    "volumeattachments": {
        "spec": {
            "attacher": "example.com",
            "nodeName": "n",
            "source": {"persistentVolumeName": "pv"},
        }
    },
    "poddisruptionbudgets": {"spec": {"selector": {"matchLabels": _LABELS}, "minAvailable": 1}},
    "priorityclasses": {"value": 10},
    "runtimeclasses": {"handler": "runc"},
    "leases": {"spec": {"holderIdentity": "h"}},
    "configmaps": {"data": {"k": "v"}},
    "secrets": {"stringData": {"k": "v"}},
    "serviceaccounts": {},
    "endpoints": {"subsets": [{"addresses": [{"ip": "10.1.2.3"}], "ports": [{"port": 80}]}]},
    "endpointslices": {"addressType": "IPv4", "endpoints": [{"addresses": ["10.1.2.3"]}]},
    "controllerrevisions": {"revision": 1, "data": {"a": 1}},
    "roles": {"rules": [_RULE]},
    "clusterroles": {"rules": [_RULE]},
    "rolebindings": {
        "subjects": [_SUBJECT],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
    },
    "clusterrolebindings": {
        "subjects": [_SUBJECT],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "r"},
    },
    "resourceclaims": {"spec": {"devices": {"requests": [_REQUEST]}}},
    "resourceclaimtemplates": {"spec": {"spec": {"devices": {"requests": [_REQUEST]}}}},
    "resourceslices": {
        "spec": {
            "driver": "example.com",
            "nodeName": "n",
            "pool": {"name": "n", "resourceSliceCount": 1},
            "devices": [{"name": "d"}],
        }
    },
    "deviceclasses": {"spec": {}},
    "events": {
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": "@namespace@"},
        "reason": "Why",
        "type": "Normal",
        "message": "m",
    },
    "cronjobs": {
        "spec": {
            "schedule": "* * * * *",
            "jobTemplate": {"spec": {"template": {"spec": {**POD_SPEC, "restartPolicy": "Never"}}}},
        }
    },
    "ingresses": {"spec": {"defaultBackend": {"service": {"name": "s", "port": {"number": 80}}}}},
    "ingressclasses": {"spec": {"controller": "example.com/c"}},
    "networkpolicies": {"spec": {"podSelector": {}}},
    "resourcequotas": {"spec": {"hard": {"configmaps": "500"}}},
    "limitranges": {"spec": {"limits": [{"type": "Container", "max": {"cpu": "64"}}]}},
    "horizontalpodautoscalers": {
        "spec": {
            "maxReplicas": 3,
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"},
        }
    },
}

QUANTITIES: tuple[Any, ...] = (
    "1", "100m", "0.1", "1000m", "1e3", "1E3", "0.5Gi", "1024Ki", "1.5", "+1", "1.50", "010",
    "2048Mi", "1k", "1000k", "0", "0.0", "1n", "0.1m", "0.5m", "12e-3", "1Ei", ".5", "5.", 2, 1.5,
    0, "-1", "abc", "", "1 ", " 1", "1Kib", "1ki", "1K", "1M", "1e", "--1", "1.2.3", True, {}, [1],
)  # fmt: skip
COUNTS: tuple[Any, ...] = (0, 1, 3, -1, 2**31 - 1, 2**31, "3", 1.5, True, None)
NAMES: tuple[Any, ...] = (
    "a", "a-b", "A", "a_b", "a.b", "", "-a", "a-", "x" * 63, "x" * 64, "x" * 253, "x" * 254, 7,
    ".", "..", "a/b", "a%b", "1", "a..b",
)  # fmt: skip
LABEL_MAPS: tuple[Any, ...] = (
    {}, {"a": "b"}, {"a": ""}, {"x.y/a": "b"}, {"": "b"}, {"a b": "c"}, {"a": "b c"}, {"/a": "b"},
    {"a": "x" * 64}, {"A.B/c": "d"}, {"a": None}, {"a": 1}, [], "a=b", {"a/b/c": "d"},
    {"a": "x" * 63}, {"x" * 63: "b"}, {"x" * 64: "b"}, {"y" * 253 + "/a": "b"},
    {"y" * 254 + "/a": "b"}, {"a/": "b"}, {"a.-/b": "c"}, {"a": "-b"}, {"-a": "b"}, {"a": "B_.c"},
)  # fmt: skip
SELECTORS: tuple[Any, ...] = (
    {},
    {"matchLabels": {"app": "x"}},
    {"matchLabels": {"bad key": "x"}},
    {"matchExpressions": [{"key": "app", "operator": "In", "values": ["x", "y"]}]},
    {"matchExpressions": [{"key": "app", "operator": "In"}]},
    {"matchExpressions": [{"key": "app", "operator": "Exists", "values": ["x"]}]},
    {"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]},
    {"matchExpressions": [{"key": "app", "operator": "Gt", "values": ["1"]}]},
    {"matchExpressions": [{"key": "", "operator": "Exists"}]},
    {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["bad value"]}]},
)

_METADATA: dict[Path, tuple[Any, ...]] = {
    ("metadata", "labels"): LABEL_MAPS,
    ("metadata", "annotations"): (
        *LABEL_MAPS,
        {"a": "x" * (2**18 - 1)},
        {"a": "x" * 2**18},
        {"a": "x" * 2**17, "b": "x" * (2**17 - 2)},
        {"a": "x" * 2**17, "b": "x" * (2**17 - 1)},
    ),
    ("metadata", "finalizers"): (["example.com/f"], ["f"], [""], ["a b/c"], ["kubernetes"], []),
    ("metadata", "ownerReferences"): (
        [{"apiVersion": "v1", "kind": "Pod", "name": "o", "uid": "u-1"}],
        [{"apiVersion": "v1", "kind": "Pod", "name": "o"}],
        [{"kind": "Pod", "name": "o", "uid": "u-1"}],
        [{"apiVersion": "v1", "kind": "Event", "name": "o", "uid": "u-1"}],
        [
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "name": f"o{n}",
                "uid": f"u-{n}",
                "controller": True,
            }
            for n in range(2)
        ],
    ),
    ("metadata", "namespace"): ("default", "other", ""),
    ("metadata", "uid"): ("11111111-2222-3333-4444-555555555555", ""),
    ("metadata", "resourceVersion"): ("1", "0", "abc", ""),
    ("metadata", "generation"): (0, 7, -1),
    ("metadata", "creationTimestamp"): ("2020-01-01T00:00:00Z", None, "yesterday"),
    ("metadata", "deletionTimestamp"): ("2020-01-01T00:00:00Z",),
    ("metadata", "deletionGracePeriodSeconds"): (5,),
    ("metadata", "generateName"): ("gen-", "Bad_", ""),
    ("metadata", "selfLink"): ("/x",),
    ("metadata", "managedFields"): ([], [{}]),
    ("metadata", "name"): NAMES,
}

_TERM = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "x"}}}
_POD_TERMS: tuple[Any, ...] = (
    [_TERM],
    [{"topologyKey": ""}],
    [{"labelSelector": {}}],
    [{**_TERM, "topologyKey": "bad key"}],
    *([{**_TERM, "labelSelector": selector}] for selector in SELECTORS),
    *([{**_TERM, "namespaceSelector": selector}] for selector in SELECTORS[:4]),
    [{**_TERM, "namespaces": ["a", "Bad_"]}],
    [{**_TERM, "matchLabelKeys": ["app"]}],
    [{**_TERM, "matchLabelKeys": ["tier"], "mismatchLabelKeys": ["tier"]}],
    [{"topologyKey": "zone", "matchLabelKeys": ["app"]}],
    [{**_TERM, "mismatchLabelKeys": ["bad key"]}],
)
_NODE_EXPRESSIONS: tuple[Any, ...] = (
    [{"key": "zone", "operator": "In", "values": ["a"]}],
    [{"key": "zone", "operator": "In"}],
    [{"key": "zone", "operator": "Exists", "values": ["a"]}],
    [{"key": "zone", "operator": "Gt", "values": ["1"]}],
    [{"key": "zone", "operator": "Gt", "values": ["x"]}],
    [{"key": "zone", "operator": "Lt", "values": ["1", "2"]}],
    [{"key": "bad key", "operator": "Exists"}],
    [{"key": "zone", "operator": "Near"}],
    [{"key": "zone", "operator": "In", "values": ["bad value!"]}],
    [],
)
NODE_TERMS: tuple[Any, ...] = (
    [],
    [{}],
    *([{"matchExpressions": expressions}] for expressions in _NODE_EXPRESSIONS),
    [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}],
    [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n", "m"]}]}],
    [{"matchFields": [{"key": "metadata.namespace", "operator": "In", "values": ["n"]}]}],
    [{"matchFields": [{"key": "metadata.name", "operator": "Exists"}]}],
    [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["Bad_"]}]}],
)
_SPREAD = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
_CONSTRAINTS: tuple[Any, ...] = (
    [_SPREAD],
    [_SPREAD, _SPREAD],
    [{**_SPREAD, "maxSkew": 0}],
    [{**_SPREAD, "maxSkew": -1}],
    [{**_SPREAD, "minDomains": 1}],
    [{**_SPREAD, "minDomains": -1}],
    [_SPREAD, {**_SPREAD, "whenUnsatisfiable": "ScheduleAnyway"}],
    [{**_SPREAD, "matchLabelKeys": ["bad key"], "labelSelector": {}}],
    [{**_SPREAD, "matchLabelKeys": ["app", "app"], "labelSelector": {}}],
    [{**_SPREAD, "nodeAffinityPolicy": "Honor", "nodeTaintsPolicy": "Honor"}],
    [{**_SPREAD, "maxSkew": "1"}],
    [{**_SPREAD, "topologyKey": ""}],
    [{**_SPREAD, "topologyKey": "bad key"}],
    [{**_SPREAD, "whenUnsatisfiable": "Maybe"}],
    [{**_SPREAD, "whenUnsatisfiable": ""}],
    [{**_SPREAD, "minDomains": 2}],
    [{**_SPREAD, "minDomains": 0}],
    [{**_SPREAD, "minDomains": 2, "whenUnsatisfiable": "ScheduleAnyway"}],
    [{**_SPREAD, "nodeAffinityPolicy": "Ignore"}],
    [{**_SPREAD, "nodeTaintsPolicy": "Maybe"}],
    [{**_SPREAD, "matchLabelKeys": ["app"], "labelSelector": {"matchLabels": {"a": "b"}}}],
    [{**_SPREAD, "matchLabelKeys": ["app"]}],
    [{**_SPREAD, "matchLabelKeys": ["app"], "labelSelector": {"matchLabels": {"app": "x"}}}],
    *([{**_SPREAD, "labelSelector": selector}] for selector in SELECTORS),
)
_TOLERATIONS: tuple[Any, ...] = (
    [{"operator": "Exists"}],
    [{"key": "k", "operator": "Equal", "value": "v", "effect": "NoSchedule"}],
    [{"key": "k"}],
    [{"value": "v"}],
    [{"key": "k", "operator": "Exists", "value": "v"}],
    [{"key": "k", "operator": "Near"}],
    [{"key": "k", "operator": "Lt", "value": "5"}],
    [{"key": "k", "effect": "Never"}],
    [{"key": "k", "effect": "NoExecute", "tolerationSeconds": 5}],
    [{"key": "k", "effect": "NoSchedule", "tolerationSeconds": 5}],
    [{"key": "bad key", "operator": "Exists"}],
    [{"key": "k", "value": "bad value!"}],
    [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}],
)
_PORTS: tuple[Any, ...] = (
    [{"containerPort": 80}],
    [{"containerPort": 80, "hostPort": 80}, {"containerPort": 81, "hostPort": 80}],
    [
        {"containerPort": 80, "hostPort": 80},
        {"containerPort": 81, "hostPort": 80, "protocol": "UDP"},
    ],
    [
        {"containerPort": 80, "hostPort": 80, "hostIP": "127.0.0.1"},
        {"containerPort": 81, "hostPort": 80, "hostIP": "127.0.0.2"},
    ],
    [{"containerPort": 80, "protocol": "tcp"}],
    [{"containerPort": 0}],
    [{"containerPort": 1, "hostPort": 65535}],
    [{"containerPort": 65535}],
    [{"containerPort": 65536}],
    [{"containerPort": 80, "hostPort": 65536}],
    [{"containerPort": 80, "name": "x" * 15}],
    [{"containerPort": 80, "name": "x" * 16}],
    [{"containerPort": 80, "name": "80"}],
    [{"containerPort": 80, "name": "a--b"}],
    [{"containerPort": 80, "name": "-a"}],
    [{"containerPort": 80, "protocol": "SCTP"}],
    [{"containerPort": 80, "hostPort": -1}],
    [{"containerPort": 80, "name": "http"}, {"containerPort": 81, "name": "http"}],
    [{"containerPort": 80, "name": "Bad_Name"}],
    [{"containerPort": 80, "hostIP": "nowhere"}],
)
_VOLUMES: tuple[Any, ...] = (
    [{"name": "v", "emptyDir": {}}],
    [{"name": "v"}],
    [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}],
    [{"name": "v", "persistentVolumeClaim": {}}],
    [{"name": "v", "emptyDir": {}}, {"name": "v", "emptyDir": {}}],
    [{"name": "Bad_", "emptyDir": {}}],
    [{"emptyDir": {}}],
    [{"name": "v", "emptyDir": {}, "hostPath": {"path": "/x"}}],
    [{"name": "v", "hostPath": {"path": "/x"}}],
    [{"name": "v", "hostPath": {}}],
    [{"name": "v", "hostPath": {"path": "/../x"}}],
    [{"name": "v", "configMap": {"name": "cm"}}],
    [{"name": "v", "configMap": {}}],
    [{"name": "v", "secret": {"secretName": "s"}}],
    [{"name": "v", "gcePersistentDisk": {"pdName": "d"}}],
    [{"name": "v", "awsElasticBlockStore": {"volumeID": "d"}}],
    [{"name": "v", "emptyDir": {"sizeLimit": "0.5Gi"}}],
    [{"name": "v", "emptyDir": {"medium": "Memory"}}],
    [
        {
            "name": "v",
            "ephemeral": {
                "volumeClaimTemplate": {
                    "spec": {
                        "accessModes": ["ReadWriteOnce"],
                        "resources": {"requests": {"storage": "1Gi"}},
                    }
                }
            },
        }
    ],
)
_RESOURCES: tuple[Any, ...] = (
    {},
    {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}},
    {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}},
    {"limits": {"cpu": "0.5", "memory": "0.5Gi"}},
    {"requests": {"example.com/gpu": "1"}},
    {"requests": {"example.com/gpu": "1"}, "limits": {"example.com/gpu": "1"}},
    {"limits": {"example.com/gpu": "1"}},
    {"limits": {"example.com/gpu": "1.5"}},
    {"requests": {"example.com/gpu": "1"}, "limits": {"example.com/gpu": "2"}},
    {"requests": {"gpu": "1"}},
    {"requests": {"bad key/gpu": "1"}, "limits": {"bad key/gpu": "1"}},
    {"requests": {"hugepages-2Mi": "2Mi"}},
    {"limits": {"hugepages-2Mi": "2Mi"}},
    {"limits": {"hugepages-2Mi": "2Mi", "cpu": "1"}},
    {"limits": {"hugepages-2Mi": "3Mi", "cpu": "1"}},
    {"limits": {"kubernetes.io/thing": "1"}},
    {"requests": {"pods": "1"}},
    {"requests": {"storage": "1"}},
    {"requests": {"requests.cpu": "1"}},
    {"requests": {"cpu": "1"}, "claims": [{"name": "none"}]},
    *({"requests": {"cpu": quantity}} for quantity in QUANTITIES),
    *({"limits": {"memory": quantity}} for quantity in QUANTITIES),
    *({"limits": {"example.com/gpu": quantity}} for quantity in QUANTITIES[:12]),
    *({"requests": {"ephemeral-storage": quantity}} for quantity in QUANTITIES[:12]),
)
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"

POD_FIELDS: dict[Path, tuple[Any, ...]] = {
    ("containers",): (
        [],
        [{"name": "c"}],
        [{"image": "i"}],
        [CONTAINER, CONTAINER],
        [{"name": "Bad_", "image": "i"}],
        [{"name": "c", "image": " i"}],
        [CONTAINER, {"name": "d", "image": "j"}],
        None,
        "c",
        [None],
        ["c"],
    ),
    ("initContainers",): (
        [{"name": "i", "image": "i"}],
        [CONTAINER],
        [{"name": "i", "image": "i", "restartPolicy": "Always"}],
        [{"name": "i", "image": "i", "restartPolicy": "Never"}],
        [{"name": "i", "image": "i", "resources": {"requests": {"cpu": "2000m"}}}],
    ),
    ("containers", 0, "resources"): _RESOURCES,
    ("containers", 0, "ports"): _PORTS,
    ("containers", 0, "imagePullPolicy"): ("Always", "Never", "Sometimes", ""),
    ("containers", 0, "restartPolicy"): ("Always", "Never"),
    ("containers", 0, "env"): (
        [{"name": "A", "value": "b"}],
        [{"name": "", "value": "b"}],
        [{"name": "A", "value": 1}],
        [{"name": "A", "value": "1", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
        [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "spec.wrong"}}}],
    ),
    ("containers", 0, "volumeMounts"): (
        [{"name": "missing", "mountPath": "/x"}],
        [{"name": "", "mountPath": "/x"}],
    ),
    ("nodeSelector",): LABEL_MAPS,
    ("affinity", "nodeAffinity", _REQUIRED, "nodeSelectorTerms"): NODE_TERMS,
    ("affinity", "nodeAffinity", _PREFERRED): (
        *(
            [{"weight": 1, "preference": {"matchExpressions": expressions}}]
            for expressions in _NODE_EXPRESSIONS
        ),
        [{"weight": 0, "preference": {"matchExpressions": _NODE_EXPRESSIONS[0]}}],
        [{"weight": 100, "preference": {"matchExpressions": _NODE_EXPRESSIONS[0]}}],
        [{"weight": 101, "preference": {"matchExpressions": _NODE_EXPRESSIONS[0]}}],
    ),
    ("affinity", "podAffinity", _REQUIRED): _POD_TERMS,
    ("affinity", "podAntiAffinity", _REQUIRED): _POD_TERMS,
    ("affinity", "podAffinity", _PREFERRED): (
        [{"weight": 5, "podAffinityTerm": _TERM}],
        [{"weight": 0, "podAffinityTerm": _TERM}],
        [{"weight": 1, "podAffinityTerm": _TERM}],
        [{"weight": 100, "podAffinityTerm": _TERM}],
        [{"weight": 101, "podAffinityTerm": _TERM}],
        [{"weight": 5}],
    ),
    ("topologySpreadConstraints",): _CONSTRAINTS,
    ("tolerations",): _TOLERATIONS,
    ("schedulingGates",): (
        [{"name": "example.com/g"}],
        [{"name": "g"}, {"name": "g"}],
        [{"name": ""}],
        [{"name": "bad key"}],
        [],
    ),
    ("priorityClassName",): ("system-node-critical", "missing", "", "Bad_"),
    ("priority",): (0, 5, -1, "1", None, 10**9, 10**9 + 1, 2 * 10**9),
    ("affinity", "podAntiAffinity", _PREFERRED): (
        [{"weight": 100, "podAffinityTerm": _TERM}],
        [{"weight": 101, "podAffinityTerm": _TERM}],
    ),
    ("containers", 0, "resizePolicy"): (
        [{"resourceName": "cpu", "restartPolicy": "NotRequired"}],
        [{"resourceName": "cpu", "restartPolicy": "Sometimes"}],
        [{"resourceName": "disk", "restartPolicy": "NotRequired"}],
    ),
    ("initContainers", 0): (
        {"name": "i", "image": "i", "ports": [{"containerPort": 80, "hostPort": 80}]},
        {"name": "i", "image": "i", "resources": {"limits": {"example.com/gpu": "1.5"}}},
        {"name": "c", "image": "i"},
        {"name": "i", "image": ""},
        {"name": "i"},
    ),
    ("preemptionPolicy",): ("Never", "PreemptLowerPriority", "Sometimes", ""),
    ("runtimeClassName",): ("missing", "", "Bad_"),
    ("overhead",): ({"cpu": "1"}, {}, {"cpu": "x"}),
    ("nodeName",): ("n", "Bad_", ""),
    ("hostNetwork",): (True, False, "yes"),
    ("restartPolicy",): ("Always", "Never", "OnFailure", "Sometimes", ""),
    ("terminationGracePeriodSeconds",): COUNTS,
    ("activeDeadlineSeconds",): COUNTS,
    ("schedulerName",): ("mine", "", "Bad_", 7),
    ("volumes",): _VOLUMES,
    ("dnsPolicy",): ("Default", "Wrong", ""),
    ("os",): ({"name": "linux"}, {"name": "windows"}, {"name": "dos"}, {}),
    ("hostname",): NAMES,
    ("subdomain",): NAMES,
    ("serviceAccountName",): ("default", "missing", "Bad_"),
    ("securityContext",): ({"runAsUser": 5}, {"runAsUser": -1}, {}),
    ("readinessGates",): ([{"conditionType": "example.com/r"}], [{"conditionType": "bad key"}]),
    ("hostAliases",): ([{"ip": "1.2.3.4", "hostnames": ["a"]}], [{"ip": "x"}]),
    ("resources",): (
        {"requests": {"cpu": "1"}},
        {"limits": {"cpu": "0.5"}},
        {"requests": {"example.com/gpu": "1"}},
        {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}},
    ),
    ("resourceClaims",): (
        [{"name": "r", "resourceClaimName": "c"}],
        [{"name": "r"}],
        [{"name": "Bad_", "resourceClaimName": "c"}],
    ),
}

_TAINTS: tuple[Any, ...] = (
    [{"key": "k", "value": "v", "effect": "NoSchedule"}],
    [{"key": "k", "effect": "NoSchedule"}, {"key": "k", "value": "w", "effect": "NoSchedule"}],
    [{"key": "k", "effect": "NoSchedule"}, {"key": "k", "effect": "NoExecute"}],
    [{"key": "k", "effect": "Never"}],
    [{"key": "k"}],
    [{"key": "", "effect": "NoSchedule"}],
    [{"key": "bad key", "effect": "NoSchedule"}],
    [{"key": "k", "value": "bad value!", "effect": "NoSchedule"}],
    [{"key": "k", "effect": "NoSchedule", "timeAdded": "2020-01-01T00:00:00Z"}],
    None,
)
_AMOUNTS: tuple[Any, ...] = (
    *({"cpu": quantity, "pods": "10"} for quantity in QUANTITIES),
    *({"memory": quantity} for quantity in QUANTITIES[:16]),
    {"example.com/gpu": "2"},
    {"example.com/gpu": "1.5"},
    {"gpu": "1"},
    {"bad key": "1"},
    {"hugepages-2Mi": "4Mi"},
    {},
)
_STORAGE: tuple[Any, ...] = tuple({"storage": quantity} for quantity in QUANTITIES)
_MODES: tuple[Any, ...] = (
    ["ReadWriteOnce"], ["ReadWriteMany", "ReadOnlyMany"], ["ReadWriteOncePod"],
    ["ReadWriteOncePod", "ReadWriteOnce"], ["Sometimes"], [], "ReadWriteOnce",
)  # fmt: skip
_PERCENTS: tuple[Any, ...] = (0, 1, "50%", "150%", "abc", -1, "", None, "1", 1.5)


def _in(prefix: Path, fields: dict[Path, tuple[Any, ...]]) -> dict[Path, tuple[Any, ...]]:
    return {(*prefix, *path): values for path, values in fields.items()}


_REPLICAS = {("spec", "replicas"): COUNTS}
_IN_TEMPLATE = _in(("spec", "template", "spec"), POD_FIELDS)
_WORKLOAD_FIELDS: dict[Path, tuple[Any, ...]] = {
    ("spec", "selector"): SELECTORS,
    ("spec", "template", "metadata", "labels"): LABEL_MAPS,
    ("spec", "minReadySeconds"): COUNTS,
    ("spec", "revisionHistoryLimit"): COUNTS,
    **_IN_TEMPLATE,
}
_STRATEGIES: tuple[Any, ...] = (
    {"type": "RollingUpdate"},
    {"type": "OnDelete"},
    {"type": "Recreate"},
    {"type": "Sometimes"},
    *(
        {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": percent}}
        for percent in _PERCENTS
    ),
)

TRIED: dict[str, dict[Path, tuple[Any, ...]]] = {
    "pods": _in(("spec",), POD_FIELDS),
    "nodes": {
        ("spec", "taints"): _TAINTS,
        ("spec", "unschedulable"): (True, False, "yes"),
        ("spec", "podCIDR"): ("10.0.1.0/24", "x"),
        ("spec", "providerID"): ("a", "b"),
        ("status", "capacity"): _AMOUNTS,
        ("status", "allocatable"): _AMOUNTS,
        ("status", "conditions"): (
            [{"type": "Ready", "status": "True"}],
            [{"type": "Ready", "status": "False"}, {"type": "MemoryPressure", "status": "True"}],
        ),
        ("status", "addresses"): ([{"type": "InternalIP", "address": "10.1.1.1"}],),
        ("status", "images"): ([{"names": ["i:1"], "sizeBytes": 5}],),
    },
    "namespaces": {("spec", "finalizers"): (["kubernetes"], ["f"], [])},
    "services": {
        ("spec", "ports"): (
            [{"port": 80}, {"port": 81}],
            [{"port": 80, "name": "a"}, {"port": 81, "name": "b"}],
            [{"port": 0}],
            [],
        ),
        ("spec", "selector"): LABEL_MAPS,
        ("spec", "clusterIP"): ("None", "10.0.0.200", "1.2.3.4", "x"),
        ("spec", "type"): ("ClusterIP", "ExternalName", "Wrong"),
    },
    "replicationcontrollers": {
        **_REPLICAS,
        ("spec", "selector"): LABEL_MAPS,
        ("spec", "template", "metadata", "labels"): LABEL_MAPS,
        **_IN_TEMPLATE,
    },
    "persistentvolumes": {
        ("spec", "capacity"): (*_STORAGE, {}, {"cpu": "1"}),
        ("spec", "accessModes"): _MODES,
        ("spec", "storageClassName"): ("sc", "Bad_", ""),
        ("spec", "volumeMode"): ("Block", "Filesystem", "Wrong"),
        ("spec", "persistentVolumeReclaimPolicy"): ("Delete", "Retain", "Recycle", "Wrong"),
        ("spec", "nodeAffinity", "required", "nodeSelectorTerms"): NODE_TERMS,
        ("spec", "claimRef"): ({"namespace": "default", "name": "c"}, {}),
        ("spec", "hostPath"): ({"path": ""}, None),
        ("spec", "csi"): ({"driver": "example.com", "volumeHandle": "h"},),
        ("status", "phase"): ("Bound",),
    },
    "persistentvolumeclaims": {
        ("spec", "resources", "requests"): _STORAGE,
        ("spec", "resources", "limits"): _STORAGE,
        ("spec", "accessModes"): _MODES,
        ("spec", "storageClassName"): ("sc", "Bad_", ""),
        ("spec", "volumeMode"): ("Block", "Filesystem", "Wrong"),
        ("spec", "volumeName"): ("pv", "", "Bad_"),
        ("spec", "selector"): SELECTORS,
        ("status", "phase"): ("Bound",),
    },
    "replicasets": {**_REPLICAS, **_WORKLOAD_FIELDS},
    "deployments": {
        **_REPLICAS,
        **_WORKLOAD_FIELDS,
        ("spec", "strategy"): _STRATEGIES,
        ("spec", "progressDeadlineSeconds"): (600, 0, 5),
        ("spec", "paused"): (True,),
    },
    "daemonsets": {**_WORKLOAD_FIELDS, ("spec", "updateStrategy"): _STRATEGIES},
    "statefulsets": {
        **_REPLICAS,
        **_WORKLOAD_FIELDS,
        ("spec", "updateStrategy"): _STRATEGIES,
        ("spec", "podManagementPolicy"): ("Parallel", "OrderedReady", "Wrong"),
        ("spec", "serviceName"): ("s", "t", ""),
        ("spec", "volumeClaimTemplates"): (
            [{"metadata": {"name": "d"}, "spec": PLAIN["persistentvolumeclaims"]["spec"]}],
        ),
    },
    "jobs": {
        ("spec", "parallelism"): COUNTS,
        ("spec", "completions"): COUNTS,
        ("spec", "backoffLimit"): COUNTS,
        ("spec", "completionMode"): ("Indexed", "NonIndexed", "Wrong"),
        ("spec", "suspend"): (True, False),
        ("spec", "ttlSecondsAfterFinished"): COUNTS,
        ("spec", "template", "spec", "restartPolicy"): ("Never", "OnFailure", "Always"),
    },
    "storageclasses": {
        ("provisioner",): ("example.com/p", "", "Bad provisioner"),
        ("volumeBindingMode",): ("Immediate", "WaitForFirstConsumer", "Wrong", ""),
        ("reclaimPolicy",): ("Retain", "Delete", "Wrong"),
        ("allowVolumeExpansion",): (True, False),
        ("parameters",): ({"a": "b"}, {"": "b"}, {"a": 1}),
        ("allowedTopologies",): (
            [{"matchLabelExpressions": [{"key": "zone", "values": ["a"]}]}],
            [{"matchLabelExpressions": [{"key": "zone", "values": []}]}],
        ),
    },
    "csinodes": {
        ("spec", "drivers"): (
            [{"name": "d", "nodeID": "n", "topologyKeys": ["zone"]}],
            [{"name": "d", "nodeID": "n", "allocatable": {"count": 5}}],
            [{"name": "d", "nodeID": "n", "allocatable": {"count": -1}}],
            [{"name": "d", "nodeID": ""}],
            [{"name": "d", "nodeID": "n"}, {"name": "d", "nodeID": "n"}],
            [{"name": "Bad_", "nodeID": "n"}],
        )
    },
    "csidrivers": {
        ("spec", "attachRequired"): (True, False),
        ("spec", "storageCapacity"): (True, False),
        ("spec", "volumeLifecycleModes"): (["Ephemeral"], ["Wrong"]),
    },
    "csistoragecapacities": {
        ("storageClassName",): ("sc", "", "Bad_"),
        ("capacity",): QUANTITIES,
        ("maximumVolumeSize",): QUANTITIES,
        ("nodeTopology",): SELECTORS,
    },
    "volumeattachments": {
        ("spec", "attacher"): ("example.com", "", "Bad_"),
        ("spec", "nodeName"): ("n", "", "Bad_"),
        ("spec", "source"): ({}, {"persistentVolumeName": ""}),
    },
    "poddisruptionbudgets": {
        ("spec", "minAvailable"): _PERCENTS,
        ("spec", "maxUnavailable"): _PERCENTS,
        ("spec", "selector"): SELECTORS,
        ("spec", "unhealthyPodEvictionPolicy"): ("AlwaysAllow", "Wrong"),
    },
    "priorityclasses": {
        ("value",): (0, 5, -5, 10**9, 10**9 + 1, 2**31, "5", None),
        ("globalDefault",): (False, "yes"),
        ("preemptionPolicy",): ("Never", "PreemptLowerPriority", "Sometimes", ""),
        ("description",): ("d", 7),
    },
    "runtimeclasses": {
        ("handler",): ("runc", "", "Bad_", "other"),
        ("overhead",): (
            *({"podFixed": {"cpu": quantity}} for quantity in QUANTITIES),
            {"podFixed": {"gpu": "1"}},
        ),
        ("scheduling",): (
            {"nodeSelector": {"a": "b"}},
            {"nodeSelector": {"bad key": "b"}},
            *({"tolerations": tolerations} for tolerations in _TOLERATIONS),
        ),
    },
    "leases": {
        ("spec", "leaseDurationSeconds"): COUNTS,
        ("spec", "renewTime"): ("2020-01-01T00:00:00.000000Z", "2020-01-01T00:00:00Z", "now"),
        ("spec", "leaseTransitions"): COUNTS,
        ("spec", "holderIdentity"): ("h", "", None),
    },
    "configmaps": {
        ("data",): ({"k": "w"}, {"bad key": "v"}, {"k": 1}, {"k": None}),
        ("immutable",): (True, False),
        ("binaryData",): ({"b": "aGk="}, {"b": "no base64!"}, {"k": "aGk="}),
    },
    "secrets": {
        ("data",): ({"k": "aGk="}, {"k": "no base64!"}),
        ("stringData",): ({"k": "w"}, {"bad key": "v"}),
        ("type",): ("Opaque", "example.com/t"),
        ("immutable",): (True, False),
    },
    "cronjobs": {
        ("spec", "schedule"): ("@daily", "never", ""),
        ("spec", "concurrencyPolicy"): ("Forbid", "Wrong"),
        ("spec", "suspend"): (True, False),
    },
    "resourcequotas": {
        ("spec", "hard"): (*({"cpu": quantity} for quantity in QUANTITIES), {"Bad key": "1"})
    },
    "horizontalpodautoscalers": {
        ("spec", "maxReplicas"): COUNTS,
        ("spec", "minReplicas"): COUNTS,
    },
}
for _plural in PLAIN:
    TRIED[_plural] = {**_METADATA, **TRIED.get(_plural, {})}

NO_PATCH_OF_ITS_OWN = frozenset({"events"})
"""Served in two shapes: only created, read and deleted here."""
