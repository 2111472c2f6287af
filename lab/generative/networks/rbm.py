"""A restricted Boltzmann machine, trained by persistent contrastive divergence (Tieleman 2008).

The chains start from public noise and follow the weights, so that what they add to a gradient is
post-processing: of a record there is the positive phase alone, ``h v'`` with the chances h of the
hidden units. Chains are clipped as records are, so that both phases still agree where the machine
draws what the records are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np

from sfumato.lab.generative.networks.clipping import (
    NORM,
    Clipping,
    Factors,
    measure_lengths,
    sum_clipped,
)
from sfumato.lab.generative.networks.fixed_point import (
    AHEAD,
    BACK,
    WEIGHT,
    look_up_chances,
    multiply_ahead,
)
from sfumato.shared.arrays import Floats
from sfumato.shared.privacy.samplers import RandomSource

_SPREAD: Final = 0.01
_N_CHAINS: Final = 100
_STEPS_OF_DRAWING: Final = 200


@dataclass(kw_only=True)
class BoltzmannMachine:
    """Records v with ``P(v, h) ~ exp(b'v + c'h + h'W v)``, their values 0 or 1.

    Parameters
    ----------
    n_features, n_hidden
        Lengths of v and h.
    n_steps
        Steps of the chains for each step of the training.
    """

    n_features: int
    n_hidden: int
    n_steps: int = 1
    name: ClassVar[str] = "rbm"
    _chains: Floats | None = None

    @property
    def shapes(self) -> tuple[tuple[int, int], ...]:
        """See :class:`Network`: one matrix, with visible biases in its last row."""
        return ((self.n_hidden + 1, self.n_features + 1),)

    def draw_start(self, rng: np.random.Generator) -> list[Floats]:
        """See :class:`Network`; the chains start anew, too."""
        self._chains = (rng.random((_N_CHAINS, self.n_features)) < 0.5).astype(np.float64)
        weights = rng.normal(size=self.shapes[0]) * _SPREAD
        weights[-1], weights[:, -1] = 0.0, 0.0
        return [weights]

    def find_factors(
        self, weights: Sequence[Floats], records: Floats, source: RandomSource
    ) -> Factors:
        """See :class:`Network`; nothing is random, for h stands by its chances."""
        del source
        (matrix,) = weights
        chances = look_up_chances(multiply_ahead(records, matrix[:-1]))
        one = np.full((len(records), 1), float(BACK))
        # Downhill is towards the record.
        return ((-np.concatenate([chances, one], axis=1), records),)

    def find_opposition(
        self, weights: Sequence[Floats], clipping: Clipping, norm: float, rng: np.random.Generator
    ) -> list[Floats]:
        """See :class:`Network`: the negative phase, from the chains."""
        assert self._chains is not None
        for _ in range(self.n_steps):
            self._chains = self._step(weights[0] / WEIGHT, self._chains, rng)
        factors = self.find_factors(weights, self._chains * AHEAD, _NoSource())
        scales = clipping.compute_scales(measure_lengths(factors), norm)
        # Rounded as those of records are, so that the two phases agree in this, too.
        return [-each / (NORM * len(self._chains)) for each in sum_clipped(factors, scales)]

    def draw(self, weights: Sequence[Floats], n: int, rng: np.random.Generator) -> Floats:
        """See :class:`Network`: by chains of 200 steps from noise."""
        matrix = weights[0] / WEIGHT
        values = (rng.random((n, self.n_features)) < 0.5).astype(np.float64)
        for _ in range(_STEPS_OF_DRAWING - 1):
            values = self._step(matrix, values, rng)
        return self._find_chances(matrix, values, rng)

    def _step(self, matrix: Floats, values: Floats, rng: np.random.Generator) -> Floats:
        chances = self._find_chances(matrix, values, rng)
        return (rng.random(chances.shape) < chances).astype(np.float64)

    def _find_chances(self, matrix: Floats, values: Floats, rng: np.random.Generator) -> Floats:
        chances = _squash(values @ matrix[:-1, :-1].T + matrix[:-1, -1])
        hidden = (rng.random(chances.shape) < chances).astype(np.float64)
        return _squash(hidden @ matrix[:-1, :-1] + matrix[-1, :-1])


class _NoSource:
    def draw_bytes(self, count: int) -> bytes:
        raise AssertionError(f"{count} bytes of randomness are not needed")


def _squash(x: Floats) -> Floats:
    squashed: Floats = 1.0 / (1.0 + np.exp(-np.clip(x, -40.0, 40.0)))
    return squashed
