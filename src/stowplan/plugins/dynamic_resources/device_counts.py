"""What is counted of devices, for metrics: kept where it arises, read when somebody asks."""

from __future__ import annotations

from collections import Counter

from stowplan.objects.devices import ResourceClaim
from stowplan.plugins.dynamic_resources.binding_conditions import conditional_results
from stowplan.state.object_index import ObjectIndex

WAITS_MAX = 10_000

Labels = tuple[str, str, str]
"""Profile, driver, status."""


class DeviceCounts:
    """Of all profiles; `runtime.metric_readings` reads it."""

    def __init__(self, objects: ObjectIndex) -> None:
        self.creates: Counter[str] = Counter()
        """Special claims, by success or failure."""
        self.prepared: Counter[Labels] = Counter()
        """Devices that had to be prepared first."""
        self.waits: list[tuple[Labels, float]] = []
        """How long that took, of the last ones; whoever reads it empties it."""

    def waited(
        self, claims: list[ResourceClaim], profile: str, status: str, seconds: float
    ) -> None:
        """A wait for these claims is over; it counts for each of their devices."""
        for claim in claims:
            for result in conditional_results(claim):
                self.prepared[profile, result.driver, status] += 1
            allocation = claim.status.allocation
            for result in (allocation.devices.results or ()) if allocation is not None else ():
                self.waits.append(((profile, result.driver, status), seconds))
        del self.waits[:-WAITS_MAX]
