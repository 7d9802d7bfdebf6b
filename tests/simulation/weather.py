"""How bad the luck of one seed is: which faults there are, and how often.

Each fault is in about half of the seeds, so that every one is also seen without the others, which
would hide what it does ("swarm testing").  A fair seed has none: there the strictest checks hold.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from random import Random

FAIR_SHARE = 0.08
"""Of all seeds, those without any fault."""


@dataclass(frozen=True, slots=True)
class Weather:
    # The network.  Shares are of all calls; periods are means between two of a kind, in seconds.
    refused: float = 0.0
    """Calls that never reach the server."""
    lost: float = 0.0
    """Calls that are carried out and whose answer is lost."""
    late: float = 0.0
    """Calls that time out and are carried out afterwards."""
    conflicts: float = 0.0
    slow: float = 0.0
    lag_s: float = 0.0
    """How far a watch may be behind."""
    drop_period_s: float = 0.0
    """Watches that end, some of them unnoticed for a while."""
    repeats: float = 0.0
    """Watches that start with what was delivered before."""
    gone: float = 0.0
    """Watches that cannot start: 410."""
    compact_period_s: float = 0.0
    """The server forgets its history: every broken watch must list again."""

    # The scheduler's processes.
    replicas: int = 1
    drift: float = 0.0
    """How far clocks may run apart, as a share."""
    crash_period_s: float = 0.0
    crash_at_call: float = 0.0
    """Calls in the middle of which the process ends."""
    reconfigure_period_s: float = 0.0

    # What the scheduler asks of others.
    permit: bool = False
    """Some pods wait at Permit."""
    raises: float = 0.0
    """Calls of a plugin that end in an exception."""
    extender: bool = False
    hangs: float = 0.0
    """Calls of an extender that are not answered in time."""

    # The cluster.
    nodes: bool = False
    """Nodes vanish, shrink, are tainted and cordoned."""
    foreign: bool = False
    """Somebody else binds pods, ours among them."""
    resizes: bool = False
    churn: bool = False
    """Pods are deleted and changed while they are on their way."""
    volumes: bool = False
    provision_fails: float = 0.0

    @property
    def names(self) -> str:
        """The faults there are, for the first line of a trace."""
        default = Weather()
        differing = (f.name for f in fields(self) if getattr(self, f.name) != getattr(default, f.name))
        return ", ".join(differing) or "fair"


def weather_of(seed: int) -> Weather:
    random = Random(f"{seed}/weather")
    if random.random() < FAIR_SHARE:
        return Weather(permit=random.random() < 0.5, volumes=random.random() < 0.5)

    def maybe(*choices: float, share: float = 0.5) -> float:
        chosen = random.choice(choices)
        return chosen if random.random() < share else 0.0

    def likely(share: float = 0.5) -> bool:
        return random.random() < share

    return Weather(
        refused=maybe(0.02, 0.1, 0.3),
        lost=maybe(0.02, 0.1, 0.2, share=0.4),
        late=maybe(0.02, 0.1, share=0.3),
        conflicts=maybe(0.02, 0.2),
        slow=maybe(0.05, 0.3),
        lag_s=maybe(0.1, 1.0, 8.0),
        drop_period_s=maybe(1.0, 5.0, 20.0),
        repeats=maybe(0.3, 1.0),
        gone=maybe(0.1, 0.5, share=0.3),
        compact_period_s=maybe(3.0, 15.0),
        replicas=2 if likely(0.4) else 1,
        drift=maybe(0.01, 0.1),
        crash_period_s=maybe(8.0, 30.0, share=0.4),
        crash_at_call=maybe(0.002, 0.01, share=0.3),
        reconfigure_period_s=maybe(10.0, 40.0, share=0.2),
        permit=likely(0.4),
        raises=maybe(0.01, 0.1, share=0.4),
        extender=likely(0.3),
        hangs=maybe(0.05, 0.3),
        nodes=likely(),
        foreign=likely(0.3),
        resizes=likely(0.3),
        churn=likely(),
        volumes=likely(0.4),
        provision_fails=maybe(0.1, 0.4),
    )
