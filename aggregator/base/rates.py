"""Rate limits of senders: a token bucket each, in the memory of this process."""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass

from sfumato.shared.errors import OverloadedError

_MOST_SENDERS = 100_000


@dataclass(slots=True)
class _Bucket:
    tokens: float
    filled: float


class RateLimit:
    """Token buckets: a request of a sender takes one token, and tokens return at a steady rate.

    Each process has its own buckets: with R replicas a sender may ask R times as often. A sender is
    authenticated first, so that nobody can spend the tokens of another.

    Parameters
    ----------
    per_second
        Tokens that return in a second.
    burst
        Tokens of a full bucket.
    what
        The kind of sender, for messages.
    monotonic
        A monotonic clock, in seconds.
    """

    def __init__(
        self,
        *,
        per_second: float,
        burst: int,
        what: str,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._per_second = per_second
        self._burst = float(burst)
        self._what = what
        self._monotonic = monotonic
        self._buckets: OrderedDict[Hashable, _Bucket] = OrderedDict()

    def spend(self, sender: Hashable) -> None:
        """Take one token.

        Raises
        ------
        OverloadedError
            None is left; the error says when to try again.
        """
        now = self._monotonic()
        bucket = self._buckets.pop(sender, None) or _Bucket(self._burst, now)
        bucket.tokens = min(self._burst, bucket.tokens + self._per_second * (now - bucket.filled))
        bucket.filled = now
        self._buckets[sender] = bucket
        if len(self._buckets) > _MOST_SENDERS:
            # Used longest ago, so it is probably full.
            self._buckets.popitem(last=False)
        if bucket.tokens < 1.0:
            raise OverloadedError(
                f"has asked more often than {self._per_second:g} times a second",
                field=self._what,
                fix="send the same again after the seconds in Retry-After",
                retry_after_s=math.ceil((1.0 - bucket.tokens) / self._per_second),
            )
        bucket.tokens -= 1.0
