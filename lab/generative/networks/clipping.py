"""Ghost norms: clip every record's gradient without ever holding it.

In a layer the gradient of a record is the product of a column and a row: the error that goes
backwards times the activation that went ahead. Its squared length is the product of their squared
lengths, and the sum over a batch is one product of matrices. Both hold for whole numbers, so that
clipping is exact without a gradient of each record.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from sfumato.lab.generative.networks.fixed_point import AHEAD, BACK
from sfumato.shared.arrays import Floats, Integers
from sfumato.shared.errors import ConfigError

Factors = Sequence[tuple[Floats, Floats]]
"""Errors ``(n, out)`` and activations ``(n, in)`` of each layer, in steps.

Biases are weights of an activation of one, which is not among them.
"""

NORM: Final = 1 << 20
"""The length that no clipped gradient exceeds, in steps."""
RULES: Final = ("auto", "fixed", "dpnorm")
N_BINS: Final = 100
_UNIT: Final = AHEAD * BACK
_NEAR: Final = 0.01
"""Added to a length before it is divided by, so that a gradient near zero stays there."""
_SAFETY: Final = 1.0 - 2.0**-30
"""More than a few roundings of doubles can err; sums of whole numbers do not err."""


@dataclass(frozen=True, kw_only=True)
class Clipping:
    """How long a record's gradient may be, and how it is shortened.

    Parameters
    ----------
    rule
        ``auto`` gives all gradients nearly the same length, ``fixed`` shortens those above
        ``norm``, and ``dpnorm`` finds a norm in every step, up to ``norm``, with noise.
    norm
        Length of a gradient of the network's loss; not used by ``auto``.

    Raises
    ------
    ConfigError
        The rule is unknown, or the norm is not positive.
    """

    rule: str = "auto"
    norm: float = 10.0

    def __post_init__(self) -> None:
        if self.rule not in RULES:
            raise ConfigError(
                f"must be one of {', '.join(RULES)}",
                field="clipping",
                fix="use auto, which needs no norm",
            )
        if not 0.0 < self.norm < np.inf:
            raise ConfigError(
                "must be a positive number",
                field="clipping_norm",
                fix="use the usual length of a gradient, or clipping=auto",
            )

    @property
    def finds_norm(self) -> bool:
        """Whether every step asks for a norm first."""
        return self.rule == "dpnorm"

    @property
    def edges(self) -> Floats:
        """Upper ends of the bins that ``dpnorm`` counts lengths in: shape ``(100,)``."""
        edges: Floats = np.linspace(0.0, self.norm, N_BINS + 1)[1:]
        return edges

    def count_lengths(self, lengths: Floats) -> Integers:
        """Count gradients by their length: shape ``(100,)``; each in one bin, the last if longer.

        Parameters
        ----------
        lengths
            Shape ``(n,)``, of gradients of the loss.
        """
        bins = np.minimum(np.searchsorted(self.edges, lengths), N_BINS - 1)
        return np.bincount(bins, minlength=N_BINS).astype(np.int64)

    def choose_norm(self, counts: Integers) -> float:
        """Return the norm of the fullest bin, from noisy counts."""
        return float(self.edges[int(np.argmax(counts))])

    def compute_scales(self, lengths: Floats, norm: float) -> Floats:
        """Return factors for errors, so that no gradient is longer than ``NORM`` steps: ``(n,)``.

        Parameters
        ----------
        lengths
            Shape ``(n,)``, of gradients of the loss.
        norm
            Norm of this step; ``auto`` does not use it.
        """
        most = _SAFETY * NORM / _UNIT
        if self.rule == "auto":
            return most / (lengths + _NEAR)
        return most / np.maximum(lengths, norm)


def measure_lengths(factors: Factors) -> Floats:
    """Return the length of each record's gradient of the loss: shape ``(n,)``.

    ``|g|^2 = sum over layers of |error|^2 (|activation|^2 + 1)``.
    """
    squared = np.zeros(len(factors[0][0]))
    for errors, activations in factors:
        # Sums of whole numbers below 2^53 are exact, in whatever order they are added.
        squared += _sum_squares(errors) * (_sum_squares(activations) + AHEAD**2)
    lengths: Floats = np.sqrt(squared) / _UNIT
    return lengths


def _sum_squares(values: Floats) -> Floats:
    found: Floats = np.einsum("ij,ij->i", values, values)
    return found


def sum_clipped(factors: Factors, scales: Floats) -> list[Integers]:
    """Return the sum of clipped gradients, ``(out, in + 1)`` for each layer, biases last: exact.

    Errors are scaled and rounded towards zero, so that no record's gradient grows.
    """
    sums = []
    for errors, activations in factors:
        scaled = errors * scales[:, None]
        np.trunc(scaled, out=scaled)
        found = np.empty((errors.shape[1], activations.shape[1] + 1), dtype=np.int64)
        found[:, :-1] = scaled.T @ activations
        found[:, -1] = AHEAD * scaled.sum(axis=0)
        sums.append(found)
    return sums
