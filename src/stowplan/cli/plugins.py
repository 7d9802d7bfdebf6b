"""`stowplan plugins`: which scheduling plugins there are, and what each does.

The names are those a KubeSchedulerConfiguration enables, disables and gives weights to.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from stowplan.cli._options import output_option, plugins_option
from stowplan.cli._output import Column, print_table, say_json

if TYPE_CHECKING:
    from stowplan.config import ExpandedPlugins

EXAMPLES = """\b
Examples:
  stowplan plugins
  stowplan plugins -o json | jq -r '.plugins[].name'
  stowplan plugins --plugin-path ./plugins    with your own
"""


@dataclass(frozen=True, slots=True)
class Entry:
    name: str
    points: list[str]
    """Extension points, in the order they run."""
    weight: int | None
    """In the default profile; None where it does not score."""
    is_default: bool
    description: str

    def to_dict(self) -> dict[str, object]:
        return {
            "name": self.name,
            "extensionPoints": self.points,
            "defaultWeight": self.weight,
            "inDefaultProfile": self.is_default,
            "description": self.description,
        }

    def row(self) -> list[str]:
        weight = "-" if self.weight is None else str(self.weight)
        default = "yes" if self.is_default else "no"
        points = " ".join(self.points)
        return [self.name, default, weight, f"{self.description} [{points}]"]


@click.command("plugins", epilog=EXAMPLES)
@output_option("text", "json")
@plugins_option
def plugins(output: str, plugin_paths: tuple[str, ...]) -> None:
    """List the scheduling plugins: name, in the default profile or not, weight, what it does.

    In brackets stand the extension points that a plugin implements, in the order they run.
    Plugins that are installed (entry points in the group stowplan.plugins) are among them.
    """
    entries = _entries(plugin_paths)
    if output == "json":
        say_json(json.dumps({"plugins": [entry.to_dict() for entry in entries]}, indent=2))
        return
    columns = [Column("PLUGIN"), Column("DEFAULT"), Column("WEIGHT", right=True)]
    columns.append(Column("WHAT IT DOES [EXTENSION POINTS]"))
    print_table(columns, [entry.row() for entry in entries])


def _entries(plugin_paths: tuple[str, ...]) -> list[Entry]:
    from stowplan.framework.plugin import POINTS, points_of
    from stowplan.runtime.plugins_path import load_registry

    default = _default_profile()
    entries = []
    for name, plugin in load_registry(plugin_paths).items():
        points = points_of(plugin)
        entries.append(
            Entry(
                name,
                [point for point in POINTS if point in points],
                default.score_weights.get(name),
                name in default.instances,
                _description(name, plugin),
            )
        )
    return sorted(entries, key=lambda entry: entry.name)


def _default_profile() -> ExpandedPlugins:
    from stowplan.config import expand, load_config
    from stowplan.core.profiles import implements
    from stowplan.plugins import IN_TREE

    (profile,) = load_config(None).profiles
    return expand(profile, implements(IN_TREE))


def _description(name: str, plugin: type) -> str:
    """The first sentence of the module that the plugin is written in."""
    text = sys.modules[plugin.__module__].__doc__ or plugin.__doc__ or ""
    paragraph = " ".join(text.strip().partition("\n\n")[0].split())
    sentence = paragraph.partition(". ")[0].rstrip(".")
    return sentence.removeprefix(name).lstrip(":, ")
