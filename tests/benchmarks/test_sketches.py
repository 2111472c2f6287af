from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from benchmarks.datasets import Dataset, Mixture
from benchmarks.decoding import parse_law
from benchmarks.designs import choose_design
from benchmarks.sketches import Noise, Sketcher, Study, make_noise, split_sizes
from sfumato.learning.planning.laws import LAW_CHOICES

SOURCE = Mixture(n_dimensions=2, n_clusters=3, n_records=600)
EXACT = Study(n_frequencies=60, scale=1.0)
KNORM = Noise(mechanism="discrete-knorm", epsilon=Fraction(2))


@pytest.mark.parametrize("law", ["adapted:1:4", "adapted:1:2:0.5:6"])
def test_without_noise_the_sketch_is_the_average_of_the_features(law: str) -> None:
    dataset = SOURCE.load(1)
    posed = Sketcher().pose(dataset, replace(EXACT, law=parse_law(law)), 1)
    problem = posed.problem
    average = np.exp(1j * (dataset.records - problem.centre) @ problem.frequencies).mean(axis=0)
    # Features are integers within 2e-4 of the amplitude, records are rounded to 16 bits.
    assert np.abs(problem.sketch - average).max() < 2e-3
    # What remains is sampling: 600 records of modulus 1.
    energy = np.mean(np.abs(average) ** 2)
    assert problem.noise_variance == pytest.approx((1 - energy) / 600, rel=0.02)
    assert posed.snr == pytest.approx(energy / problem.noise_variance, rel=0.02)


@pytest.mark.parametrize("mechanism", ["discrete-knorm", "discrete-laplace", "discrete-gaussian"])
def test_the_solver_is_told_the_variance_of_the_noise_that_was_added(mechanism: str) -> None:
    dataset, sketcher = SOURCE.load(1), Sketcher()
    delta = Fraction(1, 10**6) if mechanism == "discrete-gaussian" else Fraction(0)
    noise = Noise(mechanism=mechanism, epsilon=Fraction(2), delta=delta)
    exact = replace(EXACT, n_frequencies=400, n_sketches=5)
    # At this epsilon the noise is far above what sampling adds.
    posed = sketcher.pose(dataset, replace(exact, noise=noise), 1).problem
    clean = sketcher.pose(dataset, exact, 1).problem
    energy = np.mean(np.abs(posed.sketch - clean.sketch) ** 2)
    # Seeded. 800 real coordinates: standard error 5 % (Gaussian) to 8 % (Laplace); so 5 deviations.
    assert energy / posed.noise_variance == pytest.approx(1.0, abs=0.4)


def test_cached_sums_serve_other_noise_and_never_other_records_or_frequencies() -> None:
    sketcher = Sketcher()
    for seed in (1, 2):
        for study in (EXACT, replace(EXACT, scale=2.0), replace(EXACT, mask_groups=2)):
            dataset = SOURCE.load(seed)
            fresh = Sketcher().pose(dataset, study, seed).problem
            assert np.array_equal(sketcher.pose(dataset, study, seed).problem.sketch, fresh.sketch)
    assert len(sketcher._sums) == 6
    sketcher.pose(SOURCE.load(1), replace(EXACT, noise=KNORM), 1)
    assert len(sketcher._sums) == 6


def test_sizes_sum_to_the_records() -> None:
    sizes = split_sizes(1_003, 100)
    assert sizes.shape == (100,)
    assert sizes.sum() == 1_003
    assert sizes.max() - sizes.min() == 1


WIDE, GENERAL, CLOSE, NARROW = (choice.law for choice in LAW_CHOICES)
SIZES = Dataset(name="a", records=np.zeros((200_000, 10)), lower=-1.0, upper=1.0, n_clusters=10)


@pytest.mark.parametrize(
    ("n_epsilon", "law"), [(0, WIDE), (40_000, GENERAL), (26_000, CLOSE), (10_000, NARROW)]
)
def test_the_law_is_narrower_the_stronger_the_noise(n_epsilon: int, law: object) -> None:
    noise = make_noise("knorm", Fraction(n_epsilon, 200_000)) if n_epsilon else None
    assert choose_design(SIZES, noise).law == law


def test_pure_noise_gets_fewer_frequencies_than_gaussian_noise() -> None:
    knorm, gaussian = (make_noise(name, Fraction(1, 20)) for name in ("knorm", "gaussian"))
    assert choose_design(SIZES, knorm).n_frequencies <= 300
    assert choose_design(SIZES, gaussian).n_frequencies >= 500
