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
    "UNUSABLE",
    "Verdict",
    "choose_word",
    "predict_end",
]

OFFSET: Final = 0.003
SOUND: Final = 1.2
ROUGH: Final = 1.4
DOUBTFUL: Final = 2.5
"""Largest high end of a band that is called sound, rough or doubtful."""
UNUSABLE: Final = "do not use"
FARTHEST: Final = 100.0
"""A high end beyond this says nothing."""


def choose_word(high: float) -> str:
    """Choose the word by the high end of the band."""
    ends = {"sound": SOUND, "rough": ROUGH, "doubtful": DOUBTFUL}
    return next((word for word, end in ends.items() if high <= end), UNUSABLE)


def predict_end(coefficients: tuple[float, ...], features: tuple[float, ...]) -> float:
    """Predict an end of a band: ``1 + exp(sum_i c_i f_i) - 0.003``, at least 1."""
    exponent = sum(c * f for c, f in zip(coefficients, features, strict=True))
    return 1.0 + max(0.0, math.exp(min(exponent, 20.0)) - OFFSET)


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
