"""Evidence, verdict and warnings of an answer from a grid.

The ends of the band are

    1 + exp(c_0 + c_1 log(r + 0.003) + c_2 log(1 / (1 - w^2 / 12))) - 0.003

with r the rise of the SSE in simulated studies and w the width of a cell over the deviation inside
a cluster: at ``w^2 = 12`` the spread of clusters is that of one cell, and nothing shows how wide
they are. The coefficients are quantile regressions (5 % and 95 %) on 214 answers of the grids of
``choose_cells``: mixtures of 3 to 20 clusters and weather, n epsilon from 1e3 to 1e6, L = 1 and
100, boxes up to three times too wide; with other seeds than ``benchmarks.grids``, which reports how
often the bands hold.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from sfumato.learning.decoding.verdict import FARTHEST, OFFSET, Verdict, choose_word, predict_end

__all__ = ["GridEvidence", "judge_grid", "warn_of_grid"]

_LOW: Final = (-4.75, 0.181, 0.914)
_HIGH: Final = (1.934, 0.92, 1.173)
# Variance of a uniform density in widths squared, and the least distance from it.
_UNIFORM: Final = 12.0
_LEAST_EXCESS: Final = 0.003
# Below this share of the records, those that stand out say little about the others.
_LEAST_SHARE: Final = 0.3
_WIDE: Final = 2.5
_MUCH_MISSING: Final = 0.05


@dataclass(frozen=True, kw_only=True)
class GridEvidence:
    """Evidence for the verdict on an answer from a grid.

    Parameters
    ----------
    kept_share
        Share of the records in cells and blocks that stand out of the noise.
    redraw_excess, worst_redraw_excess
        Mean and largest rise of the SSE, relative to it, where the kept counts are released and
        solved again.
    cell_over_spread
        Width of a cell over the standard deviation inside a cluster.
    agreement
        Share of the starts that reached the lowest cost.
    n_points
        Cells and blocks that stand out.
    n_empty
        Centroids without records.
    missing_share
        Share of the records with a missing value.
    n_clusters
        k.
    """

    kept_share: float
    redraw_excess: float
    worst_redraw_excess: float
    cell_over_spread: float
    agreement: float
    n_points: int
    n_empty: int
    missing_share: float
    n_clusters: int


def judge_grid(evidence: GridEvidence) -> Verdict:
    """Judge an answer by its evidence."""
    rise = max(0.0, 0.5 * (evidence.redraw_excess + evidence.worst_redraw_excess))
    features = (
        1.0,
        math.log(rise + OFFSET),
        -math.log(max(1.0 - evidence.cell_over_spread**2 / _UNIFORM, _LEAST_EXCESS)),
    )
    low = predict_end(_LOW, features)
    high = max(predict_end(_HIGH, features), low)
    if high > FARTHEST or evidence.kept_share < _LEAST_SHARE or evidence.n_empty:
        high = math.inf
    word = choose_word(high)
    return Verdict(word=word, sentence=_describe(word, evidence, features), low=low, high=high)


def _describe(word: str, evidence: GridEvidence, features: tuple[float, ...]) -> str:
    """State the reason in a sentence: what raises the high end most."""
    if word == "sound":
        return "the counts, released again with fresh noise, would give nearly the same centroids"
    if evidence.kept_share < _LEAST_SHARE:
        return (
            f"only {evidence.kept_share:.0%} of the records stand out of the noise; more records, "
            "a larger epsilon or fewer cells help"
        )
    if evidence.n_empty:
        return (
            f"only {evidence.n_clusters - evidence.n_empty} centroids have records: too few cells "
            f"stand out for {evidence.n_clusters} clusters; ask for fewer"
        )
    # Contribution of each beyond its contribution in a good answer.
    of_noise = _HIGH[1] * (features[1] - math.log(0.01 + OFFSET))
    if _HIGH[2] * features[2] > of_noise:
        return (
            f"cells are {evidence.cell_over_spread:.2g} times as wide as clusters, or wider, so "
            "that they show little of their places; plan tighter bounds or more cells"
        )
    return (
        "the counts, released again with fresh noise, would give other centroids, whose SSE is "
        f"{max(0.0, evidence.redraw_excess):.0%} larger on average; fewer clusters, more records "
        "or a larger epsilon help"
    )


def warn_of_grid(evidence: GridEvidence) -> tuple[str, ...]:
    """List in plain words the doubts about an answer, gravest first; empty if there are none."""
    return tuple(text for text in _list_doubts(evidence) if text)


def _list_doubts(evidence: GridEvidence) -> tuple[str | None, ...]:
    share, w = evidence.kept_share, evidence.cell_over_spread
    return (
        "no count can be told from noise: the centroids mean nothing; more records or a larger "
        "epsilon help"
        if share == 0.0
        else None,
        f"only {share:.0%} of the records stand out of the noise: clusters may be missing"
        if 0.0 < share < 0.5
        else None,
        f"only {evidence.n_clusters - evidence.n_empty} of {evidence.n_clusters} centroids have "
        "weight: the others are place-holders; try fewer clusters"
        if evidence.n_empty
        else None,
        f"cells are {w:.2g} times as wide as clusters: plan tighter bounds or more cells"
        if w > _WIDE
        else None,
        f"{evidence.missing_share:.0%} of the records have a missing value and are in no cluster"
        if evidence.missing_share > _MUCH_MISSING
        else None,
    )
