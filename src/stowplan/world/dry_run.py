"""Decisions on the pending pods of manifests and dumps, without a cluster.

`stowplan.dry_run` and `stowplan dry-run` are this: fill a cluster (`Cluster.from_dump`), let it
run, and read what was decided, the last word on each pod.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Mapping
from random import SystemRandom
from typing import Any

from stowplan.core.algorithm import TieBreak
from stowplan.core.profiles import Registry
from stowplan.objects.manifests import Manifest
from stowplan.plugins import IN_TREE
from stowplan.world.cluster import Cluster
from stowplan.world.decision import Decision
from stowplan.world.implied_gates import implied_gates
from stowplan.world.reading import read_objects
from stowplan.world.setup import Options, make_setup

Objects = Iterable[Mapping[str, Any]] | Mapping[str, Any]
Config = Mapping[str, Any] | str | os.PathLike[str] | None


def dry_run(
    objects: Objects,
    config: Config = None,
    tie_break: TieBreak = "random",
    seed: int | None = None,
    *,
    detail: bool = True,
    feature_gates: Mapping[str, bool] | None = None,
) -> list[Decision]:
    """Decide all pending pods of a cluster, in queue order, and say why.

    `objects` are Kubernetes objects as dicts, or a `List` of them: pods with `spec.nodeName` run,
    the others are pending, and workloads are expanded to the pods they lack.  `config` is a
    KubeSchedulerConfiguration, as a dict or a file's path; without one it is the default profile.
    Extenders are not called, and pods for a scheduler that the configuration does not have are
    left out.  A pod that preempts has two decisions: whom it evicts, and where it goes then.

    `seed` makes the choice among equally good nodes repeatable; with `tie_break="name"` it is the
    one that comes first by name.  Without `detail` a decision does not hold every node's scores
    and reasons, which saves time and memory on large clusters.

    `feature_gates` are those of kube-scheduler; without any, an input with PodGroups is decided
    with the gates that these need.

    Whatever cannot be read raises `stowplan.errors.InputError` or `ConfigError`.
    """
    manifests = read_objects(objects, paths=False)
    with prepare(
        manifests,
        config,
        tie_break=tie_break,
        seed=seed,
        detail=detail,
        feature_gates=implied_gates(manifests) if feature_gates is None else feature_gates,
    ) as cluster:
        pods = cluster.queue()
        cluster.run()
        return [decision for pod in pods for decision in last_words(cluster, pod.key)]


def prepare(
    manifests: Iterable[Manifest],
    config: Config = None,
    *,
    tie_break: TieBreak = "random",
    seed: int | None = None,
    detail: bool = True,
    registry: Registry = IN_TREE,
    feature_gates: Mapping[str, bool] | None = None,
    live: tuple[str, str | None] | None = None,
) -> Cluster:
    """A cluster that is ready to decide: everything is read, and nothing decided.

    `live` is a kubeconfig and a context: the cluster that the manifests are added to.
    """
    options: Options = {
        "seed": SystemRandom().getrandbits(32) if seed is None else seed,
        "tie_break": tie_break,
        "detail": detail,
        "feature_gates": feature_gates or {},
    }
    setup = make_setup(config, options, registry=registry, history_bytes=math.inf)
    if live is None:
        return Cluster.of_manifests(setup, manifests)
    cluster = Cluster.of_live(setup, *live)
    cluster.apply([data for _, data in manifests])
    return cluster


def last_words(cluster: Cluster, key: str) -> Iterator[Decision]:
    """Whom the pod evicts, if it does, and what became of it in the end.

    Of several decisions for the same node the first is the one: what went wrong between them was
    the binding.
    """
    last = cluster.decision(key)
    history = last.history
    if last.node:
        last = next(decision for decision in history if decision.node == last.node)
    else:
        # Asked as long as there is a cluster to count devices in.
        _ = last.unmet_requests
    yield from (decision for decision in history if decision.victims)
    yield last
