"""A flame graph of the looks at the stack, as one SVG file that needs nothing else.

Each box is a function, as wide as the share of looks it was running in, on top of its caller;
hovering over it shows the name and the share.  `stowplan bench --profile FILE` writes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape
from types import CodeType

from stowplan.bench.sampler import Stack

WIDTH = 1200
ROW = 17
MARGIN = 10
HEADER = 34
NARROW = 0.4
"""Boxes of fewer pixels are left out."""
CHARACTER = 6.8
"""Pixels; how much of a name fits into its box."""


@dataclass(slots=True)
class Box:
    name: str
    looks: int = 0
    above: dict[str, Box] = field(default_factory=dict)


def flame_graph(stacks: Mapping[Stack, int], title: str) -> str:
    """The whole SVG text."""
    root = _tree(stacks)
    depth = _depth(root)
    height = HEADER + depth * ROW + MARGIN
    size = f'width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="monospace" font-size="11">',
        f'<rect width="{WIDTH}" height="{height}" fill="#fffdf8"/>',
        f'<text x="{MARGIN}" y="21" font-size="14">{escape(title)}: {root.looks} looks</text>',
    ]
    scale = (WIDTH - 2 * MARGIN) / max(1, root.looks)
    _draw(root, (MARGIN, height - MARGIN - ROW), (scale, root.looks), parts)
    return "\n".join([*parts, "</svg>", ""])


def _tree(stacks: Mapping[Stack, int]) -> Box:
    root = Box("all")
    for stack, looks in stacks.items():
        root.looks += looks
        box = root
        for code in reversed(stack):
            name = _name(code)
            box = box.above.setdefault(name, Box(name))
            box.looks += looks
    return root


def _name(code: CodeType) -> str:
    file = code.co_filename.replace("\\", "/")
    short = file.rpartition("stowplan/")[2] if "stowplan/" in file else file.rpartition("/")[2]
    return f"{code.co_qualname if hasattr(code, 'co_qualname') else code.co_name} ({short})"


def _depth(box: Box) -> int:
    deepest, level = 0, [box]
    while level:
        deepest += 1
        level = [child for parent in level for child in parent.above.values()]
    return deepest


def _draw(
    box: Box, corner: tuple[float, float], scale: tuple[float, int], parts: list[str]
) -> None:
    per_look, total = scale
    x, y = corner
    width = box.looks * per_look
    if width < NARROW:
        return
    label = escape(f"{box.name}: {100 * box.looks / max(1, total):.1f} %")
    shown = box.name[: max(0, int((width - 4) / CHARACTER))]
    parts.append(
        f'<g><title>{label}</title><rect x="{x:.1f}" y="{y:.0f}" width="{width:.1f}" '
        f'height="{ROW - 1}" rx="1.5" fill="{_colour(box.name)}"/>'
    )
    if len(shown) > 2:
        parts.append(f'<text x="{x + 2:.1f}" y="{y + 12:.0f}">{escape(shown)}</text>')
    parts.append("</g>")
    for child in sorted(box.above.values(), key=lambda child: child.name):
        _draw(child, (x, y - ROW), scale, parts)
        x += child.looks * per_look


def _colour(name: str) -> str:
    """Warm, and the same for the same file."""
    seed = sum(name.rpartition("(")[2].encode()) * 37
    return f"hsl({seed % 55}, {60 + seed % 25}%, {62 + seed % 17}%)"
