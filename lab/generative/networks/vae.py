"""A variational autoencoder with one hidden layer on each side (Kingma and Welling 2014)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np

from sfumato.lab.generative.networks.clipping import Clipping, Factors
from sfumato.lab.generative.networks.fixed_point import (
    AHEAD,
    BACK,
    MOST_AHEAD,
    MOST_BACK,
    WEIGHT,
    cut,
    look_up_chances,
    look_up_deviations,
    look_up_variances,
    multiply_ahead,
    multiply_back,
    round_ahead,
)
from sfumato.lab.generative.wide_gaussian import WIDTH, load_table
from sfumato.shared.arrays import Floats
from sfumato.shared.privacy.samplers import RandomSource

_FIRST_CHANCE: Final = -2.0
"""Bias of a pixel at the start: chances of about one in eight, public."""


@dataclass(frozen=True, kw_only=True)
class VariationalAutoencoder:
    """Records from ``z ~ N(0, I)`` through rectified units to a chance for each column.

    The loss of a record x with values from 0 to 1 is, for one draw ``z = m + exp(s / 2) e``,

    ``-sum x log p(z) - sum (1 - x) log(1 - p(z)) + 1/2 sum (m^2 + exp(s) - s - 1)``.

    Parameters
    ----------
    n_features, n_hidden, n_latent
        d, the hidden units of each side, and the length of z.
    """

    n_features: int
    n_hidden: int
    n_latent: int
    name: ClassVar[str] = "vae"

    @property
    def shapes(self) -> tuple[tuple[int, int], ...]:
        """See :class:`Network`: encoder, its two outputs, decoder, its output."""
        d, h, z = self.n_features, self.n_hidden, self.n_latent
        return (h, d + 1), (2 * z, h + 1), (h, z + 1), (d, h + 1)

    def draw_start(self, rng: np.random.Generator) -> list[Floats]:
        """See :class:`Network`."""
        start = []
        for (rows, columns), share in zip(self.shapes, (1.0, 0.5, 1.0, 0.5), strict=True):
            weights = rng.normal(size=(rows, columns)) * (share / math.sqrt(columns - 1))
            weights[:, -1] = 0.0
            start.append(weights)
        start[-1][:, -1] = _FIRST_CHANCE
        return start

    def find_factors(
        self, weights: Sequence[Floats], records: Floats, source: RandomSource
    ) -> Factors:
        """See :class:`Network`."""
        n = len(records) * self.n_latent
        normal = load_table().draw(source, n).astype(np.float64).reshape(-1, self.n_latent)
        return self.trace(weights, records, normal)

    def trace(self, weights: Sequence[Floats], records: Floats, normal: Floats) -> Factors:
        """Return the factors for given normal variates, shape ``(n, z)``, in steps of 2^-8."""
        first, second, third, last = weights
        z = self.n_latent
        # Ahead.
        hidden = round_ahead(np.maximum(multiply_ahead(records, first), 0.0))
        outputs = round_ahead(multiply_ahead(hidden, second))
        means, logs = outputs[:, :z], outputs[:, z:]
        deviations, variances = look_up_deviations(logs), look_up_variances(logs)
        spread = deviations * normal
        latent = cut(means + spread * (AHEAD / (BACK * WIDTH)), AHEAD, MOST_AHEAD)
        rectified = round_ahead(np.maximum(multiply_ahead(latent, third), 0.0))
        chances = look_up_chances(multiply_ahead(rectified, last))
        # Back.
        last_errors = np.subtract(chances, records * (BACK // AHEAD), out=chances)
        third_errors = multiply_back(last_errors, last) * (rectified > 0.0)
        latent_errors = multiply_back(third_errors, third)
        mean_errors = latent_errors + means * (BACK // AHEAD)
        pulled = cut(latent_errors * spread * (0.5 / (BACK * WIDTH)), BACK, MOST_BACK)
        log_errors = pulled + np.rint((variances - BACK) / 2.0)
        errors = np.concatenate([mean_errors, log_errors], axis=1)
        second_errors = np.clip(errors, -MOST_BACK * BACK, MOST_BACK * BACK)
        first_errors = multiply_back(second_errors, second) * (hidden > 0.0)
        return (
            (first_errors, records),
            (second_errors, hidden),
            (third_errors, latent),
            (last_errors, rectified),
        )

    def find_opposition(
        self, weights: Sequence[Floats], clipping: Clipping, norm: float, rng: np.random.Generator
    ) -> None:
        """None: every term of the loss is a record's."""

    def draw(self, weights: Sequence[Floats], n: int, rng: np.random.Generator) -> Floats:
        """See :class:`Network`."""
        _, _, third, last = (each / WEIGHT for each in weights)
        latent = rng.standard_normal((n, self.n_latent))
        hidden = np.maximum(latent @ third[:, :-1].T + third[:, -1], 0.0)
        passed = hidden @ last[:, :-1].T + last[:, -1]
        chances: Floats = 1.0 / (1.0 + np.exp(-np.clip(passed, -40.0, 40.0)))
        return chances
