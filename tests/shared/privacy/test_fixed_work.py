"""How much is done for a draw tells nothing about what was drawn.

An observer of the time, or of the bytes that are taken from the system's generator, would learn the
length of the noise: with it, what is released tells more than the plan promises.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from sfumato.shared.privacy import FourierShape, Mechanism, PrivacyTarget, calibrate_mechanism
from sfumato.shared.privacy.mechanisms.cube import DiscreteCube
from sfumato.shared.privacy.mechanisms.gaussian import draw_gaussian
from sfumato.shared.privacy.mechanisms.knorm import DiscreteKNorm
from sfumato.shared.privacy.mechanisms.laplace import draw_laplace
from sfumato.shared.privacy.samplers import (
    EXPONENT_BITS,
    UNIT,
    RandomSource,
    draw_below,
    draw_bernoulli_exp,
    draw_geometric,
    draw_whole,
)
from tests.shared.privacy.sources import CountingSource

N_DRAWS = 300
# A correlation of independent draws exceeds 4.9 / sqrt(n) once in a million, one of three once in
# 300,000; seeds are fixed.
LARGEST_CORRELATION = 4.9 / N_DRAWS**0.5
Draw = Callable[[RandomSource], NDArray[np.int64]]


def measure_l1(noise: NDArray[np.float64]) -> float:
    return float(np.abs(noise).sum())


def measure_l2(noise: NDArray[np.float64]) -> float:
    return float(np.square(noise).sum())


def measure_largest(noise: NDArray[np.float64]) -> float:
    return float(np.abs(noise).max())


def correlate_work(draw: Draw) -> float:
    """Correlate the bytes that draws take with three lengths of what they give: the largest.

    0 if all draws take as many.
    """
    work, lengths = [], []
    for seed in range(N_DRAWS):
        source = CountingSource(seed)
        noise = draw(source).astype(np.float64)
        lengths.append([measure_l1(noise), measure_l2(noise), measure_largest(noise)])
        work.append(source.n_bytes)
    if len(set(work)) == 1:
        return 0.0
    return max(abs(float(np.corrcoef(work, column)[0, 1])) for column in zip(*lengths, strict=True))


# Scales so small that candidates are drawn again often, and one beyond what any plan has.
EXTREMES: dict[str, Draw] = {
    "laplace 1": lambda source: draw_laplace(source, UNIT, 8),
    "gaussian 1": lambda source: draw_gaussian(source, 1, 8),
    "gaussian 2^40": lambda source: draw_gaussian(source, 1 << 40, 8),
    "knorm 1": lambda source: DiscreteKNorm(
        n_frequencies=1, norm_sensitivity=3, rate=UNIT, neighbouring="replace-one"
    ).draw_noise(source),
    "cube 1": lambda source: (
        DiscreteCube(n_coordinates=3, norm_sensitivity=3, rate=UNIT, neighbouring="replace-one")
        .draw_noise(source, 3)
        .ravel()
    ),
    "cube 2^40": lambda source: (
        DiscreteCube(n_coordinates=3, norm_sensitivity=3, rate=1 << 12, neighbouring="replace-one")
        .draw_noise(source, 3)
        .ravel()
    ),
}


def calibrate(mechanism: str, neighbouring: str) -> Mechanism:
    return calibrate_mechanism(
        PrivacyTarget(
            mechanism=mechanism,
            shape=FourierShape(n_frequencies=6, measurements_per_record=6),
            epsilon=Fraction(1),
            delta=Fraction(1, 10**6) if mechanism == "discrete-gaussian" else Fraction(0),
            neighbouring=neighbouring,
        )
    )


@pytest.mark.parametrize("neighbouring", ["replace-one", "add-remove-one"])
@pytest.mark.parametrize("mechanism", ["discrete-knorm", "discrete-laplace", "discrete-gaussian"])
def test_the_random_bytes_of_a_release_tell_nothing_about_its_noise(
    mechanism: str, neighbouring: str
) -> None:
    noise = calibrate(mechanism, neighbouring)
    sums = np.zeros(12 + (neighbouring == "add-remove-one"), dtype=np.int64)
    assert correlate_work(lambda source: noise.add_noise(sums, source)) < LARGEST_CORRELATION


@pytest.mark.parametrize("name", list(EXTREMES))
def test_nor_do_they_at_scales_where_much_is_drawn_again(
    name: str,
) -> None:
    assert correlate_work(EXTREMES[name]) < LARGEST_CORRELATION


def draw_by_trials(source: RandomSource) -> NDArray[np.int64]:
    """The sampler that gave it away: as many trials as there are successes."""
    whole = np.zeros(16, dtype=np.int64)
    running = np.arange(16)
    while running.size:
        trial = draw_below(source, 1 << 40, running.size) < round(2**40 / np.e)
        running = running[trial]
        whole[running] += 1
    return whole


def test_a_sampler_whose_work_follows_its_draw_is_found_out() -> None:
    assert correlate_work(draw_by_trials) > 0.9


@pytest.mark.parametrize("rate", [1 << 10, UNIT // 1000, UNIT, 1 << 60])
def test_a_geometric_takes_as_many_words_whatever_it_is(rate: int) -> None:
    for seed in range(20):
        source = CountingSource(seed)
        draw_geometric(source, rate, 50)
        assert source.n_bytes == 50 * 8 * (EXPONENT_BITS + 1)


def test_whole_parts_and_tests_take_as_many_words_whatever_they_are() -> None:
    work = set()
    for seed in range(20):
        source = CountingSource(seed)
        draw_whole(source, 50)
        # Ranges that are powers of two: no word is refused for its own sake.
        draw_bernoulli_exp(source, np.linspace(0, 1 << 40, 50).astype(np.int64), 1 << 40)
        work.add(source.n_bytes // 8)
    # 50 of each; in the tests a word is refused with probability below 2^-19.
    assert work == {50 * 7 + 50 * 20}
