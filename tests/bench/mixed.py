"""The steady load: nodes of four sizes, and pods of seven kinds in forty apps, from a seed."""

from __future__ import annotations

from random import Random
from typing import Any

from tests.e2e.harness.objects import HOSTNAME, ZONE, anti_affinity, node, pod

Data = dict[str, Any]

APPS = 40
POOLS = 5
ZONES = 3
SIZES = ("4", "8", "16", "32")


def uneven_node(number: int) -> Data:
    labels = {ZONE: f"zone-{number % ZONES}", "pool": f"pool-{number % POOLS}"}
    return node(f"node-{number}", cpu=SIZES[number % len(SIZES)], labels=labels)


def mixed_pod(number: int) -> Data:
    """The same pod for the same number, for whoever schedules."""
    random = Random(number)
    app = {"app": f"app-{random.randrange(APPS)}"}
    kind = random.choice(list(_SPECS))
    made = pod(f"pod-{number}", labels=app, **_SPECS[kind](app, random))
    if kind == "any size":
        requests = {"cpu": f"{random.randint(50, 900)}m", "memory": f"{random.randint(64, 1500)}Mi"}
        made["spec"]["containers"][0]["resources"]["requests"] = requests
    return made


def _spread(app: Data, key: str, when: str, skew: int) -> Data:
    selector = {"matchLabels": app}
    term = {"maxSkew": skew, "topologyKey": key, "whenUnsatisfiable": when}
    return {"topologySpreadConstraints": [{**term, "labelSelector": selector}]}


def _preferred(app: Data) -> Data:
    term = {"labelSelector": {"matchLabels": app}, "topologyKey": ZONE}
    weighted = [{"weight": 50, "podAffinityTerm": term}]
    return {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": weighted}}


_SPECS = {
    "plain": lambda app, random: {},
    "any size": lambda app, random: {},
    "spread over zones": lambda app, random: _spread(app, ZONE, "DoNotSchedule", 5),
    "spread over hosts": lambda app, random: _spread(app, HOSTNAME, "ScheduleAnyway", 1),
    "anti-affinity": lambda app, random: {"affinity": anti_affinity(app)},
    "preferred affinity": lambda app, random: {"affinity": _preferred(app)},
    "selector": lambda app, random: {"nodeSelector": {"pool": f"pool-{random.randrange(POOLS)}"}},
}
