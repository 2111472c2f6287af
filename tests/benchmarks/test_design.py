from fractions import Fraction

import numpy as np
import pytest

from benchmarks.datasets import Dataset
from benchmarks.design import choose_design
from benchmarks.sketches import Noise
from sfumato.learning.planning.laws import LAW_CHOICES

DATASET = Dataset(
    name="sizes alone count",
    records=np.zeros((200_000, 10)),
    lower=-1.0,
    upper=1.0,
    n_clusters=10,
)
WIDE, GENERAL, CLOSE, NARROW = (choice.law for choice in LAW_CHOICES)


def knorm(n_epsilon: int) -> Noise:
    return Noise(mechanism="discrete-knorm", epsilon=Fraction(n_epsilon, 200_000))


def test_pure_noise_gets_fewer_frequencies_than_gaussian_noise() -> None:
    gaussian = Noise(
        mechanism="discrete-gaussian", epsilon=Fraction(1, 20), delta=Fraction(1, 10**6)
    )
    assert choose_design(DATASET, knorm(10_000)).n_frequencies <= 300
    assert choose_design(DATASET, gaussian).n_frequencies >= 500


@pytest.mark.parametrize(
    ("noise", "law"),
    [(None, WIDE), (knorm(40_000), GENERAL), (knorm(26_000), CLOSE), (knorm(10_000), NARROW)],
)
def test_the_law_is_narrower_the_stronger_the_noise(noise: Noise | None, law: object) -> None:
    assert choose_design(DATASET, noise).law == law
