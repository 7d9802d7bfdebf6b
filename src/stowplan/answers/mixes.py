"""More pods like those that somebody names: what `plan capacity` adds.

A part of a mix is a pod, or the pods of a workload, and how many of them are in one mix.  Copies
have no owner, so that nobody takes them away again, and evict nobody.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from stowplan.answers.deeds import workload_of
from stowplan.answers.why import WORKLOADS, find_pod
from stowplan.errors import InputError
from stowplan.objects.manifests import Manifest, describe
from stowplan.world.cluster import Cluster
from stowplan.world.reading import Objects, read_objects

Data = dict[str, Any]

COUNT_MAX = 10_000
"""Pods of one part in a mix."""

_PLACED = ("nodeName", "ephemeralContainers", "hostname")


@dataclass(frozen=True, slots=True)
class Part:
    name: str
    """As it was named."""
    base: str
    """What the names of copies begin with."""
    namespace: str
    template: Data
    """`metadata` and `spec`."""
    count: int = 1

    def copies(self, start: int, rounds: int) -> Iterator[Data]:
        """Those of so many mixes, after as many as there are."""
        metadata = self.template.get("metadata") or {}
        kept = {key: metadata[key] for key in ("labels", "annotations") if key in metadata}
        spec = {name: value for name, value in self.template["spec"].items() if name not in _PLACED}
        spec["preemptionPolicy"] = "Never"
        for number in range(start * self.count, (start + rounds) * self.count):
            named = {"name": f"{self.base}-more-{number + 1}", "namespace": self.namespace, **kept}
            yield {"apiVersion": "v1", "kind": "Pod", "metadata": named, "spec": spec}


def mix_of(cluster: Cluster, words: Iterable[str], objects: Objects | None) -> list[Part]:
    """`deploy/web=3` and the like, and the pods and workloads of manifests."""
    mix = [_named(cluster, word) for word in words]
    if objects is not None:
        mix += [_given(manifest) for manifest in read_objects(objects)]
    if not mix:
        hint = "name a pod or a workload, such as `deploy/web`, or give a manifest"
        raise InputError("more of what?", hint=hint)
    seen: dict[tuple[str, str], int] = {}
    named = []
    for part in mix:
        number = seen[part.namespace, part.base] = seen.get((part.namespace, part.base), 0) + 1
        base = part.base if number == 1 else f"{part.base}-{number}"
        named.append(Part(part.name, base, part.namespace, part.template, part.count))
    return named


def _named(cluster: Cluster, word: str) -> Part:
    name, found, text = word.partition("=")
    if found and not (text.isdecimal() and 1 <= int(text) <= COUNT_MAX):
        raise InputError(f"{text!r} is no number of pods", where=word, hint=f"1 to {COUNT_MAX:,}")
    count = int(text) if found else 1
    if name.partition("/")[0].lower() in WORKLOADS and "/" in name:
        data = cluster.get(*workload_of(name))
        return _of_template(name, data, count)
    data = cluster.get("Pod", find_pod(cluster, name))
    metadata = data["metadata"]
    return Part(name, metadata["name"], metadata["namespace"], data, count)


def _of_template(name: str, data: Data, count: int) -> Part:
    metadata = data["metadata"]
    template = (data.get("spec") or {}).get("template")
    if not isinstance(template, dict) or not isinstance(template.get("spec"), dict):
        raise InputError("there is no pod template", where=f"{name}: spec.template")
    return Part(name, metadata["name"], metadata.get("namespace") or "default", template, count)


def _given(manifest: Manifest) -> Part:
    where, data = manifest
    name = describe(data)
    metadata = data.get("metadata")
    if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str):
        raise InputError("the object has no name", where=f"{where}: {name}")
    if data["kind"] == "Pod":
        if not isinstance(data.get("spec"), dict):
            raise InputError("there is no spec", where=f"{where}: {name}")
        return Part(name, metadata["name"], metadata.get("namespace") or "default", data)
    if data["kind"] not in WORKLOADS.values():
        kinds = ", ".join(dict.fromkeys(WORKLOADS.values()))
        hint = f"a mix is made of pods and of: {kinds}"
        raise InputError(f"a {data['kind']} is no pod", where=f"{where}: {name}", hint=hint)
    replicas = (data.get("spec") or {}).get("replicas", 1)
    if not isinstance(replicas, int) or not 0 <= replicas <= COUNT_MAX:
        raise InputError(f"{replicas!r} is no number of pods", where=f"{where}: {name}: replicas")
    return _of_template(name, data, max(1, replicas))
