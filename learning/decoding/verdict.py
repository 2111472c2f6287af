"""Verdict on an answer: one of four words, and a band for its relative SSE."""

import math
from dataclasses import dataclass
from typing import Final

__all__ = [
    "DOUBTFUL",
    "FARTHEST",
    "OFFSET",
    "ROUGH",
    "SOUND",
    "TRUSTED",
    "UNUSABLE",
    "Influence",
    "Verdict",
    "choose_word",
    "describe_doubt",
    "predict_end",
]

OFFSET: Final = 0.003
SOUND: Final = 1.2
ROUGH: Final = 1.4
DOUBTFUL: Final = 2.5
"""Largest high end of a band that is called sound, rough or doubtful."""
UNUSABLE: Final = "do not use"
TRUSTED: Final = ("sound", "rough")
"""Verdicts of answers that have error bars."""
FARTHEST: Final = 100.0
"""A high end beyond this says nothing."""
# A cluster that loses more than half without a device was the device's own; less than half a
# percent of the records is within the chance of the comparison.
_MOST_LOST: Final = 0.5
_LEAST_LOST: Final = 0.005


def choose_word(high: float) -> str:
    """Choose the word by the high end of the band."""
    ends = {"sound": SOUND, "rough": ROUGH, "doubtful": DOUBTFUL}
    return next((word for word, end in ends.items() if high <= end), UNUSABLE)


def describe_doubt(word: str, sentence: str) -> str:
    """Describe a verdict to those who read answers without it; nothing of one that is trusted."""
    return "" if word in TRUSTED else f"what was decoded is called {word}: {sentence}"


def predict_end(coefficients: tuple[float, ...], features: tuple[float, ...]) -> float:
    """Predict an end of a band: ``1 + exp(sum_i c_i f_i) - 0.003``, at least 1."""
    exponent = sum(c * f for c, f in zip(coefficients, features, strict=True))
    return 1.0 + max(0.0, math.exp(min(exponent, 20.0)) - OFFSET)


@dataclass(frozen=True, kw_only=True)
class Influence:
    """Influence on an answer of the device, part of a secure sum, or file that matters most.

    Parameters
    ----------
    source : str
        ``device``, ``part`` or ``file``.
    n_sources : int
        How many there are.
    ratio : float
        SSE of the answer's centroids without it, over that of k-means from them; at least 1.
    cluster : int
        The cluster that loses most of its share without it, from 0 on.
    share, share_without : float
        Share of the records in that cluster, with it and without.
    """

    source: str
    n_sources: int
    ratio: float
    cluster: int
    share: float
    share_without: float

    @property
    def decides_cluster(self) -> bool:
        """Whether the cluster is mostly its own."""
        lost = self.share - self.share_without
        return lost > max(_LEAST_LOST, _MOST_LOST * self.share)

    @property
    def matters(self) -> bool:
        """Whether it decides a cluster, or without it the answer is no longer sound."""
        return self.decides_cluster or self.ratio > SOUND

    def is_worse_than(self, other: "Influence") -> bool:
        """Return whether this influence is the graver one."""
        own, others = (
            (each.decides_cluster, each.ratio, each.share - each.share_without)
            for each in (self, other)
        )
        return own > others

    def describe(self) -> str:
        """Describe it in words."""
        if self.decides_cluster:
            return (
                f"one {self.source} of {self.n_sources:,} decides cluster {self.cluster + 1}: "
                f"{self.share:.1%} of the records lie in it, and {self.share_without:.1%} without "
                f"that {self.source}"
            )
        return (
            f"without one {self.source} of {self.n_sources:,} other centroids would be better: "
            f"these have {self.ratio:.2f} times their SSE"
        )


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Trust in an answer: a word, a reason and a band.

    Parameters
    ----------
    word : str
        "sound", "rough", "doubtful" or "do not use".
    sentence : str
        The reason, and the action to take.
    low, high : float
        Range that contains the SSE relative to k-means on the raw records nine times in ten.
    """

    word: str
    sentence: str
    low: float
    high: float

    @property
    def is_usable(self) -> bool:
        """True where centroids are shown without a further request."""
        return self.word != UNUSABLE

    def describe_band(self) -> str:
        """Describe the band in words."""
        if math.isfinite(self.high):
            return f"relative SSE between {self.low:.2f} and {self.high:.2f} is expected"
        return f"relative SSE of {self.low:.2f} or more is expected, without an upper bound"
