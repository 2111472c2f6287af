"""Small operators and record sets for laws of the sketch."""

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from sfumato.shared.core import (
    FourierStatistic,
    MaskSchedule,
    Quantiser,
    RadiusLaw,
    draw_frequencies,
)

SEED, STREAM = bytes(range(32)), b"device/stream"
BOUNDS = [-1.0, 0.0, -50.0], [1.0, 10.0, 50.0]
N_DIMENSIONS = 3
N_FREQUENCIES = 12


def make_statistic(measurements_per_record: int = N_FREQUENCIES) -> FourierStatistic:
    quantiser = Quantiser.from_bounds(*BOUNDS)
    frequencies = draw_frequencies(
        SEED,
        n_frequencies=N_FREQUENCIES,
        law=RadiusLaw(),
        quantiser=quantiser,
        scale=np.array([0.2, 1.0, 7.0]),
    )
    masks = None
    if measurements_per_record < N_FREQUENCIES:
        masks = MaskSchedule.from_seed(
            SEED,
            STREAM,
            n_frequencies=N_FREQUENCIES,
            measurements_per_record=measurements_per_record,
        )
    return FourierStatistic(quantiser=quantiser, frequencies=frequencies, masks=masks)


def record_arrays(max_records: int = 40) -> st.SearchStrategy[NDArray[np.float64]]:
    """Records of any doubles: far outside the box, infinite and not-a-number included."""
    return hnp.arrays(
        np.float64,
        st.tuples(st.integers(0, max_records), st.just(N_DIMENSIONS)),
        elements=st.floats(width=64),
    )
