"""A Dask cluster gives what this process gives."""

from __future__ import annotations

from pathlib import Path

import pytest

from stowplan.errors import InputError
from stowplan.sim.simulate import simulate
from tests.sim.making import pod_template, trace

SWEEP = {"weights": {"NodeResourcesBalancedAllocation": [0, 5]}, "nodes": [2, 3]}


def _files(folder: Path) -> dict[str, bytes]:
    """All but how long it took."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "timing.json"
    }


@pytest.mark.slow
def test_a_sweep_on_a_dask_cluster_gives_the_same_bytes(tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed")
    pods = [(30.0 * n, 100.0, n % 2) for n in range(20)]
    told = trace(pods, templates=[pod_template("1"), pod_template("3")], nodes=3)
    options = {"sweep": SWEEP, "seeds": 2, "ends": "service", "samples": 10}

    simulate(told, folder=tmp_path / "here", **options).write(tmp_path / "here")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
    ) as cluster:
        address = cluster.scheduler_address.replace("tcp://", "dask://")
        found = simulate(told, folder=tmp_path / "there", scheduler=address, **options)
    found.write(tmp_path / "there")

    assert len(found.runs) == 8
    assert _files(tmp_path / "there") == _files(tmp_path / "here")


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:8786", "dask://", "somewhere"])
def test_what_is_no_address_is_refused(address: str) -> None:
    pytest.importorskip("distributed")

    with pytest.raises(InputError, match="no address of a Dask scheduler"):
        simulate(trace([(0.0, 1.0, 0)]), scheduler=address)
