"""Where there is no real API server to test against, one message says what is missing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def _build(*programs: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.e2e.build_control_plane", *programs],
        cwd=ROOT,
        env={"HOME": os.environ.get("HOME", "/"), "PATH": "/nonexistent", **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_without_go_and_without_assets_it_says_what_is_missing(tmp_path: Path) -> None:
    done = _build(XDG_CACHE_HOME=str(tmp_path))
    assert done.returncode == 1
    assert done.stdout == ""
    [problem, hint] = done.stderr.splitlines()
    assert problem.startswith("error: no kube-apiserver to test against")
    assert "no Go toolchain" in problem
    assert "KUBEBUILDER_ASSETS is not set" in problem
    assert hint.startswith("  hint: install Go 1.")
    assert list(tmp_path.iterdir()) == []


def test_assets_that_are_not_all_there_are_named(tmp_path: Path) -> None:
    (tmp_path / "etcd").touch()
    done = _build(KUBEBUILDER_ASSETS=str(tmp_path))
    assert done.returncode == 1
    assert done.stderr.startswith(f"error: kubectl and kube-apiserver are not in {tmp_path}\n")


def test_assets_are_taken_as_they_are(tmp_path: Path) -> None:
    for name in ("etcd", "kubectl", "kube-apiserver"):
        (tmp_path / name).touch()
    done = _build(KUBEBUILDER_ASSETS=str(tmp_path))
    assert (done.returncode, done.stdout) == (0, f"{tmp_path}\n")


def test_a_build_that_fails_leaves_nothing_behind_and_says_so(tmp_path: Path) -> None:
    """As without a registry: Go complains and ends."""
    tools = tmp_path / "bin"
    tools.mkdir()
    go = tools / "go"
    go.write_text("#!/bin/sh\necho 'example.com/x: connection refused' >&2\nexit 1\n")
    go.chmod(0o755)
    done = _build(PATH=str(tools), XDG_CACHE_HOME=str(tmp_path / "cache"))
    assert done.returncode == 1
    assert "error: etcd could not be built:\nexample.com/x: connection refused" in done.stderr
    assert "GOPROXY" in done.stderr
    [folder] = (tmp_path / "cache" / "stowplan" / "e2e").iterdir()
    assert [it.name for it in folder.iterdir()] == [".lock"]


def test_an_unknown_program_is_refused() -> None:
    done = _build("kube-proxy")
    assert done.returncode == 2
    assert "kube-proxy" in done.stderr
