"""A click group that loads a command only when it is called, and words every error.

`stowplan --help` must not wait for NumPy, so the list of commands is a table, not imports.
Whatever goes wrong in a command ends here: one line on stderr that starts with `error:`,
perhaps a hint, and an exit code (see `stowplan.errors`).  `--verbose`, which every command
takes, adds the traceback.
"""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, NoReturn

import click

from stowplan.cli._output import complain, say_trace
from stowplan.cli._url import refuse_urls
from stowplan.errors import InputError, InternalError, StowplanError, Unavailable

EXIT_INTERRUPTED = 130
"""What a shell reports for a process that Ctrl-C ended."""


@dataclass(frozen=True, slots=True)
class LazyCommand:
    module: str
    attribute: str
    short_help: str


class LazyGroup(click.Group):
    def __init__(self, *, commands_by_name: Mapping[str, LazyCommand], **settings: Any) -> None:
        super().__init__(**settings)
        self._lazy = dict(commands_by_name)
        self.verbose = False
        self.params.append(self._verbose_option())

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._lazy)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        lazy = self._lazy.get(cmd_name)
        if lazy is None:
            return None
        command = getattr(importlib.import_module(lazy.module), lazy.attribute)
        assert isinstance(command, click.Command), f"{lazy.module}.{lazy.attribute}: no command"
        for each in (command, *getattr(command, "commands", {}).values()):
            if not any("--verbose" in option.opts for option in each.params):
                each.params.append(self._verbose_option())
            refuse_urls(each)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in self._lazy and not args[0].startswith("-"):
            near = get_close_matches(args[0], self._lazy, n=1)
            raise InputError(
                f"no command {args[0]!r}",
                hint=f"did you mean {near[0]!r}?"
                if near
                else f"`{ctx.command_path} --help` lists them",
            )
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if not self._lazy:
            return
        with formatter.section("Commands"):
            formatter.write_dl([(name, lazy.short_help) for name, lazy in self._lazy.items()])

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            # Whoever read has seen enough; what Python still holds back has nowhere to go.
            with suppress(OSError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 0

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        """Run the command line and end the process; without `standalone_mode`, just run it."""
        if not standalone_mode:
            return super().main(args, prog_name, complete_var, standalone_mode=False, **extra)
        self.verbose = False
        try:
            # Click returns the code given to `ctx.exit()`, or what the command returned.
            outcome = super().main(args, prog_name, complete_var, standalone_mode=False, **extra)
        except click.Abort:
            sys.exit(EXIT_INTERRUPTED)
        except click.exceptions.NoArgsIsHelpError as error:
            error.show()
            sys.exit(error.exit_code)
        except click.ClickException as error:
            self._fail(error, _from_click(error), exit_code=error.exit_code)
        except StowplanError as error:
            self._fail(error, error)
        except OSError as error:
            self._fail(error, _from_os(error))
        except Exception as error:
            self.verbose = True
            self._fail(error, _from_bug(error))
        sys.exit(outcome if isinstance(outcome, int) else 0)

    def _fail(
        self, cause: Exception, error: StowplanError, *, exit_code: int | None = None
    ) -> NoReturn:
        if self.verbose:
            say_trace("".join(traceback.format_exception(cause)))
        complain(str(error))
        sys.exit(error.exit_code if exit_code is None else exit_code)

    def _verbose_option(self) -> click.Option:
        def remember(ctx: click.Context, option: click.Parameter, value: bool) -> None:
            # Errors end in the outermost group, whichever command they come from.
            group = ctx.find_root().command
            if isinstance(group, LazyGroup):
                group.verbose = group.verbose or value

        return click.Option(
            ["--verbose"],
            is_flag=True,
            # Ahead of the other options: a complaint about them may want the traceback too.
            is_eager=True,
            expose_value=False,
            callback=remember,
            help="Show the traceback of an error.",
        )


def is_verbose() -> bool:
    """Whether the command under way was asked for tracebacks."""
    group = click.get_current_context().find_root().command
    return isinstance(group, LazyGroup) and group.verbose


def _from_click(error: click.ClickException) -> InputError:
    context = error.ctx if isinstance(error, click.UsageError) else None
    # Click's sentences start with a capital and end with a full stop; ours do not.
    message = " ".join(error.format_message().split()).rstrip(".")
    message = message.replace("a valid integer range", "a whole number")
    hint = f"`{context.command_path} --help` shows what it takes" if context else ""
    return InputError(message[:1].lower() + message[1:], hint=hint)


def _from_os(error: OSError) -> StowplanError:
    problem = error.strerror or str(error) or type(error).__name__
    if isinstance(error, ConnectionError | TimeoutError):
        return Unavailable(problem)
    return InputError(problem, where="" if error.filename is None else str(error.filename))


def _from_bug(error: Exception) -> InternalError:
    return InternalError(
        f"{type(error).__name__}: {error}",
        hint="this is a bug in Stowplan; please report it with the traceback above",
    )
