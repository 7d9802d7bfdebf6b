"""What the secure port shows and asks: the seam between the running scheduler and its endpoints.

`runtime.live` fills a `Surface` in and hands it, with the `ServingOptions` of the command line, to
`runtime.server.SecureServer(options, surface)`, which has `start()`, `stop()` (both to be awaited)
and `port`.  The server only reads from here; nothing in here waits.

The server may run on another thread than the scheduler (`runtime.upkeep`): health, and who may ask,
need nothing of the scheduler; all else is read on its thread, by `on_scheduler`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from stowplan.clock import Clock
from stowplan.config import DEFAULT_GATES, FeatureGates
from stowplan.core.bottlenecks import Bottlenecks
from stowplan.core.machine import Machine
from stowplan.runtime.auth import AuthSettings, Reviews
from stowplan.runtime.health import Health
from stowplan.runtime.log import Log
from stowplan.runtime.metrics import Metrics

if TYPE_CHECKING:
    from stowplan.runtime.page_port import Page


@dataclass(frozen=True, slots=True)
class ServingOptions:
    """The flags about the port itself, as the command line has them."""

    bind_address: str = "0.0.0.0"
    port: int = 10259
    """0: no server at all (`runtime.live` then makes none)."""
    cert_dir: str = ""
    """Where kube-scheduler.crt and .key are, or are written to."""
    cert_file: str = ""
    key_file: str = ""
    """Neither these nor `cert_dir`: a self-signed certificate that lives in memory."""
    sni_cert_keys: tuple[str, ...] = ()
    """`cert,key:name,name`, as given to --tls-sni-cert-key."""
    cipher_suites: tuple[str, ...] = ()
    """IANA names."""
    min_version: str = ""
    """VersionTLS12 or VersionTLS13; empty is VersionTLS12."""
    client_ca_file: str = ""
    """Whose client certificates are believed; empty: none."""
    auth: AuthSettings = field(default_factory=AuthSettings)


async def _here(action: Callable[[], Any]) -> Any:
    return action()


@dataclass(slots=True)
class Surface:
    clock: Clock
    log: Log
    """PUT /debug/flags/v sets `log.verbosity`."""
    machine: Machine
    """The same object for the life of the process: queue, cache, pods, decisions (`decision_of`)
    and, in `machine.config`, the configuration in use (/configz), also after a reload."""
    metrics: Metrics
    bottlenecks: Bottlenecks
    health: Health
    """The checks of /healthz, /livez and /readyz, complete."""
    on_scheduler: Callable[[Callable[[], Any]], Awaitable[Any]] = _here
    """Has something done on the scheduler's thread, and awaits what it returns."""
    is_leading: Callable[[], bool] = lambda: True
    """Whether this replica schedules; /metrics/resources is empty while it does not."""
    reviews: Reviews | None = None
    """Who asks and whether they may; None: nobody can be asked, only open paths are served."""
    page: Page | None = None
    """What is at /ui/."""
    gates: FeatureGates = DEFAULT_GATES
    """For kubernetes_feature_enabled."""
    flags: Mapping[str, str] = field(default_factory=dict)
    """Every flag and its value, for /flagz."""
