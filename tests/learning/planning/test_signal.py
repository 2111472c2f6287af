import math

import numpy as np
import pytest

from benchmarks.datasets import Mixture
from benchmarks.sketches import Sketcher, Study
from sfumato.learning.planning.laws import LAW_CHOICES
from sfumato.learning.planning.signal import expect_signal_energy
from sfumato.shared.core import RadiusLaw

LAWS = [choice.law for choice in LAW_CHOICES]


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize(("d", "k"), [(2, 5), (4, 10), (10, 10), (20, 5)])
def test_the_signal_of_mixtures_is_near_what_is_expected(d: int, k: int, law: RadiusLaw) -> None:
    found = []
    for seed in (1, 2, 3):
        dataset = Mixture(n_dimensions=d, n_clusters=k, n_records=5000).load(seed)
        study = Study(n_frequencies=200, scale=1.0, law=law)
        sketch = Sketcher().pose(dataset, study, seed).problem.sketch
        found.append(np.mean(np.abs(sketch) ** 2))
    expected = expect_signal_energy(law, n_clusters=k, n_dimensions=d)
    # Centres differ from draw to draw.
    assert float(np.mean(found)) == pytest.approx(expected, rel=0.3)


@pytest.mark.parametrize("law", LAWS)
def test_more_clusters_have_less_signal_but_no_less_than_clusters_far_apart(
    law: RadiusLaw,
) -> None:
    one = expect_signal_energy(law, n_clusters=1, n_dimensions=3)
    signals = [expect_signal_energy(law, n_clusters=k, n_dimensions=3) for k in (1, 2, 5, 20, 100)]
    assert signals == sorted(signals, reverse=True)
    assert all(s >= one / k for s, k in zip(signals, (1, 2, 5, 20, 100), strict=True))


def test_a_narrow_law_has_less_signal_than_a_wide_one() -> None:
    signals = [expect_signal_energy(law, n_clusters=10, n_dimensions=10) for law in LAWS]
    assert signals == sorted(signals, reverse=True)


def test_one_cluster_under_the_gaussian_law_has_the_energy_of_a_gaussian() -> None:
    law = RadiusLaw(kind="gaussian", sigma_low=1.0, sigma_high=1.0)
    # E exp(-|omega|^2) for a standard normal omega in d dimensions.
    assert expect_signal_energy(law, n_clusters=1, n_dimensions=2) == pytest.approx(
        math.sqrt(3.0) ** -2, rel=0.05
    )
