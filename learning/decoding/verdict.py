"""A verdict on an answer in one of four words, and the band of its relative SSE."""

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
        Why, and what to do.
    low, high : float
        Where the SSE relative to k-means on the raw records is expected, nine times in ten.
    """

    word: str
    sentence: str
    low: float
    high: float

    @property
    def is_usable(self) -> bool:
        """True where centroids are shown without being asked for again."""
        return self.word != "do not use"

    def describe_band(self) -> str:
        """Write the band in words."""
        if math.isfinite(self.high):
            return f"relative SSE between {self.low:.2f} and {self.high:.2f} is expected"
        return f"relative SSE of {self.low:.2f} or more is expected, without an upper bound"
