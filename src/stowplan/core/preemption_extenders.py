"""What extenders may do to preemption: drop candidates, or change their victims."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

from stowplan.core.extender import CallExtender, Extender, ExtenderFailed
from stowplan.framework.cycle import Cycle
from stowplan.framework.effects import AskPreemptionExtenders
from stowplan.framework.status import Status, error
from stowplan.plugins import Candidate


def ask_extenders(
    extenders: Sequence[Extender], cycle: Cycle, question: AskPreemptionExtenders
) -> Generator[CallExtender, Any, list[Candidate] | Status]:
    """Ask each extender that preempts in turn; the candidates that are left."""
    candidates: list[Candidate] = list(question.candidates)
    for extender in extenders:
        if not candidates:
            break
        if not extender.preempts or not extender.is_interested(question.pod):
            continue
        by_node = {c.node: (list(c.victims), c.violations) for c in candidates}
        answer = yield extender.preempt_call(question.pod, by_node)
        try:
            left = extender.read_preemption(answer)
            candidates = _rebuilt(extender, cycle, left)
        except ExtenderFailed as failure:
            if not extender.ignorable:
                return error(str(failure))
    return candidates


def _rebuilt(
    extender: Extender,
    cycle: Cycle,
    left: dict[str, tuple[list[str], int]],
) -> list[Candidate]:
    """The extender's choice as candidates; it may name any node, and any pod there."""
    table = cycle.nodes
    rebuilt = []
    for node, (uids, violations) in left.items():
        if node not in table.row_of:
            raise ExtenderFailed(f'nodeinfo not found for node name "{node}"')
        pods = table.info(table.row_of[node]).pods
        for uid in uids:
            if uid not in pods:
                raise ExtenderFailed(
                    f"extender: {extender.name} claims to preempt pod (UID: {uid}) on node: "
                    f"{node}, but the pod is not found on that node"
                )
        if not uids:
            if extender.ignorable:
                continue
            raise ExtenderFailed(f'expected at least one victim pod on node "{node}"')
        rebuilt.append(Candidate.of(node, tuple(pods[uid] for uid in uids), violations))
    return rebuilt
