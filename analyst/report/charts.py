"""Charts as SVG text: scales, axes, bars, points and lines; colours are classes of the page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

N_COLOURS = 10
"""Classes ``c0`` to ``c9``; more clusters begin again, so colour never stands alone."""
_WIDTH = 320.0
_EDGE = 8.0


def find_ticks(low: float, high: float, *, most: int = 5) -> list[float]:
    """Return round numbers inside a range: 1, 2 or 5 times a power of ten apart."""
    if not high > low:
        return [low]
    rough = (high - low) / most
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(
        power * factor for factor in (1.0, 2.0, 5.0, 10.0) if power * factor >= rough * 0.999
    )
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [i * step for i in range(first, last + 1)]


def widen(values: Sequence[float]) -> tuple[float, float]:
    """Return a range that holds values with some room; never empty."""
    low, high = min(values), max(values)
    room = 0.06 * (high - low) or 0.5 * abs(low) or 0.5
    return low - room, high + room


class Scale:
    """A linear scale from data to the page."""

    def __init__(self, low: float, high: float, start: float, end: float) -> None:
        self.low, self.high = low, high
        self._start, self._slope = start, (end - start) / (high - low)

    def __call__(self, value: float) -> float:
        """Return where a value is drawn."""
        return self._start + (value - self.low) * self._slope


def show_number(value: float) -> str:
    """Write a number with four digits that matter."""
    return f"{value:.4g}".replace("e+0", "e").replace("e-0", "e-")


def draw_shares(
    shares: Sequence[float],
    resolved: Sequence[bool] | None,
    errors: Sequence[float] | None,
    *,
    label: str,
) -> str:
    """Draw a bar for each cluster's share of the records; pale if noise may have made it.

    Parameters
    ----------
    errors
        Half the length of each error bar, if they are known.
    """
    row, left = 22.0, 30.0
    height = row * len(shares) + 4.0
    reach = errors or [0.0] * len(shares)
    farthest = max(share + error for share, error in zip(shares, reach, strict=True))
    scale = Scale(0.0, max(farthest, 1e-9), left, _WIDTH - (104.0 if errors else 52.0))
    parts = []
    for i, share in enumerate(shares):
        y, x = row * i + 4.0, scale(max(0.0, share))
        pale = "" if resolved is None or resolved[i] else " pale"
        parts.append(
            f'<text x="{left - 8:g}" y="{y + 12:g}" text-anchor="end">{i + 1}</text>'
            f'<rect class="c{i % N_COLOURS}{pale}" x="{left:g}" y="{y:g}" '
            f'width="{max(0.5, x - left):.1f}" height="{row - 7:g}" rx="2"/>'
        )
        words = f"{share:.1%}"
        if errors:
            end = scale(share + errors[i])
            parts.append(_draw_bar(scale(max(0.0, share - errors[i])), end, y + (row - 7) / 2))
            words, x = f"{words} ± {errors[i]:.1%}", end
        parts.append(f'<text x="{x + 6:.1f}" y="{y + 12:g}">{words}</text>')
    return _wrap(parts, _WIDTH, height, label)


def draw_positions(
    centres: Sequence[float],
    spreads: Sequence[float] | None,
    errors: Sequence[float] | None,
    *,
    label: str,
) -> str:
    """Draw each cluster's place on one axis, a row each.

    Parameters
    ----------
    spreads
        Drawn as a line to each side.
    errors
        Half the length of each error bar, if they are known.
    """
    row, left = 18.0, 26.0
    wide = spreads or [0.0] * len(centres)
    reach = [max(pair) for pair in zip(wide, errors or wide, strict=True)]
    low, high = widen([end for c, s in zip(centres, reach, strict=True) for end in (c - s, c + s)])
    scale = Scale(low, high, left + _EDGE, _WIDTH - _EDGE)
    bottom = row * len(centres) + 4.0
    parts = [*_draw_axis(scale, bottom)]
    for i, (centre, spread) in enumerate(zip(centres, wide, strict=True)):
        y, colour = row * i + row / 2 + 2.0, f"c{i % N_COLOURS}"
        parts.append(f'<text x="{left - 8:g}" y="{y + 4:g}" text-anchor="end">{i + 1}</text>')
        if spread > 0.0:
            parts.append(
                f'<path class="l {colour}" d="M{scale(centre - spread):.1f} {y:g}'
                f'H{scale(centre + spread):.1f}"/>'
            )
        parts.append(f'<circle class="{colour}" cx="{scale(centre):.1f}" cy="{y:g}" r="5"/>')
        if errors:
            parts.append(_draw_bar(scale(centre - errors[i]), scale(centre + errors[i]), y))
    return _wrap(parts, _WIDTH, bottom + 22.0, label)


def draw_curve(values: Sequence[float], floors: Sequence[float], *, chosen: int, label: str) -> str:
    """Draw residuals over the number of clusters, and the level that noise alone leaves."""
    top, bottom, left = 10.0, 130.0, 40.0
    x = Scale(1.0, max(2.0, len(values)), left, _WIDTH - 3 * _EDGE)
    highest = max(*values, *floors, 1e-300)
    y = Scale(0.0, highest, bottom, top)
    line = " ".join(f"{x(i + 1):.1f},{y(value):.1f}" for i, value in enumerate(values))
    floor = " ".join(f"{x(i + 1):.1f},{y(value):.1f}" for i, value in enumerate(floors))
    parts = [
        f'<path class="g" d="M{left:g} {bottom:g}H{_WIDTH - _EDGE:g}"/>',
        f'<polyline class="f" points="{floor}"/>',
        f'<polyline class="l c0" points="{line}"/>',
        f'<text x="{left - 6:g}" y="{top + 4:g}" text-anchor="end">{show_number(highest)}</text>',
        f'<text x="{left - 6:g}" y="{bottom + 4:g}" text-anchor="end">0</text>',
    ]
    every = max(1, math.ceil(len(values) / 10))
    for i, value in enumerate(values):
        radius = 6 if i + 1 == chosen else 3
        parts.append(f'<circle class="c0" cx="{x(i + 1):.1f}" cy="{y(value):.1f}" r="{radius}"/>')
        if i % every == 0 or i + 1 == chosen:
            parts.append(
                f'<text x="{x(i + 1):.1f}" y="{bottom + 18:g}" text-anchor="middle">{i + 1}</text>'
            )
    return _wrap(parts, _WIDTH, bottom + 26.0, label)


def _draw_bar(low: float, high: float, y: float) -> str:
    """Draw an error bar with its ends."""
    ends = "".join(f"M{x:.1f} {y - 4:g}v8" for x in (low, high))
    return f'<path class="e" d="M{low:.1f} {y:g}H{high:.1f}{ends}"/>'


def _draw_axis(scale: Scale, bottom: float) -> list[str]:
    parts = []
    for tick in find_ticks(scale.low, scale.high, most=4):
        x = scale(tick)
        parts.append(
            f'<path class="g" d="M{x:.1f} 0V{bottom:g}"/>'
            f'<text x="{x:.1f}" y="{bottom + 15:g}" text-anchor="middle">{show_number(tick)}</text>'
        )
    return parts


def _wrap(parts: Sequence[str], width: float, height: float, label: str) -> str:
    return (
        f'<svg viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{escape(label)}">'
        f"{''.join(parts)}</svg>"
    )
