"""Reads the text format as strictly as promtool: what Prometheus would refuse fails here."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_HELP = re.compile(r"# HELP ([a-z_]+) \[(STABLE|BETA|ALPHA)\] (\S.*)")
_TYPE = re.compile(r"# TYPE ([a-z_]+) (counter|gauge|histogram)")
_SAMPLE = re.compile(r"([a-z_]+)(?:\{(.*)\})? (\S+)")
_LABEL = re.compile(r'([a-z_]+)="((?:[^"\\\n]|\\["\\n])*)"(?:,|$)')

Labels = tuple[tuple[str, str], ...]


@dataclass
class Read:
    """One family as it was found."""

    name: str
    level: str
    kind: str = ""
    samples: dict[tuple[str, Labels], float] = field(default_factory=dict)

    @property
    def label_names(self) -> set[tuple[str, ...]]:
        return {tuple(name for name, _ in labels if name != "le") for _, labels in self.samples}

    def value(self, *values: str, suffix: str = "") -> float:
        return next(
            found
            for (name, labels), found in self.samples.items()
            if name == self.name + suffix and tuple(value for _, value in labels) == values
        )

    def bounds(self) -> set[tuple[str, ...]]:
        """The bounds of each histogram, as they are written."""
        by_labels: dict[Labels, list[str]] = {}
        for name, labels in self.samples:
            if name == f"{self.name}_bucket":
                assert labels[-1][0] == "le"
                by_labels.setdefault(labels[:-1], []).append(labels[-1][1])
        return {tuple(bounds) for bounds in by_labels.values()}


def parse(text: str) -> dict[str, Read]:
    families: dict[str, Read] = {}
    assert text.endswith("\n")
    last = Read("", "")
    for line in text.splitlines():
        if found := _HELP.fullmatch(line):
            name, level, _ = found.groups()
            assert name not in families, f"{name} twice"
            last = families[name] = Read(name, level)
        elif found := _TYPE.fullmatch(line):
            assert found[1] == last.name, line
            assert not last.kind, line
            last.kind = found[2]
        else:
            _add_sample(last, line)
    for family in families.values():
        _check(family)
    return families


def _add_sample(family: Read, line: str) -> None:
    found = _SAMPLE.fullmatch(line)
    assert found is not None, f"no sample: {line}"
    name, inner, value = found.groups()
    assert family.kind, f"a sample before its type: {line}"
    labels: Labels = tuple(_LABEL.findall(inner or ""))
    assert ",".join(f'{key}="{text}"' for key, text in labels) == (inner or ""), line
    ends = ("_bucket", "_sum", "_count") if family.kind == "histogram" else ("",)
    assert name in {family.name + end for end in ends}, line
    assert (name, labels) not in family.samples, f"twice: {line}"
    family.samples[name, labels] = float(value)


def _check(family: Read) -> None:
    if family.kind == "counter":
        assert all(value >= 0 for value in family.samples.values())
    if family.kind != "histogram":
        return
    counts: dict[Labels, float] = {}
    for (name, labels), value in family.samples.items():
        if name.endswith("_bucket"):
            assert value >= counts.get(labels[:-1], 0), f"{family.name}: buckets must add up"
            counts[labels[:-1]] = value
        elif name.endswith("_count"):
            assert value == counts[labels], f"{family.name}: +Inf is the count"
