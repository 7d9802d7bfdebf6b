"""The scheduler's configuration in a simulation."""

from __future__ import annotations

from typing import Any

from stowplan.config import SchedulerConfig, load_config, parse_feature_gates
from tests.simulation.weather import Weather

SCHEDULER = "default-scheduler"
DOCK = "example.com/dock"
"""A resource that the extender has a say in."""

EXTENDER_TIMEOUT_S = 5.0


def scheduler_config(weather: Weather, *, spread_weight: int = 2) -> SchedulerConfig:
    """`spread_weight`: something to change when the configuration is loaded anew."""
    watchers = [{"name": "Purser"}, {"name": "Lookout"}]
    enabled = [*watchers, {"name": "PodTopologySpread", "weight": spread_weight}]
    if weather.permit:
        enabled.append({"name": "Pilot"})
    if weather.raises:
        enabled.append({"name": "Gremlin"})
    devices = {"name": "DynamicResources", "args": {"bindingTimeout": "20s"}}
    extenders: list[dict[str, Any]] = []
    if weather.extender:
        extenders.append(
            {
                "urlPrefix": "http://extender",
                "filterVerb": "filter",
                "prioritizeVerb": "prioritize",
                "preemptVerb": "preempt",
                "weight": 1,
                "nodeCacheCapable": True,
                "managedResources": [{"name": DOCK}],
            }
        )
    return load_config(
        {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "profiles": [
                {
                    "schedulerName": SCHEDULER,
                    "plugins": {"multiPoint": {"enabled": enabled}},
                    "pluginConfig": [devices],
                }
            ],
            "extenders": extenders,
        },
        gates=parse_feature_gates(",".join(f"{gate}=true" for gate in sorted(weather.gates))),
    )
