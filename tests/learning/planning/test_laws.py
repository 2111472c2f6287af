import math
import tomllib

import numpy as np
import pytest
from hypothesis import given, strategies as st

from benchmarks.datasets import Mixture
from benchmarks.sketches import Sketcher, Study
from sfumato.analyst.planning.spec import format_value
from sfumato.learning.planning.laws import (
    LAW_CHOICES,
    LawChoice,
    choose_radius_law,
    describe_law,
    expect_signal_energy,
)
from sfumato.learning.planning.plans import list_law
from sfumato.shared.core import RadiusLaw
from sfumato.shared.structure import structure

LAWS = [choice.law for choice in LAW_CHOICES]
snrs = st.floats(0.0, 1e12)


def choose(snr: float) -> LawChoice:
    return choose_radius_law(lambda _: snr, features=10.0, n_clusters=10, n_dimensions=10)[0]


@given(snrs, snrs)
def test_less_noise_never_gets_a_narrower_law(one: float, other: float) -> None:
    low, high = sorted((one, other))

    def reach(snr: float) -> float:
        law = choose(snr).law
        return law.tail_high if law.tail_share else law.sigma_high

    assert reach(low) <= reach(high)


def test_the_law_is_chosen_by_its_own_signal_and_the_signal_is_told() -> None:
    # Enough for the second law with the signal of the first, but not with its own.
    least = LAW_CHOICES[1].least_snr_per_parameter
    wide, middle, narrow = (
        expect_signal_energy(choice.law, n_clusters=10, n_dimensions=10)
        for choice in LAW_CHOICES[:3]
    )
    factor = 1.01 * least / wide
    choice, signal = choose_radius_law(
        lambda z: factor * z, features=10.0, n_clusters=10, n_dimensions=10
    )
    assert factor * middle < least
    assert (choice, signal) == (LAW_CHOICES[2], narrow)


@pytest.mark.parametrize("law", [*(choice.law for choice in LAW_CHOICES), RadiusLaw()])
def test_a_law_in_a_specification_is_the_law_that_was_written(law: RadiusLaw) -> None:
    document = tomllib.loads(f"law = {format_value(list_law(law))}")["law"]
    assert structure(RadiusLaw, document, "radius_law") == law


def test_there_is_a_law_for_every_noise_from_weak_to_strong() -> None:
    limits = [choice.least_snr_per_parameter for choice in LAW_CHOICES]
    assert limits == sorted(limits, reverse=True)
    assert limits[-1] == 0.0
    for choice in LAW_CHOICES:
        assert choose(choice.least_snr_per_parameter) == choice
        assert choice.reason


@given(snrs, st.floats(2.0, 9.9))
def test_few_frequencies_have_no_tail_however_weak_the_noise(snr: float, features: float) -> None:
    choice, _ = choose_radius_law(lambda _: snr, features=features, n_clusters=5, n_dimensions=4)
    assert not choice.law.tail_share


def test_a_law_is_told_in_words() -> None:
    assert describe_law(RadiusLaw()) == "adapted, sigma from 1 w to 4 w"
    tailed = RadiusLaw(sigma_low=1.0, sigma_high=2.0, tail_share=0.5, tail_high=16.0)
    assert describe_law(tailed).endswith("2 w, for 50% of the frequencies up to 16 w instead")


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
