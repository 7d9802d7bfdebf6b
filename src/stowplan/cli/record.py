"""`stowplan record`: a live cluster, written down; a recording, cut or without names."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from stowplan.cli._options import live_options, option
from stowplan.cli._output import count_of, note
from stowplan.cli._run_flags import GoDuration
from stowplan.errors import InputError

if TYPE_CHECKING:
    from stowplan.config import Duration

EXAMPLES = """\b
Examples:
  stowplan record --kubeconfig ~/.kube/config -o prod.recording
  stowplan record --context prod --for 24h -o day.recording
  stowplan record --from day.recording --since 8h --until 10h -o morning.recording
  stowplan record --from day.recording --anonymise -o shared.recording
"""


@click.command("record", epilog=EXAMPLES)
@live_options
@option("-o --output path FILE", "Appended to, if it is there.", required=True)
@option("--for duration TIME", "How long; else till Ctrl-C.", type=GoDuration())
@option("--from source FILE", "Copy a recording instead of a cluster.")
@option("--since TIME", "Of a copy: leave out what is before.", type=GoDuration())
@option("--until TIME", "Of a copy: leave out what is after.", type=GoDuration())
@option("--anonymise", "Of a copy: put stand-ins for names.")
def record(
    kubeconfig: str,
    context: str,
    path: str,
    duration: Duration | None,
    source: str | None,
    since: Duration | None,
    until: Duration | None,
    anonymise: bool,
) -> None:
    """Follow a cluster and write down what scheduling reads: a trace to replay later.

    The file is appended to: started again, it goes on, and the time in between is noted.  A process
    that is killed loses two seconds at most.
    """
    if source is None:
        if since is not None or until is not None or anonymise:
            raise InputError(
                "--since, --until and --anonymise are of copies",
                hint="record first, then `stowplan record --from FILE -o COPY`",
            )
        _follow(kubeconfig, context, path, None if duration is None else duration.seconds)
        return
    from stowplan.sim.recorder import rewrite

    count = rewrite(
        source,
        path,
        since_s=since.seconds if since is not None else 0.0,
        until_s=until.seconds if until is not None else float("inf"),
        anonymised=anonymise,
    )
    note(f"written: {path}, {count_of(count, 'line')}")


def _follow(kubeconfig: str, context: str, path: str, seconds: float | None) -> None:
    from stowplan.sim.recorder import RECORDED, Recorder
    from stowplan.world.following import Following, Source

    recorder = Recorder(path)
    following = Following(
        Source(kubeconfig, context),
        recorder,
        kinds=RECORDED,
        seconds=seconds,
        on_missing=note,
        on_start=lambda: note(f"recording to {path}; Ctrl-C ends it"),
    )
    following.run()
    recorder.flush(0.0)
    note(f"written: {path}, {count_of(recorder.count, 'line')}")
