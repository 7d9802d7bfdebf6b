"""Node selectors: which nodes a pod, or a volume, may be on.

A selector is a list of terms of which one must match; inside a term everything must match.  A term
that cannot be parsed matches no node but leaves the others alone.  Mirrors
`component-helpers/scheduling/corev1/nodeaffinity`.  NodeAffinity, PodTopologySpread,
VolumeBinding and the expansion of DaemonSets ask here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from stowplan.objects.labels import selector_from_map
from stowplan.objects.pod import (
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    PreferredSchedulingTerm,
)
from stowplan.objects.selectors import (
    IN,
    NOT_IN,
    Requirement,
    Selector,
    SelectorError,
    make_requirement,
)

METADATA_NAME = "metadata.name"


@dataclass(frozen=True, slots=True)
class NodeTerm:
    """Requirements on the labels and on the name of a node, all of which must hold."""

    expressions: tuple[Requirement, ...] = ()
    fields: tuple[Requirement, ...] = ()
    problem: str = ""
    """Why the term could not be parsed.  Such a term matches no node."""

    @property
    def never_matches(self) -> bool:
        return bool(self.problem) or not (self.expressions or self.fields)

    def matches(self, labels: Mapping[str, str], node_name: str) -> bool:
        """`fields` are ignored for a node without a name, as for the node affinity of volumes."""
        if self.problem or not (self.expressions or self.fields):
            return False
        for requirement in self.expressions:
            if not requirement.matches_value(labels.get(requirement.key)):
                return False
        if node_name:
            for requirement in self.fields:
                # The only field there is; any other reads as empty.
                value = node_name if requirement.key == METADATA_NAME else ""
                if not requirement.matches_value(value):
                    return False
        return True


@dataclass(frozen=True, slots=True)
class CompiledNodeSelector:
    """Matches where one of the terms does; without terms, nowhere."""

    terms: tuple[NodeTerm, ...]

    def matches(self, labels: Mapping[str, str], node_name: str) -> bool:
        return any(term.matches(labels, node_name) for term in self.terms)

    @property
    def problems(self) -> tuple[str, ...]:
        """For callers that refuse a selector with a bad term, such as `addedAffinity`."""
        return tuple(term.problem for term in self.terms if term.problem)


@dataclass(frozen=True, slots=True)
class RequiredNodeAffinity:
    """A pod's `nodeSelector` and its required node affinity: both must hold."""

    labels: Selector
    affinity: CompiledNodeSelector | None

    def matches(self, labels: Mapping[str, str], node_name: str) -> bool:
        if not self.labels.matches(labels):
            return False
        return self.affinity is None or self.affinity.matches(labels, node_name)

    @property
    def is_trivial(self) -> bool:
        """Any node will do."""
        return self.affinity is None and self.labels.is_everything


def compile_node_selector(selector: NodeSelector | None) -> CompiledNodeSelector | None:
    """None when there is no selector, and so no restriction.  Empty terms are left out."""
    if selector is None:
        return None
    return CompiledNodeSelector(
        tuple(compile_term(term) for term in selector.node_selector_terms or () if not _empty(term))
    )


def compile_preferred(
    terms: Iterable[PreferredSchedulingTerm] | None,
) -> tuple[tuple[int, NodeTerm], ...]:
    """Weights and terms, without those that cannot count.  Raises on a malformed term."""
    compiled = []
    for preferred in terms or ():
        if preferred.weight == 0 or _empty(preferred.preference):
            continue
        term = compile_term(preferred.preference)
        if term.problem:
            raise SelectorError(term.problem)
        compiled.append((preferred.weight, term))
    return tuple(compiled)


def required_node_affinity(pod: Pod) -> RequiredNodeAffinity:
    spec = pod.spec
    affinity = None
    if spec.affinity is not None and spec.affinity.node_affinity is not None:
        affinity = compile_node_selector(spec.affinity.node_affinity.required)
    return RequiredNodeAffinity(selector_from_map(spec.node_selector or {}), affinity)


def metadata_name_values(selector: NodeSelector) -> tuple[frozenset[str] | None, ...]:
    """Per term, the node names its `metadata.name In` fields leave; None where it has none.

    NodeAffinity's PreFilter narrows the nodes with this.  It reads the terms as written, bad and
    empty ones too.
    """
    return tuple(_names(term) for term in selector.node_selector_terms or ())


def compile_term(term: NodeSelectorTerm) -> NodeTerm:
    try:
        return NodeTerm(
            tuple(_expression(written) for written in term.match_expressions or ()),
            tuple(_field(written) for written in term.match_fields or ()),
        )
    except SelectorError as error:
        return NodeTerm(problem=str(error))


def _empty(term: NodeSelectorTerm) -> bool:
    return not term.match_expressions and not term.match_fields


def _expression(written: NodeSelectorRequirement) -> Requirement:
    return make_requirement(written.key, written.operator, written.values or ())


def _field(written: NodeSelectorRequirement) -> Requirement:
    values = written.values or []
    if written.operator not in (IN, NOT_IN):
        raise SelectorError(
            f"{written.operator!r} is not a valid node field selector operator; use In or NotIn"
        )
    if len(values) != 1:
        raise SelectorError(
            f"the field selector of {written.key!r} needs exactly one value; got {values}"
        )
    return Requirement(written.key, written.operator, frozenset(values))


def _names(term: NodeSelectorTerm) -> frozenset[str] | None:
    names: frozenset[str] | None = None
    for field in term.match_fields or ():
        if field.key == METADATA_NAME and field.operator == IN:
            values = frozenset(field.values or ())
            names = values if names is None else names & values
    return names
