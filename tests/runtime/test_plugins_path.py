"""A user's plugins: found, put beside the others, and refused with file and line if broken."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from pathlib import Path
from random import Random

import pytest

from stowplan.config import load_config
from stowplan.errors import InputError
from stowplan.plugins import IN_TREE
from stowplan.runtime.plugins_path import GROUP, load_registry
from tests.builders import node, pod
from tests.deciding import Deciding

PLUGIN = '''
"""Only nodes whose name starts with a."""

from stowplan.framework import unschedulable


class OnlyA:
    name = "OnlyA"

    def __init__(self, args, handle):
        self.letter = (args or {}).get("letter", "a")

    def filter_node(self, cycle, pod, node):
        return None if node.name.startswith(self.letter) else unschedulable("wrong letter")


class Helper:
    """No plugin: it has no extension point."""

    name = "Helper"
'''


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "only_a.py").write_text(PLUGIN)
    return tmp_path


def own(registry: object) -> set[str]:
    return set(registry) - set(IN_TREE)  # type: ignore[call-overload]


def test_all_files_of_a_folder(folder: Path) -> None:
    (folder / "_private.py").write_text("raise RuntimeError")
    (folder / "notes.txt").write_text("nonsense")

    registry = load_registry([str(folder)], installed=[])

    assert own(registry) == {"OnlyA"}
    assert set(IN_TREE) < set(registry)


def test_one_file(folder: Path) -> None:
    (folder / "broken.py").write_text("nonsense")

    assert own(load_registry([str(folder / "only_a.py")], installed=[])) == {"OnlyA"}


def test_a_plugin_is_configured_like_those_in_the_tree(folder: Path) -> None:
    config = load_config(
        {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "profiles": [
                {
                    "plugins": {"multiPoint": {"enabled": [{"name": "OnlyA"}]}},
                    "pluginConfig": [{"name": "OnlyA", "args": {"letter": "b"}}],
                }
            ],
        }
    )
    registry = load_registry([str(folder)], installed=[])

    objects = [node("a1"), node("b1"), pod("p")]
    (decision,) = Deciding(objects, config=config, registry=registry, random=Random(0)).decide()

    assert decision.node == "b1"


def test_neighbours_can_be_imported(folder: Path) -> None:
    (folder / "_letters.py").write_text("FIRST = 'a'")
    (folder / "other.py").write_text(
        "from . import _letters\nfrom .only_a import OnlyA\n\n\n"
        "class Other(OnlyA):\n    name = 'Other'\n    first = _letters.FIRST\n"
    )

    registry = load_registry([str(folder)], installed=[])

    assert own(registry) == {"OnlyA", "Other"}
    assert registry["Other"].first == "a"  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        ("x = 1\nimport no_such_module\n", 2, "ModuleNotFoundError: No module named"),
        ("x = 1\n\ndef f(:\n", 3, "SyntaxError: "),
        ("def f():\n    return 1 / 0\n\n\nf()\n", 2, "ZeroDivisionError: division by zero"),
    ],
)
def test_a_file_that_fails_to_import_is_named_with_its_line(
    tmp_path: Path, text: str, line: int, problem: str
) -> None:
    file = tmp_path / "mine.py"
    file.write_text(text)

    with pytest.raises(InputError, match=problem) as caught:
        load_registry([str(tmp_path)], installed=[])

    assert caught.value.where == f"{file}:{line}"
    assert "\n" not in str(caught.value)


def test_a_file_without_a_plugin(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("class X:\n    name = 'X'\n")

    with pytest.raises(InputError, match="there is no plugin in it"):
        load_registry([str(tmp_path)], installed=[])


@pytest.mark.parametrize("name", ["nowhere", "."])
def test_nothing_there(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError):
        load_registry([str(tmp_path / name)], installed=[])


def test_a_name_that_is_taken(folder: Path) -> None:
    (folder / "fit.py").write_text(PLUGIN.replace('"OnlyA"', '"NodeResourcesFit"'))

    with pytest.raises(InputError, match="there is a plugin 'NodeResourcesFit' already") as caught:
        load_registry([str(folder)], installed=[])

    assert caught.value.where == str(folder / "fit.py")
    assert "node_resources_fit.py" in caught.value.hint


# -- installed ones ---------------------------------------------------------------------------


def entry(value: str) -> EntryPoint:
    return EntryPoint(name="mine", value=value, group=GROUP)


def test_an_installed_plugin() -> None:
    registry = load_registry(installed=[entry("examples.plugins.team_nodes:TeamNodes")])

    assert own(registry) == {"TeamNodes"}


@pytest.mark.parametrize("value", ["no_such_module:X", "examples.plugins.team_nodes:Nope"])
def test_an_installed_plugin_that_cannot_be_loaded(value: str) -> None:
    with pytest.raises(InputError, match="entry point 'mine' in the group"):
        load_registry(installed=[entry(value)])


def test_an_entry_point_that_is_no_plugin() -> None:
    with pytest.raises(InputError, match="is no plugin"):
        load_registry(installed=[entry("examples.plugins.team_nodes:TEAM")])
