"""Limits of what is kept, made as small as can be: no answer may depend on them.

`tests/framework`, `tests/conformance` and `tests/queue` decide under `small_limits()` as well:
everything kept is thrown away all the time, and the ways for many are taken for a few.  Because
they do, `tests/mutants` does not change the limits themselves.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module

SMALL: dict[str, dict[str, int]] = {
    "core.steps": {"_CANCELLED_MAX": 0},
    "framework.diagnosis": {"FEW": 0, "LATEST_MAX": 1},
    "framework.kept": {"FEW": 0, "GONE_MAX": 0, "IDLE_MAX": 0},
    "framework.planning": {"_OUTLINES_MAX": 1},
    "plugins._shared.kept_verdicts": {"_KEPT_MAX": 1},
    "plugins._shared.pod_kinds": {"_KNOWN_MAX": 1},
    "plugins._shared.resource_columns": {
        "FEW": 0,
        "_COLUMNS_MAX": 1,
        "_EXACT_MAX": 1,
        "ROWS_PER_CHANGE": 1,
    },
    "plugins.dynamic_resources.claim_cache": {"_LOG_MAX": 1},
    "plugins.dynamic_resources.device_column": {"OFFERS_MAX": 0, "_LOG_MAX": 1},
    "plugins.dynamic_resources.kept_searches": {"FEW": 0, "KEPT_MAX": 1},
    "plugins.dynamic_resources.needed_resources": {"KEPT_MAX": 1},
    "plugins.dynamic_resources.pools": {"_LOG_MAX": 1},
    "plugins.inter_pod_affinity.affinity_filtering": {"FEW": 0, "VALUES_MAX": 0},
    "plugins.inter_pod_affinity.affinity_scoring": {"_FEW_DOMAINS": 0},
    "plugins.inter_pod_affinity.affinity_terms": {"_TERMS_MAX": 0},
    "plugins.inter_pod_affinity.host_scores": {"FEW": 0, "_SPREAD_MAX": 0},
    "plugins.node_resources_balanced_allocation": {"FEW": 0, "ROWS_PER_CHANGE": 1},
    "plugins.node_volume_limits.csi_volumes": {"_REMEMBERED_MAX": 0},
    "plugins.pod_topology_spread": {"VALUES_MAX": 0},
    "plugins.pod_topology_spread.row_classes": {"FEW": 0, "_CLASSES_MAX": 1},
    "plugins.pod_topology_spread.spread_scoring": {"_PODS_MIN": 1},
    "plugins.taint_toleration": {"_KEPT_MAX": 1},
    "plugins.volume_binding.assumed": {"_SWEEP_MIN": 0},
    "queue.active": {"GARBAGE_MIN": 0},
    "queue.heap": {"GARBAGE_MIN": 0},
    "queue.hints": {"MEMO_MAX": 1},
    "queue.nominator": {"CHANGES_MAX": 1},
    "state.count_index": {"_BYTES_MAX": 0, "_COUNTS_MIN": 1, "_DOMAINS_MAX": 1},
    "state.counts": {"FEW": 0, "_FEW_DOMAINS": 0, "_FOLLOWED_MAX": 0},
    "state.image_columns": {"IMAGES_MAX": 1},
    "state.label_columns": {"_LABELS_MAX": 1},
    "state.node_table": {"_LISTS_MAX": 0, "_ROW_SETS_MAX": 1},
    "state.object_index": {"_LOG_MAX": 1},
    "state.pod_info": {"_RELABELLED_MAX": 1},
    "state.pod_sorts": {"_LABELS_MAX": 0, "_PLACES_MAX": 0},
}


@contextmanager
def small_limits() -> Iterator[None]:
    """For what is made meanwhile, and kept no longer."""
    before = []
    for name, limits in SMALL.items():
        module = import_module(f"stowplan.{name}")
        before.append((module, {limit: getattr(module, limit) for limit in limits}))
        vars(module).update(limits)
    try:
        yield
    finally:
        for module, limits in before:
            vars(module).update(limits)
