"""The real thing to test against: etcd, kube-apiserver and kubectl, found or built once.

`KUBEBUILDER_ASSETS` names a folder that has them (the convention of envtest).  Without it they are
built from the module in `control_plane/`, whose go.mod pins their versions, into the user's cache
folder: about ten minutes the first time, nothing after that.

`make e2e` runs this first (`python -m tests.e2e.build_control_plane`).  The tests only look for
the result: where there is none they are skipped, or fail if `E2E_REQUIRED` is set, as CI does.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

MODULE = Path(__file__).parent / "control_plane"
PROGRAMS = {
    "etcd": "go.etcd.io/etcd/server/v3",
    "kubectl": "k8s.io/kubernetes/cmd/kubectl",
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
}
PACKAGES_PER_LINE = 200
"""How often the build says that it is still alive."""


class MissingControlPlane(Exception):
    """There is none, and what to do about it."""


def find(environment: Mapping[str, str]) -> Path:
    """The folder with the three programs."""
    if assets := environment.get("KUBEBUILDER_ASSETS"):
        folder = Path(assets)
        missing = [name for name in PROGRAMS if not (folder / name).exists()]
        if missing:
            raise MissingControlPlane(
                f"KUBEBUILDER_ASSETS is {assets}, and {_and(missing)} not in it\n"
                "  hint: name a folder with etcd, kube-apiserver and kubectl, or unset it"
            )
        return folder
    folder = cache_folder(environment)
    if not _complete(folder):
        raise MissingControlPlane(
            f"etcd, kube-apiserver and kubectl are not built yet ({folder})\n"
            "  hint: `make e2e` builds them if there is a Go toolchain,"
            " or set KUBEBUILDER_ASSETS to a folder that has them"
        )
    return folder


def cache_folder(environment: Mapping[str, str]) -> Path:
    base = environment.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    name = f"kubernetes-{version('k8s.io/kubernetes')}-etcd-{version('go.etcd.io/etcd/server/v3')}"
    return Path(base) / "stowplan" / "e2e" / name


def version(module: str) -> str:
    found = re.search(
        rf"^\s*{re.escape(module)} (v\S+)", (MODULE / "go.mod").read_text(), re.MULTILINE
    )
    assert found, f"go.mod does not require {module}"
    return found[1]


def find_or_build(environment: Mapping[str, str]) -> Path:
    try:
        return find(environment)
    except MissingControlPlane:
        if environment.get("KUBEBUILDER_ASSETS"):
            raise
    if shutil.which("go", path=environment.get("PATH")) is None:
        raise MissingControlPlane(
            "the real kube-apiserver cannot be tested against: no Go toolchain to build it with,"
            " and KUBEBUILDER_ASSETS is not set\n"
            f"  hint: install Go {_go_version()} or newer,"
            " or set KUBEBUILDER_ASSETS to a folder with etcd, kube-apiserver and kubectl"
        )
    folder = cache_folder(environment)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _one_at_a_time(folder.parent / ".lock"):
        if not _complete(folder):
            _build_all(folder, environment)
    return folder


def _build_all(folder: Path, environment: Mapping[str, str]) -> None:
    """Beside the folder first, so that what is half built is never taken for whole."""
    _say(f"building etcd, kubectl and kube-apiserver into {folder}")
    _say("this takes about 10 minutes and 3 GB of Go's caches; it is done once")
    started_s = time.monotonic()
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".building-") as beside:
        for name in PROGRAMS:
            _build(name, Path(beside) / "bin" / name, environment)
        shutil.rmtree(folder, ignore_errors=True)
        (Path(beside) / "bin").rename(folder)
    _say(f"built in {time.monotonic() - started_s:.0f} s")


def _build(name: str, target: Path, environment: Mapping[str, str]) -> None:
    kubernetes = version("k8s.io/kubernetes")
    major, minor, _ = kubernetes.removeprefix("v").split(".")
    stamp = "k8s.io/component-base/version"
    flags = (
        f"-s -w -X {stamp}.gitVersion={kubernetes}"
        f" -X {stamp}.gitMajor={major} -X {stamp}.gitMinor={minor}"
    )
    polite = ["nice", "-n", "10"] if shutil.which("nice") else []
    process = subprocess.Popen(
        [
            *polite,
            "go",
            "build",
            "-v",
            "-trimpath",
            "-ldflags",
            flags,
            "-o",
            target,
            PROGRAMS[name],
        ],
        cwd=MODULE,
        env={**environment, "CGO_ENABLED": "0", "GOWORK": "off"},
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    complaints = _follow(name, process.stderr)
    if process.wait() != 0:
        text = "\n".join(complaints[-20:])
        raise MissingControlPlane(f"{name} could not be built:\n{text}")


def _follow(name: str, lines: Iterator[str]) -> list[str]:
    """Go names each package as it is compiled; whatever else it says is kept."""
    _say(f"{name} ...")
    compiled, complaints = 0, []
    for line in lines:
        if re.fullmatch(r"[\w./~-]+\n", line):
            compiled += 1
            if compiled % PACKAGES_PER_LINE == 0:
                _say(f"{name} ... {compiled} packages compiled")
        elif not line.startswith("go: downloading"):
            complaints.append(line.rstrip())
    return complaints


@contextmanager
def _one_at_a_time(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _complete(folder: Path) -> bool:
    return all((folder / name).exists() for name in PROGRAMS)


def _go_version() -> str:
    found = re.search(r"^go (\S+)", (MODULE / "go.mod").read_text(), re.MULTILINE)
    return found[1] if found else ""


def _and(names: list[str]) -> str:
    *head, last = names
    return f"{', '.join(head)} and {last} are" if head else f"{last} is"


def _say(text: str) -> None:
    print(f"e2e: {text}", file=sys.stderr, flush=True)


def main() -> int:
    try:
        print(find_or_build(os.environ))
    except MissingControlPlane as problem:
        required = bool(os.environ.get("E2E_REQUIRED"))
        print(f"{'error' if required else 'warning'}: {problem}", file=sys.stderr)
        if not required:
            _say("going on with the embedded server alone")
        return int(required)
    return 0


if __name__ == "__main__":
    sys.exit(main())
