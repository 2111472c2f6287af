"""Sources of randomness that tests look into, events, and the exact loss of noise on a body."""

from collections.abc import Callable
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

from sfumato.shared.privacy import PrivacyEvent
from sfumato.shared.privacy.accounting import convert_concentrated
from sfumato.shared.privacy.testing import SeededSource


def make_event(sequence: int = 0, **changes: Any) -> PrivacyEvent:
    """Make the event of a release at epsilon 1."""
    usual: dict[str, Any] = {
        "stream": "s",
        "plan_digest": b"p",
        "sequence": sequence,
        "neighbouring": "replace-one",
        "epsilon": Fraction(1),
    }
    return PrivacyEvent(**(usual | changes))


def make_gaussian_event(
    rho: Fraction, delta: Fraction = Fraction(1, 10**6), **changes: Any
) -> PrivacyEvent:
    """Make a release of known rho, stated with the (epsilon, delta) of its own conversion."""
    epsilon = convert_concentrated(rho, delta)
    return make_event(epsilon=epsilon, delta=delta, rho=rho, **changes)


class CountingSource:
    """A seeded source that counts what is taken from it."""

    def __init__(self, seed: int) -> None:
        self._source = SeededSource(seed)
        self.n_bytes = 0

    def draw_bytes(self, count: int) -> bytes:
        self.n_bytes += count
        return self._source.draw_bytes(count)


def find_largest_loss(
    count_points: Callable[[int], int], *, rate: float, n: int, shift: int, reach: int, move: int
) -> float:
    """The largest of log h(k) / h(k + move), h(k) = sum over t >= max(k, shift) of p(t) / V(t).

    This is the whole privacy loss of noise of n integers on a body of V(t) points, if ``move`` is
    what records change together: no randomness, sums of 60-digit numbers.
    """
    with localcontext(prec=60):
        ratio, weight, tail = (-Decimal(rate)).exp(), Decimal(1), [Decimal(0)] * (reach + 1)
        terms = {}
        for t in range(shift, reach):
            if t > shift:
                weight = weight * ratio * (t - shift + n) / (t - shift)
            terms[t] = weight / count_points(t)
        for t in range(reach - 1, -1, -1):
            tail[t] = tail[t + 1] + terms.get(t, Decimal(0))
        # The cut at `reach` would dominate the last ratios, so the far end is left out.
        return max(float((tail[k] / tail[k + move]).ln()) for k in range(reach // 2 - move))
