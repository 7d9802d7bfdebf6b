"""`plan`: one of its questions, by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stowplan.answers.plan_capacity import plan_capacity
from stowplan.answers.plan_consolidate import plan_consolidate
from stowplan.answers.plan_nodes import plan_nodes
from stowplan.errors import InputError
from stowplan.world.cluster import Cluster

QUESTIONS: dict[str, Callable[..., Any]] = {
    "capacity": plan_capacity,
    "nodes": plan_nodes,
    "consolidate": plan_consolidate,
}


def plan(cluster: Cluster, question: str, *words: Any, **options: Any) -> Any:
    """`plan("capacity", "deploy/web")` is `plan_capacity("deploy/web")`, and so on."""
    if question not in QUESTIONS:
        raise InputError(f"there is no plan {question!r}", hint=f"one of: {', '.join(QUESTIONS)}")
    return QUESTIONS[question](cluster, *words, **options)
