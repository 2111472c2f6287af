import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

from sfumato.shared.core import Quantiser, RadiusLaw, draw_frequencies
from sfumato.shared.core.frequencies import (
    _adapted_radii,
    _draw_scaled,
    _draw_sigmas,
    _take,
)
from sfumato.shared.core.seeds import WordStream
from sfumato.shared.errors import PlanError

SEED = b"\x07" * 32
BOX = Quantiser.from_bounds([-4.0, -40.0], [4.0, 40.0])
SCALE = np.array([0.5, 5.0])


def draw(n_frequencies: int = 64, law: RadiusLaw | None = None, seed: bytes = SEED) -> np.ndarray:
    matrix = draw_frequencies(
        seed, n_frequencies=n_frequencies, law=law or RadiusLaw(), quantiser=BOX, scale=SCALE
    )
    return matrix.to_angular(BOX)


def test_the_same_seed_gives_the_same_digest_and_another_seed_another() -> None:
    def digest(seed: bytes) -> bytes:
        return draw_frequencies(
            seed, n_frequencies=8, law=RadiusLaw(), quantiser=BOX, scale=SCALE
        ).digest

    assert digest(SEED) == digest(SEED)
    assert digest(SEED) != digest(b"\x08" * 32)


def test_adapted_radii_follow_their_density() -> None:
    radii = np.sort(_take(_adapted_radii(WordStream(SEED, "test")), 100_000))
    grid = np.linspace(0, 9, 20_001)
    density = np.sqrt(grid**2 + grid**4 / 4) * np.exp(-(grid**2) / 2)
    cumulative = np.concatenate([[0], np.cumsum((density[1:] + density[:-1]) / 2)])
    expected = np.interp(radii, grid, cumulative / cumulative[-1])
    observed = (np.arange(radii.size) + 0.5) / radii.size
    distance = np.max(np.abs(observed - expected))
    # Kolmogorov-Smirnov: 2.7 / sqrt(n) is passed by chance less than once in 1e6.
    assert distance < 2.7 / math.sqrt(radii.size)
    wrong = np.interp(radii * 1.05, grid, cumulative / cumulative[-1])
    assert np.max(np.abs(observed - wrong)) > 2.7 / math.sqrt(radii.size)


@pytest.mark.parametrize("kind", ["adapted", "folded-gaussian", "gaussian"])
def test_each_radius_law_has_its_mean_square(kind: str) -> None:
    law = RadiusLaw(kind=kind, sigma_low=1.0, sigma_high=1.0, tail_share=0.0)  # type: ignore[arg-type]
    omega = _draw_scaled(SEED, 2, 50_000, law)
    mean_square = float(np.mean(np.sum(omega**2, axis=0)))
    expected = {"adapted": 2.304, "folded-gaussian": 1.0, "gaussian": 2.0}[kind]
    assert abs(mean_square / expected - 1) < 0.05


def test_a_frequency_beyond_16_bits_is_refused_with_the_fix() -> None:
    with pytest.raises(PlanError, match="two quantisation steps") as caught:
        draw_frequencies(
            SEED, n_frequencies=4, law=RadiusLaw(), quantiser=BOX, scale=np.array([1e-9, 1.0])
        )
    assert caught.value.field == "dimensions.scale"


@given(st.integers(1, 300), st.floats(0.0, 1.0))
def test_the_tail_has_its_share_of_every_first_features(m: int, share: float) -> None:
    tail = RadiusLaw(tail_share=share).is_tail(m)
    assert abs(np.count_nonzero(tail) - m * share) <= 1.0
    assert np.array_equal(tail[: m // 2], RadiusLaw(tail_share=share).is_tail(m // 2))


def test_scales_of_body_and_tail_lie_between_their_own_ends() -> None:
    law = RadiusLaw(sigma_low=1.0, sigma_high=2.0, tail_share=0.25, tail_high=8.0)
    sigma, tail = _draw_sigmas(SEED, 4000, law), law.is_tail(4000)
    assert np.count_nonzero(tail) == 1000
    assert sigma.min() >= 1.0
    assert sigma.max() <= 8.0
    assert sigma[tail].min() >= 2.0 >= sigma[~tail].max()
    # Log-uniform: half of the tail on either side of 4.
    assert abs(np.mean(sigma[tail] < 4.0) - 0.5) < 0.08


@pytest.mark.parametrize(
    "law",
    [
        {"sigma_low": 0.0},
        {"sigma_low": 5.0},
        {"kind": "cauchy"},
        {"tail_share": -0.1},
        {"tail_share": 1.1},
        {"tail_share": math.nan},
        {"tail_high": 0.0},
        {"tail_share": 0.5, "tail_high": 0.5},
        {"tail_high": math.inf},
        # Each value would take as many attempts as the range is wide.
        {"sigma_low": 1e-9},
        {"tail_share": 0.5, "tail_high": 5e8},
    ],
)
def test_an_impossible_radius_law_is_refused(law: dict[str, object]) -> None:
    with pytest.raises(PlanError, match="radius_law"):
        RadiusLaw(**law)  # type: ignore[arg-type]


def test_integer_frequencies_use_the_range_of_16_bits_and_stay_in_it() -> None:
    matrix = draw_frequencies(SEED, n_frequencies=64, law=RadiusLaw(), quantiser=BOX, scale=SCALE)
    assert 16384 <= int(np.max(np.abs(matrix.turns.astype(np.int64)))) <= 32767


def test_rounding_to_integers_changes_a_frequency_by_at_most_half_a_unit() -> None:
    matrix = draw_frequencies(SEED, n_frequencies=64, law=RadiusLaw(), quantiser=BOX, scale=SCALE)
    exact = _draw_scaled(SEED, 2, 64, RadiusLaw()) / SCALE[:, None]
    unit = 2 * math.pi * 2.0**-matrix.bits * 32767 / BOX.half_width
    assert np.all(np.abs(matrix.to_angular(BOX) - exact) <= 0.5001 * unit[:, None])


def test_scales_set_the_units_of_each_dimension() -> None:
    omega = draw(2048)
    ratio = np.std(omega[0]) / np.std(omega[1])
    # Ten times the scale, a tenth of the frequency; 2048 draws put 3 sd at 10 %.
    assert 9.0 < ratio < 11.0


def test_a_wider_matrix_starts_with_the_directions_of_a_narrower_one() -> None:
    narrow, wide = _draw_scaled(SEED, 2, 16, RadiusLaw()), _draw_scaled(SEED, 2, 64, RadiusLaw())
    assert np.array_equal(narrow, wide[:, :16])


def test_a_seed_of_another_length_is_refused() -> None:
    with pytest.raises(PlanError, match="32 bytes"):
        draw(seed=b"short")
