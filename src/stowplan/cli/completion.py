"""`stowplan completion`: what a shell needs to complete our commands and options."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from stowplan.cli._output import say

VARIABLE = "_STOWPLAN_COMPLETE"

INSTALL = """\b
To have it in this shell only:
  source <(stowplan completion bash)
  source <(stowplan completion zsh)
  stowplan completion fish | source

\b
To have it in every new shell:
  bash   stowplan completion bash > ~/.local/share/bash-completion/completions/stowplan
         (needs bash 4.4 or newer, and the package bash-completion)
  zsh    stowplan completion zsh > ~/.zfunc/_stowplan
         (with `fpath+=~/.zfunc` before `compinit` in ~/.zshrc)
  fish   stowplan completion fish > ~/.config/fish/completions/stowplan.fish
"""


@click.command("completion", epilog=INSTALL)
@click.argument("shell", metavar="SHELL", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print a script that lets a shell complete commands and options with the tab key.

    SHELL is bash, zsh or fish.  Example: `source <(stowplan completion bash)`.
    """
    found = get_completion_class(shell)
    assert found is not None, f"click completes nothing for {shell}"
    complete = found(ctx.find_root().command, {}, "stowplan", VARIABLE)
    # Not `source()`: for bash that starts a shell, to look at its version.
    for line in (complete.source_template % complete.source_vars()).splitlines():
        say(line)
