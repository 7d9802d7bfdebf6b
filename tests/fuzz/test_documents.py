"""Files: manifests, the scheduler's configuration, kubeconfig."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stowplan.cluster.kubeconfig import from_files
from stowplan.config import load_config
from stowplan.errors import ConfigError, InputError
from stowplan.objects.manifests import decode, read_manifests
from stowplan.objects.yaml_reader import read_yaml
from tests.fuzz.inputs import (
    BOMBS,
    CONFIG,
    KUBECONFIG,
    MANIFEST,
    broken,
    json_values,
    noise,
    peak_bytes,
    refused,
)

MEMORY_MAX = 150_000_000

Read = Callable[[bytes], object]


def manifests(data: bytes) -> None:
    for place, found in read_manifests(data, "pods.yaml"):
        decode(found, place)


def config(data: bytes) -> None:
    load_config(data)


@given(noise | broken(MANIFEST))
def test_manifests(data: bytes) -> None:
    with refused(InputError):
        manifests(data)


@given(json_values)
def test_objects_of_any_shape(data: object) -> None:
    with refused(InputError):
        decode(data, "pods.json")


@given(noise)
def test_yaml(data: bytes) -> None:
    with refused(InputError):
        read_yaml(data, "file.yaml")


@given(noise | broken(CONFIG))
def test_configuration(data: bytes) -> None:
    with refused(ConfigError):
        config(data)


@given(data=noise | broken(KUBECONFIG))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_kubeconfig(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "kubeconfig"
    path.write_bytes(data)
    with refused(InputError):
        from_files([str(path)])


@pytest.mark.parametrize("bomb", BOMBS.values(), ids=[*BOMBS])
@pytest.mark.parametrize("read", [manifests, config], ids=lambda read: read.__name__)
def test_nothing_small_takes_much(read: Read, bomb: bytes) -> None:
    def attempt() -> None:
        with refused(InputError, ConfigError):
            read(bomb)

    assert peak_bytes(attempt) < MEMORY_MAX


@given(st.lists(st.sampled_from([MANIFEST, b"---\n", b"# note\n"]), max_size=6))
def test_what_is_good_is_still_read(parts: list[bytes]) -> None:
    """Fuzzing must not be passed by refusing everything."""
    text = b"---\n".join(parts)
    names = [found["metadata"]["name"] for _, found in read_manifests(text, "pods.yaml")]
    assert names == ["web", "a"] * parts.count(MANIFEST)
