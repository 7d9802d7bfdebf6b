"""KubeSchedulerConfiguration: read, complete, validate, expand and write it.

`load_config` is the way in; `expand_all` says which plugins run where.  The structs are in
`types`, the steps of loading in `load`, one module each.
"""

from __future__ import annotations

from stowplan.config.defaults import default_args
from stowplan.config.duration import Duration
from stowplan.config.feature_gates import (
    DEFAULT_GATES,
    GATES,
    FeatureGates,
    Stage,
    parse_feature_gates,
)
from stowplan.config.field_error import Problem, aggregate, did_you_mean, invalid
from stowplan.config.load import load_config
from stowplan.config.merge import ExpandedPlugins, expand, expand_all, profile_error
from stowplan.config.types import (
    API_VERSION,
    KIND,
    ExtenderConfig,
    ExtenderTLSConfig,
    PluginRef,
    SchedulerConfig,
)
from stowplan.config.validate import leader_elector_problem
from stowplan.config.write import to_dict, to_yaml, without_keys

__all__ = [
    "API_VERSION",
    "DEFAULT_GATES",
    "GATES",
    "KIND",
    "Duration",
    "ExpandedPlugins",
    "ExtenderConfig",
    "ExtenderTLSConfig",
    "FeatureGates",
    "PluginRef",
    "Problem",
    "SchedulerConfig",
    "Stage",
    "aggregate",
    "default_args",
    "did_you_mean",
    "expand",
    "expand_all",
    "invalid",
    "leader_elector_problem",
    "load_config",
    "parse_feature_gates",
    "profile_error",
    "to_dict",
    "to_yaml",
    "without_keys",
]
