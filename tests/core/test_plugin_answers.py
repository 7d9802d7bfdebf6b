"""A user's plugin that answers nonsense: one attempt fails, and is told who, what and where."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from stowplan.config import SchedulerConfig, load_config
from stowplan.core.profiles import check_config
from stowplan.errors import ConfigError, InputError
from stowplan.runtime.plugins_path import load_registry
from tests.builders import node, pod
from tests.deciding import Deciding

CONFIG = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [{"plugins": {"multiPoint": {"enabled": [{"name": "Mine"}]}}}],
}
HEAD = """import sys
import numpy as np
from stowplan.framework.status import Verdict


class Mine:
    name = "Mine"

"""
LINE = HEAD.count("\n") + 1
INIT = "    def __init__(self, args, handle):\n        pass\n\n"
FINE = INIT + "    def score_node(self, cycle, pod, node):\n        return 1\n\n"


def config() -> SchedulerConfig:
    return load_config(CONFIG)


def error_of(tmp_path: Path, body: str) -> tuple[str, Path]:
    """What a pod is told whose attempt met this plugin."""
    file = tmp_path / "mine.py"
    file.write_text(HEAD + body)
    registry = load_registry([str(file)], installed=[])
    objects = [node("n1"), node("n2"), pod("p")]
    (decision,) = Deciding(objects, config=config(), registry=registry, random=Random(0)).decide()
    return decision.error, file


@pytest.mark.parametrize(
    ("method", "answer", "told"),
    [
        (
            "filter_node(self, cycle, pod, node)",
            "False",
            "False, and should return None or a status",
        ),
        ("filter_node(self, cycle, pod, node)", "'no'", "'no', and should return None or a status"),
        ("score_node(self, cycle, pod, node)", "0.5", "0.5, and should return a whole number"),
        ("score_node(self, cycle, pod, node)", "True", "True, and should return a whole number"),
        ("score_node(self, cycle, pod, node)", "None", "None, and should return a whole number"),
        ("pre_filter(self, cycle, pod)", "['n1']", "['n1'], and should return None, a status or"),
        ("pre_score(self, cycle, pod, rows)", "0", "0, and should return None or a status"),
        ("permit(self, cycle, pod, node)", "5", "5, and should return None, a status or Wait"),
        (
            "score_nodes(self, cycle, pod, nodes, rows)",
            "np.zeros(1, np.int64)",
            "an array of int64 with shape (1,), and should return an array of whole numbers, one",
        ),
        (
            "score_nodes(self, cycle, pod, nodes, rows)",
            "np.full(2, 0.5)",
            "an array of float64 with shape (2,), and should return an array of whole numbers",
        ),
        (
            "normalize_scores(self, cycle, pod, nodes, rows, scores)",
            "scores[:1]",
            "an array of int64 with shape (1,), and should return an array of whole numbers",
        ),
        (
            "filter_nodes(self, cycle, pod, nodes, rows)",
            "Verdict((), np.zeros(1, np.uint32), np.zeros(1, bool))",
            "a Verdict on 1 rows, and should return a Verdict on each row",
        ),
        (
            "filter_nodes(self, cycle, pod, nodes, rows)",
            "[True]",
            "[True], and should return a Verd",
        ),
    ],
)
def test_a_wrong_answer_is_told_with_its_place(
    tmp_path: Path, method: str, answer: str, told: str
) -> None:
    single = "    def filter_node(self, cycle, pod, node):\n        return None\n\n"
    if method.startswith("filter_node("):
        single = ""
    body = f"    def {method}:\n        return {answer}\n\n{single}"
    fine = INIT if method.startswith("score_node(") else FINE

    error, file = error_of(tmp_path, body + fine)

    name = method.partition("(")[0]
    assert "Mine" in error
    assert f"WrongAnswer: {name} returned {told}" in error
    assert error.endswith(f"({file}:{LINE})")


def test_a_plugin_does_not_end_the_process(tmp_path: Path) -> None:
    body = "    def filter_node(self, cycle, pod, node):\n        sys.exit(3)\n\n"

    error, file = error_of(tmp_path, body + INIT)

    assert error.endswith(f"filter_node wanted to exit (3) ({file}:{LINE})")


def test_nor_when_it_is_made_or_imported(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    init = "    def __init__(self, args, handle):\n        sys.exit(3)\n\n"
    file.write_text(HEAD + init + FINE.removeprefix(INIT))
    registry = load_registry([str(file)], installed=[])
    with pytest.raises(ConfigError) as made:
        check_config(config(), random=Random(0), registry=registry)
    assert made.value.problem.endswith(
        f'initializing plugin "Mine": it wanted to exit (3) ({file}:{LINE + 1})'
    )

    file.write_text("import sys\nsys.exit('enough')\n")
    with pytest.raises(InputError, match="SystemExit: enough") as imported:
        load_registry([str(file)], installed=[])
    assert imported.value.where == f"{file}:2"


def test_answers_that_are_right_pass(tmp_path: Path) -> None:
    body = """
    def score_nodes(self, cycle, pod, nodes, rows):
        return np.full(nodes.size, 7.0)[rows]

    @staticmethod
    def filter_node(cycle, pod, node):
        return None

"""
    error, _ = error_of(tmp_path, body + FINE)
    assert error == ""
