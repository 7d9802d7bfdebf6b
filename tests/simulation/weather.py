"""How bad the luck of one seed is: which faults there are, and how often.

Each fault is in about half of the seeds, so that every one is also seen without the others, which
would hide what it does ("swarm testing").  A fair seed has none: there the strictest checks hold.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from random import Random
from typing import Any

from stowplan.objects.pod_groups import (
    GANG_SCHEDULING,
    GENERIC_WORKLOAD,
    TOPOLOGY_AWARE,
    WORKLOAD_AWARE_PREEMPTION,
    WORKLOAD_CLAIMS,
)

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
    stop_period_s: float = 0.0
    """They are asked to end in good order, as in a rolling update."""
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
    devices: bool = False
    """Drivers publish devices, and pods claim them."""
    driver_fails: float = 0.0
    """Devices that cannot be attached."""
    groups: bool = False
    """Pods come in groups, and the feature gates for that are on; the next three are of these."""
    topology: bool = False
    group_preemption: bool = False
    group_claims: bool = False

    @property
    def gates(self) -> frozenset[str]:
        """The feature gates that are on, of those that have to do with groups."""
        found = {
            GENERIC_WORKLOAD: self.groups,
            GANG_SCHEDULING: self.groups,
            TOPOLOGY_AWARE: self.topology,
            WORKLOAD_AWARE_PREEMPTION: self.group_preemption,
            WORKLOAD_CLAIMS: self.group_claims,
        }
        return frozenset(gate for gate, is_on in found.items() if is_on)

    @property
    def names(self) -> str:
        """The faults there are, for the first line of a trace."""
        default = Weather()
        differing = (
            f.name for f in fields(self) if getattr(self, f.name) != getattr(default, f.name)
        )
        return ", ".join(differing) or "fair"


def weather_of(seed: int) -> Weather:
    """Each fault has a generator of its own, so that a new one leaves the others as they were."""
    if Random(f"{seed}/weather").random() < FAIR_SHARE:
        present = ("permit", "volumes", "devices", "groups")
        return Weather(**{name: _is(seed, name) for name in present}, **_of_groups(seed, 0.5))
    drawn: dict[str, Any] = {
        **{name: _one_of(seed, name, *choices) for name, choices in _SHARES.items()},
        **{name: _is(seed, name, share) for name, share in _PRESENT.items()},
        "replicas": 2 if _is(seed, "replicas", 0.4) else 1,
        **_of_groups(seed, _PRESENT["groups"]),
    }
    return Weather(**drawn)


_SHARES: dict[str, tuple[float, tuple[float, ...]]] = {
    "refused": (0.5, (0.02, 0.1, 0.3)),
    "lost": (0.4, (0.02, 0.1, 0.2)),
    "late": (0.3, (0.02, 0.1)),
    "conflicts": (0.5, (0.02, 0.2)),
    "slow": (0.5, (0.05, 0.3)),
    "lag_s": (0.5, (0.1, 1.0, 8.0)),
    "drop_period_s": (0.5, (1.0, 5.0, 20.0)),
    "repeats": (0.5, (0.3, 1.0)),
    "gone": (0.3, (0.1, 0.5)),
    "compact_period_s": (0.5, (3.0, 15.0)),
    "drift": (0.5, (0.01, 0.1)),
    "crash_period_s": (0.4, (8.0, 30.0)),
    "crash_at_call": (0.3, (0.002, 0.01)),
    "stop_period_s": (0.2, (10.0, 30.0)),
    "reconfigure_period_s": (0.2, (10.0, 40.0)),
    "raises": (0.4, (0.01, 0.1)),
    "hangs": (0.5, (0.05, 0.3)),
    "provision_fails": (0.5, (0.1, 0.4)),
    "driver_fails": (0.5, (0.1, 0.4)),
}
"""How often a fault is there at all, and how strong it may then be."""

_PRESENT = {
    "permit": 0.4,
    "extender": 0.3,
    "nodes": 0.5,
    "foreign": 0.3,
    "resizes": 0.3,
    "churn": 0.5,
    "volumes": 0.4,
    "devices": 0.4,
    "groups": 0.35,
}


def _of_groups(seed: int, share: float) -> dict[str, Any]:
    there = _is(seed, "groups", share)
    shares = {"topology": 0.7, "group_preemption": 0.6, "group_claims": 0.5}
    return {name: there and _is(seed, name, of) for name, of in shares.items()}


def _is(seed: int, name: str, share: float = 0.5) -> bool:
    return Random(f"{seed}/weather/{name}").random() < share


def _one_of(seed: int, name: str, share: float, choices: tuple[float, ...]) -> float:
    random = Random(f"{seed}/weather/{name}")
    return random.choice(choices) if random.random() < share else 0.0
