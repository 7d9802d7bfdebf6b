"""Whatever is kept per row and patched equals what is worked out anew, over random histories.

Nodes and pods come, change and go; the table grows, is rebuilt, and changes more often than it
remembers.  One framework lives through it all and is asked now and then, about pods that between
them need everybody who follows rows: kept answers of both layers, row sets, domains and counts,
rooms, balance, row classes, scores and verdicts by host, attached volumes, nominations, diagnoses.
Each time it must say what a framework says that was built this moment from the same objects.
"""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec
import numpy as np
import pytest

from stowplan.config import load_config
from stowplan.core.profiles import build_frameworks
from stowplan.framework.cycle import Cycle
from stowplan.framework.handle import Handle
from stowplan.framework.nominations import KeptNominations
from stowplan.framework.plugin import Nominate
from stowplan.framework.runtime import Framework
from stowplan.framework.status import unschedulable
from stowplan.objects.pod import Pod
from stowplan.queue.nominator import Nominator
from stowplan.state.pod_info import PodInfo
from stowplan.state.row_follower import FEW, LOG_MAX, RowFollower
from tests.builders import World, node, pod
from tests.plugins.volume_objects import DRIVER, claim, csi_node, volume
from tests.small_limits import small_limits

NODES = (70, 4)
"""With more than 64 values a label goes by host; in a small cluster, nodes fill up."""
STEPS = 60
HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
WEB = {"labelSelector": {"matchLabels": {"app": "web"}}}


def _liking(key: str, weight: int) -> dict[str, Any]:
    terms = [{"weight": weight, "podAffinityTerm": {**WEB, "topologyKey": key}}]
    return {"affinity": {"podAffinity": {PREFERRED: terms}}}


def _spread(action: str, *keys: str) -> dict[str, Any]:
    return {
        "topologySpreadConstraints": [
            {**WEB, "topologyKey": key, "maxSkew": 1, "whenUnsatisfiable": action} for key in keys
        ]
    }


def _apart(key: str) -> dict[str, Any]:
    return {"affinity": {"podAntiAffinity": {REQUIRED: [{**WEB, "topologyKey": key}]}}}


SORTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "tolerant": {"tolerations": [{"key": "odd", "operator": "Exists"}]},
    "picky": {"nodeSelector": {ZONE: "zone-1"}},
    "apart": _apart(HOST),
    "likes hosts": _liking(HOST, 3),
    "likes zones": _liking(ZONE, 5),
    "spread": _spread("DoNotSchedule", ZONE),
    "spread a little": _spread("ScheduleAnyway", HOST, ZONE),
    "with volumes": {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c-0"}}]},
    "small": {},
    "huge": {},
}
SIZES = {"small": "1m", "huge": "99"}


def asked_about(sort: str) -> PodInfo:
    cpu, name = SIZES.get(sort, "500m"), sort.replace(" ", "-")
    return PodInfo(pod(name, labels={"app": "web"}, cpu=cpu, spec=SORTS[sort]))


def framework_on(world: World, nominator: Nominator) -> Framework:
    handle = Handle(world.table, world.objects, Random(0), nominated=nominator)
    (framework,) = build_frameworks(load_config(), handle).values()
    return framework


class History:
    """The objects as they should be, and the framework that lived through how they came to be."""

    def __init__(self, seed: int) -> None:
        self.dice = Random(seed)
        self.world = World()
        self.nodes: dict[str, Any] = {}
        self.pods: dict[str, Pod] = {}
        self.volumes = [volume(f"v-{n}", handle=f"h-{n}") for n in range(6)]
        self.volumes += [claim(f"c-{n}", volume=f"v-{n}") for n in range(6)]
        self.nominated: dict[str, tuple[PodInfo, str]] = {}
        self.nominator = Nominator(lambda key: None, lambda key: self.nominated[key][0])
        self.serial = 0
        for thing in self.volumes:
            self.world.objects.put(thing)
        for _ in range(NODES[seed % 2]):
            self.add_node()
        self.world.table.refresh(self.world.cache)
        self.framework = framework_on(self.world, self.nominator)

    def fresh(self) -> Framework:
        world = World(*self.nodes.values(), *self.pods.values(), *self.volumes)
        nominator = Nominator(lambda key: None, lambda key: self.nominated[key][0])
        for info, name in self.nominated.values():
            nominator.add(info, Nominate(name))
        return framework_on(world, nominator)

    def step(self) -> None:
        choices = ["add_pod"] * 6 + ["remove_pod"] * 3 + ["relabel_pod", "change_node"] * 2
        choices += ["add_node", "nominate", "rebuild", "flood", "many", "wait"]
        if len(self.nodes) > 2:
            choices.append("remove_node")
        getattr(self, self.dice.choice(choices))()

    def add_node(self) -> None:
        self.serial += 1
        name = f"node-{self.serial}"
        self.objects_of(name)
        self.change_node(name)

    def objects_of(self, name: str) -> None:
        limits = csi_node(name, {DRIVER: self.dice.choice((1, 2))})
        self.volumes.append(limits)
        self.world.objects.put(limits)

    def change_node(self, name: str = "") -> None:
        name = name or self.dice.choice(list(self.nodes))
        labels = {ZONE: f"zone-{self.dice.randrange(3)}"} if self.dice.random() < 0.9 else {}
        effect = self.dice.choice(("NoSchedule", "PreferNoSchedule"))
        taints = [{"key": "odd", "effect": effect}] if self.dice.random() < 0.2 else []
        changed = node(name, labels=labels, taints=taints, cpu=self.dice.choice((1, 2, 4)))
        self.nodes[name] = changed
        self.world.cache.add_node(changed)

    def remove_node(self) -> None:
        name = self.dice.choice(list(self.nodes))
        for thing in [p for p in self.pods.values() if p.spec.node_name == name]:
            self.world.cache.remove_pod(self.pods.pop(thing.metadata.uid))
        self.world.cache.remove_node(name)
        del self.nodes[name]

    def add_pod(self) -> None:
        sort = self.dice.choice(list(SORTS))
        spec = dict(SORTS[sort])
        if sort == "with volumes":
            name = f"c-{self.dice.randrange(6)}"
            spec["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": name}}]
        app = self.dice.choice(("web", "web", "db"))
        where = self.dice.choice(list(self.nodes))
        cpu, memory = self.dice.choice((None, "100m", "1")), self.dice.choice((None, "1Gi"))
        thing = pod(labels={"app": app}, node=where, cpu=cpu, memory=memory, spec=spec)
        self.pods[thing.metadata.uid] = thing
        self.world.cache.add_pod(thing)

    def remove_pod(self) -> None:
        if self.pods:
            thing = self.pods.pop(self.dice.choice(list(self.pods)))
            self.world.cache.remove_pod(thing)

    def relabel_pod(self) -> None:
        if self.pods:
            thing = self.dice.choice(list(self.pods.values()))
            labels = {"app": self.dice.choice(("web", "db"))}
            metadata = msgspec.structs.replace(thing.metadata, labels=labels)
            changed = self.pods[thing.metadata.uid] = msgspec.structs.replace(
                thing, metadata=metadata
            )
            self.world.cache.update_pod(changed)

    def nominate(self) -> None:
        name = self.dice.choice(list(self.nodes))
        info = PodInfo(pod(f"nominated-{self.dice.randrange(3)}", cpu="1", spec={"priority": 5}))
        if info.key in self.nominated:
            self.nominator.add(self.nominated[info.key][0], Nominate(""))
            del self.nominated[info.key]
        else:
            self.nominated[info.key] = info, name
            self.nominator.add(info, Nominate(name))

    def rebuild(self) -> None:
        self.world.table.refresh(self.world.cache)
        self.world.table.rebuild(self.world.cache)

    def flood(self) -> None:
        """So much happens to one node that the table forgets what else has changed."""
        self.nominate()
        self.world.table.refresh(self.world.cache)
        row = self.world.row(self.dice.choice(list(self.nodes)))
        for _ in range(LOG_MAX + 1):
            self.world.table._touch(row, self.dice.random() < 0.5)

    def many(self) -> None:
        """More than are looked at one by one."""
        for _ in range(FEW + 2):
            self.dice.choice((self.add_pod, self.change_node))()

    def wait(self) -> None:
        self.world.table.refresh(self.world.cache)


def said(framework: Framework, asked: PodInfo) -> dict[str, Any]:
    """Everything about a pod, by the names of nodes."""
    cycle = Cycle(framework.handle, framework.handle.nodes)
    table = cycle.nodes
    verdict = framework.pre_filter(cycle, asked)
    if verdict.status is not None:
        return {"status": verdict.status}
    found = framework.find_feasible(cycle, asked, verdict.nodes)
    diagnosis = framework.diagnose(table, found)
    rows = found.rows()
    told: dict[str, Any] = {
        name: _comparable(diagnosis.status(row)) for name, row in table.row_of.items()
    }
    told["reasons"] = diagnosis.histogram()
    told["resolvable"] = {table.names[row] for row in diagnosis.resolvable_rows().tolist()}
    if len(rows):
        board = framework.score(cycle, asked, found, rows)
        names = [table.names[row] for row in rows.tolist()]
        told["total"] = dict(zip(names, board.total.tolist(), strict=True))
    answers = found.answers
    if len(answers.passed_rows()):
        is_best = np.flatnonzero(answers.best()).tolist()
        assert answers.one_of_the_best(Random(0).random) in is_best
        told["best"] = {table.names[row] for row in is_best}, answers.best_sum
    return told


def _comparable(status: Any) -> Any:
    return None if status is None else (status.plugin, status.code, sorted(status.reasons))


@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(10))
def test_a_framework_that_lived_through_it_agrees_with_a_new_one(seed: int) -> None:
    _live_through(seed)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(10, 13))
def test_they_agree_when_hardly_anything_is_kept(seed: int) -> None:
    with small_limits():
        _live_through(seed)


def test_what_many_terms_come_to_follows_a_pod_that_is_relabelled() -> None:
    """Nothing else looks at its labels."""
    with small_limits():
        history = History(0)
        where = next(iter(history.nodes))
        running = pod(labels={"app": "db"}, node=where)
        relabelled = msgspec.structs.replace(running.metadata, labels={"app": "web"})
        history.world.cache.add_pod(running)
        history.world.table.refresh(history.world.cache)
        asked = asked_about("apart")
        before = said(history.framework, asked)[where]

        history.world.cache.update_pod(msgspec.structs.replace(running, metadata=relabelled))
        history.world.table.refresh(history.world.cache)

        assert before is None
        assert said(history.framework, asked)[where][0] == "InterPodAffinity"


def _live_through(seed: int) -> None:
    history = History(seed)
    asked = {sort: asked_about(sort) for sort in SORTS}
    for thing in asked.values():
        said(history.framework, thing)
    for number in range(STEPS):
        history.step()
        if history.dice.random() < 0.3:
            continue
        history.world.table.refresh(history.world.cache)
        fresh = history.fresh()
        for sort in history.dice.sample(sorted(asked), 4):
            lived, new = said(history.framework, asked[sort]), said(fresh, asked[sort])
            assert lived == new, f"seed {seed}, step {number}, {sort}"


@pytest.mark.parametrize("of_nodes", [False, True])
def test_a_follower_is_told_of_every_row_that_changed(of_nodes: bool) -> None:
    """And told to look at all of them if it cannot be told."""
    dice = Random(0)
    table = World(*(node(f"node-{n}") for n in range(9))).table
    follower, known = RowFollower(of_nodes=of_nodes), [-1] * 9
    outcomes = set()
    contents = list(range(9))
    for basis in (1, 1, 1, 2) * 50:
        for _ in range(dice.choice((0, 1, 3, LOG_MAX, LOG_MAX + 1))):
            row = dice.randrange(9)
            contents[row] += 1
            table._touch(row, of_nodes)
            table._touch(row, False)
        changed = follower.changed(table, basis, dice.choice((FEW, LOG_MAX)))
        outcomes.add(None if changed is None else min(len(changed), 2))
        for row in range(9) if changed is None else changed:
            known[row] = contents[row]
        assert known == contents
    assert outcomes == {None, 0, 1, 2}


def test_answers_that_were_one_are_two_once_they_differ() -> None:
    """Pods of two sizes pass the same nodes, until many at once are too full for one of them."""
    world = World(*(node(f"node-{n:02}", cpu="2") for n in range(40)))
    framework = framework_on(world, Nominator(lambda key: None))
    small, large = (PodInfo(pod(size, cpu=size)) for size in ("1m", "1500m"))
    everyone = {f"node-{n:02}" for n in range(40)}
    assert passing(framework, small) == passing(framework, large) == everyone

    full = {f"node-{n:02}" for n in range(FEW + 2)}
    world.add(*(pod(node=name, cpu="1") for name in full))

    for _ in range(2):
        assert passing(framework, large) == everyone - full
        assert passing(framework, small) == everyone


def passing(framework: Framework, asked: PodInfo) -> set[str]:
    cycle = Cycle(framework.handle, framework.handle.nodes)
    framework.pre_filter(cycle, asked)
    names = cycle.nodes.names
    return {names[row] for row in framework.find_feasible(cycle, asked).rows().tolist()}


def test_a_nomination_that_went_while_nodes_came_is_forgotten() -> None:
    world = World(node("node-1"))
    nominated = PodInfo(pod("nominated"))
    nominator = Nominator(lambda key: None, lambda key: nominated)
    kept, refusal = KeptNominations(), unschedulable("no room")
    nominator.add(nominated, Nominate("node-1"))
    assert kept.refused(world.table, nominator, lambda row: refusal) == {0: refusal}

    nominator.delete(nominated.uid)
    world.add(node("node-2"))

    assert kept.refused(world.table, nominator, lambda row: refusal) == {}
