"""Takes away from a real cluster what a workload created there, as far as the cluster lets it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from stowplan.bench.stage import POLL_S, WORKERS_MAX, Stage, Steps
from stowplan.cluster.port import Answer
from stowplan.errors import ApiError
from stowplan.objects.api import Delete, Request, Update
from stowplan.objects.kinds import NAMESPACE, NODE, POD
from stowplan.printable import logger

_NOT_FOUND = 404

log = logger(__name__)

Progress = Callable[[str, int, int], None]


class Clearing:
    def __init__(self, stage: Stage, progress: Progress | None) -> None:
        self._stage = stage
        self._progress = progress
        self._problems: list[ApiError] = []

    def steps(self) -> Steps[None]:
        """Namespaces, each with its pods; then the rest, nodes last, when nothing is on them.

        A namespace that is going takes no more pods, should some be on their way.  Its pods are
        removed one by one: without a kubelet bound ones would stay.
        """
        created = self._stage.created
        for name in [name for kind, name in created if kind is NAMESPACE]:
            yield from self._send([Delete(NAMESPACE, "", name)])
            pods = yield from self._pods_of(name)
            yield from self._send([Delete(POD, name, pod, grace_period_seconds=0) for pod in pods])
            yield from self._send([_finalized(name)])
        rest = [(kind, name) for kind, name in created if kind is not NAMESPACE]
        rest.sort(key=lambda thing: thing[0] is NODE)
        yield from self._send([Delete(kind, "", name) for kind, name in rest])
        if self._problems:
            log.warning(
                "%d things that the workload created could not be removed; of the first: %s",
                len(self._problems),
                self._problems[0],
            )

    def _pods_of(self, namespace: str) -> Steps[list[str]]:
        try:
            pods = yield from self._stage.list_pods(namespace, {})
        except ApiError as problem:
            self._problems.append(problem)
            return []
        return [pod.name for pod in pods]

    def _send(self, requests: Sequence[Request]) -> Steps[None]:
        """Some at a time; whoever is refused does not keep the others."""
        for start in range(0, len(requests), WORKERS_MAX):
            if self._progress is not None:
                self._progress(f"removing what was created, {len(requests) - start:,} left", 0, 0)
            answers: list[Answer] = []
            some = requests[start : start + WORKERS_MAX]
            self._stage.cluster.call(some, partial(_note, answers))
            while len(answers) < len(some):
                yield POLL_S
            self._problems += [
                answer
                for answer in answers
                if isinstance(answer, ApiError) and answer.code != _NOT_FOUND
            ]


def _note(answers: list[Answer], first: int, told: Sequence[Answer]) -> None:
    answers += told


def _finalized(namespace: str) -> Update:
    """It is empty; where no controller runs nobody else would let it go."""
    body = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": namespace},
        "spec": {"finalizers": []},
    }
    return Update(NAMESPACE, "", namespace, body, "finalize")
