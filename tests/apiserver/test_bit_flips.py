"""Bits that flip on the disk: the next start has the same objects, or refuses and says why.

Never fewer objects, never others, never other versions.  A cluster is left in two ways, ended in
order and killed; then one to three bits flip in a part of one of its files.  More of them with

    STOWPLAN_FLIPS=20000 .venv/bin/pytest -q --timeout 0 tests/apiserver/test_bit_flips.py
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from stowplan.apiserver.journal import SqliteJournal
from stowplan.apiserver.journal_files import FILE_NAME, LAST_NAME, LOG_NAME
from stowplan.errors import InputError
from stowplan.objects.kinds import POD
from tests.apiserver.test_journal import everything, open_store
from tests.apiserver.things import bind, create, delete, patch, pod_data

FLIPS = int(os.environ.get("STOWPLAN_FLIPS", "450"))
PAGE = 4096
WAL_HEADER, FRAME_HEADER = 32, 24

State = tuple[Any, str, int]
Place = Callable[[Random, int], int]
"""A position in a file of so many bytes."""


def write(folder: Path) -> SqliteJournal:
    """A cluster with objects of many sizes, of which some went again."""
    store, journal = open_store(folder, seed=7)
    for number in range(40):
        create(store, POD, pod_data(f"p{number:02}", hostname="h" if number % 2 else None))
        annotations = {"x": "y" * (number * 60)}
        patch(store, POD, f"p{number:02}", {"metadata": {"annotations": annotations}})
    for number in range(0, 40, 3):
        delete(store, POD, f"p{number:02}", 0)
    bind(store, "p01")
    return journal


def state_of(folder: Path) -> State:
    store, journal = open_store(folder)
    journal.close()
    return everything(store), store.resource_version, journal.seed


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Path, State]]:
    """One that ended in order, and one that was killed."""
    ended, killed, source = (tmp_path_factory.mktemp(it) for it in ("ended", "killed", "source"))
    write(ended).close()
    journal = write(source)
    for path in source.iterdir():
        shutil.copy(path, killed)
    journal.close()
    assert {path.name for path in ended.iterdir()} == {FILE_NAME, LAST_NAME}
    assert {path.name for path in killed.iterdir()} == {FILE_NAME, LAST_NAME, LOG_NAME}
    copy = tmp_path_factory.mktemp("copy")
    return [(it, state_of(Path(shutil.copytree(it, copy / it.name)))) for it in (ended, killed)]


PLACES: dict[str, tuple[str, Place]] = {
    "header": (FILE_NAME, lambda random, size: random.randrange(100)),
    "tables": (FILE_NAME, lambda random, size: random.randrange(100, PAGE)),
    "head of a page": (
        FILE_NAME,
        lambda random, size: PAGE * random.randrange(size // PAGE) + random.randrange(12),
    ),
    "cell pointers": (
        FILE_NAME,
        lambda random, size: PAGE * random.randrange(size // PAGE) + random.randrange(8, 60),
    ),
    "records": (FILE_NAME, lambda random, size: random.randrange(size)),
    "head of the log": (LOG_NAME, lambda random, size: random.randrange(WAL_HEADER)),
    "head of a frame": (
        LOG_NAME,
        lambda random, size: (
            WAL_HEADER
            + (PAGE + FRAME_HEADER) * random.randrange(size // (PAGE + FRAME_HEADER))
            + random.randrange(FRAME_HEADER)
        ),
    ),
    "log": (LOG_NAME, lambda random, size: random.randrange(size)),
    "note": (LAST_NAME, lambda random, size: random.randrange(size)),
}


def flip(path: Path, place: Place, random: Random) -> None:
    content = bytearray(path.read_bytes())
    for _ in range(random.choice((1, 1, 2, 3))):
        content[place(random, len(content))] ^= 1 << random.randrange(8)
    path.write_bytes(content)


def opened(folder: Path) -> State | InputError:
    try:
        return state_of(folder)
    except InputError as error:
        return error


@pytest.mark.slow
@pytest.mark.timeout(60 + FLIPS)
@pytest.mark.parametrize("part", PLACES)
def test_a_flipped_bit_changes_nothing_or_is_told(
    part: str, clusters: list[tuple[Path, State]], tmp_path: Path
) -> None:
    name, place = PLACES[part]
    refused = 0
    for seed in range(FLIPS // len(PLACES)):
        random = Random(f"{part} {seed}")
        source, before = random.choice([it for it in clusters if (it[0] / name).exists()])
        folder = Path(shutil.copytree(source, tmp_path / str(seed)))
        flip(folder / name, place, random)
        log = (folder / LOG_NAME).read_bytes() if (folder / LOG_NAME).exists() else None
        found = opened(folder)
        if isinstance(found, InputError):
            refused += 1
            assert "is damaged" in found.problem or "cannot be opened" in found.problem
            assert "put back a copy" in found.hint
            if log is not None:
                assert (folder / LOG_NAME).read_bytes() == log, "what was there is there"
        else:
            assert found == before, f"{part}, seed {seed}"
    assert refused, "no bit of these matters?"
