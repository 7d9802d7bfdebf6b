"""Every kind of object: found by its names, frozen, empty by default; cheap to load."""

from __future__ import annotations

import subprocess
import sys
from pkgutil import iter_modules

import msgspec
import pytest

from stowplan import objects
from stowplan.objects.kinds import KIND_BY_NAME, KIND_BY_STRUCT, KINDS, Kind


def test_numpy_is_not_loaded() -> None:
    """By any module of the room."""
    names = [module.name for module in iter_modules(objects.__path__, "stowplan.objects.")]
    script = f"import sys, {', '.join(names)}; print('numpy' in sys.modules)"

    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert run.stdout == "False\n"


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_every_kind_is_found_by_name_and_struct(kind: Kind) -> None:
    assert KIND_BY_NAME[kind.api_version, kind.name] is kind
    assert KIND_BY_STRUCT[kind.struct] is kind
    assert kind.plural.islower()


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_structs_are_frozen_and_start_empty(kind: Kind) -> None:
    empty = kind.struct()

    assert msgspec.json.encode(empty) == b"{}"
    assert empty.key == ""
    with pytest.raises(AttributeError):
        empty.kind = "Other"  # type: ignore[misc]
