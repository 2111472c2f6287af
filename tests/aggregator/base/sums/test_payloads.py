from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from sfumato.aggregator.base.sums.layout import Layout
from sfumato.aggregator.base.sums.payloads import BATCH, PayloadSum, Row
from sfumato.learning.estimate.limbs import join_limbs, split_limbs
from sfumato.learning.estimate.sizes import SizeMoments
from sfumato.shared.errors import StoreError
from sfumato.shared.wire import PayloadForm, encode_payload

WIDTH = 8
FORM = PayloadForm(width=WIDTH, n_coordinates=2)
LAYOUT = Layout(form=FORM, n_features=2, places=np.array([[0, 1]]))
MOST = (1 << 63) - 1

Values = tuple[int, list[int]]


@st.composite
def draw_sketches(draw: Any) -> list[Values]:
    """Sizes and two coordinates each, up to the largest that together fit."""
    count = draw(st.integers(1, 3 * BATCH))
    limit = MOST // count
    # A few values, repeated: many sketches matter here, not many different ones.
    size = st.sampled_from([0, 1, (1 << 24) - 1, 1 << 24, (1 << 35) + 7, 1 << 36])
    value = st.sampled_from([-limit, -1, 0, 1, (1 << 32) - 1, -(1 << 32), limit])
    kept = value.filter(lambda v: abs(v) <= limit)
    one = st.tuples(size, st.lists(kept, min_size=2, max_size=2))
    drawn: list[Values] = draw(st.lists(one, min_size=count, max_size=count))
    return drawn


def add(running: PayloadSum, sketches: list[Values]) -> None:
    running.add(
        [
            Row(b"id", b"", 0, size, 0, encode_payload(np.array(values, dtype=np.int64), WIDTH))
            for size, values in sketches
        ]
    )


@given(draw_sketches(), st.integers(0, 3 * BATCH))
def test_sums_are_those_of_unbounded_integers_wherever_batches_end(
    sketches: list[Values], cut: int
) -> None:
    running = PayloadSum(LAYOUT)
    add(running, sketches[:cut])
    add(running, sketches[cut:])
    totals = running.total()
    assert totals.sums.tolist() == [sum(values[j] for _, values in sketches) for j in range(2)]
    assert join_limbs(totals.size_sums) == [
        sum(size * values[j] for size, values in sketches) for j in range(2)
    ]
    assert totals.moments == SizeMoments.of_sizes(size for size, _ in sketches)


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 1 << 36), st.integers(), st.integers()))
)
def test_payloads_are_added_at_the_places_of_their_blocks(
    drawn: list[tuple[int, int, int, int]],
) -> None:
    layout = Layout(form=FORM, n_features=1, places=np.array([[0, 4], [5, 1], [2, 3]]))
    sketches = [(b, n, x % 1000, y % 1000 - 500) for b, n, x, y in drawn]
    running = PayloadSum(layout)
    for block, n, *values in sketches:
        running.add([Row(b"id", b"", 0, n, block, encode_payload(np.array(values), WIDTH))])
    sums, size_sums = [0] * 6, [0] * 6
    for block, n, *values in sketches:
        for place, value in zip(layout.places[block].tolist(), values, strict=True):
            sums[place] += value
            size_sums[place] += n * value
    totals = running.total()
    assert totals.sums.tolist() == sums
    assert join_limbs(totals.size_sums) == size_sums
    *powers, energy = totals.moments.rows
    for power, row in enumerate(powers):
        assert row == [sum(n**power for b, n, *_ in sketches if b == block) for block in range(3)]
    assert energy == [sum(x**2 for b, _, x, _ in sketches if b == block) for block in range(3)]


@given(st.lists(st.integers(-(1 << 126), (1 << 126) - 1)))
def test_limbs_joined_are_what_was_split(values: list[int]) -> None:
    limbs = split_limbs(values)
    assert limbs.shape == (2, len(values))
    assert join_limbs(limbs) == values
    assert (limbs[1] >= 0).all()


@pytest.mark.parametrize(
    "sketches",
    [
        [(1, [1 << 62, 0]), (1, [1 << 62, 0])],
        # The sum would fit; one of its parts might not, in another order.
        [(1, [1 << 62, 0]), (1, [-(1 << 62), 0])],
        [(1, [0, -(1 << 63)])],
        [(1 << 42, [1, 1])],
        [(-1, [1, 1])],
    ],
)
def test_what_could_overflow_is_refused(sketches: list[Values]) -> None:
    with pytest.raises(StoreError, match="64 bits"):
        add(PayloadSum(LAYOUT), sketches)


def test_nothing_adds_up_to_nothing() -> None:
    running = PayloadSum(LAYOUT)
    running.add([])
    totals = running.total()
    assert totals.sums.tolist() == [0, 0]
    assert join_limbs(totals.size_sums) == [0, 0]
    assert totals.moments == SizeMoments.of_sizes([])
