"""Private training of one network: clipped gradients of Poisson batches, with exact noise.

Steps, batch rate, clipping, noise and learning rate are public and fixed before a record is read.
Nothing stops early, and no number of records is used but a noisy one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sfumato.lab.generative.accounting import RATE_UNIT
from sfumato.lab.generative.networks.clipping import (
    N_BINS,
    NORM,
    Clipping,
    Factors,
    measure_lengths,
    sum_clipped,
)
from sfumato.lab.generative.networks.fixed_point import MOST_WEIGHT, WEIGHT, fix_weights
from sfumato.lab.generative.networks.network import Network
from sfumato.lab.generative.wide_gaussian import WideGaussian
from sfumato.shared.arrays import Floats, Integers
from sfumato.shared.privacy.samplers import RandomSource

SHARE_OF_NORM: Final = 0.1
"""The share of a step's squared mu that finding a norm gets, where a norm is found."""
_BLOCK: Final = 256
_COUNT: Final = 1 << 12
"""One record, in counts of lengths: so that whole noise is fine enough."""
_ROUNDING_VARIANCE: Final = 4
"""Discrete noise counts as continuous noise of a variance smaller by this (section 4)."""
_FIRST_DECAY, _SECOND_DECAY, _NEAR_ZERO = 0.9, 0.999, 1e-8
_KEPT: Final = 0.95
"""How much of the running mean of the weights a step keeps; noise of single steps evens out."""


@dataclass(frozen=True, kw_only=True)
class TrainingRule:
    """All that is public of a training.

    Parameters
    ----------
    clipping
        How gradients are clipped.
    rate
        The chance of a record to be in a batch, a multiple of 2^-32.
    n_steps
        T.
    multiplier
        Standard deviation of a step's noise over the length of a gradient; with a norm to be found,
        of both its releases together.
    learning_rate
        Of Adam.
    """

    clipping: Clipping
    rate: Fraction
    n_steps: int
    multiplier: float
    learning_rate: float

    @property
    def gradient_noise(self) -> WideGaussian:
        """Noise of each number of a gradient, in steps."""
        share = 1.0 - SHARE_OF_NORM if self.clipping.finds_norm else 1.0
        return make_noise(NORM, self.multiplier / math.sqrt(share))

    @property
    def count_noise(self) -> WideGaussian:
        """Noise of each count of lengths."""
        return make_noise(_COUNT, self.multiplier / math.sqrt(SHARE_OF_NORM))


def make_noise(distance: float, multiplier: float) -> WideGaussian:
    """Return noise that hides a distance as continuous noise of ``multiplier`` times it does."""
    return WideGaussian.of_least(math.sqrt((multiplier * distance) ** 2 + _ROUNDING_VARIANCE))


def draw_batch(source: RandomSource, n_records: int, rate: Fraction) -> NDArray[np.intp]:
    """Draw which records are in a batch, each with exactly the chance ``rate``."""
    words = np.frombuffer(source.draw_bytes(4 * n_records), dtype="<u4")
    return np.flatnonzero(words < int(rate * RATE_UNIT))


def release_gradient(
    network: Network,
    weights: Sequence[Floats],
    records: Floats,
    rule: TrainingRule,
    source: RandomSource,
) -> tuple[list[Integers], float]:
    """Release the sum of clipped gradients of a new batch, and the norm that they were clipped to.

    All that leaves a step of a training. The norm is a public one, or found with noise.

    Parameters
    ----------
    weights
        Whole steps.
    records
        Shape ``(n, d)``, whole steps from 0 to 64: all of a part.

    Returns
    -------
    sums, norm
        A noisy matrix for each layer, in steps of which ``NORM`` make the longest gradient; and the
        length of a gradient of the loss.
    """
    batch = records[draw_batch(source, len(records), rule.rate)]
    clipping, norm = rule.clipping, rule.clipping.norm
    blocks = _find_blocks(network, weights, batch, source)
    if clipping.finds_norm:
        kept = list(blocks)
        lengths = np.concatenate([measure_lengths(factors) for factors in kept] or [np.zeros(0)])
        counts = _COUNT * clipping.count_lengths(lengths)
        norm = clipping.choose_norm(counts + rule.count_noise.draw(source, N_BINS))
        blocks = iter(kept)
    sums = [np.zeros(shape, dtype=np.int64) for shape in network.shapes]
    for factors in blocks:
        scales = clipping.compute_scales(measure_lengths(factors), norm)
        sums = [a + b for a, b in zip(sums, sum_clipped(factors, scales), strict=True)]
    noise = rule.gradient_noise
    return [each + noise.draw(source, each.size).reshape(each.shape) for each in sums], norm


def _find_blocks(
    network: Network, weights: Sequence[Floats], batch: Floats, source: RandomSource
) -> Iterator[Factors]:
    """Find factors in blocks that fit a cache; sums are exact, so these do not show in them."""
    for start in range(0, len(batch), _BLOCK):
        yield network.find_factors(weights, batch[start : start + _BLOCK], source)


def train(
    network: Network,
    records: Floats,
    rule: TrainingRule,
    *,
    size: float,
    source: RandomSource,
    rng: np.random.Generator,
) -> list[Integers]:
    """Train a network on the records of one part; return its weights in steps of 2^-16.

    Parameters
    ----------
    records
        Shape ``(n, d)``, whole steps from 0 to 64.
    size
        A released number of records, above 0.
    source
        Source of batches and noise.
    rng
        Generator of all that no record has a part in.
    """
    trainer = _Trainer(network.draw_start(rng), rule)
    expected = float(rule.rate) * size * NORM
    for step in range(rule.n_steps):
        weights = [fix_weights(each) for each in trainer.weights]
        sums, norm = release_gradient(network, weights, records, rule, source)
        # From here on everything follows from what is released.
        gradients = [each / expected for each in sums]
        opposed = network.find_opposition(weights, rule.clipping, norm, rng)
        if opposed is not None:
            gradients = [a + b for a, b in zip(gradients, opposed, strict=True)]
        trainer.move(gradients, step)
    return [fix_weights(each).astype(np.int64) for each in trainer.kept]


class _Trainer:
    """Adam (Kingma and Ba 2015), with a running mean of its weights."""

    def __init__(self, weights: list[Floats], rule: TrainingRule) -> None:
        self.weights = weights
        self._rule = rule
        self._first = [np.zeros_like(each) for each in weights]
        self._second = [np.zeros_like(each) for each in weights]

        self.kept = [each.copy() for each in weights]

    def move(self, gradients: Sequence[Floats], step: int) -> None:
        rate = self._rule.learning_rate
        first_share = 1.0 - _FIRST_DECAY ** (step + 1)
        second_share = 1.0 - _SECOND_DECAY ** (step + 1)
        layers = zip(self.weights, gradients, self._first, self._second, strict=True)
        for weights, gradient, first, second in layers:
            np.add(first, (1.0 - _FIRST_DECAY) * (gradient - first), out=first)
            np.add(second, (1.0 - _SECOND_DECAY) * (gradient * gradient - second), out=second)
            moved = first / (np.sqrt(second / second_share) + _NEAR_ZERO)
            np.subtract(weights, (rate / first_share) * moved, out=weights)
            np.clip(weights, -MOST_WEIGHT, MOST_WEIGHT, out=weights)
        # Young weights are forgotten faster.
        share = min(_KEPT, (step + 1) / (step + 11))
        for mean, newest in zip(self.kept, self.weights, strict=True):
            np.add(share * mean, (1.0 - share) * newest, out=mean)


def split(numbers: Integers, network: Network) -> list[Floats]:
    """Return the weights of a network from their numbers in a row."""
    found, start = [], 0
    for rows, columns in network.shapes:
        size = rows * columns
        found.append(numbers[start : start + size].reshape(rows, columns).astype(np.float64))
        start += size
    return found


def count_weights(network: Network) -> int:
    """Count the weights of a network."""
    return sum(rows * columns for rows, columns in network.shapes)


assert WEIGHT * MOST_WEIGHT < 2**31
