from stowplan._version import __version__
from stowplan.core.decision import Decision
from stowplan.offline import dry_run

__all__ = ["Decision", "__version__", "dry_run"]
