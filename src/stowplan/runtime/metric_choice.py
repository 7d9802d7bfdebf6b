"""Which metrics are shown, and with which label values: the flags that an operator pulls when a
metric costs more than it tells.

A disabled metric is left out; a label with a list of allowed values shows every other value as
"unexpected".  Both happen when the text is made: counting itself knows nothing of it.

`read_choice` checks the flags and says what is wrong in upstream's words; `runtime.metrics` and
`runtime.health` show what `MetricChoice.shown` leaves.  Mirrors component-base's
`metrics/options.go` and `metrics/api/v1/config.go`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from stowplan._version import KUBERNETES_VERSION
from stowplan.config import Problem, aggregate, invalid
from stowplan.errors import InputError
from stowplan.objects.yaml_reader import read_yaml
from stowplan.runtime.exposition import Family, Labels

UNEXPECTED = "unexpected"

_NAME = "[a-zA-Z_:][a-zA-Z0-9_:]*"
_LABEL = "[a-zA-Z_][a-zA-Z0-9_]*"

Allowed = Mapping[str, Mapping[str, frozenset[str]]]
"""Metric -> label -> values that are shown as they are."""


@dataclass(frozen=True, slots=True)
class MetricChoice:
    disabled: frozenset[str] = frozenset()
    allowed: Allowed = field(default_factory=dict)
    unexpected: set[tuple[str, str, str]] = field(default_factory=set)
    """(metric, label, value) that a list turned into "unexpected", since the start."""

    def shown(self, families: Iterable[Family]) -> Iterator[Family]:
        for family in families:
            if family.spec.name in self.disabled:
                continue
            lists = self.allowed.get(family.spec.name)
            yield family if lists is None else self._folded(family, lists)

    def _folded(self, family: Family, lists: Mapping[str, frozenset[str]]) -> Family:
        """With what now has the same labels added up."""
        found = Family(family.spec)
        for labels, value in family.values.items():
            found.add(*self._constrained(family, labels, lists), amount=value)
        for labels, histogram in family.histograms.items():
            found.histogram(*self._constrained(family, labels, lists)).merge(histogram)
        return found

    def _constrained(
        self, family: Family, labels: Labels, lists: Mapping[str, frozenset[str]]
    ) -> Labels:
        shown = []
        for name, value in zip(family.spec.labels, labels, strict=True):
            if value in lists.get(name, (value,)):
                shown.append(value)
            else:
                self.unexpected.add((family.spec.name, name, value))
                shown.append(UNEXPECTED)
        return tuple(shown)


def read_choice(
    *,
    show_hidden: str = "",
    disabled: Sequence[str] = (),
    allowed: Mapping[str, str] | None = None,
    manifest: str = "",
) -> MetricChoice:
    """What the flags say; raises InputError with all that is wrong with them.

    `allowed` maps "metric,label" to values between commas, and so does the file `manifest`.
    """
    lists = _manifest(manifest) if manifest else dict(allowed or {})
    problems = [
        *_hidden_problems(show_hidden),
        *_disabled_problems(disabled),
        *_allowed_problems(lists, manifest),
    ]
    if allowed and manifest:
        both = {"allowListMapping": dict(allowed), "allowListMappingManifest": manifest}
        detail = "cannot specify both allowListMapping and allowListMappingManifest"
        problems.append(invalid("metrics", both, detail))
    if problems:
        raise InputError(
            aggregate(problem.text for problem in problems),
            hint="the flags are --show-hidden-metrics-for-version, --disabled-metrics, "
            "--allow-metric-labels and --allow-metric-labels-manifest",
        )
    return MetricChoice(frozenset(disabled), _by_metric(lists))


def _by_metric(lists: Mapping[str, str]) -> Allowed:
    found: dict[str, dict[str, frozenset[str]]] = {}
    for key, values in lists.items():
        metric, label = key.split(",")
        found.setdefault(metric, {})[label] = frozenset(values.split(","))
    return found


def _hidden_problems(version: str) -> Iterator[Problem]:
    """No metric here is hidden, so there is nothing to show; what is wrong is still said."""
    major, minor, _ = KUBERNETES_VERSION.split(".")
    previous = f"{major}.{int(minor) - 1}"
    if version not in ("", previous):
        detail = (
            f"must be omitted or have the value '{previous}'; "
            "only the previous minor version is allowed"
        )
        yield invalid("metrics.showHiddenMetricsForVersion", version, detail)


def _disabled_problems(names: Sequence[str]) -> Iterator[Problem]:
    for name in names:
        if not re.fullmatch(_NAME, name):
            detail = f'must be fully qualified metric names matching "^{_NAME}$", got "{name}"'
            yield invalid("metrics.disabledMetrics", names, detail)
            return


def _allowed_problems(lists: Mapping[str, str], manifest: str) -> Iterator[Problem]:
    path = "metrics.allowListMapping"
    if all(re.fullmatch(f"{_NAME},{_LABEL}", key) for key in lists):
        return
    detail = (
        "must have keys with format `metricName,labelName` where "
        f'metricName matches "{_NAME}" and labelName matches "{_LABEL}"'
    )
    if not manifest:
        yield invalid(path, lists, detail)
        return
    path = f"{path}Manifest"
    inner = invalid(path, lists, detail).text
    yield invalid(path, manifest, f"invalid allow list mapping in manifest: [{inner}]")


def _manifest(path: str) -> dict[str, str]:
    try:
        documents = read_yaml(Path(path).read_bytes(), path)
    except OSError as error:
        raise _unreadable(path, f"failed to read allow list manifest: {error.strerror}") from None
    except InputError as error:
        raise _unreadable(path, f"failed to parse allow list manifest: {error.problem}") from None
    data = documents[0] if documents and documents[0] is not None else {}
    if not isinstance(data, dict) or not all(isinstance(v, str | int) for v in data.values()):
        raise _unreadable(path, "failed to parse allow list manifest: it maps no names to texts")
    return {str(key): str(value) for key, value in data.items()}


def _unreadable(path: str, detail: str) -> InputError:
    problem = invalid("metrics.allowListMappingManifest", path, detail)
    return InputError(problem.text, hint='expected lines such as "METRIC,LABEL": "value,value"')
