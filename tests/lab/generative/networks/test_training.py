"""A step of a training: Poisson batches, noise of the right width, and nothing else of a record.

Seeds are fixed; stated false-alarm rates are those over the choice of a seed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from sfumato.lab.generative.accounting import RATE_UNIT
from sfumato.lab.generative.networks import training
from sfumato.lab.generative.networks.clipping import (
    NORM,
    Clipping,
    measure_lengths,
    sum_clipped,
)
from sfumato.lab.generative.networks.fixed_point import AHEAD, fix_weights
from sfumato.lab.generative.networks.rbm import BoltzmannMachine
from sfumato.lab.generative.networks.training import (
    TrainingRule,
    count_weights,
    draw_batch,
    release_gradient,
    split,
    train,
)
from sfumato.lab.generative.networks.vae import VariationalAutoencoder
from sfumato.lab.generative.wide_gaussian import WideGaussian
from sfumato.shared.privacy.testing import SeededSource

D, H = 6, 3
NETWORK = BoltzmannMachine(n_features=D, n_hidden=H)
CANARY = np.full((1, D), float(AHEAD))
N_STEPS = 1500


def make_rule(**changes: Any) -> TrainingRule:
    usual: dict[str, Any] = {
        "clipping": Clipping(),
        "rate": Fraction(1, 4),
        "n_steps": 30,
        "multiplier": 1.5,
        "learning_rate": 0.02,
    }
    return TrainingRule(**(usual | changes))


def start() -> list[NDArray[np.float64]]:
    rng = np.random.default_rng(0)
    return [fix_weights(each) for each in NETWORK.draw_start(rng)]


def project_steps(rule: TrainingRule, seed: int = 3) -> NDArray[np.float64]:
    """Release many gradients of a single record; return their lengths along its gradient."""
    weights = start()
    factors = NETWORK.find_factors(weights, CANARY, SeededSource(0))
    alone = sum_clipped(factors, rule.clipping.compute_scales(measure_lengths(factors), 1.0))[0]
    direction = alone / np.linalg.norm(alone)
    source = SeededSource(seed)
    found = [
        np.sum(release_gradient(NETWORK, weights, CANARY, rule, source)[0][0] * direction)
        for _ in range(N_STEPS)
    ]
    return np.array(found)


def score(found: NDArray[np.float64], rule: TrainingRule) -> tuple[float, float]:
    """Return how far mean and variance are from those of the law that is accounted for.

    In standard deviations, for a record of the full length that is in a batch with the rate's
    chance, beside noise of the multiplier.
    """
    q, length = float(rule.rate), float(NORM)
    noise = (rule.multiplier * length) ** 2
    variance = noise + q * (1 - q) * length**2
    mean = (found.mean() - q * length) / math.sqrt(variance / len(found))
    spread = (found.var() / variance - 1.0) * math.sqrt(len(found) / 2.0)
    return float(mean), float(spread)


def test_released_gradients_follow_the_law_that_is_accounted_for() -> None:
    rule = make_rule()
    # Five standard deviations of each: false alarm 1.2e-6.
    assert np.abs(score(project_steps(rule), rule)).max() < 5


def test_a_mechanism_with_a_planted_mistake_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    rule = make_rule()

    def no_poisson(source: Any, n_records: int, rate: Fraction) -> NDArray[np.intp]:
        del source, rate
        return np.arange(n_records)

    def unclipped(self: Clipping, lengths: Any, norm: float) -> Any:
        del norm
        return np.full(len(lengths), 3.0 * NORM / (AHEAD * 4096))

    class Narrow(WideGaussian):
        @classmethod
        def of_least(cls, sigma: float) -> WideGaussian:
            return WideGaussian.of_least(sigma * 2 / 3)

    plants: list[tuple[object, str, Any]] = [
        (training, "draw_batch", no_poisson),
        (Clipping, "compute_scales", unclipped),
        (training, "WideGaussian", Narrow),
    ]
    for place, name, planted in plants:
        with monkeypatch.context() as patch:
            patch.setattr(place, name, planted)
            assert np.abs(score(project_steps(rule), rule)).max() > 5, name


def count_batches(draw: Callable[..., NDArray[np.intp]], n: int) -> tuple[float, float]:
    """Return how far mean and variance of sizes of batches are from a binomial law's."""
    rate, source = Fraction(1, 8), SeededSource(7)
    sizes = np.array([len(draw(source, n, rate)) for _ in range(2000)])
    variance = n * float(rate) * (1 - float(rate))
    mean = (sizes.mean() - n * float(rate)) / math.sqrt(variance / len(sizes))
    return float(mean), float((sizes.var() / variance - 1.0) * math.sqrt(len(sizes) / 2.0))


def test_sizes_of_batches_are_binomial_and_a_fixed_size_is_found() -> None:
    # Five standard deviations of each: false alarm 1.2e-6.
    assert np.abs(count_batches(draw_batch, 200)).max() < 5

    def fixed(source: SeededSource, n: int, rate: Fraction) -> NDArray[np.intp]:
        order = np.argsort(np.frombuffer(source.draw_bytes(4 * n), dtype="<u4"))
        return order[: int(n * rate)]

    assert np.abs(count_batches(fixed, 200)).max() > 5


def test_every_record_joins_a_batch_with_exactly_the_public_chance() -> None:
    class Words:
        def draw_bytes(self, count: int) -> bytes:
            values = [limit - 1, limit, 0, (1 << 32) - 1]
            return np.array(values, dtype="<u4").tobytes()[:count]

    limit = 123_456_789
    assert draw_batch(Words(), 4, Fraction(limit, RATE_UNIT)).tolist() == [0, 2]
    assert draw_batch(Words(), 4, Fraction(1)).tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("rule", ["auto", "fixed", "dpnorm"])
def test_noise_of_a_step_is_worth_the_multiplier_that_is_accounted_for(rule: str) -> None:
    made = make_rule(clipping=Clipping(rule=rule), multiplier=1.7)
    # Discrete noise counts as continuous noise with a variance smaller by four.
    strength = NORM**2 / (made.gradient_noise.variance - 4)
    if rule == "dpnorm":
        # A record is in one of the counted bins, by 2^12.
        strength += (1 << 12) ** 2 / (made.count_noise.variance - 4)
    assert 0.95 / 1.7**2 < strength <= 1 / 1.7**2


def test_a_norm_that_is_found_is_that_of_the_records_and_noise_hides_one() -> None:
    rule = make_rule(clipping=Clipping(rule="dpnorm", norm=10.0), rate=Fraction(1))
    weights = start()
    many, few = np.repeat(CANARY, 500, axis=0), CANARY
    length = float(measure_lengths(NETWORK.find_factors(weights, CANARY, SeededSource(0)))[0])
    _, norm = release_gradient(NETWORK, weights, many, rule, SeededSource(1))
    assert norm - 0.1 < length <= norm
    norms = {release_gradient(NETWORK, weights, few, rule, SeededSource(i))[1] for i in range(20)}
    assert len(norms) > 5


class Fixed:
    """A generator whose draws are the same for both of two trainings, and how many there were."""

    def __init__(self) -> None:
        self._source = SeededSource(5)
        self.counts: list[int] = []

    def draw_bytes(self, count: int) -> bytes:
        self.counts.append(count)
        return self._source.draw_bytes(count)


def test_steps_and_noise_are_the_same_whatever_the_records() -> None:
    rule, asked = make_rule(), []
    for records in (np.zeros((0, D)), np.repeat(CANARY, 50, axis=0)):
        source = Fixed()
        network = BoltzmannMachine(n_features=D, n_hidden=H)
        train(network, records, rule, size=50.0, source=source, rng=np.random.default_rng(0))
        # Words of a batch are asked for all records at once; the rest is noise.
        asked.append([count for count in source.counts if count != 4 * len(records)])
        assert len(source.counts) >= 2 * rule.n_steps
    # A few more bytes where two of them did not decide.
    noise = [[count for count in counts if count % 6] for counts in asked]
    assert noise[0][: rule.n_steps] == noise[1][: rule.n_steps]


def draw_patterns(n: int) -> NDArray[np.float64]:
    rng = np.random.default_rng(1)
    patterns = np.array([[1, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 1]])
    return patterns[rng.integers(0, 2, size=n)].astype(np.float64)


@pytest.mark.parametrize("name", ["vae", "rbm"])
def test_a_trained_network_draws_what_the_records_have_in_common(name: str) -> None:
    network: Any = (
        VariationalAutoencoder(n_features=D, n_hidden=12, n_latent=2)
        if name == "vae"
        else BoltzmannMachine(n_features=D, n_hidden=8)
    )
    records = draw_patterns(4000)
    rule = make_rule(multiplier=1.0, n_steps=400, learning_rate=0.02, rate=Fraction(1, 8))
    weights = train(
        network,
        records * AHEAD,
        rule,
        size=4000.0,
        source=SeededSource(2),
        rng=np.random.default_rng(0),
    )
    numbers = np.concatenate([each.ravel() for each in weights])
    assert len(numbers) == count_weights(network)
    rng = np.random.default_rng(1)
    chances = network.draw(split(numbers, network), 2000, rng)
    drawn = (rng.random(chances.shape) < chances).astype(float)
    found, real = np.corrcoef(drawn.T), np.corrcoef(records.T)
    # Codes need not be divided evenly between the patterns.
    assert np.abs(drawn.mean(axis=0) - 0.5).max() < 0.4
    # Columns that agree in the records agree in what is drawn, and the others do not.
    assert (found[real > 0.5] > 0.4).all()
    assert (found[real < -0.5] < -0.4).all()


def test_weights_are_split_in_the_order_of_their_layers() -> None:
    network = VariationalAutoencoder(n_features=2, n_hidden=3, n_latent=1)
    numbers = np.arange(count_weights(network), dtype=np.int64)
    parts: Sequence[Any] = split(numbers, network)
    assert [part.shape for part in parts] == list(network.shapes)
    assert np.concatenate([part.ravel() for part in parts]).tolist() == numbers.tolist()
