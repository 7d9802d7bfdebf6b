"""Load a configuration: read, decode strictly, complete, validate.

`load_config` is the whole pipeline.  Whatever is wrong comes out as one `ConfigError` with every
problem in it: the text is kube-scheduler's, so that people find it; the place (line, field) and
the hint are ours.  The steps live in `document`, `decode`, `defaults` and `validate`.

Mirrors kube-scheduler's `cmd/kube-scheduler/app/options/configfile.go`, the decoding of nested
args in `config/v1/types.go`, and apimachinery's strict serializer.
"""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from stowplan.config.decode import Decoder, json_kind
from stowplan.config.defaults import SCHEDULER_NAME, with_defaults, with_extenders
from stowplan.config.document import Document, read_document
from stowplan.config.feature_gates import DEFAULT_GATES, FeatureGates
from stowplan.config.field_error import Problem, aggregate, did_you_mean
from stowplan.config.types import API_VERSION, ARGS_BY_PLUGIN, KIND, SchedulerConfig
from stowplan.config.validate import construction_problems, find_problems
from stowplan.errors import ConfigError

Source = Mapping[str, Any] | str | os.PathLike[str] | bytes | None

_GROUP = API_VERSION.rpartition("/")[0]
_KINDS = frozenset({KIND, *(f"{plugin}Args" for plugin in ARGS_BY_PLUGIN)})
_SCHEME = '"pkg/scheduler/apis/config/scheme/scheme.go:30"'
_TYPE_META = (
    'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; '
    'Kind string "json:\\"kind,omitempty\\"" }'
)
_STRICT = "strict decoding error: "
_SHOWN_CHARACTERS_MAX = 200


def load_config(
    source: Source = None,
    *,
    where: str = "",
    gates: FeatureGates = DEFAULT_GATES,
    leader_election: Mapping[str, Any] | None = None,
) -> SchedulerConfig:
    """Load from a path (str), a text (bytes) or data (a mapping); None is the default.

    `leader_election` are the fields that flags of the command line overwrite.  Without a source
    they are not validated, as upstream; a bad value then shows when the lease is taken.
    """
    config = SchedulerConfig()
    document = Document({})
    if source is not None:
        where = where or (os.fspath(source) if isinstance(source, str | os.PathLike) else "")
        document = _open(source, where)
        config = _decode(document, where)
    config = replace(with_defaults(config, gates), features=gates.switches())
    if leader_election:
        changed = replace(config.leader_election, **leader_election)
        config = replace(config, leader_election=changed)
    if source is not None:
        found = list(find_problems(config, gates)) or construction_problems(config, gates)
        if found:
            raise _error([problem.text for problem in found], found, document, where)
    return with_extenders(config)


def _open(source: Mapping[str, Any] | str | os.PathLike[str] | bytes, where: str) -> Document:
    if isinstance(source, Mapping):
        return Document(dict(source))
    if isinstance(source, bytes):
        return read_document(source, where)
    try:
        return read_document(Path(source).read_bytes(), where)
    except OSError as error:
        problem = f"open {os.fspath(source)}: {(error.strerror or str(error)).lower()}"
        raise ConfigError(problem, hint="name a file with a KubeSchedulerConfiguration") from None


def _decode(document: Document, where: str) -> SchedulerConfig:
    data = document.data
    if problem := _type_problem(data):
        raise _error([problem.text], [problem], document, where)
    decoder = Decoder()
    config = decoder.decode(SchedulerConfig, _named(data))
    wrong = decoder.wrong
    strict = [*_repeated_text(document), *(problem.text for problem in decoder.unknown)]
    places = [*document.repeated, *decoder.unknown]
    profiles = []
    for i, profile in enumerate(config.profiles):
        entries = []
        for j, entry in enumerate(profile.plugin_config):
            base = f"profiles[{i}].pluginConfig[{j}]"
            args, found = _decode_args(entry.name, entry.args, f"{base}.args")
            entries.append(replace(entry, args=args))
            prefix = f"decoding .{base}: "
            wrong += [_reworded(p, f"{prefix}{p.text}") for p in found.wrong]
            if found.unknown:
                strict.append(f"{prefix}{_nested_strict(entry.name, found.unknown)}")
                places += found.unknown
        profiles.append(replace(profile, plugin_config=entries))
    texts = [problem.text for problem in wrong]
    if strict:
        texts.append(_STRICT + ", ".join(strict))
    if texts:
        raise _error(texts, [*wrong, *places], document, where)
    return replace(config, profiles=profiles)


def _decode_args(plugin: str, data: Any, base: str) -> tuple[Any, Decoder]:
    """The args of one plugin as their struct, and what is wrong with them."""
    decoder = Decoder(base)
    kind = ARGS_BY_PLUGIN.get(plugin)
    if kind is None:
        return copy.deepcopy(data), decoder
    given = {} if data is None else data
    prefix = f"decoding args for plugin {plugin}: "
    if problem := _args_type_problem(plugin, given, base, prefix):
        decoder.wrong.append(problem)
        return None, decoder
    args = decoder.decode(kind, given)
    decoder.wrong = [_reworded(p, f"{prefix}{p.text}") for p in decoder.wrong]
    return args, decoder


def _reworded(problem: Problem, text: str) -> Problem:
    return Problem(problem.path, text, problem.hint)


def _nested_strict(plugin: str, unknown: Sequence[Problem]) -> str:
    # Every level of decoding puts its prefix before what it passes on.
    fields = ", ".join(problem.text for problem in unknown)
    return f"{_STRICT}decoding args for plugin {plugin}: {_STRICT}{fields}"


def _repeated_text(document: Document) -> list[str]:
    if not document.repeated:
        return []
    if document.repeated[0].text.startswith("duplicate"):
        return [problem.text for problem in document.repeated]
    lines = "".join(f"\n  {problem.text}" for problem in document.repeated)
    return [f"yaml: unmarshal errors:{lines}"]


def _named(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """A single profile without a name gets the default one; an empty name is a mistake."""
    match data.get("profiles"):
        case [(dict() | None) as profile] if (profile or {}).get("schedulerName") is None:
            named = {**(profile or {}), "schedulerName": SCHEDULER_NAME}
            return {**data, "profiles": [named]}
        case _:
            return data


def _type_problem(data: Any) -> Problem | None:
    if text := _meta_problem(data):
        return Problem("", text)
    version, kind = (data or {}).get("apiVersion") or "", (data or {}).get("kind") or ""
    shown = json.dumps(data, separators=(",", ":"), default=str)
    if len(shown) > _SHOWN_CHARACTERS_MAX:
        shown = shown[:_SHOWN_CHARACTERS_MAX] + "..."
    if not kind:
        return Problem("", f"Object 'Kind' is missing in '{shown}'", f"add kind: {KIND}")
    if not version:
        text = f"Object 'apiVersion' is missing in '{shown}'"
        return Problem("", text, f"add apiVersion: {API_VERSION}")
    if version != API_VERSION or kind not in _KINDS:
        return _not_registered(version, kind, "", [KIND])
    if kind != KIND:
        text = f"couldn't decode as {KIND}, got {API_VERSION}, Kind={kind}: "
        return Problem("kind", text, f"write kind: {KIND}")
    return None


def _args_type_problem(plugin: str, data: Any, base: str, prefix: str) -> Problem | None:
    if text := _meta_problem(data):
        return Problem(base, f"{prefix}{text}")
    wanted = f"{plugin}Args"
    version, kind = data.get("apiVersion") or API_VERSION, data.get("kind") or wanted
    if version != API_VERSION or kind not in _KINDS:
        problem = _not_registered(version, kind, f"{base}.", [wanted])
        return _reworded(problem, f"{prefix}{problem.text}")
    if kind != wanted:
        text = f"args for plugin {plugin} were not of type {wanted}.{_GROUP}, got {kind}.{_GROUP}"
        return Problem(f"{base}.kind", text, f"leave kind out, or write {wanted}")
    return None


def _meta_problem(data: Any) -> str:
    """What keeps apiVersion and kind from being read at all."""
    parse_error = "couldn't get version/kind; json parse error: json: cannot unmarshal"
    if data is not None and not isinstance(data, dict):
        return f"{parse_error} {json_kind(data)} into Go value of type {_TYPE_META}"
    for key in ("apiVersion", "kind"):
        value = (data or {}).get(key)
        if value is not None and not isinstance(value, str):
            return f"{parse_error} {json_kind(value)} into Go struct field .{key} of type string"
    return ""


def _not_registered(version: str, kind: str, base: str, kinds: list[str]) -> Problem:
    text = f'no kind "{kind}" is registered for version "{version}" in scheme {_SCHEME}'
    if version != API_VERSION:
        return Problem(f"{base}apiVersion", text, f"only {API_VERSION} exists")
    return Problem(f"{base}kind", text, did_you_mean(kind, kinds) or f"write kind: {kinds[0]}")


def _error(
    texts: Sequence[str], found: Sequence[Problem], document: Document, where: str
) -> ConfigError:
    """One error with all `texts`; `found` says where they are and what would be right."""
    text = aggregate(texts)
    hints = [problem.hint for problem in found if problem.hint]
    if len(found) == 1:
        return ConfigError(
            text, where=_place(found[0], text, document, where), hint="; ".join(hints)
        )
    lines = [
        f"line {line}: {problem.path}"
        for problem in found
        if (line := document.line(problem.path)) is not None
    ]
    return ConfigError(text, where=where, hint="; ".join(dict.fromkeys([*lines, *hints])))


def _place(problem: Problem, text: str, document: Document, where: str) -> str:
    """`scheduler.yaml:14, profiles[0].plugins`; the path only where the text does not have it."""
    line = document.line(problem.path)
    at = where if line is None else f"{where}:{line}" if where else f"line {line}"
    path = "" if problem.path in text else problem.path
    return ", ".join(part for part in (at, path) if part)
