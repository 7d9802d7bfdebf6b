"""Semantic versions as values of expressions.  Build metadata is checked, then ignored."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from stowplan.cel.errors import EvaluationError
from stowplan.cel.values import UINT_MAX, Implementation, KubernetesValue, go_quoted

_ALPHANUMERIC = re.compile(r"[0-9A-Za-z-]+")
_NUMERIC = re.compile(r"[0-9]+")


@dataclass(frozen=True, slots=True)
class Semver(KubernetesValue):
    major: int
    minor: int
    patch: int
    prerelease: tuple[int | str, ...] = ()

    cel_type = "kubernetes.Semver"
    go_type = "semver.Version"
    hashable = False

    def __str__(self) -> str:
        prerelease = ".".join(map(str, self.prerelease))
        dash = "-" if prerelease else ""
        return f"{self.major}.{self.minor}.{self.patch}{dash}{prerelease}"

    def compare(self, other: Semver) -> int:
        mine, theirs = self._order(), other._order()
        return (mine > theirs) - (mine < theirs)

    def _order(self) -> tuple[object, ...]:
        """A prerelease comes before its release; numbers in it come before words."""
        prerelease = [(0, it, "") if isinstance(it, int) else (1, 0, it) for it in self.prerelease]
        return self.major, self.minor, self.patch, not prerelease, prerelease


@lru_cache(maxsize=4096)
def parse(text: str) -> Semver:
    if not text:
        raise EvaluationError("Version string empty")
    parts = text.split(".", 2)
    if len(parts) != 3:
        raise EvaluationError("No Major.Minor.Patch elements found")
    major, minor = _number("Major", parts[0]), _number("Minor", parts[1])
    patch, plus, build = parts[2].partition("+")
    patch, dash, prerelease = patch.partition("-")
    number = _number("Patch", patch)
    found = tuple(_prerelease(it) for it in prerelease.split(".")) if dash else ()
    if plus:
        for it in build.split("."):
            if not it:
                raise EvaluationError("Build meta data is empty")
            if not _ALPHANUMERIC.fullmatch(it):
                raise EvaluationError(
                    f"Invalid character(s) found in build meta data {go_quoted(it)}"
                )
    return Semver(major, minor, number, found)


def parse_loosely(text: str, normalize: bool) -> Semver:
    """With `normalize`, `v1.02` is 1.2.0."""
    if not normalize:
        return parse(text)
    parts = [_without_zeros(part) for part in text.removeprefix("v").split(".", 2)]
    if len(parts) < 3 and any(sign in parts[-1] for sign in "+-"):
        raise EvaluationError("short version cannot contain PreRelease/Build meta data")
    return parse(".".join([*parts, "0", "0"][:3]))


def _without_zeros(part: str) -> str:
    if len(part.encode()) <= 1:
        return part
    short = part.lstrip("0")
    return short if short[:1] in tuple("123456789") else f"0{short}"


def is_semver(text: str, normalize: bool = False) -> bool:
    try:
        parse_loosely(text, normalize)
    except EvaluationError:
        return False
    return True


def _signed(number: int) -> int:
    """Upstream keeps 64 bits without a sign, and gives them out with one."""
    return number - 2**64 if number >= 2**63 else number


FUNCTIONS: dict[str, Implementation] = {
    "string_to_semver": parse,
    "string_bool_to_semver": parse_loosely,
    "is_semver_string": is_semver,
    "is_semver_string_bool": is_semver,
    "semver_compare_to": Semver.compare,
    "semver_is_greater_than": lambda one, other: one.compare(other) > 0,
    "semver_is_less_than": lambda one, other: one.compare(other) < 0,
    "semver_major": lambda version: _signed(version.major),
    "semver_minor": lambda version: _signed(version.minor),
    "semver_patch": lambda version: _signed(version.patch),
}


def _number(name: str, text: str) -> int:
    if not _NUMERIC.fullmatch(text):
        if not text:
            raise EvaluationError('strconv.ParseUint: parsing "": invalid syntax')
        raise EvaluationError(
            f"Invalid character(s) found in {name.lower()} number {go_quoted(text)}"
        )
    if len(text) > 1 and text[0] == "0":
        raise EvaluationError(f"{name} number must not contain leading zeroes {go_quoted(text)}")
    return _bounded(text)


def _bounded(text: str) -> int:
    if len(text) > 20 or int(text) > UINT_MAX:
        raise EvaluationError(f"strconv.ParseUint: parsing {go_quoted(text)}: value out of range")
    return int(text)


def _prerelease(text: str) -> int | str:
    if not text:
        raise EvaluationError("Prerelease is empty")
    if _NUMERIC.fullmatch(text):
        if len(text) > 1 and text[0] == "0":
            problem = "Numeric PreRelease version must not contain leading zeroes"
            raise EvaluationError(f"{problem} {go_quoted(text)}")
        return _bounded(text)
    if not _ALPHANUMERIC.fullmatch(text):
        raise EvaluationError(f"Invalid character(s) found in prerelease {go_quoted(text)}")
    return text
