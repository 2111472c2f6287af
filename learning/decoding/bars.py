"""Error bars of centroids and shares, and whether they deserve to be shown.

The posterior's own spread is right where its densities can describe the records. Elsewhere it is
too small, by a factor that the evidence predicts: it was fitted to decodes of shapes on which
nothing is judged (``python -m benchmarks.bars --fit``), and ``python -m benchmarks.bars`` reports
on other shapes how often the bars hold.
"""

import math
from dataclasses import dataclass
from typing import Final, Literal

from learning.decoding.evidence import Evidence
from learning.decoding.problem import Vector
from learning.decoding.verdict import Verdict

__all__ = [
    "FEATURES",
    "LEVEL",
    "MOST_ROUGH",
    "MOST_STATED",
    "TRUSTED",
    "Bars",
    "BarsWord",
    "compute_features",
    "describe_bars",
    "predict_factor",
]

BarsWord = Literal["stated", "rough", "none"]
LEVEL: Final = 0.9
"""Share of the bars that hold, where they are stated."""
FEATURES: Final = ("constant", "misfit")
# In the order of FEATURES.
_COEFFICIENTS: Final = (0.435, 0.052)
TRUSTED: Final = ("sound", "rough")
"""Verdicts of answers that have error bars."""
MOST_STATED: Final = 2.0
"""Largest predicted factor with which bars are stated."""
MOST_ROUGH: Final = 4.0
"""Largest predicted factor with which bars are shown."""
_ROUGHER: Final = 1.5
"""Further factor of rough bars: the fit is least sure there."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Bars:
    """Uncertainty of an answer's centroids and weights; 1.645 errors either way are the bar.

    It holds the clusters' identity: it is about the centroids that k-means on the records reaches
    from the answer, not about a different set of clusters that fits nearly as well.

    Parameters
    ----------
    word : str
        "stated": nine of ten bars hold; "rough": widened, and fewer or more may hold; "none".
    sentence : str
        What the bars mean, or why there are none.
    factor : float
        By what the posterior's spread is multiplied.
    centroid_spreads : float64 (k, d)
        Spread of the centroids over the posterior, the plan's coordinates.
    weight_spreads : float64 (k,)
        Spread of the weights.
    """

    word: BarsWord
    sentence: str
    factor: float
    centroid_spreads: Vector
    weight_spreads: Vector

    @property
    def centroid_errors(self) -> Vector | None:
        """Standard errors of the centroids, the plan's coordinates; None where none are shown."""
        return None if self.word == "none" else self.factor * self.centroid_spreads

    @property
    def weight_errors(self) -> Vector | None:
        """Standard errors of the weights; None where none are shown."""
        return None if self.word == "none" else self.factor * self.weight_spreads


def compute_features(evidence: Evidence) -> tuple[float, ...]:
    """Compute the features of the factor, in the order of ``FEATURES``; a larger one is worse."""
    return (1.0, math.log(max(1.0, evidence.held_out)))


def predict_factor(evidence: Evidence) -> float:
    """Predict by what the posterior's spread must be multiplied."""
    features = compute_features(evidence)
    exponent = sum(c * f for c, f in zip(_COEFFICIENTS, features, strict=True))
    return math.exp(min(exponent, 20.0))


def describe_bars(
    evidence: Evidence,
    verdict: Verdict,
    *,
    centroid_spreads: Vector,
    weight_spreads: Vector,
) -> Bars:
    """Widen the posterior's spread by the predicted factor, or show none.

    Parameters
    ----------
    evidence, verdict
        Of the same answer.
    centroid_spreads, weight_spreads
        Spread of the posterior; the plan's coordinates.
    """
    factor = predict_factor(evidence)
    word: BarsWord = "stated"
    sentence = (
        "nine in ten bars of 1.645 standard errors either way hold the centroid that k-means on "
        "the raw records reaches from this one"
    )
    if verdict.word not in TRUSTED:
        word = "none"
        sentence = f"no error bars are shown for an answer that is called {verdict.word}"
    elif factor > MOST_ROUGH:
        word = "none"
        sentence = (
            "no error bars are shown: the sketch is explained too badly to tell how far these "
            "centroids may be off"
        )
    elif factor > MOST_STATED:
        factor *= _ROUGHER
        word = "rough"
        sentence = (
            f"error bars are rough, and widened {factor:.2g} times: the densities behind them do "
            "not describe the records well"
        )
    return Bars(
        word=word,
        sentence=sentence,
        factor=factor,
        centroid_spreads=centroid_spreads,
        weight_spreads=weight_spreads,
    )
