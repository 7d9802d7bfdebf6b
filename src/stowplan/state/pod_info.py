"""PodInfo: a pod with everything scheduling derives from it, shared between replicas.

Replicas differ in name and uid and in little else.  What plugins read of a pod (requests, parsed
selectors, terms, ports) hangs on its `PodKind`, which all pods with the same scheduling-relevant
content share: a thousand replicas are parsed once, and anything kept "per kind of pod" is kept
once.  Kinds are held weakly: the last pod takes its kind with it.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any
from weakref import WeakValueDictionary

import msgspec

from stowplan.objects.labels import EVERYTHING, NOTHING, Selector, SelectorError, compile_selector
from stowplan.objects.node_selector import RequiredNodeAffinity, required_node_affinity
from stowplan.objects.pod import (
    Affinity,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodSpec,
    Toleration,
    Volume,
)
from stowplan.objects.resources import (
    fit_score_requests,
    pod_nonzero_requests,
    pod_requests,
)

NO_LABELS: dict[str, str] = {}

HostPort = tuple[str, str, int]
"""(ip, protocol, port)"""


class Term:
    """A pod (anti-)affinity term, parsed.  Equal terms are equal objects to a dict."""

    __slots__ = ("_hash", "namespace_selector", "namespaces", "selector", "topology_key", "weight")

    def __init__(
        self,
        topology_key: str,
        namespaces: frozenset[str],
        selector: Selector,
        namespace_selector: Selector,
        weight: int = 0,
    ) -> None:
        self.topology_key = topology_key
        self.namespaces = namespaces
        self.selector = selector
        self.namespace_selector = namespace_selector
        self.weight = weight
        """Of a preferred term; 0 for a required one."""
        self._hash = hash((topology_key, namespaces, selector, namespace_selector, weight))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Term) and (
            self._hash == other._hash
            and self.topology_key == other.topology_key
            and self.namespaces == other.namespaces
            and self.selector == other.selector
            and self.namespace_selector == other.namespace_selector
            and self.weight == other.weight
        )

    def __repr__(self) -> str:
        return f"Term({self.topology_key}, {sorted(self.namespaces)}, {self.selector})"

    def matches(
        self, namespace: str, labels: dict[str, str], namespace_labels: dict[str, str]
    ) -> bool:
        in_namespace = namespace in self.namespaces or self.namespace_selector.matches(
            namespace_labels
        )
        return in_namespace and self.selector.matches(labels)


class PodKind:
    """What replicas of one workload share.  Never changes once made."""

    __slots__ = ("__dict__", "__weakref__", "labels", "namespace", "pod", "terminating")

    def __init__(self, pod: Pod) -> None:
        self.pod = pod
        """Any one pod of this kind: read its spec, never its name."""
        self.namespace: str = pod.metadata.namespace
        self.labels: dict[str, str] = pod.metadata.labels or NO_LABELS
        self.terminating = pod.metadata.deletion_timestamp is not None

    @property
    def spec(self) -> PodSpec:
        return self.pod.spec

    @cached_property
    def kept(self) -> dict[Any, Any]:
        """Where the framework keeps what it worked out for this kind."""
        return {}

    @cached_property
    def priority(self) -> int:
        return self.pod.spec.priority or 0

    @cached_property
    def requests(self) -> dict[str, int]:
        """What the pod asks for before it runs: milli-cpu, bytes, counts."""
        return pod_requests(self.pod, use_status=False)

    @cached_property
    def running_requests(self) -> dict[str, int]:
        """What it takes up on its node, a resize in progress included."""
        return pod_requests(self.pod, use_status=True)

    @cached_property
    def nonzero_requests(self) -> tuple[int, int]:
        """Milli-cpu and memory on its node, with defaults where nothing is requested."""
        return pod_nonzero_requests(self.pod, use_status=True)

    @cached_property
    def fit_score_requests(self) -> dict[str, int]:
        return fit_score_requests(self.pod)

    @cached_property
    def tolerations(self) -> tuple[Toleration, ...]:
        return tuple(self.pod.spec.tolerations or ())

    @cached_property
    def required_node_affinity(self) -> RequiredNodeAffinity:
        return required_node_affinity(self.pod)

    @cached_property
    def host_ports(self) -> tuple[HostPort, ...]:
        """Of app containers and sidecars; ordinary init containers hold no port for long."""
        spec = self.pod.spec
        sidecars = [c for c in spec.init_containers or () if c.restart_policy == "Always"]
        return tuple(
            (port.host_ip or "0.0.0.0", port.protocol or "TCP", port.host_port)
            for container in (*sidecars, *(spec.containers or ()))
            for port in container.ports or ()
            if port.host_port > 0
        )

    @cached_property
    def volumes(self) -> tuple[Volume, ...]:
        """Volumes of a sort that scheduling looks at; not secrets, config maps and the like."""
        volumes = self.pod.spec.volumes or ()
        return tuple(volume for volume in volumes if volume != Volume(name=volume.name))

    @cached_property
    def claim_keys(self) -> tuple[str, ...]:
        """`namespace/claim` of every persistentVolumeClaim volume."""
        return tuple(
            f"{self.namespace}/{volume.persistent_volume_claim.claim_name}"
            for volume in self.volumes
            if volume.persistent_volume_claim is not None
        )

    @property
    def _affinity(self) -> Affinity:
        return self.pod.spec.affinity or _NO_AFFINITY

    @cached_property
    def has_pod_affinity(self) -> bool:
        """Whether any podAffinity or podAntiAffinity stanza is there, even an empty one."""
        affinity = self._affinity
        return affinity.pod_affinity is not None or affinity.pod_anti_affinity is not None

    @cached_property
    def affinity_error(self) -> str:
        """Why a term could not be parsed; empty when all could."""
        for stanza in (self._affinity.pod_affinity, self._affinity.pod_anti_affinity):
            for parse in (_required, _preferred):
                try:
                    parse(stanza, self.namespace)
                except SelectorError as error:
                    return str(error)
        return ""

    @cached_property
    def required_affinity(self) -> tuple[Term, ...]:
        return _or_none(_required, self._affinity.pod_affinity, self.namespace)

    @cached_property
    def required_anti_affinity(self) -> tuple[Term, ...]:
        return _or_none(_required, self._affinity.pod_anti_affinity, self.namespace)

    @cached_property
    def preferred_affinity(self) -> tuple[Term, ...]:
        return _or_none(_preferred, self._affinity.pod_affinity, self.namespace)

    @cached_property
    def preferred_anti_affinity(self) -> tuple[Term, ...]:
        return _or_none(_preferred, self._affinity.pod_anti_affinity, self.namespace)


_NO_AFFINITY = Affinity()


def _term(term: PodAffinityTerm, namespace: str, weight: int = 0) -> Term:
    namespaces = frozenset(term.namespaces or ())
    if not namespaces and term.namespace_selector is None:
        namespaces = frozenset((namespace,))
    selector = compile_selector(term.label_selector)
    return Term(
        term.topology_key, namespaces, selector, compile_selector(term.namespace_selector), weight
    )


def _required(stanza: PodAffinity | None, namespace: str) -> tuple[Term, ...]:
    terms = (stanza.required or ()) if stanza is not None else ()
    return tuple(_term(term, namespace) for term in terms)


def _preferred(stanza: PodAffinity | None, namespace: str) -> tuple[Term, ...]:
    terms = (stanza.preferred or ()) if stanza is not None else ()
    return tuple(_term(term.pod_affinity_term, namespace, term.weight) for term in terms)


def _or_none(parse: Any, stanza: PodAffinity | None, namespace: str) -> tuple[Term, ...]:
    """A parse error empties that category, as upstream's core does."""
    try:
        terms: tuple[Term, ...] = parse(stanza, namespace)
    except SelectorError:
        return ()
    return terms


class PodInfo:
    """One pod and its kind."""

    __slots__ = ("key", "kind", "pod", "uid")

    def __init__(self, pod: Pod, kind: PodKind | None = None) -> None:
        metadata = pod.metadata
        self.pod = pod
        self.kind = kind or kind_of(pod)
        self.uid: str = metadata.uid
        self.key = f"{metadata.namespace}/{metadata.name}"

    @property
    def priority(self) -> int:
        return self.kind.priority

    @property
    def node_name(self) -> str:
        return self.pod.spec.node_name

    def __repr__(self) -> str:
        return f"PodInfo({self.key})"


_kinds: WeakValueDictionary[tuple[Any, ...], PodKind] = WeakValueDictionary()
_encode = msgspec.json.Encoder(order="deterministic").encode


def kind_of(pod: Pod) -> PodKind:
    """The shared kind of this pod, made on first sight."""
    metadata, spec, status = pod.metadata, pod.spec, pod.status
    if spec.node_name:
        spec = msgspec.structs.replace(spec, node_name="")
    controller = metadata.controller()
    key = (
        metadata.namespace,
        metadata.deletion_timestamp is not None,
        _encode((metadata.labels, spec)),
        (controller.api_version, controller.kind, controller.name) if controller else None,
        _resize_key(pod) if status.container_statuses or status.resources else b"",
    )
    kind = _kinds.get(key)
    if kind is None:
        kind = _kinds[key] = PodKind(pod)
    return kind


def kind_count() -> int:
    """How many kinds of pods there are: what is kept per kind need not be more than that."""
    return len(_kinds)


def _resize_key(pod: Pod) -> bytes:
    """What of the status can change the pod's requests: allocations, and a refused resize."""
    status = pod.status
    pending = [c.reason for c in status.conditions or () if c.type == "PodResizePending"]
    return _encode(
        (
            [(c.name, c.resources, c.allocated_resources) for c in status.container_statuses or ()],
            [
                (c.name, c.resources, c.allocated_resources)
                for c in status.init_container_statuses or ()
            ],
            status.resources,
            status.allocated_resources,
            pending,
        )
    )


__all__ = [
    "EVERYTHING",
    "NOTHING",
    "HostPort",
    "PodInfo",
    "PodKind",
    "Term",
    "kind_count",
    "kind_of",
]
