"""`Cluster`: a whole cluster as one object, to build, run, ask and fork.

The scheduler in it is the one that runs live; only the cluster it talks to (`apiserver.store`) and
the clock are others.  What it consists of is in `engine`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from difflib import get_close_matches
from html import escape
from importlib import import_module
from typing import Any, Self, Unpack, cast

from stowplan.apiserver.store import view
from stowplan.config import SchedulerConfig
from stowplan.config.write import to_yaml
from stowplan.core.decision import Decision as CoreDecision
from stowplan.embedded import EmbeddedCluster, Scheduling
from stowplan.errors import ApiError, InputError
from stowplan.objects.api import Create, Delete, Patch
from stowplan.objects.base import KubeObject
from stowplan.objects.coordination import Event
from stowplan.objects.kinds import EVENT, NODE, POD, Kind
from stowplan.objects.manifests import Manifest
from stowplan.objects.node import Node
from stowplan.objects.pod import Pod
from stowplan.objects.pod_groups import PodGroup
from stowplan.world import listing, nodes
from stowplan.world.applying import Sources, apply_all, kind_named, put_all, sources_of
from stowplan.world.decision import Decision
from stowplan.world.diff import Diff, compare
from stowplan.world.draining import evict_all, moved_by_drain
from stowplan.world.dump import engine_of, filled
from stowplan.world.engine import Engine
from stowplan.world.forking import forking
from stowplan.world.garbage import garbage_stays
from stowplan.world.groups import group_cells, outcome_of_gated
from stowplan.world.implied_gates import implied_gates
from stowplan.world.lanes import (
    Place,
    Waiting,
    amounts,
    lane_counts,
    lanes_of,
    place_of,
    queue_of,
)
from stowplan.world.listing import Listing
from stowplan.world.live import read_cluster
from stowplan.world.nodes import Taint
from stowplan.world.objections import Objections
from stowplan.world.pace import Pace
from stowplan.world.reading import Objects, read_objects
from stowplan.world.remarks import Remark, remarks_on
from stowplan.world.screening import Screen
from stowplan.world.setup import Config, Options, Setup, make_setup, reweighed, weights_of
from stowplan.world.table import Table
from stowplan.world.waking import wakes_of
from stowplan.world.watching import Watched

_ENDED = frozenset({"Succeeded", "Failed"})
DEFAULT_PROFILE = "default-scheduler"


class Cluster:
    """A cluster in this process, with the scheduler that decides on its pods.

    `config` is a KubeSchedulerConfiguration (a path or a dict; None: the default profile), `seed`
    makes every run the same, `clock` is "virtual" (waiting takes no time) or "real", `plugins` are
    classes of your own: one that the configuration does not name is enabled at all its points.
    `tie_break="name"` takes the first by name of equally good nodes instead of one by chance.
    Without `detail` decisions have no scores and rejections per node, which saves time and memory
    where thousands of nodes are looked at thousands of times.  `timed` measures where the
    scheduler's time goes: `times()`.

    A plugin that raises fails the attempt, and the pod is tried again; a `strict` cluster raises
    `stowplan.errors.PluginError` from `run` instead, with the plugin's file and line.

    Extenders that the configuration names are not called.
    """

    def __init__(self, config: Config = None, **options: Unpack[Options]) -> None:
        self._parts: Engine | None = Engine.new(make_setup(config, options))
        self._parts.start()
        self._sources: Sources = {}
        self.missing: tuple[str, ...] = ()
        """What a live cluster did not let us read; see `from_kubeconfig`."""

    @classmethod
    def of_engine(
        cls, engine: Engine, missing: tuple[str, ...] = (), sources: Sources | None = None
    ) -> Self:
        """For who has put everything together already."""
        cluster = cls.__new__(cls)
        vars(cluster).update(_parts=engine, missing=missing, _sources=dict(sources or {}))
        return cluster

    @property
    def _engine(self) -> Engine:
        if self._parts is None:
            raise InputError("this cluster is closed")
        return self._parts

    def close(self) -> None:
        """Let go of everything; a closed cluster cannot be used.  Forks live on."""
        engine, self._parts = self._parts, None
        if engine is not None:
            engine.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *problem: object) -> None:
        self.close()

    @classmethod
    def from_dump(cls, objects: Objects, config: Config = None, **options: Unpack[Options]) -> Self:
        """A cluster with the objects of manifests or of a dump (`kubectl get -A -o json ...`).

        `objects` is a path, a dict, a `List`, or a list of these.  Pods with a node run there, the
        others wait; workloads are expanded to the pods they lack.  Nothing is decided before
        `run()`.  A dump may show only a part of a cluster: what it shows stays as it is until
        something about it changes, and no pod ends by itself.  With groups among them, and nothing
        said of `feature_gates`, those are on that the groups need.
        """
        manifests = read_objects(objects)
        if "feature_gates" not in options:
            options["feature_gates"] = implied_gates(manifests)
        return cls.of_manifests(make_setup(config, options), manifests)

    @classmethod
    def from_kubeconfig(
        cls,
        context: str | None = None,
        config: Config = None,
        *,
        kubeconfig: str | os.PathLike[str] = "",
        **options: Unpack[Options],
    ) -> Self:
        """A copy of a live cluster, as a dump of all that scheduling reads; never writes to it.

        `kubeconfig` is found as kubectl finds it.  What we have no right to list is left out:
        `missing` says what, and what that hides.
        """
        return cls.of_live(make_setup(config, options), os.fspath(kubeconfig), context)

    @classmethod
    def of_live(cls, setup: Setup, kubeconfig: str = "", context: str | None = None) -> Self:
        """As `from_kubeconfig`, for who has set up everything already."""
        objects, missing = read_cluster(kubeconfig, context)
        return cls.of_engine(filled(setup, objects), missing)

    @classmethod
    def of_manifests(cls, setup: Setup, manifests: Iterable[Manifest]) -> Self:
        """As `from_dump`, for who has read and set up everything already."""
        with garbage_stays():
            manifests = list(manifests)
            return cls.of_engine(engine_of(setup, manifests), sources=sources_of(manifests))

    @classmethod
    def attached(cls, running: EmbeddedCluster, **options: Unpack[Options]) -> Self:
        """A look at a cluster that somebody else runs, such as `stowplan up`; not a copy.

        It shows what is there and what is decided from now on, and writes go to it; but only a
        fork of it can be `run`.  The options are those of its forks.  `close` ends the look, not
        the cluster.  Used where the cluster runs: between two turns of its event loop.
        """
        scheduling = running.parts.scheduling or Scheduling()
        setup = make_setup(scheduling.config, options, registry=scheduling.registry)
        return cls.of_engine(Engine.attached(running, setup))

    @classmethod
    def watching(cls, watched: Watched, missing: tuple[str, ...] = ()) -> Self:
        """As `attached`, to a live cluster, through the scheduler that follows it.  Nothing can be
        written; in a fork every pending pod is decided on anew."""
        machine = watched.scheduler.machine
        setup = make_setup(machine.config, {}, registry=machine.registry)
        return cls.of_engine(Engine.watching(watched, setup), missing)

    # -- building ---------------------------------------------------------------------------

    def add_nodes(
        self,
        count: int = 1,
        *,
        cpu: str | float = "8",
        memory: str | int = "32Gi",
        zones: int | Sequence[str] | None = None,
        labels: Mapping[str, str] | None = None,
        taints: Iterable[Taint] = (),
        prefix: str = "node",
        resources: Mapping[str, str | int] | None = None,
        gpus: int = 0,
        like: str | None = None,
    ) -> list[str]:
        """Add nodes and return their names: `prefix-1`, `prefix-2` and so on.

        `zones` is a number (zone-a, zone-b, ...) or names, taken in turn.  `resources` are further
        ones, such as `{"example.com/gpu": 4, "pods": 250}`.  `gpus` are simulated devices, to be
        claimed through the class gpu.stowplan.dev.  `like` names a node that is there: the new
        ones have its labels, taints, amounts and devices.
        """
        nodes.check_count(count)
        engine = self._engine
        if like is not None:
            template = nodes.node_like(self._data(NODE, like))
        else:
            template = nodes.node_template(
                cpu=cpu,
                memory=memory,
                labels=labels,
                taints=taints,
                resources=resources,
                gpus=gpus,
            )
        names_of_zones = nodes.zone_names(zones) or [""]
        taken = [thing.name for thing in self._select(NODE)]
        names = nodes.free_names(prefix, taken, count)
        with engine.store.batch():
            for number, name in enumerate(names):
                zone = names_of_zones[number % len(names_of_zones)]
                engine.store.execute(Create(NODE, "", nodes.named_node(template, name, zone)))
        return names

    def apply(self, objects: Objects) -> list[str]:
        """Create these objects, or change those that are there, as `kubectl apply` does.

        A path of a file or folder (YAML or JSON), an object as a dict, a `List`, or a list of any
        of these.  Returns what was applied, as `Deployment default/web`.
        """
        manifests = read_objects(objects)
        self._forget_sources(manifests)
        return apply_all(self._engine.store, manifests)

    def put(self, objects: Objects) -> None:
        """Make these objects part of the cluster as if it had always had them.

        Unlike `apply` this may change what an API server would not let anybody change, such as the
        node selector of a pod: each object is completed as a manifest of a dump is, and takes the
        place of the one that is there.  A pending pod that is replaced is not tried again at once;
        see `retry`.
        """
        manifests = read_objects(objects)
        put_all(self._engine.store, manifests, self._sources)
        self._forget_sources(manifests)
        self._sources |= sources_of(manifests)

    def retry(self, key: str) -> None:
        """Have the scheduler try a pending pod next time it runs, whatever the pod waits for."""
        engine = self._engine
        engine.take_in()
        machine = engine.driver.machine
        pod = machine.pods.get(key)
        if pod is not None:
            machine.queue.activate([pod])
            engine.driver.wake()

    def reconfigure(self, config: Config) -> None:
        """Decide with another configuration from here on; extenders are not called."""
        setup = self._engine.setup
        options: Options = {"seed": setup.seed}
        if not isinstance(config, SchedulerConfig):
            options["feature_gates"] = dict.fromkeys(sorted(setup.config.features), True)
        new = make_setup(config, options, registry=setup.registry)
        self._engine.driver.machine.reconfigure(new.config)
        for pod in self.queue():
            self.retry(pod.key)

    def reseed(self, seed: int) -> None:
        """Break ties from here on as this seed says."""
        self._engine.driver.machine.random.seed(seed)

    def reweigh(self, weights: Mapping[str, int], profile: str = DEFAULT_PROFILE) -> None:
        """Let plugins count for more or less from here on; 0 leaves one's scores out."""
        machine = self._engine.driver.machine
        known = weights_of(machine).get(profile, {})
        self.reconfigure(reweighed(machine.config, known, profile, weights))

    def _forget_sources(self, manifests: Iterable[Manifest]) -> None:
        for kind, key in sources_of(manifests):
            self._sources.pop((kind, key), None)

    def delete(self, key: str, kind: str = "Pod") -> None:
        """Delete an object by `namespace/name`, or by name where there are no namespaces."""
        found = kind_named(kind)
        thing = self._find(found, key)
        self._sources.pop((found.name, thing.key), None)
        self._engine.store.execute(Delete(found, thing.namespace, thing.name))

    def cordon(self, node: str) -> None:
        """Let no more pods onto the node."""
        self._set_unschedulable(node, True)

    def uncordon(self, node: str) -> None:
        self._set_unschedulable(node, False)

    def _set_unschedulable(self, node: str, value: bool) -> None:
        self._find(NODE, node)
        body = {"spec": {"unschedulable": value or None}}
        self._engine.store.execute(Patch(NODE, "", node, body, "merge"))

    def drain(self, node: str, only: Container[str] | None = None) -> dict[str, str]:
        """Cordon the node and evict its pods, or `only` these, as `kubectl drain` does.

        It runs meanwhile.  Pods of DaemonSets stay.  Disruption budgets are respected: an eviction
        that one forbids is tried again while others find new places.  Returns the pods that could
        not be evicted, and why not.
        """
        store = self._engine.own().store
        self.cordon(node)
        return evict_all(store, lambda: moved_by_drain(self.pods(), node, only), self.run)

    # -- time -------------------------------------------------------------------------------

    def run(self, seconds: float | None = None) -> None:
        """Let the cluster run until nothing is left to do, or for so many seconds.

        Nothing is left when no pod can be decided on now or after its backoff, no binding is under
        way, and neither controllers nor pods that end by themselves have plans.  Pods that fit
        nowhere do not keep it running.
        """
        if seconds is not None and not (isinstance(seconds, int | float) and seconds >= 0):
            raise InputError(f"seconds is {seconds!r}", hint="a number from 0 on")
        self._engine.run(seconds)

    @property
    def now(self) -> float:
        """The time in seconds; a new cluster under the virtual clock begins at 0."""
        return self._engine.clock.now()

    # -- asking -----------------------------------------------------------------------------

    def pods(self, *, pending: bool | None = None, namespace: str = "") -> Listing[Pod]:
        """All pods; with `pending` those without a node, or those with one."""
        found = cast(list[Pod], self._select(POD, namespace))
        if pending is not None:
            found = [pod for pod in found if _is_pending(pod) == pending]
        return Listing(found, listing.POD_CELLS)

    def pod(self, key: str) -> Pod:
        """One pod, by `namespace/name`."""
        return cast(Pod, self._find(POD, key))

    def nodes(self) -> Listing[Node]:
        used: dict[str, int] = {}
        for pod in self._select(POD):
            assert isinstance(pod, Pod)
            if pod.spec.node_name and pod.status.phase not in _ENDED:
                used[pod.spec.node_name] = used.get(pod.spec.node_name, 0) + 1
        found = cast(list[Node], self._select(NODE))
        return Listing(found, listing.node_cells(used))

    def groups(self) -> Listing[PodGroup]:
        """The groups of pods that are scheduled together: how many members each has, how many of
        them have a node, and what its condition says.  None without the gate GenericWorkload."""
        found = cast(list[PodGroup], self._select(kind_named("PodGroup")))
        return Listing(found, group_cells(cast(list[Pod], self._select(POD))))

    def events(self, key: str = "") -> Listing[Event]:
        """What the scheduler and the controllers reported, oldest first; of one object, by key."""
        found = cast(list[Event], self._select(EVENT))
        if key:
            found = [event for event in found if listing.regarding(event) == key]
        found.sort(key=lambda event: (event.event_time or "", event.name))
        return Listing(found, listing.EVENT_CELLS)

    def objects(self, kind: str, namespace: str = "") -> Listing[KubeObject]:
        """All objects of a kind, such as "Deployment"."""
        return Listing(self._select(kind_named(kind), namespace), {})

    def get(self, kind: str, key: str) -> dict[str, Any]:
        """One object as plain data, as the API serves it."""
        return self._data(kind_named(kind), key)

    def source(self, kind: str, key: str) -> dict[str, Any] | None:
        """The object as the manifest or dump has it that this cluster was made of; None for an
        object that came about otherwise, or was changed since.  Nodes and pods that ran from the
        beginning are not kept."""
        found = kind_named(kind)
        return self._sources.get((found.name, self._find(found, key).key))

    @property
    def has_sources(self) -> bool:
        """Whether this cluster was made of manifests or a dump."""
        return bool(self._sources)

    def allocatable(self) -> Table:
        """Nodes by resources: how much there is in all (cpu in thousandths)."""
        return amounts(self._engine.driver.machine, free=False)

    def free(self) -> Table:
        """Nodes by resources: how much is left beside the pods that are there, as the scheduler
        counts it (cpu in thousandths; `pods` is how many more a node takes)."""
        return amounts(self._engine.driver.machine, free=True)

    def objections(self, key: str) -> Objections:
        """Which plugins turn down which nodes for this pod, each plugin asked for itself.

        Whether the pod has a node does not matter, but a pod that runs is counted there.
        """
        with self.screen() as screen:
            return screen.objections(self.get("Pod", key))

    def screen(self) -> Screen:
        """For asking about many pods that are not there: whether they would fit, as things are."""
        return Screen(forking(self._engine)(), self._sources)

    def place(self, key: str) -> Place:
        """Where a pod stands: in which part of the queue, since when, how often it was tried."""
        return place_of(self._engine.driver.machine, self.pod(key))

    def queue(self) -> Listing[Pod]:
        """The pods that wait for a decision, in the order the scheduler would take them.

        Its table says where each waits (active, backoff, unschedulable, gated) and how often it
        was tried.
        """
        return queue_of(self._engine.driver.machine)

    def lanes(self) -> dict[str, list[Waiting]]:
        """The queue by where pods wait (active, backoff, unschedulable, gated, in flight, permit),
        each in the order they are taken."""
        return lanes_of(self._engine.driver.machine)

    def lane_counts(self) -> dict[str, int]:
        """How many pods wait in each lane."""
        return lane_counts(self._engine.driver.machine)

    def wakes(self, profile: str, plugins: Iterable[str]) -> list[str]:
        """What may happen, in words, after which a pod that these plugins turned down is looked at
        again."""
        return wakes_of(self._engine.driver.machine, profile, plugins)

    def weights(self) -> dict[str, dict[str, int]]:
        """Profile -> plugin -> how much its scores count."""
        return weights_of(self._engine.driver.machine)

    def pace(self) -> Pace:
        """How fast decisions are made: counts so far, latencies since the last look."""
        return self._engine.history.pace.read()

    def times(self) -> dict[str, Any]:
        """Where the scheduler's time went in the last minutes: `phases`, and `plugins` in one
        cycle of ten; empty where nobody measures it."""
        found = self._engine.times
        return {} if found is None else found.report().to_dict()

    def configuration(self) -> str:
        """The KubeSchedulerConfiguration that it decides with, as YAML."""
        return to_yaml(self._engine.driver.machine.config)

    @property
    def profiles(self) -> list[str]:
        """The schedulers that pods may ask for (`spec.schedulerName`)."""
        return list(self._engine.driver.machine.frameworks)

    def remarks(self) -> list[Remark]:
        """What makes answers less than they seem: pods nobody decides on, nodes that are not
        shown, extenders that are not called, rights that were missing."""
        return remarks_on(
            self._engine.setup, list(self.pods()), list(self.nodes()), self.profiles, self.missing
        )

    def decision(self, key: str) -> Decision:
        """The last decision on a pod; its `history` has all of them."""
        engine = self._engine
        entries = engine.history.of(key)
        if entries:
            return Decision.of(entries[-1], engine.history, self)
        queued = engine.driver.machine.queue.get(key)
        if queued is not None and queued.gating_status is not None:
            told = _gated(key, queued.gating_status.message, queued.gating_plugin)
            told.group = outcome_of_gated(engine.driver.machine, queued.info)
            return Decision(told)
        self._find(POD, key)
        raise InputError(
            f"there is no decision on {key!r}",
            hint="it has not been tried: `run()` first; or it came with its node",
        )

    def decisions(self) -> list[Decision]:
        """The last decision on every pod that was tried, those decided last at the end."""
        return [self.decision(key) for key in self._engine.history.pods()]

    def latest_decisions(self) -> list[Decision]:
        """The last thousand, in the order they were made."""
        history = self._engine.history
        return [Decision.of(entry, history) for entry in history.latest]

    def plugin_traces(self) -> list[str]:
        """Tracebacks of what plugins raised, each once; some of the first."""
        return list(self._engine.history.traces)

    # -- another world ----------------------------------------------------------------------

    def fork(self) -> Self:
        """Another cluster that is as this one is now, and goes its own way from here on.

        Neither notices the other.  Pods that wait at Permit, or for what PreBind does, begin their
        attempt anew in the fork, as they would after a restart of the scheduler.
        """
        return self.forking()()

    def forking(self) -> Callable[[], Self]:
        """What makes a fork of this moment, on another thread if need be (`world.forking`)."""
        make, missing, sources = forking(self._engine), self.missing, self._sources
        return lambda: self.of_engine(make(), missing, sources)

    def what_if(self, **changes: Any) -> Any:
        """What would become of everybody after these changes: `stowplan.answers.what_if`."""
        return import_module("stowplan.answers").what_if(self, **changes)

    def why(self, key: str = "", **options: Any) -> Any:
        """Why a pod has no node, or all that have none, and what helps: `stowplan.answers.why`."""
        # By name: rooms above this one are not imported.
        return import_module("stowplan.answers").why(self, key, **options)

    def compare(self, config: Config = None, **options: Any) -> Any:
        """Beside another configuration or seed: `stowplan.answers.compare`."""
        return import_module("stowplan.answers").compare(self, config, **options)

    def plan(self, question: str, *words: Any, **options: Any) -> Any:
        """`capacity`, `nodes` or `consolidate`: `stowplan.answers.plan`."""
        return import_module("stowplan.answers").plan(self, question, *words, **options)

    def snapshot(self, path: str | os.PathLike[str], *, anonymise: bool = False) -> None:
        """Write all that scheduling reads to a file; without names, decisions stay the same."""
        from stowplan.world.snapshot import take_snapshot

        take_snapshot(self, anonymised=anonymise).write(path)

    def diff(self, other: Cluster) -> Diff:
        """What is different here from the other one: `trial.diff(cluster)`."""
        pods = list(self.pods())
        history = self._engine.history
        why = {
            pod.key: self.decision(pod.key).full_message
            for pod in pods
            if _is_pending(pod) and history.of(pod.key)
        }
        names = {node.name for node in self.nodes()}, {node.name for node in other.nodes()}
        return compare(pods, other.pods(), why, names)

    # -- details ----------------------------------------------------------------------------

    def _select(self, kind: Kind, namespace: str = "") -> list[KubeObject]:
        return self._engine.reads.things(kind, namespace)

    def _find(self, kind: Kind, key: str) -> KubeObject:
        namespace, _, name = key.rpartition("/")
        if kind.namespaced and not namespace:
            namespace = "default"
        try:
            return self._engine.reads.read(kind, namespace, name)[0]
        except ApiError:
            known = [thing.key for thing in self._select(kind)]
        wanted = f"{namespace}/{name}" if kind.namespaced else name
        near = get_close_matches(wanted, known, n=1)
        hint = f"did you mean {near[0]!r}?" if near else ""
        raise InputError(f"there is no {kind.name} {wanted!r}", hint=hint)

    def _data(self, kind: Kind, key: str) -> dict[str, Any]:
        thing = self._find(kind, key)
        return view(kind, *self._engine.reads.read(kind, thing.namespace, thing.name))

    def __repr__(self) -> str:
        if self._parts is None:
            return "<Cluster: closed>"
        return f"<Cluster: {self._summary()}>"

    def _summary(self) -> str:
        pods = self._select(POD)
        pending = sum(_is_pending(pod) for pod in pods if isinstance(pod, Pod))
        return (
            f"{len(self._select(NODE))} nodes, {len(pods)} pods, {pending} pending, "
            f"at {self.now:g} s"
        )

    def _repr_html_(self) -> str:
        if self._parts is None:
            return "<p>Cluster: closed</p>"
        head = f"<p><b>Cluster</b>: {escape(self._summary())}</p>"
        return head + self.nodes()._repr_html_()


def _is_pending(pod: Pod) -> bool:
    return not pod.spec.node_name and pod.status.phase not in _ENDED


def _gated(key: str, message: str, plugin: str) -> CoreDecision:
    return CoreDecision(key, message=message, unschedulable_plugins=(plugin,), gated=True)


__all__ = ["Cluster"]
