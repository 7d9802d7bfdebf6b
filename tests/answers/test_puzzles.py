"""Clusters with a pending pod and its known smallest fix: the best fix is that one, and works."""

from __future__ import annotations

import pytest

import stowplan as sp
from stowplan.plugins import IN_TREE
from tests.answers import (
    puzzles_amounts,
    puzzles_devices,
    puzzles_further,
    puzzles_groups,
    puzzles_more,
    puzzles_nodes,
    puzzles_pairs,
    puzzles_places,
    puzzles_pods,
    puzzles_shapes,
    puzzles_storage,
    puzzles_volumes,
)
from tests.answers.building import GONE, Data, Puzzle, applied

PUZZLES = [
    *puzzles_nodes.PUZZLES,
    *puzzles_pods.PUZZLES,
    *puzzles_storage.PUZZLES,
    *puzzles_pairs.PUZZLES,
    *puzzles_more.PUZZLES,
    *puzzles_devices.PUZZLES,
    *puzzles_groups.PUZZLES,
    *puzzles_further.PUZZLES,
    *puzzles_shapes.PUZZLES,
    *puzzles_amounts.PUZZLES,
    *puzzles_volumes.PUZZLES,
    *puzzles_places.PUZZLES,
]


@pytest.mark.parametrize("puzzle", PUZZLES, ids=str)
def test_the_best_fix_is_the_smallest_and_every_fix_works(puzzle: Puzzle) -> None:
    with sp.Cluster.from_dump(puzzle.objects) as cluster:
        answer = cluster.why(puzzle.pod).to_dict()

    assert answer["node"] == ""
    assert answer["causes"]
    assert answer["fixes"], "nothing helps"
    best = answer["fixes"][0]
    assert _told(best) == _wanted(puzzle), best["title"]
    for fix in answer["fixes"]:
        assert fix["proven"] is True
        with sp.Cluster.from_dump(applied(puzzle.objects, fix)) as cluster:
            again = cluster.why(puzzle.pod)
            assert again.node, fix["title"]
            assert again.evicted == fix["evicts"]


def _told(fix: Data) -> Data:
    return {
        "changes": {
            (change["kind"], change["name"]): {
                op["path"]: GONE if op["op"] == "remove" else op["value"] for op in change["patch"]
            }
            for change in fix["changes"]
        },
        "create": [each["kind"] for each in fix["create"]],
        "delete": [each["name"] for each in fix["delete"]],
        "evicts": fix["evicts"],
    }


def _wanted(puzzle: Puzzle) -> Data:
    return {
        "changes": {
            (kind, name): {path: GONE if value is None else value for path, value in paths.items()}
            for kind, name, paths in puzzle.changes
        },
        "create": puzzle.create,
        "delete": puzzle.delete,
        "evicts": puzzle.evicts,
    }


def test_there_are_enough_and_every_filter_has_some() -> None:
    covered = {plugin for puzzle in PUZZLES for plugin in puzzle.covers.split()}
    filters = {name for name, plugin in IN_TREE.items() if hasattr(plugin, "filter_node")}

    assert len(PUZZLES) >= 200
    assert len({puzzle.name for puzzle in PUZZLES}) == len(PUZZLES)
    assert filters <= covered
    assert sum(len(puzzle.covers.split()) > 1 for puzzle in PUZZLES) >= 25
