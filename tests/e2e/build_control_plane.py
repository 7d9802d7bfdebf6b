"""The real thing to test against: etcd, kube-apiserver and kubectl, found or built once.

`KUBEBUILDER_ASSETS` names a folder that has them (the convention of envtest).  Without it they are
built from the module in `control_plane/`, whose go.mod pins their versions, into the user's cache
folder: about ten minutes of two cores the first time, nothing after that.

`make e2e` runs this first, and ends here if there is neither.  By hand, also for kube-scheduler,
which the benchmarks compare with:

    python -m tests.e2e.build_control_plane [PROGRAM ...]
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

MODULE = Path(__file__).parent / "control_plane"
PACKAGES = {
    "etcd": "go.etcd.io/etcd/server/v3",
    "kubectl": "k8s.io/kubernetes/cmd/kubectl",
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
    "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
}
NEEDED = ("etcd", "kubectl", "kube-apiserver")
FREE_BYTES_MIN = 5 * 10**9
"""What Go's caches and the programs take, rounded up."""
SAY_EVERY_S = 30.0
"""How often the build says that it is still alive."""


class MissingControlPlane(Exception):
    """There is none, and what to do about it."""


def find(environment: Mapping[str, str], programs: Sequence[str] = NEEDED) -> Path:
    """The folder that has all of these programs."""
    folder, hint = _folder(environment)
    missing = [name for name in programs if not (folder / name).exists()]
    if missing:
        raise MissingControlPlane(f"{_and(missing)} not in {folder}\n  hint: {hint}")
    return folder


def _folder(environment: Mapping[str, str]) -> tuple[Path, str]:
    if assets := environment.get("KUBEBUILDER_ASSETS"):
        return Path(assets), f"KUBEBUILDER_ASSETS must name a folder with {', '.join(NEEDED)}"
    return cache_folder(environment), "`make e2e` builds them; that needs a Go toolchain"


def cache_folder(environment: Mapping[str, str]) -> Path:
    base = environment.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    name = f"kubernetes-{version('k8s.io/kubernetes')}-etcd-{version('go.etcd.io/etcd/server/v3')}"
    return Path(base) / "stowplan" / "e2e" / name


def version(module: str) -> str:
    return _in_go_mod(rf"^\s*{re.escape(module)} (v\S+)")


def _in_go_mod(pattern: str) -> str:
    found = re.search(pattern, (MODULE / "go.mod").read_text(), re.MULTILINE)
    assert found, f"go.mod has no {pattern}"
    return found[1]


def find_or_build(environment: Mapping[str, str], programs: Sequence[str] = NEEDED) -> Path:
    try:
        return find(environment, programs)
    except MissingControlPlane:
        if environment.get("KUBEBUILDER_ASSETS"):
            raise
    folder = cache_folder(environment)
    _check_go(environment)
    folder.mkdir(parents=True, exist_ok=True)
    with _one_at_a_time(folder / ".lock"):
        for left_over in folder.glob(".building-*"):
            left_over.unlink()
        missing = [name for name in programs if not (folder / name).exists()]
        _check_space(folder)
        _build_all(missing, folder, environment)
    return folder


def _check_go(environment: Mapping[str, str]) -> None:
    if shutil.which("go", path=environment.get("PATH")) is None:
        oldest = _in_go_mod(r"^go (\S+)")
        raise MissingControlPlane(
            "no kube-apiserver to test against: there is no Go toolchain to build it with,"
            " and KUBEBUILDER_ASSETS is not set\n"
            f"  hint: install Go {oldest} or newer,"
            f" or set KUBEBUILDER_ASSETS to a folder with {', '.join(NEEDED)}"
        )


def _check_space(folder: Path) -> None:
    free = shutil.disk_usage(folder).free
    if free < FREE_BYTES_MIN:
        raise MissingControlPlane(
            f"only {free / 1e9:.1f} GB are free at {folder};"
            f" building the control plane takes {FREE_BYTES_MIN / 1e9:.0f}\n"
            "  hint: make room, set XDG_CACHE_HOME, or set KUBEBUILDER_ASSETS"
        )


def _build_all(programs: Sequence[str], folder: Path, environment: Mapping[str, str]) -> None:
    if not programs:
        return
    _say(f"building {', '.join(programs)} into {folder}")
    _say("this takes about 10 minutes; it is done once")
    started_s = time.monotonic()
    for name in programs:
        # Under another name first: what is half built is never taken for whole, and what is
        # whole stays if the next one fails.
        unfinished = folder / f".building-{name}"
        _build(name, unfinished, environment)
        unfinished.rename(folder / name)
    _say(f"built in {time.monotonic() - started_s:.0f} s")


def _build(name: str, target: Path, environment: Mapping[str, str]) -> None:
    polite = ["nice", "-n", "5"] if shutil.which("nice") else []
    go = ["go", "build", "-v", "-trimpath", "-ldflags", _link_flags(), "-o", str(target)]
    process = subprocess.Popen(
        [*polite, *go, PACKAGES[name]],
        cwd=MODULE,
        # Modules as go.mod says, whatever else this machine works on; static, without a compiler.
        env={**environment, "CGO_ENABLED": "0", "GOWORK": "off"},
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        complaints = _follow(name, process.stderr)
        code = process.wait()
    finally:
        # Interrupted: Go removes what it has begun.
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            process.wait()
    if code != 0:
        text = "\n".join(complaints[-20:])
        raise MissingControlPlane(
            f"{name} could not be built:\n{text}\n"
            "  hint: the Go module registry (GOPROXY) must be reachable,"
            " or set KUBEBUILDER_ASSETS to a folder that has the programs"
        )


def _link_flags() -> str:
    """What the programs say of their version; small, without symbols."""
    kubernetes = version("k8s.io/kubernetes")
    major, minor, _ = kubernetes.removeprefix("v").split(".")
    stamps = {"gitVersion": kubernetes, "gitMajor": major, "gitMinor": minor}
    package = "k8s.io/component-base/version"
    return " ".join(["-s -w", *(f"-X {package}.{name}={it}" for name, it in stamps.items())])


def _follow(name: str, lines: Iterable[str]) -> list[str]:
    """Go names each package as it is compiled; whatever else it says is kept."""
    _say(f"{name} ...")
    compiled, complaints, said_s = 0, [], time.monotonic()
    for line in lines:
        if re.fullmatch(r"[\w./~-]+\n", line):
            compiled += 1
        elif not line.startswith("go: downloading"):
            complaints.append(line.rstrip())
        if time.monotonic() - said_s > SAY_EVERY_S:
            said_s = time.monotonic()
            _say(f"{name} ... {compiled} packages compiled")
    return complaints


@contextmanager
def _one_at_a_time(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _say("another build is under way; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _and(names: list[str]) -> str:
    *head, last = names
    return f"{', '.join(head)} and {last} are" if head else f"{last} is"


def _say(text: str) -> None:
    print(f"e2e: {text}", file=sys.stderr, flush=True)


def main(programs: Sequence[str]) -> int:
    # So that the build under way is stopped too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if unknown := [name for name in programs if name not in PACKAGES]:
        print(f"error: no such program: {unknown[0]} (of {', '.join(PACKAGES)})", file=sys.stderr)
        return 2
    try:
        print(find_or_build(os.environ, programs or NEEDED))
    except MissingControlPlane as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
