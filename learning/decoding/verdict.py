"""Verdict on an answer: one of four words, and a band for its relative SSE."""

import math
from dataclasses import dataclass

__all__ = ["Verdict"]


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
        return self.word != "do not use"

    def describe_band(self) -> str:
        """Describe the band in words."""
        if math.isfinite(self.high):
            return f"relative SSE between {self.low:.2f} and {self.high:.2f} is expected"
        return f"relative SSE of {self.low:.2f} or more is expected, without an upper bound"
