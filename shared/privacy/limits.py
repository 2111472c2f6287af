"""Default limits of privacy loss, and warnings about privacy levels."""

from __future__ import annotations

from fractions import Fraction

DEFAULT_EPSILON = Fraction(1)
"""Largest epsilon that a device spends on a record unless its owner sets a limit.

Whatever else is known, an observer's belief at even odds moves to at most exp(1) / (1 + exp(1)) =
73 %; at 2 it is 88 %, at 3 95 %. The literature calls up to 1 a strong guarantee (Ponomareva et al.
2023, tier 1), so it is the default promise to an owner. A study may need more; its owners then set
a limit.
"""

DEFAULT_DELTA = Fraction(1, 10**6)
"""The delta at which limits are judged unless the owner sets one.

With probability delta a promise may fail altogether, for each record: delta has to be far below one
over the number of records, and a window seldom has more than a million.
"""

ABSURD_EPSILON = Fraction(10)
"""Above this epsilon a guarantee is nearly empty: belief moves from even odds to 99.995 %."""


def find_level_cautions(
    *, epsilon: Fraction, delta: Fraction, n_records: int | None = None
) -> tuple[str, ...]:
    """Return warnings about a privacy level, a sentence or two each.

    Parameters
    ----------
    epsilon, delta
        Guarantee of one release.
    n_records
        Largest number of records in one sketch, if known.
    """
    cautions = []
    if epsilon > ABSURD_EPSILON:
        cautions.append(
            f"epsilon is {_show(epsilon)}: above {ABSURD_EPSILON} it protects next to nothing, "
            "because anyone who sees a sketch can be almost sure of a record's values, and a "
            f"device refuses more than {DEFAULT_EPSILON} unless its owner sets a higher limit. Use "
            "1 or less"
        )
    elif epsilon > DEFAULT_EPSILON:
        cautions.append(
            f"epsilon is {_show(epsilon)}: a device refuses more than {DEFAULT_EPSILON} unless its "
            "owner sets a higher limit. Tell the owners why, or use less"
        )
    if delta > DEFAULT_DELTA:
        cautions.append(
            f"delta is {_show(delta)}: a device judges its limits at {_show(DEFAULT_DELTA)} unless "
            "its owner sets another delta. Use that or less"
        )
    if n_records is not None and delta * n_records > 1:
        cautions.append(
            f"delta is {_show(delta)}, above one over the {n_records} records that a sketch may "
            "have: publishing one of them would be allowed. Use much less, such as "
            f"1/{100 * n_records}"
        )
    return tuple(cautions)


def _show(value: Fraction) -> str:
    return f"{float(value):.3g}"
