"""The pictures of docs/performance.md."""

from __future__ import annotations

import xml.etree.ElementTree as ET

from tests.bench.chart import line_chart

SVG = "{http://www.w3.org/2000/svg}"


def places(svg: str) -> list[tuple[float, float]]:
    root = ET.fromstring(svg)
    return [(float(dot.attrib["cx"]), float(dot.attrib["cy"])) for dot in root.iter(f"{SVG}circle")]


def test_higher_values_are_higher_up_and_zero_is_the_base_line() -> None:
    chart = line_chart("T", {"a": [(0, 0), (5, 50), (10, 100)]}, x_title="x", y_title="y")

    (x0, y0), (x1, y1), (x2, y2) = places(chart)
    assert y0 > y1 > y2
    assert y0 - y1 == y1 - y2
    assert x1 - x0 == x2 - x1


def test_on_a_logarithmic_axis_each_tenfold_has_the_same_room() -> None:
    chart = line_chart(
        "T", {"a": [(10, 1), (100, 1), (1000, 1)]}, x_title="x", y_title="y", x_logarithmic=True
    )

    (x0, _), (x1, _), (x2, _) = places(chart)
    assert round(x1 - x0) == round(x2 - x1)


def test_names_are_escaped() -> None:
    chart = line_chart("a < b", {"c & d": [(1, 1), (2, 2)]}, x_title="x", y_title="y")

    texts = [text.text for text in ET.fromstring(chart).iter(f"{SVG}text")]
    assert "a < b" in texts
    assert "c & d" in texts
