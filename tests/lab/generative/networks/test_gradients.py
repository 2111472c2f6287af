"""Gradients of the networks: against differences, against explicit ones, and each by itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from numpy.typing import NDArray

from sfumato.lab.generative.networks.clipping import (
    NORM,
    RULES,
    Clipping,
    measure_lengths,
    sum_clipped,
)
from sfumato.lab.generative.networks.fixed_point import AHEAD, BACK, WEIGHT, fix_weights
from sfumato.lab.generative.networks.rbm import BoltzmannMachine
from sfumato.lab.generative.networks.vae import VariationalAutoencoder
from sfumato.shared.errors import ConfigError
from sfumato.shared.privacy.testing import SeededSource

Floats = NDArray[np.float64]

D, H, Z, N = 12, 7, 3, 5
SEEDS = st.integers(0, 2**32 - 1)
NETWORKS: dict[str, Any] = {
    "vae": VariationalAutoencoder(n_features=D, n_hidden=H, n_latent=Z),
    "rbm": BoltzmannMachine(n_features=D, n_hidden=H),
}


def draw_weights(network: Any, rng: np.random.Generator, spread: float = 1.0) -> list[Floats]:
    return [
        fix_weights(rng.normal(size=shape) * spread / np.sqrt(shape[1])) for shape in network.shapes
    ]


def draw_records(rng: np.random.Generator, n: int = N) -> Floats:
    return np.rint(rng.random((n, D)) * AHEAD)


def compute_loss(weights: Sequence[Floats], record: Floats, normal: Floats) -> float:
    """The loss of an autoencoder in real numbers, as its docstring has it."""
    first, second, third, last = (each / WEIGHT for each in weights)
    x = record / AHEAD

    def pass_on(values: Floats, matrix: Floats) -> Floats:
        passed: Floats = matrix[:, :-1] @ values + matrix[:, -1]
        return passed

    outputs = pass_on(np.maximum(pass_on(x, first), 0.0), second)
    means, logs = outputs[:Z], outputs[Z:]
    latent = means + np.exp(logs / 2) * normal / 256
    logits = pass_on(np.maximum(pass_on(latent, third), 0.0), last)
    entropy = np.sum(np.logaddexp(0.0, logits) - x * logits)
    return float(entropy + 0.5 * np.sum(means**2 + np.exp(logs) - logs - 1.0))


def compute_free_energy(weights: Sequence[Floats], record: Floats) -> float:
    """``-log sum_h exp(-E)`` of a machine, whose gradient is the positive phase."""
    matrix = weights[0] / WEIGHT
    x = np.append(record / AHEAD, 1.0)
    return float(-(matrix[-1] @ x) - np.sum(np.logaddexp(0.0, matrix[:-1] @ x)))


def differentiate(loss: Callable[[list[Floats]], float], weights: list[Floats]) -> list[Floats]:
    """Return central differences of a loss by each weight."""
    found = []
    for layer, matrix in enumerate(weights):
        gradient = np.zeros(matrix.shape)
        for place in np.ndindex(*matrix.shape):
            ends = []
            for sign in (1.0, -1.0):
                moved = [each.copy() for each in weights]
                moved[layer][place] += sign
                ends.append(loss(moved))
            gradient[place] = (ends[0] - ends[1]) / (2.0 / WEIGHT)
        found.append(gradient)
    return found


def list_gradients(factors: Any, record: int) -> list[Floats]:
    """Return a record's gradient of each layer, explicitly, as that of the loss."""
    return [
        np.outer(back[record], np.append(ahead[record], AHEAD)) / (AHEAD * BACK)
        for back, ahead in factors
    ]


def join(parts: Sequence[Floats]) -> Floats:
    return np.concatenate([each.ravel() for each in parts])


@pytest.mark.parametrize("seed", [1, 2])
def test_gradients_of_an_autoencoder_are_differences_of_its_loss(seed: int) -> None:
    rng = np.random.default_rng(seed)
    network = NETWORKS["vae"]
    weights, records = draw_weights(network, rng), draw_records(rng)
    normal = np.rint(rng.normal(size=(N, Z)) * 256)
    factors = network.trace(weights, records, normal)
    for i in range(N):
        loss = partial(compute_loss, record=records[i], normal=normal[i])
        expected = differentiate(loss, weights)
        for found, exact in zip(list_gradients(factors, i), expected, strict=True):
            # Activations are rounded to 1/64 on the way.
            assert np.linalg.norm(found - exact) < 0.03 * np.linalg.norm(join(expected))


def test_gradients_of_a_machine_are_differences_of_its_free_energy() -> None:
    rng = np.random.default_rng(0)
    network = NETWORKS["rbm"]
    weights, records = draw_weights(network, rng, 3.0), draw_records(rng)
    factors = network.find_factors(weights, records, SeededSource(0))
    for i in range(N):
        (expected,) = differentiate(partial(compute_free_energy, record=records[i]), weights)
        (found,) = list_gradients(factors, i)
        assert np.linalg.norm(found - expected) < 0.005 * np.linalg.norm(expected)


@given(SEEDS, st.sampled_from(sorted(NETWORKS)))
def test_ghost_norms_are_those_of_explicit_gradients(seed: int, name: str) -> None:
    rng = np.random.default_rng(seed)
    network = NETWORKS[name]
    weights = draw_weights(network, rng, rng.choice([0.1, 1.0, 30.0]))
    factors = network.find_factors(weights, draw_records(rng), SeededSource(seed))
    lengths = [float(np.linalg.norm(join(list_gradients(factors, i)))) for i in range(N)]
    assert np.allclose(measure_lengths(factors), lengths, rtol=1e-12)


def clip_alone(clipping: Clipping, factors: Any, record: int, norm: float) -> list[Any]:
    alone = [(back[record : record + 1], ahead[record : record + 1]) for back, ahead in factors]
    return sum_clipped(alone, clipping.compute_scales(measure_lengths(alone), norm))


def measure_squared(sums: Sequence[NDArray[np.int64]]) -> int:
    """Return an exact squared length."""
    return sum(int(x) ** 2 for each in sums for x in each.ravel())


@given(SEEDS, st.sampled_from(sorted(NETWORKS)), st.sampled_from(RULES))
def test_no_record_adds_more_than_the_norm_and_none_depends_on_another(
    seed: int, name: str, rule: str
) -> None:
    rng = np.random.default_rng(seed)
    network, clipping = NETWORKS[name], Clipping(rule=rule, norm=2.0)
    weights = draw_weights(network, rng, rng.choice([0.01, 1.0, 1e9]))
    factors = network.find_factors(weights, draw_records(rng), SeededSource(seed))
    together = sum_clipped(factors, clipping.compute_scales(measure_lengths(factors), 2.0))
    parts = [clip_alone(clipping, factors, i, 2.0) for i in range(N)]
    assert all(measure_squared(part) <= NORM**2 for part in parts)
    for layer, found in enumerate(together):
        assert found.tolist() == sum(part[layer] for part in parts).tolist()


def test_the_bound_is_nearly_reached_so_that_half_of_it_would_not_do() -> None:
    rng = np.random.default_rng(0)
    network = NETWORKS["vae"]
    factors = network.find_factors(draw_weights(network, rng), draw_records(rng), SeededSource(0))
    for rule in RULES:
        reached = measure_squared(clip_alone(Clipping(rule=rule, norm=0.1), factors, 0, 0.1))
        assert 0.95 * NORM**2 < reached <= NORM**2


@pytest.mark.parametrize("name", sorted(NETWORKS))
def test_a_record_has_the_same_factors_in_every_batch(name: str) -> None:
    rng = np.random.default_rng(4)
    d, n = 700, 67
    network: Any = (
        VariationalAutoencoder(n_features=d, n_hidden=33, n_latent=Z)
        if name == "vae"
        else BoltzmannMachine(n_features=d, n_hidden=33)
    )
    weights = draw_weights(network, rng, 5.0)
    records = np.rint(rng.random((n, d)) * AHEAD)
    normal = np.rint(rng.normal(size=(n, Z)) * 256)

    def find(rows: slice) -> Any:
        if name == "vae":
            return network.trace(weights, records[rows], normal[rows])
        return network.find_factors(weights, records[rows], SeededSource(0))

    whole = find(slice(None))
    for rows in (slice(0, 1), slice(3, 20), slice(66, 67)):
        for together, alone in zip(whole, find(rows), strict=True):
            assert all(np.array_equal(a[rows], b) for a, b in zip(together, alone, strict=True))


def test_lengths_are_counted_in_bins_and_the_fullest_gives_the_norm() -> None:
    clipping = Clipping(rule="dpnorm", norm=10.0)
    counts = clipping.count_lengths(np.array([0.0, 0.1, 0.11, 9.95, 1e9]))
    assert counts[0] == 2
    assert counts[1] == 1
    assert counts[99] == 2
    assert clipping.choose_norm(counts * 1) == pytest.approx(0.1)


def test_gradients_that_are_not_clipped_are_found_to_be_too_long() -> None:
    # The planted mistake: every gradient has the factor that one of length 1 would have.
    rng = np.random.default_rng(0)
    network = NETWORKS["vae"]
    weights = draw_weights(network, rng, 3.0)
    factors = network.find_factors(weights, draw_records(rng), SeededSource(0))
    sums = sum_clipped(factors, np.full(N, NORM / (AHEAD * BACK)))
    assert measure_squared(sums) > (N * NORM) ** 2


@pytest.mark.parametrize("name", sorted(NETWORKS))
def test_a_batch_without_records_adds_nothing(name: str) -> None:
    network = NETWORKS[name]
    weights = draw_weights(network, np.random.default_rng(0))
    factors = network.find_factors(weights, np.zeros((0, D)), SeededSource(0))
    sums = sum_clipped(factors, Clipping().compute_scales(measure_lengths(factors), 1.0))
    assert [each.shape for each in sums] == list(network.shapes)
    assert not any(each.any() for each in sums)


@pytest.mark.parametrize(
    ("changes", "field"),
    [({"rule": "none"}, "clipping"), ({"norm": 0.0}, "clipping_norm"), ({"norm": np.nan}, None)],
)
def test_a_clipping_that_cannot_be_is_refused(changes: dict[str, Any], field: str | None) -> None:
    with pytest.raises(ConfigError) as refused:
        Clipping(**changes)
    assert refused.value.field == (field or "clipping_norm")
