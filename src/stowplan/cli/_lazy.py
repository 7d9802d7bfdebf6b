"""A click group that loads a command only when it is called, and words every error.

`stowplan --help` must not wait for NumPy, so the list of commands is a table, not imports.
Whatever goes wrong in a command ends here: one line on stderr that starts with `error:`,
perhaps a hint, and an exit code (see `stowplan.errors`).  `--verbose`, which every command
takes, adds the traceback.
"""

from __future__ import annotations

import importlib
import os
import re
import sys
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from difflib import get_close_matches
from typing import Any, NoReturn

import click

from stowplan.cli._output import complain, say_trace
from stowplan.errors import InputError, InternalError, StowplanError, Unavailable

EXIT_INTERRUPTED = 130
"""What a shell reports for a process that Ctrl-C ended."""


class LazyGroup(click.Group):
    def __init__(self, *, lazy: Mapping[str, str] | None = None, **settings: Any) -> None:
        """`lazy` are the commands that have a module of their own, and what each does."""
        super().__init__(**settings)
        self._lazy = dict(lazy or {})
        self.verbose = False
        self.params.append(self._verbose_option())

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._lazy or self.commands)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        command = self.commands.get(cmd_name)
        if command is None and cmd_name in self._lazy:
            word = cmd_name.replace("-", "_")
            command = getattr(importlib.import_module(f"stowplan.cli.{word}"), word)
            assert isinstance(command, click.Command), f"stowplan.cli.{word}.{word}: no command"
        if command is None:
            return None
        for each in (command, *getattr(command, "commands", {}).values()):
            if not any("--verbose" in option.opts for option in each.params):
                each.params.append(self._verbose_option())
            refuse_urls(each)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        known = self.list_commands(ctx)
        if args and args[0] not in known and not args[0].startswith("-"):
            near = get_close_matches(args[0], known, n=1)
            raise InputError(
                f"no command {args[0]!r}",
                hint=f"did you mean {near[0]!r}?"
                if near
                else f"`{ctx.command_path} --help` lists them",
            )
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        own = {name: command.short_help or "" for name, command in self.commands.items()}
        with formatter.section("Commands"):
            formatter.write_dl([*(self._lazy or own).items()])

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


# -- a URL where a file is expected: kubectl would fetch it; we say what to do instead --------


_OF_FILES = re.compile(r"FILE|PATH|DIR|CONFIG")
_URL = re.compile(r"(https?):/+(.*)")


def refuse_urls(command: click.Command) -> None:
    """In all options and arguments of a command that name a file."""
    for param in command.params:
        if _OF_FILES.search(_described(param)) and param.callback is None:
            param.callback = _refuse_url


def _described(param: click.Parameter) -> str:
    return f"{param.metavar or ''} {(param.name or '').upper()}"


def _refuse_url(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
    for each in value if isinstance(value, tuple) else (value,):
        # A path made of a URL has lost a slash.
        found = _URL.match(str(each))
        if found is not None:
            url = f"{found[1]}://{found[2]}"
            raise InputError("a file is wanted here, not a URL", where=url, hint=_hint(param, url))
    return value


def _hint(param: click.Parameter, url: str) -> str:
    if param.name == "kubeconfig":
        return "`--master URL` takes the URL of an API server"
    if param.name in ("filenames", "more_files"):
        return f"pipe it in: `curl -fsSL {url} | stowplan dry-run -f -`"
    if param.name in ("config", "plugin_path", "plugin_paths"):
        return f"fetch it first: `curl -fsSLO {url}`"
    return "name a path on this machine"
