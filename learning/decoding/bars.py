"""Error bars: how long they are for a kind of answer, and whether they deserve to be shown.

A bar has three parts. The spread of the posterior is that of the privacy noise, which is known
exactly, carried through the fit; it suffices where densities explain the sketch. Where they miss
it, they also err together, by a multiple of that spread. And sampling parts the records from their
source. The factors of each kind of answer were fitted once, to decodes of shapes on which nothing
is judged (``python -m benchmarks.bars --fit``); ``python -m benchmarks.bars`` reports on other
shapes how often the bars hold.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from sfumato.learning.decoding.bar_table import ROWS
from sfumato.learning.decoding.judgement import Evidence
from sfumato.learning.decoding.problem import Vector
from sfumato.learning.decoding.verdict import TRUSTED, Verdict

__all__ = [
    "DEVIATIONS",
    "LAWS",
    "LEVEL",
    "MOST_ROUGH",
    "MOST_STATED",
    "BarKind",
    "BarLaw",
    "Bars",
    "BarsWord",
    "choose_word",
    "compute_miss",
    "describe_bars",
]

BarKind = Literal["centroid", "weight", "share", "quantile", "mean", "correlation"]
BarsWord = Literal["stated", "rough", "none"]
LEVEL: Final = 0.9
"""Share of the bars that hold, where they are stated."""
DEVIATIONS: Final = 1.6448536269514722
"""Standard errors in such a bar, either way."""
MOST_STATED: Final = 20.0
"""Largest misfit on held-out equations, 1 being noise, with which bars are stated."""
MOST_ROUGH: Final = 100.0
"""Largest one with which bars are shown: a worse density describes nothing."""
_MISSES: Final = 1.5
"""Misfit from which the densities surely miss the sketch by more than its noise."""


@dataclass(frozen=True, kw_only=True)
class BarLaw:
    """The length of bars of one kind of answer.

        length = 1.645 sqrt((noise^(1 - t) model^t spread)^2 + (sampling error)^2)

    with t of :func:`compute_miss`.

    Parameters
    ----------
    noise, model
        Factor of the posterior's spread where the densities explain the sketch, and where they
        miss it by more than noise.
    sampling
        Factor of the standard error of sampling; 0 if the answer is about the records alone. Of a
        correlation: of what it shrinks by if half of the plan's scale blurs each column.
    """

    noise: float
    model: float
    sampling: float

    def compute_factor(self, held_out: float) -> float:
        """Compute by what the posterior's spread is multiplied, given the misfit."""
        t = compute_miss(held_out)
        return float(self.noise ** (1.0 - t) * self.model**t)

    def compute_length(self, spread: ArrayLike, sampling: ArrayLike, *, held_out: float) -> Vector:
        """Compute the length of 90 % bars, either way: the shape of spreads and sampling errors."""
        factor = self.compute_factor(held_out)
        length: Vector = DEVIATIONS * np.hypot(
            factor * np.asarray(spread), self.sampling * np.asarray(sampling)
        )
        return length


LAWS: Final[Mapping[BarKind, BarLaw]] = {
    kind: BarLaw(noise=ROWS[kind][0], model=ROWS[kind][1], sampling=ROWS[kind][2])
    for kind in get_args(BarKind)
}
"""The fitted laws."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Bars:
    """Uncertainty of an answer's centroids and weights; 1.645 errors either way are the bar.

    It holds the clusters' identity: it is about the centroids that k-means on the records reaches
    from the answer, not about a different set of clusters that fits nearly as well.

    Parameters
    ----------
    word : str
        "stated": nine of ten bars hold; "rough": fewer or more may hold; "none".
    sentence : str
        What the bars mean, or why there are none.
    held_out : float
        Misfit on equations held out of the fit, over that of noise.
    centroid_spreads : float64 (k, d)
        Spread of the centroids over the posterior, the plan's coordinates.
    weight_spreads : float64 (k,)
        Spread of the weights.
    """

    word: BarsWord
    sentence: str
    held_out: float
    centroid_spreads: Vector
    weight_spreads: Vector

    @property
    def centroid_errors(self) -> Vector | None:
        """Standard errors of the centroids, the plan's coordinates; None where none are shown."""
        return self._scale("centroid", self.centroid_spreads)

    @property
    def weight_errors(self) -> Vector | None:
        """Standard errors of the weights; None where none are shown."""
        return self._scale("weight", self.weight_spreads)

    def _scale(self, kind: BarKind, spreads: Vector) -> Vector | None:
        if self.word == "none":
            return None
        return LAWS[kind].compute_factor(self.held_out) * spreads


def compute_miss(held_out: float) -> float:
    """Return how surely the densities miss a sketch: from 0, up to noise, to 1.

    Parameters
    ----------
    held_out
        Misfit on equations held out of the fit, over that of noise.
    """
    return min(1.0, math.log(max(1.0, held_out)) / math.log(_MISSES))


def choose_word(held_out: float, *, is_trusted: bool) -> BarsWord:
    """Choose the kind of bars of a decode.

    Parameters
    ----------
    held_out
        As of :func:`compute_miss`.
    is_trusted
        Whether the decode was found sound or rough.
    """
    if not is_trusted or not held_out <= MOST_ROUGH:
        return "none"
    return "stated" if held_out <= MOST_STATED else "rough"


def describe_bars(
    evidence: Evidence,
    verdict: Verdict,
    *,
    centroid_spreads: Vector,
    weight_spreads: Vector,
) -> Bars:
    """Describe the bars of centroids and weights, or why there are none.

    Parameters
    ----------
    evidence, verdict
        Evidence and verdict of the same answer.
    centroid_spreads, weight_spreads
        Spread of the posterior; the plan's coordinates.
    """
    is_trusted = verdict.word in TRUSTED
    word = choose_word(evidence.held_out, is_trusted=is_trusted)
    sentence = {
        "stated": "nine in ten bars of 1.645 standard errors either way hold the centroid that "
        "k-means on the raw records reaches from this one",
        "rough": "error bars are rough: the densities behind them describe the records so badly "
        "that few such cases were there to tell how often they hold",
        "none": "no error bars are shown: the sketch is explained too badly to tell how far these "
        "centroids may be off",
    }[word]
    if not is_trusted:
        sentence = f"no error bars are shown for an answer that is called {verdict.word}"
    return Bars(
        word=word,
        sentence=sentence,
        held_out=evidence.held_out,
        centroid_spreads=centroid_spreads,
        weight_spreads=weight_spreads,
    )
