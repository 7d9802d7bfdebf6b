"""Charts as SVG text: lines over a scale, intervals, and a picture of cells.

Only what the report needs.  All text passes through `escape`; numbers are rounded, so that the same
data gives the same text.
"""

from __future__ import annotations

import base64
import html
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from math import floor, log10

import numpy as np
from numpy.typing import NDArray

from stowplan.printable import printable

WIDTH, HEIGHT = 560, 250
LEFT, RIGHT, TOP, BOTTOM = 58, 22, 12, 34


def escape(text: str) -> str:
    return html.escape(printable(text))


@dataclass(frozen=True, slots=True)
class Line:
    """One line, drawn in the colour of its place; `low` and `high` make a band around it."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    color: int = 0
    is_dashed: bool = False
    low: Sequence[float] | None = None
    high: Sequence[float] | None = None


@dataclass(frozen=True, slots=True)
class Axis:
    label: str
    low: float
    high: float
    ticks: Sequence[tuple[float, str]]

    def place(self, value: float, start: float, length: float) -> float:
        span = self.high - self.low
        return start + (value - self.low) / span * length if span else start


def number(value: float) -> str:
    """Short, for people.

    >>> number(0), number(1234567), number(0.0123), number(12.0)
    ('0', '1.23M', '0.0123', '12')
    """
    for unit, suffix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= unit:
            return f"{value / (unit if suffix != 'k' else 1e3):.3g}{suffix}"
    return f"{value:.4g}" if abs(value) >= 1000 else f"{value:.3g}"


def axis(label: str, low: float, high: float, *, unit: str = "") -> Axis:
    """From `low` to at least `high`, with ticks at round numbers."""
    if high <= low:
        high = low + 1.0
    step = 10.0 ** floor(log10((high - low) / 4))
    for factor in (1, 2, 5, 10):
        if (high - low) / (step * factor) <= 5:
            step *= factor
            break
    first, last = floor(low / step), -floor(-high / step)
    ticks = [(n * step, f"{number(n * step)}{unit}") for n in range(first, last + 1)]
    return Axis(label, first * step, last * step, ticks)


def chart(lines: Sequence[Line], across: Axis, up: Axis, *, title: str) -> str:
    inner = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
    parts = [_frame(across, up, inner)]
    for line in lines:
        points = _points(line.x, line.y, across, up, inner)
        if line.low is not None and line.high is not None:
            back = _points(line.x[::-1], line.low[::-1], across, up, inner)
            upper = _points(line.x, line.high, across, up, inner)
            parts.append(f'<polygon class="band c{line.color}" points="{upper} {back}"/>')
        dashed = " dashed" if line.is_dashed else ""
        parts.append(
            f'<polyline class="line c{line.color}{dashed}" points="{points}">'
            f"<title>{escape(line.name)}</title></polyline>"
        )
    return _svg(WIDTH, HEIGHT, title, "".join(parts))


def legend(names: Sequence[tuple[str, int, bool]]) -> str:
    """Names with their colours, and whether they are dashed."""
    return "<p class=legend>" + "".join(
        f'<span><svg width="26" height="10" aria-hidden="true"><line class="line c{color}'
        f'{" dashed" if dashed else ""}" x1="1" x2="25" y1="5" y2="5"/></svg>{escape(name)}</span>'
        for name, color, dashed in names
    ) + "</p>"  # fmt: skip


@dataclass(frozen=True, slots=True)
class Interval:
    name: str
    mean: float
    margin: float | None
    note: str
    color: int


def intervals(rows: Sequence[Interval], label: str, *, title: str) -> str:
    """One row each: a point with its interval, beside a line at zero."""
    ends = [abs(row.mean) + (row.margin or 0.0) for row in rows]
    reach = max([*ends, 1e-9])
    scale = axis(label, -reach, reach, unit="%")
    height, left = 22 * len(rows) + 44, 250
    length = WIDTH + 10 - left
    zero = scale.place(0.0, left, length)
    parts = [f'<line class="zero" x1="{zero:.1f}" x2="{zero:.1f}" y1="4" y2="{height - 30}"/>']
    for place, text in scale.ticks:
        x = scale.place(place, left, length)
        parts.append(f'<text class="tick" x="{x:.1f}" y="{height - 18}">{escape(text)}</text>')
    parts.append(f'<text class="tick" x="{left + length / 2:.1f}" y="{height - 3}">'
                 f"{escape(label)}</text>")  # fmt: skip
    for n, row in enumerate(rows):
        y = 16 + 22 * n
        x = scale.place(row.mean, left, length)
        margin = row.margin or 0.0
        low, high = (scale.place(row.mean + s * margin, left, length) for s in (-1, 1))
        sure = row.margin is not None and abs(row.mean) > row.margin
        parts.append(
            f'<text class="name" x="{left - 10}" y="{y + 4}">{escape(row.name)}</text>'
            f'<line class="line c{row.color}" x1="{low:.1f}" x2="{high:.1f}" y1="{y}" y2="{y}"/>'
            f'<circle class="dot c{row.color}{"" if sure else " open"}" cx="{x:.1f}" cy="{y}" '
            f'r="4.5"><title>{escape(row.note)}</title></circle>'
            f'<text class="value" x="{left + length + 12}" y="{y + 4}">{escape(row.note)}</text>'
        )
    return _svg(WIDTH + 120, height, title, "".join(parts))


def cells(percent: NDArray[np.uint8], across: Axis, label: str, *, title: str) -> str:
    """Rows of cells, coloured by percent; 255 is nothing."""
    height = HEIGHT
    inner = WIDTH - LEFT - RIGHT, height - TOP - BOTTOM
    parts = []
    for place, text in across.ticks:
        x = across.place(place, LEFT, inner[0])
        if place <= across.high:
            parts.append(f'<text class="tick" x="{x:.1f}" y="{height - 18}">{escape(text)}</text>')
    parts.append(f'<text class="tick" x="{LEFT + inner[0] / 2:.1f}" y="{height - 3}">'
                 f"{escape(across.label)}</text>")  # fmt: skip
    parts.append(f'<text class="side" transform="translate(14 {TOP + inner[1] / 2:.0f}) '
                 f'rotate(-90)">{escape(label)}</text>')  # fmt: skip
    parts.append(
        f'<image x="{LEFT}" y="{TOP}" width="{inner[0]}" height="{inner[1]}" '
        f'preserveAspectRatio="none" style="image-rendering:pixelated" '
        f'href="data:image/png;base64,{_png(percent)}"/>'
        f'<rect class="box" x="{LEFT}" y="{TOP}" width="{inner[0]}" height="{inner[1]}"/>'
    )
    return _svg(WIDTH, height, title, "".join(parts))


_STOPS = ((0, (237, 243, 248)), (25, (166, 206, 227)), (50, (66, 146, 198)),
          (75, (35, 87, 160)), (100, (20, 32, 88)), (101, (200, 40, 40)))  # fmt: skip
_AWAY = (160, 160, 160)


def scatter(
    points: Sequence[tuple[float, float]],
    front: Sequence[int],
    chosen: int,
    *,
    across: str,
    up: str,
) -> str:
    """All points, those of the front joined, the chosen one large."""
    x_axis = axis(across, min(x for x, _ in points), max(x for x, _ in points))
    y_axis = axis(up, min(y for _, y in points), max(y for _, y in points))
    inner = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
    joined = sorted(points[number] for number in front)
    line = _points([x for x, _ in joined], [y for _, y in joined], x_axis, y_axis, inner)
    parts = [_frame(x_axis, y_axis, inner), f'<polyline points="{line}" class="front"/>']
    on_front = set(front)
    for number, (x, y) in enumerate(points):
        place_x, _, place_y = _points([x], [y], x_axis, y_axis, inner).partition(",")
        kind = "chosen" if number == chosen else "best" if number in on_front else "other"
        radius = 6 if number == chosen else 3
        parts.append(f'<circle cx="{place_x}" cy="{place_y}" r="{radius}" class="{kind}"/>')
    return _svg(WIDTH, HEIGHT, f"{up} against {across}", "".join(parts))


def alone(scatter: str) -> str:
    """The picture as a file of its own, with the colours that the report gives it otherwise."""
    begun = scatter.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)
    head, mark, rest = begun.partition(">")
    return f"{head}{mark}{_SCATTER_STYLE}{rest}\n"


_SCATTER_STYLE = (
    "<style>text{font:11px sans-serif;fill:#555}line{stroke:#ccc}.front{fill:none;stroke:#36c}"
    ".other{fill:#aaa}.best{fill:#36c}.chosen{fill:#c33}</style>"
)


def _palette() -> bytes:
    places = [place for place, _ in _STOPS]
    channels = [
        np.interp(np.arange(255), places, [color[n] for _, color in _STOPS]) for n in range(3)
    ]
    table = np.round(np.stack(channels, axis=1)).astype(np.uint8)
    return table.tobytes() + bytes(_AWAY)


def _png(percent: NDArray[np.uint8]) -> str:
    """With a palette and not compressed: every zlib writes it the same."""
    height, width = percent.shape
    rows = np.concatenate([np.zeros((height, 1), np.uint8), percent], axis=1)

    def chunk(kind: bytes, data: bytes) -> bytes:
        check = zlib.crc32(kind + data)
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", check)

    head = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    png = (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + chunk(b"PLTE", _palette())
        + chunk(b"IDAT", zlib.compress(rows.tobytes(), 0))
        + chunk(b"IEND", b"")
    )
    return base64.b64encode(png).decode()


def _frame(across: Axis, up: Axis, inner: tuple[int, int]) -> str:
    parts = []
    for place, text in up.ticks:
        y = TOP + inner[1] - up.place(place, 0, inner[1])
        parts.append(
            f'<line class="grid" x1="{LEFT}" x2="{LEFT + inner[0]}" y1="{y:.1f}" y2="{y:.1f}"/>'
            f'<text class="side-tick" x="{LEFT - 6}" y="{y + 4:.1f}">{escape(text)}</text>'
        )
    for place, text in across.ticks:
        x = across.place(place, LEFT, inner[0])
        parts.append(f'<text class="tick" x="{x:.1f}" y="{HEIGHT - 18}">{escape(text)}</text>')
    middle = LEFT + inner[0] / 2
    parts.append(f'<text class="tick" x="{middle:.1f}" y="{HEIGHT - 3}">{escape(across.label)}'
                 "</text>")  # fmt: skip
    parts.append(f'<text class="side" transform="translate(14 {TOP + inner[1] / 2:.0f}) '
                 f'rotate(-90)">{escape(up.label)}</text>')  # fmt: skip
    return "".join(parts)


def _points(
    x: Sequence[float], y: Sequence[float], across: Axis, up: Axis, inner: tuple[int, int]
) -> str:
    return " ".join(
        f"{across.place(a, LEFT, inner[0]):.1f},{TOP + inner[1] - up.place(b, 0, inner[1]):.1f}"
        for a, b in zip(x, y, strict=True)
    )


def _svg(width: int, height: int, title: str, inside: str) -> str:
    return (
        f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{escape(title)}">'
        f"{inside}</svg>"
    )
