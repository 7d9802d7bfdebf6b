"""The nodes, pods and volumes of a simulated cluster, drawn at random, as API data."""

from __future__ import annotations

from random import Random
from typing import Any

from tests.simulation.plugins import SLOW
from tests.simulation.profile import DOCK, SCHEDULER
from tests.simulation.weather import Weather

ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"
ZONES = ("east", "west", "north")
APPS = ("web", "cache", "batch", "db")
PRIORITIES = {"low": -5, "normal": 0, "high": 100, "urgent": 1000}
POLITE = "polite"
"""Important, but does not push anybody aside."""
TAINTS = ("storm", "repairs")
EVICTING = "repairs"
"""The only taint that ends pods which run."""
LATE_CLASS, STATIC_CLASS = "made-late", "static-late"
PROVISIONER = "sim.example.com"

Data = dict[str, Any]


def node(name: str, random: Random) -> Data:
    cpu = random.choice((2, 4, 4, 8))
    amounts = {"cpu": cpu, "memory": f"{cpu * 2}Gi", "pods": random.choice((4, 8, 12)), DOCK: 2}
    taints = [_taint(random.choice(TAINTS))] if random.random() < 0.15 else []
    labels = {HOST: name, ZONE: random.choice(ZONES), "disk": random.choice(("ssd", "hdd"))}
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {"taints": taints},
        "status": {"capacity": amounts, "allocatable": amounts},
    }


def _taint(key: str, effect: str = "NoSchedule") -> Data:
    return {"key": key, "value": "yes", "effect": effect}


def random_taint(random: Random) -> Data:
    key = random.choice(TAINTS)
    effect = random.choice(("NoSchedule", "NoSchedule", "PreferNoSchedule", "NoExecute"))
    return _taint(EVICTING if effect == "NoExecute" else key, effect)


def pod(name: str, random: Random, weather: Weather, claim: str = "") -> Data:
    app = random.choice(APPS)
    labels = {"app": app}
    if weather.permit and random.random() < 0.3:
        labels[SLOW] = "yes"
    requests: Data = {
        "cpu": random.choice(("100m", "250m", "250m", "500m", "1", "2")),
        "memory": random.choice(("64Mi", "256Mi", "1Gi", "2Gi")),
    }
    if weather.extender and random.random() < 0.4:
        requests[DOCK] = 1
    container: Data = {"name": "main", "image": f"{app}:1", "resources": {"requests": requests}}
    if DOCK in requests:
        container["resources"]["limits"] = {DOCK: 1}
    if random.random() < 0.12:
        container["ports"] = [{"containerPort": 80, "hostPort": random.choice((8080, 9090))}]
    spec: Data = {
        "containers": [container],
        "schedulerName": SCHEDULER,
        "terminationGracePeriodSeconds": random.choice((0, 1, 5)),
    }
    metadata: Data = {"name": name, "namespace": "default", "labels": labels}
    if random.random() < 0.15:
        metadata["annotations"] = {"stowplan/run-seconds": str(random.randrange(5, 60))}
    _add_wishes(spec, app, random)
    if claim:
        spec["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]
    return {"metadata": metadata, "spec": spec}


def _add_wishes(spec: Data, app: str, random: Random) -> None:
    """What makes one pod harder to place than another."""
    priority = random.choice((*PRIORITIES, "normal", "normal", POLITE))
    if priority != "normal":
        spec["priorityClassName"] = priority
    if random.random() < 0.25:
        spec["tolerations"] = [{"key": random.choice(TAINTS), "operator": "Exists"}]
    if random.random() < 0.15:
        spec["nodeSelector"] = {"disk": random.choice(("ssd", "hdd"))}
    if random.random() < 0.1:
        spec["schedulingGates"] = [{"name": "sim.example.com/gate"}]
    if random.random() < 0.2:
        spec["topologySpreadConstraints"] = [_spread(app, random)]
    if random.random() < 0.25:
        spec["affinity"] = _affinity(app, random)


def _spread(app: str, random: Random) -> Data:
    return {
        "maxSkew": random.choice((1, 2)),
        "topologyKey": random.choice((ZONE, HOST)),
        "whenUnsatisfiable": random.choice(("DoNotSchedule", "ScheduleAnyway")),
        "labelSelector": {"matchLabels": {"app": app}},
    }


def _affinity(app: str, random: Random) -> Data:
    sort = random.choice(("near", "apart", "apart", "nodes"))
    if sort == "nodes":
        term = {"matchExpressions": [{"key": ZONE, "operator": "NotIn", "values": [ZONES[0]]}]}
        required: Data = {"nodeSelectorTerms": [term]}
        return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    other = app if sort == "apart" else random.choice(APPS)
    selector = {"matchLabels": {"app": other}}
    rule: Data = {"labelSelector": selector, "topologyKey": random.choice((HOST, ZONE))}
    if random.random() < 0.3:
        weighted = [{"weight": random.randrange(1, 100), "podAffinityTerm": rule}]
        terms: Data = {"preferredDuringSchedulingIgnoredDuringExecution": weighted}
    else:
        terms = {"requiredDuringSchedulingIgnoredDuringExecution": [rule]}
    return {"podAffinity" if sort == "near" else "podAntiAffinity": terms}


def priority_classes() -> list[Data]:
    classes: list[Data] = [
        {"metadata": {"name": name}, "value": value} for name, value in PRIORITIES.items() if value
    ]
    polite = {"metadata": {"name": POLITE}, "value": 50, "preemptionPolicy": "Never"}
    return [*classes, polite]


def storage_classes() -> list[Data]:
    late = "WaitForFirstConsumer"
    return [
        {"metadata": {"name": LATE_CLASS}, "provisioner": PROVISIONER, "volumeBindingMode": late},
        {
            "metadata": {"name": STATIC_CLASS},
            "provisioner": "kubernetes.io/no-provisioner",
            "volumeBindingMode": late,
        },
    ]


def volume(name: str, storage_class: str, zone: str, claim: Data | None = None) -> Data:
    term = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}
    spec: Data = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": storage_class,
        "persistentVolumeReclaimPolicy": "Delete",
        "hostPath": {"path": f"/{name}"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
    }
    if claim is not None:
        spec["claimRef"] = claim
    return {"metadata": {"name": name}, "spec": spec}


def claim(name: str, storage_class: str) -> Data:
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": storage_class,
        "resources": {"requests": {"storage": "1Gi"}},
    }
    return {"metadata": {"name": name, "namespace": "default"}, "spec": spec}


def budget(name: str, app: str, random: Random) -> Data:
    spec: Data = {"selector": {"matchLabels": {"app": app}}}
    spec[random.choice(("minAvailable", "maxUnavailable"))] = random.choice((0, 1, 2))
    return {"metadata": {"name": name, "namespace": "default"}, "spec": spec}


def replica_set(name: str, random: Random, weather: Weather) -> Data:
    """Its pods come back at once, so nothing may end them again and again.

    They are of no app that others keep away from: a pod that preempts them for the sake of its
    anti-affinity does not keep their successors away while it waits, here as upstream
    (InterPodAffinity is left out for pods that nothing which runs keeps away).  And they tolerate
    what evicts: a scheduler whose watch is broken goes on to bind them to a node it cannot see
    the taint of.
    """
    template = pod("template", random, weather)
    template["spec"]["tolerations"] = [{"key": EVICTING, "operator": "Exists"}]
    metadata = {"labels": {**template["metadata"]["labels"], "app": "set", "set": name}}
    return {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": random.randrange(1, 6),
            "selector": {"matchLabels": {"set": name}},
            "template": {"metadata": metadata, "spec": template["spec"]},
        },
    }
