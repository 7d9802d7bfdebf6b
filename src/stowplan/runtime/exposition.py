"""Metric families as plain numbers, and the text that Prometheus reads.

A counter is a dictionary, a histogram a list of counts.  A decision makes a dozen observations, so
they are collected and counted many at a time: an append each, a tenth of what a general library
takes.  The text is made when somebody asks.

`runtime.metric_table` names the families, `runtime.metrics` fills them, `runtime.server` shows
the text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from stowplan.framework.histogram import Histogram
from stowplan.printable import printable_lines

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores"

Labels = tuple[str, ...]
"""Values, in the order of the family's label names."""


class Kind(StrEnum):
    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Level(StrEnum):
    """How much of a promise a metric is."""

    STABLE = "STABLE"
    BETA = "BETA"
    ALPHA = "ALPHA"


@dataclass(frozen=True, slots=True)
class Spec:
    """What a metric is called and how it is divided."""

    name: str
    kind: Kind
    labels: tuple[str, ...]
    level: Level
    help: str
    bounds: tuple[float, ...] = ()


@dataclass(slots=True)
class Family:
    """A metric with its values, by label values."""

    spec: Spec
    values: dict[Labels, float] = field(default_factory=dict)
    histograms: dict[Labels, Histogram] = field(default_factory=dict)

    def add(self, *labels: str, amount: float = 1) -> None:
        self.values[labels] = self.values.get(labels, 0) + amount

    def set(self, *labels: str, value: float) -> None:
        self.values[labels] = value

    def histogram(self, *labels: str) -> Histogram:
        found = self.histograms.get(labels)
        if found is None:
            found = self.histograms[labels] = Histogram(self.spec.bounds)
        return found

    def observe(self, *labels: str, value: float) -> None:
        self.histogram(*labels).observe(value)

    def lines(self) -> Iterator[str]:
        spec = self.spec
        yield f"# HELP {spec.name} [{spec.level}] {spec.help}\n"
        yield f"# TYPE {spec.name} {spec.kind}\n"
        for labels, value in self.values.items():
            yield sample(spec.name, spec.labels, labels, value)
        for labels, histogram in self.histograms.items():
            yield from _histogram_lines(spec, labels, histogram)


def text_of(families: Iterable[Family]) -> str:
    return "".join(line for family in families for line in family.lines())


def sample(name: str, names: tuple[str, ...], values: Labels, value: float) -> str:
    """
    >>> sample("up", ("job",), ('a "b"',), 1.0)
    'up{job="a \\\\"b\\\\""} 1\\n'
    """
    return f"{name}{_braced(_pairs(names, values))} {number(value)}\n"


def number(value: float) -> str:
    """As Go prints it, but for the exponents of huge numbers, which any reader takes."""
    if value == int(value) and abs(value) < 1e15:
        return str(int(value))
    return repr(value)


def _histogram_lines(spec: Spec, labels: Labels, histogram: Histogram) -> Iterator[str]:
    name, pairs = spec.name, _pairs(spec.labels, labels)
    total = 0
    for bound, count in zip((*_bound_texts(spec.bounds), "+Inf"), histogram.counts, strict=True):
        total += count
        inner = f'{pairs},le="{bound}"' if pairs else f'le="{bound}"'
        yield f"{name}_bucket{{{inner}}} {total}\n"
    yield f"{name}_sum{_braced(pairs)} {number(histogram.sum)}\n"
    yield f"{name}_count{_braced(pairs)} {total}\n"


def _bound_texts(bounds: Sequence[float]) -> tuple[str, ...]:
    return tuple(number(bound) for bound in bounds)


def _pairs(names: tuple[str, ...], values: Labels) -> str:
    return ",".join(
        f'{name}="{_escaped(value)}"' for name, value in zip(names, values, strict=True)
    )


def _braced(pairs: str) -> str:
    return f"{{{pairs}}}" if pairs else ""


def _escaped(value: str) -> str:
    value = printable_lines(value)
    if "\\" in value or '"' in value or "\n" in value:
        return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return value
