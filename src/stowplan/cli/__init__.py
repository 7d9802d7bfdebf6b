"""The command `stowplan`: one module per command, thin, loaded when it is called.

To add a command, write `cli/NAME.py` with a click command in it, and a line in `COMMANDS`.
`cli/_lazy.py` loads it and turns errors into one line and an exit code.
The main flow of the scheduler starts in `cli/run.py`.
"""

from __future__ import annotations

import os

import click

from stowplan._version import __version__
from stowplan.cli._lazy import LazyGroup

__all__ = ["COMMANDS", "main"]

COMMANDS = {
    "demo": "Schedule a few thousand pods here and now, and explain.",
    "up": "Start a cluster in one process, ready for kubectl.",
    "run": "Schedule the pods of a Kubernetes cluster.",
    "dry-run": "Say where pods of a dump would go, and why.",
    "why": "Say why a pod has no node, and what would help.",
    "what-if": "Show who moves, waits or fits after a change.",
    "plan": "Count what fits, buy nodes, find nodes that can go.",
    "compare": "Compare two configurations or seeds; a gate for CI.",
    "simulate": "Run months of a trace, and report what comes of it.",
    "tune": "Search for weights on a trace, and try them on the rest.",
    "trace": "Convert, inspect, cut, scale and make up traces.",
    "shadow": "Follow a cluster: would we decide as it does?",
    "snapshot": "Save all that scheduling reads in one file.",
    "record": "Follow a cluster and write it down, to replay.",
    "ui": "Show a cluster and every decision in a browser.",
    "bench": "Measure pods per second.",
    "plugins": "List the scheduling plugins.",
    "completion": "Let your shell complete commands and options.",
}
"""Each is a command of its name, in a module of its name."""

EXAMPLES = """\b
Examples:
  stowplan demo                       see it work, on a cluster of its own
  stowplan dry-run -f cluster.yaml    where would these pods go, and why?
  stowplan why web-1 -f cluster.yaml  why has it no node, and what would help?
  stowplan run --config sched.yaml    schedule a Kubernetes cluster
  stowplan COMMAND --help             options and examples of a command
"""


@click.group(
    "stowplan",
    cls=LazyGroup,
    lazy=COMMANDS,
    epilog=EXAMPLES,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, prog_name="stowplan", message="%(prog)s %(version)s")
@click.pass_context
def main(ctx: click.Context) -> None:
    """Stowplan decides which node each pod runs on, as kube-scheduler does, and says why."""
    if os.environ.get("NO_COLOR"):
        ctx.color = False
