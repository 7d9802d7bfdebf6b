"""PodInfo: a pod with everything scheduling derives from it, shared between replicas.

Replicas differ in name and uid, in the names of their claims and groups, and in little else.  What
plugins read of a pod (requests, parsed selectors, terms, ports) hangs on its `PodKind`, which all
pods with the same scheduling-relevant content share: a thousand replicas are parsed once, and
anything kept "per kind of pod" is kept once.  Kinds are held weakly: the last pod takes its kind
with it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Generic, TypeVar
from weakref import WeakValueDictionary, ref

from msgspec.structs import force_setattr, replace

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
from stowplan.objects.pod_groups import group_key
from stowplan.objects.resources import (
    CPU,
    MEMORY,
    fit_score_requests,
    needs_no_defaults,
    pod_nonzero_requests,
    pod_requests,
    tells_amounts,
)
from stowplan.state.pod_keys import content_key, traits_key

NO_LABELS: dict[str, str] = {}

HostPort = tuple[str, str, int]
"""(ip, protocol, port)"""

ANY_IP = "0.0.0.0"


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


Value = TypeVar("Value")


class Lazy(Generic[Value]):
    """An attribute worked out when first read, as by `cached_property` but without its lock.

    Where no two pods are alike, each has a kind of its own, and the lock is half of the work.
    """

    def __init__(self, work: Callable[[Any], Value]) -> None:
        self._work = work
        self._name = work.__name__
        self.__doc__ = work.__doc__

    def __get__(self, owner: Any, _: type) -> Value:
        value = owner.__dict__[self._name] = self._work(owner)
        return value


def fact(work: Callable[[PodKind], Value]) -> Callable[[PodKind], Value]:
    """A function of a kind of pod and of nothing else: worked out once, and stored on the kind."""
    name = f"{work.__module__}.{work.__qualname__}"

    @wraps(work)
    def of(kind: PodKind) -> Value:
        facts = kind.__dict__
        if name not in facts:
            facts[name] = work(kind)
        value: Value = facts[name]
        return value

    return of


class KeptPer(dict["ref[Any]", dict[str, Any]]):
    """What its owner keeps per kind of pod (or per traits): a dict for each, `kept[kind.ref]`.

    Made when first asked for.  It goes when the last pod of the kind goes, so nothing in it may
    hold the kind, nor a pod of it; and with the owner.
    """

    __slots__ = ()

    def __missing__(self, key: ref[Any]) -> dict[str, Any]:
        kept = self[ref(key(), self.pop)] = {}
        return kept


class PodTraits:
    """What a pod is like, apart from how much it asks for.

    Kinds of pods that differ in nothing else share it: what is worked out from the rest of the
    pod is kept under it, once for all of them.
    """

    __slots__ = ("__weakref__", "ref")

    def __init__(self) -> None:
        self.ref = ref(self)


class PodKind:
    """What replicas of one workload share.  Never changes once made."""

    __slots__ = (
        "__dict__",
        "__weakref__",
        "has_claims",
        "has_pod_affinity",
        "is_member",
        "labels",
        "namespace",
        "pod",
        "priority",
        "ref",
        "relabelled_kinds",
        "terminating",
        "volumes",
    )

    def __init__(self, pod: Pod) -> None:
        self.pod = pod
        """Any one pod of this kind: read its spec, never its name, its group's or its claims'."""
        self.namespace: str = pod.metadata.namespace
        self.labels: dict[str, str] = pod.metadata.labels or NO_LABELS
        self.terminating = pod.metadata.deletion_timestamp is not None
        spec = pod.spec
        self.priority = spec.priority or 0
        self.volumes = _volumes_that_count(spec.volumes) if spec.volumes else ()
        """Volumes of a sort that scheduling looks at; not secrets, config maps and the like."""
        self.has_claims = bool(self.volumes) and any(map(_is_for_claim, self.volumes))
        """Whether pods of this kind have claims; which ones, each of them says for itself."""
        self.is_member = spec.scheduling_group is not None
        """Whether pods of this kind belong to groups; to which, each of them says for itself."""
        affinity = spec.affinity
        self.has_pod_affinity = affinity is not None and (
            affinity.pod_affinity is not None or affinity.pod_anti_affinity is not None
        )
        """Whether any podAffinity or podAntiAffinity stanza is there, even an empty one."""
        self.ref = ref(self)
        """The key of what others keep for this kind (`KeptPer`)."""
        self.relabelled_kinds: dict[tuple[tuple[str, str], ...], ref[PodKind]] | None = None

    @property
    def spec(self) -> PodSpec:
        return self.pod.spec

    @Lazy
    def traits(self) -> PodTraits:
        key = traits_key(self.pod)
        traits = _traits.get(key)
        if traits is None:
            traits = _traits[key] = PodTraits()
        return traits

    @Lazy
    def requests(self) -> dict[str, int]:
        """What the pod asks for before it runs: milli-cpu, bytes, counts."""
        return pod_requests(self.pod, use_status=False)

    @Lazy
    def extended_resources(self) -> frozenset[str]:
        """Which it asks for, however much: pods with the same traits ask for the same."""
        spec = self.pod.spec
        return frozenset(
            name
            for container in (*(spec.init_containers or ()), *(spec.containers or ()))
            if container.resources is not None
            for name in container.resources.requests or ()
            if "/" in name
        )

    @Lazy
    def running_requests(self) -> dict[str, int]:
        """What it takes up on its node, a resize in progress included."""
        if not tells_amounts(self.pod.status):
            return self.requests
        return pod_requests(self.pod, use_status=True)

    @Lazy
    def taken_up(self) -> tuple[tuple[str, int], ...]:
        """The same, in the form a node's sums need it."""
        return tuple((name, amount) for name, amount in self.running_requests.items() if amount)

    @Lazy
    def nonzero_requests(self) -> tuple[int, int]:
        """Milli-cpu and memory on its node, with defaults where nothing is requested."""
        if self.pod.spec.resources is None and not tells_amounts(self.pod.status):
            requests = self.fit_score_requests
            return requests.get(CPU, 0), requests.get(MEMORY, 0)
        return pod_nonzero_requests(self.pod, use_status=True)

    @Lazy
    def fit_score_requests(self) -> dict[str, int]:
        if self.pod.spec.resources is None and needs_no_defaults(self.pod):
            return self.requests
        return fit_score_requests(self.pod)

    @Lazy
    def tolerations(self) -> tuple[Toleration, ...]:
        return tuple(self.pod.spec.tolerations or ())

    @Lazy
    def required_node_affinity(self) -> RequiredNodeAffinity:
        return required_node_affinity(self.pod)

    @Lazy
    def host_ports(self) -> tuple[HostPort, ...]:
        """Of app containers and sidecars; ordinary init containers hold no port for long."""
        spec = self.pod.spec
        sidecars = [c for c in spec.init_containers or () if c.restart_policy == "Always"]
        return tuple(
            (port.host_ip or ANY_IP, port.protocol or "TCP", port.host_port)
            for container in (*sidecars, *(spec.containers or ()))
            for port in container.ports or ()
            if port.host_port > 0
        )

    def relabelled(self, pod: Pod) -> PodKind:
        """The kind of a pod that differs from this kind in its labels alone.

        Replicas are given the labels of a few zones, so it is remembered who becomes what.
        """
        known = self.relabelled_kinds
        if known is None:
            known = self.relabelled_kinds = {}
        labels = tuple((pod.metadata.labels or NO_LABELS).items())
        _lately.pop(self, None)
        _lately[self] = None
        if len(_lately) > LATELY_MAX:
            del _lately[next(iter(_lately))]
        found = known.get(labels, _nobody)()
        if found is None:
            found = kind_of(pod)
            for name in _FROM_SPEC:
                if name in self.__dict__:
                    found.__dict__.setdefault(name, self.__dict__[name])
            if len(known) >= _RELABELLED_MAX:
                known.clear()
            known[labels] = ref(found)
        return found

    def takes_up_as_much_as(self, other: PodKind) -> bool:
        """Whether a node has the same sums with a pod of either kind; if in doubt, no."""
        return (
            not (self.volumes or other.volumes)
            and self.running_requests == other.running_requests
            and self.nonzero_requests == other.nonzero_requests
            and self.host_ports == other.host_ports
        )

    @property
    def _affinity(self) -> Affinity:
        return self.pod.spec.affinity or _NO_AFFINITY

    @Lazy
    def _terms(self) -> tuple[tuple[tuple[Term, ...], str], ...]:
        """Those of each sort, and why one could not be parsed.

        A parse error empties that category, as upstream's core does.
        """
        liked, disliked = self._affinity.pod_affinity, self._affinity.pod_anti_affinity
        return tuple(
            _parsed(parse, stanza, self.namespace)
            for stanza in (liked, disliked)
            for parse in (_required, _preferred)
        )

    @Lazy
    def affinity_error(self) -> str:
        """Why a term could not be parsed; empty when all could."""
        return next((problem for _, problem in self._terms if problem), "")

    @Lazy
    def required_affinity(self) -> tuple[Term, ...]:
        return self._terms[0][0]

    @Lazy
    def preferred_affinity(self) -> tuple[Term, ...]:
        return self._terms[1][0]

    @Lazy
    def required_anti_affinity(self) -> tuple[Term, ...]:
        return self._terms[2][0]

    @Lazy
    def preferred_anti_affinity(self) -> tuple[Term, ...]:
        return self._terms[3][0]


_NO_AFFINITY = Affinity()


_FROM_SPEC = ("_terms", "required_node_affinity")
"""What takes long to parse, and is the same whatever the labels."""

_RELABELLED_MAX = 64

LATELY_MAX = 1024
_lately: dict[PodKind, None] = {}
"""Kinds of pending pods whose pods got other labels with their node, the latest last.  Nobody holds
such a kind when its last pending pod is bound, yet the next replica is of it."""


def _nobody() -> None:
    return None


def _volumes_that_count(volumes: list[Volume]) -> tuple[Volume, ...]:
    return tuple(volume for volume in volumes if volume != Volume(name=volume.name))


def _is_for_claim(volume: Volume) -> bool:
    return volume.persistent_volume_claim is not None or volume.ephemeral is not None


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


def _parsed(
    parse: Callable[[PodAffinity | None, str], tuple[Term, ...]],
    stanza: PodAffinity | None,
    namespace: str,
) -> tuple[tuple[Term, ...], str]:
    try:
        return parse(stanza, namespace), ""
    except SelectorError as error:
        return (), str(error)


class PodInfo:
    """One pod and its kind."""

    __slots__ = ("claims", "key", "kind", "pod", "uid")

    def __init__(self, pod: Pod, kind: PodKind | None = None) -> None:
        metadata = pod.metadata
        self.pod = pod
        self.kind = kind or kind_of(pod)
        self.uid: str = metadata.uid
        self.key = f"{metadata.namespace}/{metadata.name}"
        self.claims: tuple[Any, ...] | None = None
        """What the volume plugins worked out about its claims, once they have."""

    @property
    def priority(self) -> int:
        return self.kind.priority

    @property
    def node_name(self) -> str:
        return self.pod.spec.node_name

    @property
    def group_key(self) -> str:
        """`namespace/name` of its group; empty for a pod of its own."""
        return group_key(self.pod) if self.kind.is_member else ""

    @property
    def claim_keys(self) -> list[str]:
        """`namespace/claim` of every persistentVolumeClaim volume."""
        if not self.kind.has_claims:
            return []
        return [
            f"{self.kind.namespace}/{volume.persistent_volume_claim.claim_name}"
            for volume in self.pod.spec.volumes or ()
            if volume.persistent_volume_claim is not None
        ]

    def __repr__(self) -> str:
        return f"PodInfo({self.key})"


_kinds: WeakValueDictionary[tuple[Any, ...], PodKind] = WeakValueDictionary()
_traits: WeakValueDictionary[tuple[Any, ...], PodTraits] = WeakValueDictionary()


def kind_of(pod: Pod) -> PodKind:
    """The shared kind of this pod, made on first sight.

    Replicas of a cluster in this process share their spec with the pod before: then a look at
    the labels saves encoding it.
    """
    global _latest
    metadata, status = pod.metadata, pod.status
    plain = not (
        metadata.owner_references
        or metadata.deletion_timestamp
        or status.container_statuses
        or status.resources
    )
    spec, namespace, labels, latest = _latest
    if plain and pod.spec is spec and metadata.labels == labels and metadata.namespace == namespace:
        known = latest()
        if known is not None:
            return known
    kind = _kind_by_content(pod)
    if plain:
        _latest = pod.spec, metadata.namespace, metadata.labels, ref(kind)
    return kind


_latest: tuple[PodSpec | None, str, dict[str, str] | None, Callable[[], PodKind | None]]
_latest = None, "", None, _nobody
"""Spec, namespace, labels and kind of a pod without owner, seen last."""


def _kind_by_content(pod: Pod) -> PodKind:
    key = content_key(pod)
    kind = _kinds.get(key)
    if kind is None:
        kind = _kinds[key] = PodKind(pod)
    elif pod.spec.node_name:
        _share(pod, kind)
    return kind


def _share(pod: Pod, kind: PodKind) -> None:
    """Let a running pod have what it has in common with others of its kind only once in memory.

    An API server sends it anew for each of them.  Nobody notices: what is put in place is equal.
    """
    own, common = pod.spec, kind.pod.spec
    if own.containers is common.containers:
        return
    shared = replace(
        common,
        node_name=own.node_name,
        volumes=own.volumes,
        resource_claims=own.resource_claims,
        scheduling_group=own.scheduling_group,
    )
    force_setattr(pod, "spec", shared)
    force_setattr(pod.metadata, "labels", kind.pod.metadata.labels)
    force_setattr(pod.metadata, "namespace", kind.namespace)


def kind_count() -> int:
    """How many kinds of pods there are: what is kept per kind need not be more than that."""
    return len(_kinds)


__all__ = [
    "ANY_IP",
    "EVERYTHING",
    "NOTHING",
    "HostPort",
    "KeptPer",
    "PodInfo",
    "PodKind",
    "PodTraits",
    "Term",
    "fact",
    "kind_count",
    "kind_of",
]
