"""Line charts as SVG, as small as a page of documentation needs them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from math import log10

WIDTH, HEIGHT = 720, 360
LEFT, RIGHT, TOP, BOTTOM = 64, 150, 44, 48
TICK_WIDTH = 44
COLOURS = ("#1f6feb", "#d1242f", "#8250df", "#1a7f37")

Points = Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Axis:
    """From a value to pixels; `logarithmic` gives each doubling the same room."""

    ticks: tuple[float, ...]
    start: float
    end: float
    logarithmic: bool = False

    def at(self, value: float) -> float:
        low, high = self._scaled(self.ticks[0]), self._scaled(self.ticks[-1])
        return self.start + (self._scaled(value) - low) / (high - low) * (self.end - self.start)

    def _scaled(self, value: float) -> float:
        return log10(value) if self.logarithmic else value


def line_chart(
    title: str,
    lines: dict[str, Points],
    *,
    x_title: str,
    y_title: str,
    x_logarithmic: bool = False,
) -> str:
    """Every line with its name at its end; the y axis starts at zero."""
    xs = sorted({x for points in lines.values() for x, _ in points})
    top = _round_up(max(y for points in lines.values() for _, y in points))
    across = Axis(tuple(xs), LEFT, WIDTH - RIGHT, x_logarithmic)
    up = Axis(tuple(top * n / 4 for n in range(5)), HEIGHT - BOTTOM, TOP)
    size = f'viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
    font = 'font-family="sans-serif" font-size="12"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} {font}>',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        f'<text x="{LEFT}" y="22" font-size="15" font-weight="bold">{escape(title)}</text>',
        *_axes(across, up, x_title, y_title),
    ]
    for number, (name, points) in enumerate(lines.items()):
        parts += _line(name, points, across, up, COLOURS[number % len(COLOURS)])
    return "\n".join([*parts, "</svg>", ""])


def _axes(across: Axis, up: Axis, x_title: str, y_title: str) -> list[str]:
    parts = []
    for value in up.ticks:
        y = up.at(value)
        parts.append(
            f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#d8dee4"/>'
        )
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{value:,g}</text>')
    last_x, y = -1e9, HEIGHT - BOTTOM + 18
    for value in across.ticks:
        x = across.at(value)
        # Where they would overlap, some are left out.
        if x - last_x >= TICK_WIDTH:
            parts.append(f'<text x="{x:.1f}" y="{y}" text-anchor="middle">{value:,g}</text>')
            last_x = x
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(
        f'<text x="{middle}" y="{HEIGHT - 10}" text-anchor="middle">{escape(x_title)}</text>'
    )
    parts.append(f'<text x="{LEFT}" y="{TOP - 8}" fill="#57606a">{escape(y_title)}</text>')
    return parts


def _line(name: str, points: Points, across: Axis, up: Axis, colour: str) -> list[str]:
    places = [(across.at(x), up.at(y)) for x, y in points]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    end_x, end_y = places[-1]
    return [
        f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>',
        *(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in places),
        f'<text x="{end_x + 8:.1f}" y="{end_y + 4:.1f}" fill="{colour}">{escape(name)}</text>',
    ]


def _round_up(value: float) -> float:
    """To a number that can be read: 1, 2, 4, 6 or 8 times a power of ten."""
    power = 10 ** int(log10(value)) if value >= 1 else 1
    return next(step * power for step in (1, 2, 4, 6, 8, 10) if step * power >= value)
