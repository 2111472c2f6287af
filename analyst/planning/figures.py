"""Pictures of predicted quality: against epsilon, and against the number of frequencies."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator
from matplotlib.typing import LineStyleType

from sfumato.analyst.plots import COLOURS, Picture
from sfumato.learning.planning.candidates import Candidate, choose_candidate, predict_candidate
from sfumato.learning.planning.outline import (
    FEATURES_PER_PARAMETER,
    LARGEST_FREQUENCIES,
    StudyOutline,
)
from sfumato.learning.planning.planner import Advice, choose_reports
from sfumato.shared.errors import PrivacyError
from sfumato.shared.plan.statement import show_exact
from sfumato.shared.privacy import MECHANISMS
from sfumato.shared.privacy.mechanisms.phase import PHASE_REPORT

_LOWEST, _HIGHEST = 0.005, 5.0
"""Where pictures end, as relative SSE less 1: nearer or further does not matter."""
_STYLES: dict[str, tuple[str, LineStyleType]] = {
    "discrete-knorm": (COLOURS[0], "-"),
    "discrete-laplace": (COLOURS[1], "--"),
    "discrete-gaussian": (COLOURS[2], "-."),
    PHASE_REPORT: (COLOURS[3], (0, (6, 1, 1, 1, 1, 1))),
}
"""Colour and line: each tells mechanisms apart without the other."""
_DECADES = 1.25
_POINTS = 25


def plot_advice(advice: Advice) -> Figure:
    """Draw the predicted bands of every mechanism around the recommended choice.

    Each has as many blocks of frequencies as its best candidate. Phase reports are drawn where they
    are recommended, each at its best r.

    Parameters
    ----------
    advice
        Advice for the study.
    """
    figure = Picture(figsize=(11.0, 4.8))
    left, right = figure.subplots(1, 2, sharey=True)
    outline, best = advice.outline, advice.recommended
    # Candidates with a delta are among the advice only if the budget has one.
    delta = max(candidate.delta for candidate in advice.candidates)
    mechanisms = [kind.name for kind in MECHANISMS.values() if delta or not kind.needs_delta]
    mechanisms += [PHASE_REPORT] if best.reports_phases else []
    parameters = outline.n_clusters * outline.n_dimensions
    m_range = np.linspace(FEATURES_PER_PARAMETER[0], FEATURES_PER_PARAMETER[-1], _POINTS)
    by_epsilon = [
        (best.n_frequencies, best.epsilon * Fraction(float(factor)))
        for factor in np.logspace(-_DECADES, _DECADES, _POINTS)
    ]
    by_m = [(m, best.epsilon) for m in sorted({round(x * parameters) for x in m_range})]
    for mechanism in mechanisms:
        is_phase = mechanism == PHASE_REPORT
        n_blocks = 1 if is_phase else _count_blocks(advice, mechanism)
        label = mechanism if n_blocks == 1 else f"{mechanism}, r = m / {n_blocks}"
        for panel, choices in ((left, by_epsilon), (right, by_m)):
            found = (
                _predict_phases(outline, choices)
                if is_phase
                else _predict(outline, mechanism, choices, delta, n_blocks)
            )
            at = [float(c.epsilon if panel is left else c.n_frequencies) for c in found]
            _draw_band(panel, mechanism, label, at, found)
    left.set_xlabel(f"epsilon of a sketch, at m = {best.n_frequencies}")
    right.set_xlabel(f"frequencies m, at epsilon = {show_exact(best.epsilon)}")
    left.set_ylabel("SSE relative to k-means on raw records\n(thick: upper end, thin: lower end)")
    for panel, x in ((left, float(best.epsilon)), (right, float(best.n_frequencies))):
        _finish(panel, advice.target_sse)
        panel.axvline(x, color="black", linewidth=1.4, linestyle=":", label="recommended", zorder=1)
    _label_ticks(
        left, sorted({_nice(float(best.epsilon) * 10**power) for power in (-1, -0.5, 0, 0.5, 1)})
    )
    _label_ticks(right, [factor * parameters for factor in FEATURES_PER_PARAMETER])
    handles, labels = left.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
    figure.suptitle(
        f"Predicted quality: {outline.n_records:,} records in {outline.n_sketches:,} sketches, "
        f"k = {outline.n_clusters}, d = {outline.n_dimensions}",
        fontsize=13,
        fontweight="bold",
        x=0.01,
        ha="left",
    )
    return figure


def _count_blocks(advice: Advice, mechanism: str) -> int:
    """Return m / r of the best candidate of a mechanism; 1 if it has none."""
    found = [c for c in advice.candidates if c.mechanism == mechanism and not c.has_masks]
    return choose_candidate(found, advice.target_sse).shortest_selection if found else 1


def _predict_phases(
    outline: StudyOutline, choices: Sequence[tuple[int, Fraction]]
) -> list[Candidate]:
    """Predict the best phase reports of every choice that allows some."""
    found = []
    for m, epsilon in choices:
        if m <= LARGEST_FREQUENCIES:
            found += choose_reports(replace(outline, bytes_are_scarce=False), m, epsilon)
    return found


def _predict(
    outline: StudyOutline,
    mechanism: str,
    choices: Sequence[tuple[int, Fraction]],
    delta: Fraction,
    n_blocks: int,
) -> list[Candidate]:
    """Predict every choice that can be calibrated; r is near m / n_blocks and divides m."""
    found = []
    for m, epsilon in choices:
        if m > LARGEST_FREQUENCIES:
            break
        r = max(1, round(m / n_blocks))
        try:
            found.append(
                predict_candidate(
                    outline,
                    mechanism=mechanism,
                    n_frequencies=r * round(m / r),
                    frequencies_per_sketch=r,
                    epsilon=epsilon,
                    delta=delta,
                )
            )
        except PrivacyError:
            continue
    return found


def _draw_band(
    panel: Axes, mechanism: str, label: str, x: list[float], candidates: Sequence[Candidate]
) -> None:
    colour, line = _STYLES[mechanism]
    # What exceeds 1 is drawn, so that 1.02 and 1.05 lie as far apart as 1.2 and 1.5. Beyond the
    # picture rather than infinite, so that the area reaches its upper edge.
    low = [c.band.low - 1.0 for c in candidates]
    high = [min(c.band.high - 1.0, 100.0 * _HIGHEST) for c in candidates]
    panel.fill_between(x, low, high, color=colour, alpha=0.15, linewidth=0)
    panel.plot(x, high, color=colour, linestyle=line, linewidth=2.2, label=label)
    panel.plot(x, low, color=colour, linestyle=line, linewidth=1.0)


def _finish(panel: Axes, target_sse: float) -> None:
    panel.set_xscale("log")
    panel.set_yscale("log")
    panel.set_ylim(_LOWEST, _HIGHEST)
    panel.axhline(
        target_sse - 1.0, color="black", linewidth=1.2, label=f"target {target_sse:g}", zorder=1
    )
    panel.yaxis.set_major_locator(FixedLocator([0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 4.0]))
    panel.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{1.0 + value:g}"))
    panel.yaxis.set_minor_locator(NullLocator())
    panel.spines[["top", "right"]].set_visible(False)
    panel.grid(color="#E6E6E6", linewidth=0.6)
    panel.set_axisbelow(True)


def _label_ticks(panel: Axes, ticks: Sequence[float]) -> None:
    panel.xaxis.set_major_locator(FixedLocator(list(ticks)))
    panel.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    panel.xaxis.set_minor_locator(NullLocator())


def _nice(value: float) -> float:
    """Round to 1, 2, 3 or 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(value))
    return power * min((1, 2, 3, 5, 10), key=lambda step: abs(math.log(value / power / step)))
