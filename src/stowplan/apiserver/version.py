"""The Kubernetes whose API the embedded cluster has."""

from __future__ import annotations

from stowplan import __version__

MAJOR, MINOR = "1", "36"
GIT_VERSION = f"v{MAJOR}.{MINOR}.0+stowplan-{__version__}"
