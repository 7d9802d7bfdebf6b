"""Options of commands, each declared in a line or two; those that several commands have, once.

A command says what only it takes; where a cluster comes from, whose plugins, which seed and which
form of output mean the same everywhere, and are declared here.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])


class Option(Protocol):
    """Adds an option, or several, to a command."""

    def __call__(self, command: Command, /) -> Command: ...


PATH = click.Path(path_type=Path)
FILE = click.Path(dir_okay=False, path_type=Path)
WRITABLE = click.Path(dir_okay=False, writable=True, path_type=Path)
EXISTING = click.Path(exists=True, dir_okay=False, path_type=Path)
PORT = click.IntRange(0, 65535)

_PARAMETER = re.compile(r"[a-z_]+")


def option(spec: str, text: str = "", default: Any = None, **more: Any) -> Option:
    """An option.  What `spec` has after the names is the parameter's name and the value, if any:
    `-f --filename filenames FILE...` is given again for every file.  Without a value, a default or
    a type it is a flag.  A default is shown."""
    names = [word for word in spec.split() if word.startswith("-") or _PARAMETER.fullmatch(word)]
    value = " ".join(word for word in spec.split() if word not in names)
    if value.endswith("..."):
        more |= {"multiple": True}
    if value:
        more.setdefault("metavar", value.removesuffix("..."))
    if default is not None:
        more |= {"default": default, "show_default": default != ""}
    elif not value and not more.keys() & {"type", "count"}:
        more["is_flag"] = True
    return click.option(*names, help=text, **more)


def together(*options: Option) -> Option:
    """Several options as one, in this order."""

    def add(command: Command) -> Command:
        for each in reversed(options):
            command = each(command)
        return command

    return add


def seed_option(text: str, default: int | None = 0) -> Option:
    return option("--seed N", text, default, type=int)


def output_option(*forms: str, text: str = "") -> Option:
    """How the answer is printed; for people unless another form is asked for."""
    choice = click.Choice(forms or ("text", "json", "yaml"))
    return option("-o --output", text, "text", type=choice)


filename_option = option(
    "-f --filename filenames FILE...",
    "Manifests or dumps, JSON or YAML; a folder; `-` for standard input.  May be repeated.",
)
context_option = option("--context NAME", "Which cluster of the kubeconfig.")
config_option = option("--config FILE", "A KubeSchedulerConfiguration.")
plugins_option = option(
    "--plugin-path plugin_paths PATH...",
    "A file with your own plugins, or a folder of them; may be repeated.",
)
gates_option = option(
    "--feature-gates",
    "Feature gates of the scheduler, e.g. GenericWorkload=true; may be repeated.  Without it, "
    "files with PodGroups are read with the gates that these need.",
    multiple=True,
    type=str,
    metavar="NAME=BOOL,...",
)

live_options = together(
    option("--kubeconfig FILE", "Which cluster; it is only read.", default=""),
    option("--context NAME", "Which cluster of the kubeconfig.", default=""),
)
"""For commands that follow a live cluster, and nothing else."""


def source_options(two_configs: str = "") -> Option:
    """Where the cluster comes from, and how it decides; `two_configs` says what a second one is."""
    configs = option("--config configs FILE...", f"A KubeSchedulerConfiguration.  {two_configs}")
    return together(
        filename_option,
        option("--kubeconfig FILE", "Ask a live cluster instead; it is only read."),
        context_option,
        configs if two_configs else config_option,
        plugins_option,
        gates_option,
        seed_option("Decides between equally good nodes."),
    )
