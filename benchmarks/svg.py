"""Line charts as SVG text, so that a plot needs nothing installed."""

import math
from collections.abc import Mapping, Sequence
from html import escape

Line = Sequence[tuple[float, float]]

_COLOURS = ("#1b6ca8", "#d1495b", "#2e933c", "#edae49", "#6a4c93", "#00798c", "#8d6a5b")
_WIDTH, _HEIGHT, _LEFT, _TOP, _RIGHT, _BOTTOM = 760, 420, 60, 40, 170, 50


def chart(title: str, lines: Mapping[str, Line], *, x: str, y: str, low: float, high: float) -> str:
    """A chart of lines by name over a logarithmic x axis; y runs from `low` to `high`."""
    places = [point[0] for line in lines.values() for point in line]
    first, last = math.log2(min(places)), math.log2(max(places))

    def across(value: float) -> float:
        share = (math.log2(value) - first) / max(last - first, 1e-9)
        return _LEFT + share * (_WIDTH - _LEFT - _RIGHT)

    def down(value: float) -> float:
        share = (min(max(value, low), high) - low) / (high - low)
        return _HEIGHT - _BOTTOM - share * (_HEIGHT - _TOP - _BOTTOM)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="sans-serif" '
        f'font-size="12"><rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>',
        f'<text x="{_LEFT}" y="22" font-size="15">{escape(title)}</text>',
        f'<text x="{(_WIDTH - _RIGHT + _LEFT) / 2}" y="{_HEIGHT - 12}" text-anchor="middle">{escape(x)}</text>',
        f'<text x="16" y="{_TOP - 12}">{escape(y)}</text>',
    ]
    for step in range(6):
        value = low + (high - low) * step / 5
        parts.append(
            f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{down(value):.1f}" y2="{down(value):.1f}" '
            f'stroke="#ddd"/><text x="{_LEFT - 8}" y="{down(value) + 4:.1f}" text-anchor="end">{value:.2f}</text>'
        )
    for power in range(math.ceil(first), math.floor(last) + 1):
        here = across(2.0**power)
        parts.append(
            f'<text x="{here:.1f}" y="{_HEIGHT - _BOTTOM + 18}" text-anchor="middle">{2**power}</text>'
        )
    for index, (name, line) in enumerate(lines.items()):
        colour = _COLOURS[index % len(_COLOURS)]
        points = " ".join(f"{across(a):.1f},{down(b):.1f}" for a, b in line)
        parts.append(f'<polyline fill="none" stroke="{colour}" stroke-width="2" points="{points}"/>')
        parts.append(
            f'<text x="{_WIDTH - _RIGHT + 12}" y="{_TOP + 14 + 20 * index}" fill="{colour}">{escape(name)}</text>'
        )
    return "\n".join([*parts, "</svg>"]) + "\n"
