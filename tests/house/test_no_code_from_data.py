"""No cluster user runs code: data is never executed, imported or made into anything but data.

Where Python can run something, it is named here with whose word it runs on; a new place fails this
test, and with it the claim in docs/security.md.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from stowplan.apiserver.http.negotiation import decode_yaml
from stowplan.cluster.kubeconfig import from_files
from stowplan.config import load_config
from stowplan.errors import BadRequest, StowplanError
from stowplan.objects.manifests import read_manifests

SRC = Path(__file__).parents[2] / "src" / "stowplan"

RUNS = {
    *("eval", "exec", "compile", "__import__", "import_module", "exec_module"),
    *("spec_from_file_location", "entry_points", "create_subprocess_exec"),
    *("create_subprocess_shell", "subprocess_exec", "subprocess_shell", "unsafe_load"),
}
"""Calls that run what they are given."""
RUN_IN = {
    "os": {"system", "popen", "posix_spawn", "execv", "execve", "execvp", "spawnv", "startfile"},
    "subprocess": {"run", "call", "Popen", "check_call", "check_output", "getoutput"},
    "yaml": {"load", "load_all", "full_load", "full_load_all"},
}
"""Those that are named by their module."""
READERS = {"pickle", "marshal", "shelve", "dill", "runpy", "ctypes", "code", "codeop"}
"""Modules that are for nothing else."""

ALLOWED = {
    # The package's own modules, by names that are written in it.
    ("__init__.py", "import_module"),
    ("cli/_lazy.py", "importlib.import_module"),
    ("sim/files.py", "importlib.import_module"),
    ("world/cluster.py", "import_module"),
    # The benchmark's own interpreter, for a measurement of its own.
    ("bench/alone.py", "subprocess.run"),
    # The operator's plugins: files of --plugin-path, and packages that were installed.
    ("runtime/plugins_path.py", "importlib.import_module"),
    ("runtime/plugins_path.py", "entry_points"),
    # A regular expression: RE2 makes an automaton of it.
    ("cel/regexes.py", "re2.compile"),
    # The operator's credential plugin, from the kubeconfig.
    ("cluster/credentials.py", "asyncio.create_subprocess_exec"),
}

modules = sorted(SRC.rglob("*.py"))


def runs(source: str) -> Iterator[str]:
    """What a module could run something with."""
    for found in ast.walk(ast.parse(source)):
        if isinstance(found, ast.Call):
            module, _, name = ast.unparse(found.func).rpartition(".")
            if (name in RUNS and module != "re") or name in RUN_IN.get(module, ()):
                yield f"{module}.{name}" if module else name
        elif isinstance(found, ast.Import):
            yield from (it.name for it in found.names if it.name.split(".")[0] in READERS)
        elif isinstance(found, ast.ImportFrom):
            module = (found.module or "").split(".")[0]
            if module in READERS or any(it.name in RUN_IN.get(module, ()) for it in found.names):
                yield module


def test_nothing_runs_but_what_the_operator_names() -> None:
    found = {
        (str(path.relative_to(SRC)), name) for path in modules for name in runs(path.read_text())
    }

    assert found == ALLOWED


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("eval(x)", ["eval"]),
        ("import os\nos.system(x)", ["os.system"]),
        ("platform.system()", []),
        ("importlib.import_module(x)", ["importlib.import_module"]),
        ("from os import system", ["os"]),
        ("import pickle", ["pickle"]),
        ("from marshal import loads", ["marshal"]),
        ("re.compile(x)", []),
    ],
)
def test_the_search_finds(source: str, expected: list[str]) -> None:
    assert list(runs(source)) == expected


@pytest.mark.parametrize(
    "text",
    [
        "!!python/object/apply:os.system [touch ran]",
        "a: !!python/object/new:os.system [touch ran]",
        "a: !!python/name:os.system",
        "a: !!python/module:os",
        "? !!python/object/apply:os.system [touch ran]\n: b",
    ],
)
def test_yaml_is_data_at_every_door(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(text)
    for door in (
        lambda: list(read_manifests(text.encode(), "pods.yaml")),
        lambda: load_config(text.encode()),
        lambda: from_files([str(kubeconfig)]),
        lambda: decode_yaml(text.encode()),
    ):
        with pytest.raises((StowplanError, BadRequest)):
            door()
    assert not (tmp_path / "ran").exists()
