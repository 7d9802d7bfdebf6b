"""The part of Go's template language that workload files use."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.bench.catalogue import FILES
from stowplan.bench.templates import Stencil, Template
from stowplan.errors import InputError


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("{{ .Index }}/{{.Count}}", "7/10"),
        ("{{ AddInt .Index 1 }}", "8"),
        ("{{ SubtractInt .Count .Index }}", "3"),
        ("{{ MultiplyInt .Index -2 }}", "-14"),
        ("{{ DivideInt (SubtractInt 0 .Index) 2 }}", "-3"),  # Towards zero, as Go does it.
        ("{{ Mod .Index 4 }}", "3"),
        ("{{ Mod (SubtractInt 0 .Index) 4 }}", "-3"),
        ("{{ DivideFloat .Index 2 }}", "3.5"),
        ("{{ AddFloat .Index 1 }}", "8"),
        ("{{ MultiplyFloat .Index 0.5 }}", "3.5"),
        ("{{ SubtractFloat 1 0.75 }}", "0.25"),
        ("{{ .Index | AddInt 5 }}", "12"),
        ("a {{- /* nothing */ -}} b", "ab"),
        ("a  {{- .Index -}}  b", "a7b"),
    ],
)
def test_template(text: str, shown: str) -> None:
    assert Template(text).render(7, 10) == shown


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{{ .Index ", "not closed"),
        ("{{ .Name }}", "not known"),
        ("{{ Upper .Index }}", "'Upper' is not known"),
        ("{{ AddInt 1 }}", "takes 2 numbers, not 1"),
        ("{{ if .Index }}x{{ end }}", "not known"),
        ("{{ (AddInt 1 2 }}", "parenthesis"),
    ],
)
def test_what_is_not_understood_is_refused(text: str, problem: str) -> None:
    with pytest.raises(InputError, match=problem) as info:
        Template(text, "pod.yaml")

    assert info.value.where == "pod.yaml"


def test_a_division_by_zero_names_the_file() -> None:
    template = Template("{{ DivideInt 1 .Index }}", "pod.yaml")

    with pytest.raises(InputError) as info:
        template.render(0, 1)

    assert info.value.where == "pod.yaml"


VARIED = """
apiVersion: v1
kind: Pod
metadata:
  name: "pod-{{ .Index }}-of-{{ .Count }}"
  labels: {"key-{{ Mod .Index 3 }}": "{{ .Index }}"}
spec:
  priority: {{ MultiplyInt .Index 10 }}
  containers:
  - {name: c, resources: {requests: {cpu: "{{ AddInt .Index 100 }}m"}}}
"""


@given(index=st.integers(0, 10**6), count=st.integers(1, 10**6))
def test_the_quick_way_makes_what_the_text_says(index: int, count: int) -> None:
    stencil = _varied()

    pod = stencil.data(index, count)

    assert pod["metadata"]["name"] == f"pod-{index}-of-{count}"
    assert pod["metadata"]["labels"] == {f"key-{index % 3}": str(index)}
    assert pod["spec"]["priority"] == 10 * index
    assert pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] == f"{index + 100}m"


_made: list[Stencil] = []


def _varied(folder: Path = Path()) -> Stencil:
    return _made[0]


@pytest.fixture(autouse=True, scope="module")
def _stencil(tmp_path_factory: pytest.TempPathFactory) -> None:
    file = tmp_path_factory.mktemp("templates") / "pod.yaml"
    file.write_text(VARIED)
    _made[:] = [Stencil(file)]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("apiVersion: v1\nkind: Unicorn", "there is no Unicorn of v1"),
        ("- 1", "one object"),
        ("apiVersion: v1\nkind: Pod\nspec: {containers: 7}", "containers"),
    ],
)
def test_a_template_must_be_an_object_we_know(tmp_path: Path, text: str, problem: str) -> None:
    file = tmp_path / "thing.yaml"
    file.write_text(text)

    with pytest.raises(InputError, match=problem) as info:
        Stencil(file)

    assert "thing.yaml" in str(info.value)


def test_a_missing_template_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file") as info:
        Stencil(tmp_path / "none.yaml")

    assert "none.yaml" in info.value.where


@pytest.mark.parametrize(
    "path", sorted((FILES / "templates").rglob("*.yaml")), ids=lambda path: path.stem
)
def test_every_template_that_ships_is_sound(path: Path) -> None:
    stencil = Stencil(path)

    assert stencil.struct(3, 10) is not None
