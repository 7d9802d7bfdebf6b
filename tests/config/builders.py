"""Short ways to write configurations and to look at what is wrong with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stowplan.config import DEFAULT_GATES, FeatureGates, SchedulerConfig, load_config
from stowplan.errors import ConfigError

HEAD = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
}
FULL = Path(__file__).with_name("full.yaml").read_bytes()
"""A file that uses every field."""

YAML_HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def configuration(**fields: Any) -> dict[str, Any]:
    return {**HEAD, **fields}


def profile_with(**fields: Any) -> dict[str, Any]:
    """A configuration of one profile."""
    return configuration(profiles=[fields])


def plugin_args(plugin: str, **args: Any) -> dict[str, Any]:
    """A configuration that gives one plugin args."""
    return profile_with(pluginConfig=[{"name": plugin, "args": args}])


def load(gates: FeatureGates = DEFAULT_GATES, **fields: Any) -> SchedulerConfig:
    return load_config(configuration(**fields), gates=gates)


def refused(source: Any, gates: FeatureGates = DEFAULT_GATES, where: str = "") -> ConfigError:
    """The error that `source` is refused with."""
    with pytest.raises(ConfigError) as caught:
        load_config(source, gates=gates, where=where)
    return caught.value


def refused_text(text: str, where: str = "scheduler.yaml") -> ConfigError:
    """The error that a file is refused with; `text` goes without apiVersion and kind."""
    return refused((YAML_HEAD + text).encode(), where=where)
