"""Changes that somebody names, made to a cluster: `--drain node-b`, `--scale deploy/web=20`.

Each is a word as the command takes it.  What is wrong with one raises InputError, before anything
is decided.  Called by `answers.what_if`.
"""

from __future__ import annotations

from typing import Any

from stowplan.answers.why import WORKLOADS
from stowplan.errors import InputError
from stowplan.objects.manifests import object_key
from stowplan.objects.quantity import QuantityError, parse_quantity
from stowplan.world.cluster import Cluster
from stowplan.world.nodes import taint_fields
from stowplan.world.reading import Objects, read_objects

Data = dict[str, Any]

AMOUNTS = ("requests", "limits")


def split_once(word: str, mark: str, what: str) -> tuple[str, str]:
    left, found, right = word.partition(mark)
    if not left or not found or not right:
        raise InputError(f"{word!r} is no {what}", hint=f"write it as {what}")
    return left, right


def replace(cluster: Cluster, objects: Objects) -> None:
    """Objects in place of those that are there, even what an API server would not let anybody
    change; pending pods among them are tried again."""
    manifests = read_objects(objects)
    cluster.put([data for _, data in manifests])
    for _, data in manifests:
        if data["kind"] == "Pod":
            cluster.retry(object_key(data))


def taint(cluster: Cluster, word: str) -> None:
    """`node-a:team=ml:NoSchedule`."""
    name, text = split_once(word, ":", "NODE:KEY=VALUE:EFFECT")
    node = cluster.get("Node", name)
    new = taint_fields(text)
    spec = node.setdefault("spec", {})
    kept = [
        each
        for each in spec.get("taints") or ()
        if (each["key"], each["effect"]) != (new["key"], new["effect"])
    ]
    spec["taints"] = [*kept, new]
    cluster.put(node)


def label(cluster: Cluster, word: str) -> None:
    """`node-a:disk=ssd`; `node-a:disk-` takes it away."""
    name, text = split_once(word, ":", "NODE:KEY=VALUE")
    node = cluster.get("Node", name)
    labels = node["metadata"].setdefault("labels", {})
    if text.endswith("-") and "=" not in text:
        labels.pop(text[:-1], None)
    else:
        key, _, value = text.partition("=")
        labels[key] = value
    cluster.put(node)


def workload_of(word: str) -> tuple[str, str]:
    """`deploy/web` or `deploy/shop/web`: kind and key."""
    kind, _, name = word.partition("/")
    if kind.lower() not in WORKLOADS or not name:
        hint = f"write KIND/NAME, with one of: {', '.join(WORKLOADS)}"
        raise InputError(f"{word!r} names no workload", hint=hint)
    return WORKLOADS[kind.lower()], name


def scale(cluster: Cluster, word: str) -> None:
    """`deploy/web=20`."""
    target, text = split_once(word, "=", "KIND/NAME=REPLICAS")
    kind, key = workload_of(target)
    if not text.isdecimal():
        raise InputError(f"{text!r} is no number of replicas", where=word)
    data = cluster.get(kind, key)
    field = "parallelism" if kind == "Job" else "replicas"
    data["spec"][field] = int(text)
    cluster.apply(_applicable(data))


def delete(cluster: Cluster, word: str) -> None:
    """`default/web-1`, `deploy/web`, `node/node-b`, `PersistentVolumeClaim/default/data`."""
    kind, _, name = word.partition("/")
    if kind.lower() in WORKLOADS and name:
        cluster.delete(name, WORKLOADS[kind.lower()])
    elif kind.lower() in ("no", "node") and name:
        cluster.delete(name, "Node")
    elif kind.lower() in ("po", "pod") and name:
        cluster.delete(name)
    elif "/" in name:
        cluster.delete(name, kind)
    else:
        cluster.delete(word)


def set_field(cluster: Cluster, word: str) -> None:
    """`deploy/web:requests.cpu=2`, `default/web-1:requests.memory=1Gi`."""
    target, text = split_once(word, ":", "POD-OR-WORKLOAD:FIELD=VALUE")
    field, value = split_once(text, "=", "FIELD=VALUE")
    kind, _, name = target.partition("/")
    if kind.lower() in WORKLOADS and name:
        data = cluster.get(*workload_of(target))
        _set(data["spec"]["template"]["spec"], field, value, word)
        cluster.apply(_applicable(data))
        return
    pod = cluster.pod(target)
    data = cluster.get("Pod", pod.key)
    _set(data["spec"], field, value, word)
    if pod.spec.node_name:
        # A pod of another size is another pod: it gives up its place and is decided anew.
        cluster.delete(pod.key)
        cluster.run()
        del data["spec"]["nodeName"]
        data = {**data, "status": {}, "metadata": {**data["metadata"], "uid": ""}}
    cluster.put(data)
    cluster.retry(pod.key)


def _set(spec: Data, field: str, value: str, word: str) -> None:
    head, _, name = field.partition(".")
    if head in AMOUNTS and name:
        try:
            parse_quantity(value)
        except QuantityError as error:
            raise InputError(str(error), where=word) from None
        container = spec["containers"][0]
        container.setdefault("resources", {}).setdefault(head, {})[name] = value
    elif head == "nodeSelector" and name:
        spec.setdefault("nodeSelector", {})[name] = value
    elif field == "priorityClassName":
        spec["priorityClassName"] = value
        spec.pop("priority", None)
    else:
        hint = "it may be requests.NAME, limits.NAME, nodeSelector.KEY or priorityClassName"
        raise InputError(f"{field!r} cannot be set", where=word, hint=hint)


def _applicable(data: Data) -> Data:
    return {name: value for name, value in data.items() if name != "status"}
