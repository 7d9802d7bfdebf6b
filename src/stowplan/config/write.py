"""Write a configuration as a v1 file: `--write-config-to`, and what /configz shows.

Plugins are merged but not expanded; `pluginConfig` holds the enabled plugins only, sorted by
name.  Reading the result back gives an equal configuration.

Mirrors `LogOrWriteConfig` of kube-scheduler's `options/configfile.go`, and the `omitempty` of its
v1 types.
"""

from __future__ import annotations

import base64
from typing import Any

import msgspec
import yaml
from msgspec.structs import replace

from stowplan.config.duration import Duration
from stowplan.config.types import (
    API_VERSION,
    ARGS_BY_PLUGIN,
    KIND,
    Config,
    Profile,
    SchedulerConfig,
)
from stowplan.errors import InputError
from stowplan.objects.yaml_reader import read_yaml


def to_dict(config: SchedulerConfig) -> dict[str, Any]:
    """The configuration as JSON data, with the names of the file."""
    data = {"apiVersion": API_VERSION, "kind": KIND, **_struct(config)}
    data["profiles"] = [_profile(profile) for profile in config.profiles]
    return data


def to_yaml(config: SchedulerConfig) -> str:
    return yaml.dump(
        to_dict(config), Dumper=_Dumper, sort_keys=True, default_flow_style=False, width=1 << 30
    )


def without_keys(config: SchedulerConfig) -> SchedulerConfig:
    """To be shown or logged: extenders' private keys left out."""
    extenders = [
        extender
        if extender.tls_config is None
        else replace(extender, tls_config=replace(extender.tls_config, key_data=b""))
        for extender in config.extenders
    ]
    return replace(config, extenders=extenders)


def _profile(profile: Profile) -> dict[str, Any]:
    data = _struct(profile)
    data.pop("pluginConfig", None)
    enabled = profile.plugins.enabled_names()
    entries = [
        {"name": entry.name, "args": _args(entry.name, entry.args)}
        for entry in sorted(profile.plugin_config, key=lambda entry: entry.name)
        if entry.name in enabled and entry.args is not None
    ]
    return {**data, "pluginConfig": entries} if entries else data


def _args(plugin: str, args: Any) -> Any:
    if plugin not in ARGS_BY_PLUGIN:
        return args
    return {"apiVersion": API_VERSION, "kind": f"{plugin}Args", **_struct(args)}


def _struct(value: Config) -> dict[str, Any]:
    always = value.written
    data = {}
    for field in msgspec.structs.fields(value):
        item = getattr(value, field.name)
        if not field.encode_name:
            continue
        if always is None or field.encode_name in always or not _is_empty(item):
            data[field.encode_name] = _value(item)
    return data


def _is_empty(value: Any) -> bool:
    # A duration of zero is a value: Go leaves out nil pointers, not structs.
    return value is None or (not isinstance(value, msgspec.Struct) and not value)


def _value(value: Any) -> Any:
    match value:
        case Duration():
            return str(value)
        case Config():
            return _struct(value)
        case msgspec.Struct():
            return msgspec.to_builtins(value)
        case list():
            return [_value(item) for item in value]
        case bytes():
            return base64.b64encode(value).decode()
        case float():
            return int(value) if value.is_integer() else value
        case _:
            return value


class _Dumper(yaml.SafeDumper):
    """Writes so that kubectl's rules read the same back, without anchors."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _represent_str(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=_quotes(text))


def _quotes(text: str) -> str | None:
    """Double ones around what would be a number or the like, single ones around what is no word."""
    try:
        return None if read_yaml(text, "") == [text] else '"'
    except InputError:
        return "'"


_Dumper.add_representer(str, _represent_str)
