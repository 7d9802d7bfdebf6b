"""The plugin contract: which methods a plugin may have, and what each is given.

A plugin is any class with a `name` and some of these methods; the runtime looks at which ones are
there.  Filter and Score come in two forms.  The one-node form (`filter_node`, `score_node`) is
what a user writes first, and what preemption and nominated pods are checked with.  The form for
all nodes (`filter_nodes`, `score_nodes`) reads columns and must give the same answers.

`reads` says what the answer for a node depends on (`framework.reads`), and `signature` what of the
pod; what these allow is kept.  `check_plugin` refuses a class that says something else.
"""

from __future__ import annotations

from collections.abc import Generator, Hashable, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from msgspec import Struct

from stowplan.framework.events import EventRegistration
from stowplan.framework.reads import Reads, is_node_local, reads_of
from stowplan.framework.status import Normalized, Rows, Scores, Status, Verdict
from stowplan.state.node_info import NodeInfo
from stowplan.state.node_table import NodeTable
from stowplan.state.pod_info import PodInfo

if TYPE_CHECKING:
    from stowplan.framework.cycle import Cycle
    from stowplan.framework.groups import GroupCycle, PlacedGroup, Placement


class Plugin(Protocol):
    name: str


@dataclass(frozen=True, slots=True)
class PreFilterResult:
    """`nodes` narrows the search to these names; None leaves it alone."""

    nodes: frozenset[str] | None = None


@runtime_checkable
class PreEnqueue(Protocol):
    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        """With a class attribute `gates_groups = True`, an objection to one pod of a group holds
        all of them back."""


class BulkPreEnqueue(Protocol):
    def pre_enqueue_all(self, pods: list[PodInfo]) -> list[Status | None]:
        """`pre_enqueue` of each, for a plugin that has a quick answer for many."""


@runtime_checkable
class QueueSort(Protocol):
    def sort_key(self, pod: PodInfo, timestamp_s: float) -> Any:
        """A value that orders the active queue: smaller is scheduled earlier."""


@runtime_checkable
class PreFilter(Protocol):
    def pre_filter(self, cycle: Cycle, pod: PodInfo) -> PreFilterResult | Status | None:
        """None: go on.  SKIP, SKIP_STEADILY, SKIP_ALWAYS: leave this plugin's Filter out."""


@runtime_checkable
class PreFilterExtensions(Protocol):
    """Keep the state written by `pre_filter` true while pods are added to or taken off a node."""

    def add_pod(self, cycle: Cycle, pod: PodInfo, added: PodInfo, node: NodeInfo) -> None: ...
    def remove_pod(self, cycle: Cycle, pod: PodInfo, removed: PodInfo, node: NodeInfo) -> None: ...


@runtime_checkable
class FilterNode(Protocol):
    def filter_node(self, cycle: Cycle, pod: PodInfo, node: NodeInfo) -> Status | None: ...


@runtime_checkable
class FilterNodes(Protocol):
    def filter_nodes(
        self, cycle: Cycle, pod: PodInfo, nodes: NodeTable, rows: Rows | slice
    ) -> Verdict:
        """Of a plugin that reads the cluster, `rows` are all nodes, or, with a class attribute
        `only_passing = True`, those that passed all filters before it: for answers that cost much,
        or may be errors."""


@runtime_checkable
class Signed(Protocol):
    def signature(self, pod: PodInfo) -> Hashable:
        """What this plugin's Filter and Score read of the pod: with equal ones, pods get the same
        answer for the same node.  None: for this pod the answer depends on more than the node.

        Without it, the kind of pod stands for it.
        """


class Nominate(Struct, frozen=True):
    """What PostFilter wants done with the pod's nominated node: set it, or ("") clear it."""

    node: str


class PostFilterResult(Struct, frozen=True):
    nominate: Nominate | None = None
    """None leaves the nomination alone."""
    victims: tuple[PodInfo, ...] = ()
    """Pods to evict from the nominated node, most important first."""


@runtime_checkable
class PostFilter(Protocol):
    def post_filter(
        self, cycle: Cycle, pod: PodInfo
    ) -> Generator[Any, Any, tuple[PostFilterResult | None, Status | None]]:
        """Make room for a pod that fits nowhere.  May yield calls that need an answer."""


@runtime_checkable
class PreScore(Protocol):
    def pre_score(self, cycle: Cycle, pod: PodInfo, rows: Rows) -> Status | None:
        """`rows` are the feasible nodes.  SKIP leaves this plugin's Score out."""


@runtime_checkable
class ScoreNode(Protocol):
    def score_node(self, cycle: Cycle, pod: PodInfo, node: NodeInfo) -> int: ...


@runtime_checkable
class ScoreNodes(Protocol):
    def score_nodes(
        self, cycle: Cycle, pod: PodInfo, nodes: NodeTable, rows: Rows | slice
    ) -> Scores | Normalized | int:
        """The array is the framework's from then on, unless it is marked read-only.

        A plugin that reads the cluster may give scores that need no normalising any more, or one
        number, from 0 to 100, for all nodes.
        """


@runtime_checkable
class NormalizeScore(Protocol):
    def normalize_scores(
        self, cycle: Cycle, pod: PodInfo, nodes: NodeTable, rows: Rows, scores: Scores
    ) -> Scores:
        """Bring the raw scores of the feasible rows into 0..100."""


@runtime_checkable
class RawScores(Protocol):
    def raw_scores(self, cycle: Cycle, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Scores:
        """For a plugin whose `score_nodes` never sees them: asked after the search, and only
        where the decision is explained."""


@runtime_checkable
class Reserve(Protocol):
    def reserve(self, cycle: Cycle, pod: PodInfo, node: str) -> Status | None: ...
    def unreserve(self, cycle: Cycle, pod: PodInfo, node: str) -> None: ...


@dataclass(frozen=True, slots=True)
class Wait:
    """Permit's "not yet": the pod waits until somebody allows it or the time is up."""

    timeout_s: float
    reason: str = ""


@runtime_checkable
class Permit(Protocol):
    def permit(self, cycle: Cycle, pod: PodInfo, node: str) -> Status | Wait | None: ...


BindingSteps = Generator[Any, Any, "Status | None"]
"""A step that may have to wait for the cluster: it yields effects and is sent what came of them."""


@dataclass(frozen=True, slots=True)
class PreFlight:
    """What `pre_bind_pre_flight` answers when there is work to do."""

    allow_parallel: bool = False


@runtime_checkable
class PreBind(Protocol):
    def pre_bind_pre_flight(self, cycle: Cycle, pod: PodInfo, node: str) -> PreFlight | Status: ...
    def pre_bind(self, cycle: Cycle, pod: PodInfo, node: str) -> BindingSteps: ...


@runtime_checkable
class BindPlugin(Protocol):
    def bind(self, cycle: Cycle, pod: PodInfo, node: str) -> Any:
        """An effect that binds the pod, or SKIP to leave it to the next Bind plugin."""


@runtime_checkable
class PostBind(Protocol):
    def post_bind(self, cycle: Cycle, pod: PodInfo, node: str) -> None: ...


@runtime_checkable
class PlacementGenerate(Protocol):
    def generate_placements(self, cycle: GroupCycle) -> Sequence[Placement] | Status:
        """The sets of nodes that a group may be placed on, one of which is chosen.  At most one
        plugin of a profile; without one, a group may be placed on all nodes."""


@runtime_checkable
class PlacementScore(Protocol):
    def score_placement(self, cycle: GroupCycle, placement: PlacedGroup) -> int:
        """How good it is to place the group so; the highest sum wins."""


class PlacementBounds(Protocol):
    """What saves trying placements that cannot be chosen; without these, all are tried."""

    def most_for_placement(self, cycle: GroupCycle, placement: Placement) -> int:
        """The most that `score_placement`, normalised, can give: all members find a node there."""

    def most_members(self, cycle: GroupCycle, placement: Placement) -> int:
        """Of a Filter: how many of the members it lets pass there, at most."""


class NormalizePlacementScores(Protocol):
    def normalize_placement_scores(self, cycle: GroupCycle, scores: list[int]) -> list[int]:
        """Bring the scores of all placements that are possible into 0..100."""


@runtime_checkable
class EnqueueExtensions(Protocol):
    def events_to_register(self) -> Sequence[EventRegistration]: ...


POINTS: dict[str, tuple[type, ...]] = {
    "preEnqueue": (PreEnqueue,),
    "queueSort": (QueueSort,),
    "preFilter": (PreFilter,),
    "filter": (FilterNode, FilterNodes),
    "postFilter": (PostFilter,),
    "preScore": (PreScore,),
    "score": (ScoreNode, ScoreNodes),
    "reserve": (Reserve,),
    "permit": (Permit,),
    "preBind": (PreBind,),
    "bind": (BindPlugin,),
    "postBind": (PostBind,),
    "placementGenerate": (PlacementGenerate,),
    "placementScore": (PlacementScore,),
}
"""Extension point as the configuration names it -> the protocols that make a plugin one of them."""


_CONTRACT = frozenset(
    name
    for protocol in (
        *(protocol for protocols in POINTS.values() for protocol in protocols),
        *(BulkPreEnqueue, PreFilterExtensions, NormalizeScore, RawScores),
        *(Signed, EnqueueExtensions),
        *(NormalizePlacementScores, PlacementBounds),
    )
    for name in vars(protocol)
    if not name.startswith("_")
) | {"name", "reads", "skips_any_size", "only_passing", "gates_groups"}

_OLD = {
    "node_only": "reads = Reads.NODE",
    "sums_only": "reads = Reads.SUMS",
    "by_traits": "`reads` without Reads.SIZE",
    "concerns": "return SKIP_ALWAYS in pre_filter",
    "concerns_score": "return SKIP_ALWAYS in pre_score",
    "skips_steadily": "return SKIP_STEADILY in pre_filter and pre_score",
    "idle_if_skipped": "return SKIP_ALWAYS in pre_filter",
    "weighted_scores": "return Normalized(scores), or a number, in score_nodes",
}
"""What the contract had before -> what to write instead."""


def make_plugin(plugin: type, args: object, handle: object) -> Any:
    """One without a constructor of its own has no use for either."""
    has_own = getattr(plugin, "__init__", None) is not object.__init__
    return plugin(args, handle) if has_own else plugin()


def check_plugin(plugin: type) -> None:
    """Raise TypeError if the class says something that the contract does not know, or wrongly."""
    for name in dir(plugin):
        if name.startswith("_") or name in _CONTRACT:
            continue
        if name in _OLD:
            raise TypeError(f"`{name}` is no longer part of the plugin contract: {_OLD[name]}")
        near = get_close_matches(name, _CONTRACT, 1)
        meant = f"; did you mean `{near[0]}`?" if near else "."
        raise TypeError(
            f"`{name}` is not part of the plugin contract{meant} "
            "Names of your own start with an underscore"
        )
    for whole, single in (("filter_nodes", "filter_node"), ("score_nodes", "score_node")):
        if hasattr(plugin, whole) and not hasattr(plugin, single):
            raise TypeError(f"it has {whole} and lacks {single}, which is asked about single nodes")
    _check_reads(plugin)


def _check_reads(plugin: type) -> None:
    reads = reads_of(plugin)
    if not isinstance(reads, Reads) or not reads:
        raise TypeError(f"reads is {reads!r}, and must be made of Reads.NODE and the like")
    if hasattr(plugin, "signature"):
        if not callable(plugin.signature):
            raise TypeError("signature must be a method: signature(self, pod)")
        if not is_node_local(plugin):
            raise TypeError("it has signature, which takes `reads = Reads.NODE` or the like")
    elif is_node_local(plugin) and Reads.ANNOTATIONS in reads:
        raise TypeError("it reads annotations, so signature must say what of them counts")


def points_of(plugin: type) -> frozenset[str]:
    """The extension points a plugin class implements."""
    return frozenset(
        point
        for point, protocols in POINTS.items()
        if any(_has_methods(plugin, protocol) for protocol in protocols)
    )


def _has_methods(plugin: type, protocol: type) -> bool:
    methods = [name for name, value in vars(protocol).items() if callable(value)]
    public = [name for name in methods if not name.startswith("_")]
    return all(callable(getattr(plugin, name, None)) for name in public)


@dataclass(frozen=True, slots=True)
class ProfilePlugins:
    """A profile's plugins per extension point, in the order they run."""

    queue_sort: QueueSort
    pre_enqueue: tuple[PreEnqueue, ...] = ()
    pre_filter: tuple[PreFilter, ...] = ()
    filter: tuple[Any, ...] = ()
    post_filter: tuple[PostFilter, ...] = ()
    pre_score: tuple[PreScore, ...] = ()
    score: tuple[Any, ...] = ()
    reserve: tuple[Reserve, ...] = ()
    permit: tuple[Permit, ...] = ()
    pre_bind: tuple[PreBind, ...] = ()
    bind: tuple[BindPlugin, ...] = ()
    post_bind: tuple[PostBind, ...] = ()
    placement_generate: tuple[PlacementGenerate, ...] = ()
    placement_score: tuple[PlacementScore, ...] = ()
    weights: dict[str, int] = field(default_factory=dict)
    placement_weights: dict[str, int] = field(default_factory=dict)
    instances: dict[str, Any] = field(default_factory=dict)
    """Every plugin of the profile by name, whatever points it is at."""
