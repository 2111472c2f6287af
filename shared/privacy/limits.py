"""Default limits of privacy loss, and the levels that deserve a warning."""

from __future__ import annotations

from fractions import Fraction

DEFAULT_EPSILON = Fraction(1)
"""Largest epsilon that a device spends on a record unless its owner wrote a limit down.

Whatever else is known, an observer's belief at even odds moves to at most exp(1) / (1 + exp(1)) =
73 %; at 2 it is 88 %, at 3 95 %. Up to 1 is what the literature calls a strong guarantee
(Ponomareva et al. 2023, tier 1), so it is what can be promised to an owner who did not decide. More
may be right for a study, which its owners then write down.
"""

DEFAULT_DELTA = Fraction(1, 10**6)
"""The delta at which limits are judged unless the owner wrote one down.

With probability delta a promise may fail altogether, for each record: it has to be far below one
over the number of records, and a window has seldom more than a million.
"""

ABSURD_EPSILON = Fraction(10)
"""Above this a guarantee says next to nothing: belief moves from even odds to 99.995 %."""


def find_level_cautions(
    *, epsilon: Fraction, delta: Fraction, n_records: int | None = None
) -> tuple[str, ...]:
    """Return what is to be said against a level of privacy, a sentence or two each.

    Parameters
    ----------
    epsilon, delta
        Of one release.
    n_records
        Records in one sketch at most, if known.
    """
    cautions = []
    if epsilon > ABSURD_EPSILON:
        cautions.append(
            f"epsilon is {_show(epsilon)}: above {ABSURD_EPSILON} it protects next to nothing, for "
            "whoever sees a sketch may be all but sure what a record says, and a device refuses "
            f"more than {DEFAULT_EPSILON} unless its owner wrote a higher limit down. Use 1 or less"
        )
    elif epsilon > DEFAULT_EPSILON:
        cautions.append(
            f"epsilon is {_show(epsilon)}: a device refuses more than {DEFAULT_EPSILON} unless its "
            "owner wrote a higher limit down. Tell the owners why, or use less"
        )
    if delta > DEFAULT_DELTA:
        cautions.append(
            f"delta is {_show(delta)}: a device judges its limits at {_show(DEFAULT_DELTA)} unless "
            "its owner wrote another delta down. Use that or less"
        )
    if n_records is not None and delta * n_records > 1:
        cautions.append(
            f"delta is {_show(delta)}, above one over the {n_records} records that a sketch may "
            "have: to publish one of them would be allowed. Use much less, such as "
            f"1/{100 * n_records}"
        )
    return tuple(cautions)


def _show(value: Fraction) -> str:
    return f"{float(value):.3g}"
