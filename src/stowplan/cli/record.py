"""`stowplan record`: a live cluster, written down; a recording, cut or without names."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

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
@click.option("--kubeconfig", metavar="FILE", default="", help="Which cluster; it is only read.")
@click.option("--context", metavar="NAME", default="", help="Which cluster of the kubeconfig.")
@click.option(
    "-o", "--output", "path", required=True, metavar="FILE", help="Appended to, if it is there."
)
@click.option(
    "--for", "duration", type=GoDuration(), metavar="TIME", help="How long; else till Ctrl-C."
)
@click.option("--from", "source", metavar="FILE", help="Copy a recording instead of a cluster.")
@click.option(
    "--since", type=GoDuration(), metavar="TIME", help="Of a copy: leave out what is before."
)
@click.option(
    "--until", type=GoDuration(), metavar="TIME", help="Of a copy: leave out what is after."
)
@click.option("--anonymise", is_flag=True, help="Of a copy: put stand-ins for names.")
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
