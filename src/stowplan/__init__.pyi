from stowplan import errors, plugin
from stowplan._version import __version__
from stowplan.answers.following import shadow
from stowplan.sim.files import read_trace
from stowplan.sim.simulate import simulate
from stowplan.world.cluster import Cluster
from stowplan.world.decision import Decision
from stowplan.world.diff import Diff
from stowplan.world.dry_run import dry_run
from stowplan.world.listing import Listing
from stowplan.world.remarks import Remark
from stowplan.world.table import Table

__all__ = [
    "Cluster",
    "Decision",
    "Diff",
    "Listing",
    "Remark",
    "Table",
    "__version__",
    "dry_run",
    "errors",
    "plugin",
    "read_trace",
    "shadow",
    "simulate",
]
