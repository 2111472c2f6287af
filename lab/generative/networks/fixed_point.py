"""Numbers of the networks as integers, so that what a record adds depends on no other record.

Every value that is computed from a record is a whole number, held in double precision and below
2^53. Sums and products of matrices are then exact in any order, so a batch gives each record the
very factors that it has alone. Activations count in steps of 2^-6, errors in steps of 2^-12,
weights in steps of 2^-16, and what is no sum or product is looked up in a table.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sfumato.shared.arrays import Floats

AHEAD: Final = 1 << 6
"""One, as an activation."""
BACK: Final = 1 << 12
"""One, as an error that goes backwards."""
WEIGHT: Final = 1 << 16
"""One, as a weight."""
MOST_WEIGHT: Final = 16.0
MOST_AHEAD: Final = 64.0
MOST_BACK: Final = 64.0
MOST_FEATURES: Final = 1 << 12
"""Columns and hidden units: ``2^12 * (64 * 2^12) * (16 * 2^16) = 2^50``."""
_LOGIT_STEPS, _MOST_LOGIT = 1 << 7, 16
_LOG_STEPS = AHEAD
_LEAST_LOG, _MOST_LOG = -8, 4


def fix_weights(weights: Floats) -> Floats:
    """Return weights as whole steps of 2^-16, cut to -16 .. 16."""
    fixed: Floats = np.rint(np.clip(weights, -MOST_WEIGHT, MOST_WEIGHT) * WEIGHT)
    return fixed


def multiply_ahead(activations: Floats, weights: Floats) -> Floats:
    """Return what a layer passes on, in steps of ``2^-22``: ``(n, in)`` by ``(out, in + 1)``."""
    found: Floats = activations @ weights[:, :-1].T
    found += AHEAD * weights[:, -1]
    return found


def multiply_back(errors: Floats, weights: Floats) -> Floats:
    """Return the errors of a layer's input, rounded to steps of 2^-12 and cut to 64."""
    found: Floats = errors @ weights[:, :-1]
    found *= 1.0 / WEIGHT
    return cut(found, BACK, MOST_BACK)


def round_ahead(passed: Floats) -> Floats:
    """Return what was passed on, rounded to steps of 2^-6 and cut to 64."""
    return cut(passed * (1.0 / WEIGHT), AHEAD, MOST_AHEAD)


def cut(values: Floats, one: int, most: float) -> Floats:
    """Return values in whole steps, cut to ``-most .. most``; changes them in place."""
    np.rint(values, out=values)
    return np.clip(values, -most * one, most * one, out=values)


def look_up_chances(passed: Floats) -> Floats:
    """Return ``1 / (1 + exp(-x))`` of what was passed on, in steps of 2^-12."""
    table = _chances()
    places = passed * (_LOGIT_STEPS / (AHEAD * WEIGHT))
    places += _LOGIT_STEPS * _MOST_LOGIT
    found: Floats = table[_find_places(places, len(table))]
    return found


def look_up_deviations(logs: Floats) -> Floats:
    """Return ``exp(x / 2)`` in steps of 2^-12, for x in steps of 2^-6."""
    table = _deviations()
    return table[_find_places(logs - _LEAST_LOG * _LOG_STEPS, len(table))]


def look_up_variances(logs: Floats) -> Floats:
    """Return ``exp(x)`` in steps of 2^-12, for x in steps of 2^-6."""
    table = _variances()
    return table[_find_places(logs - _LEAST_LOG * _LOG_STEPS, len(table))]


def _find_places(places: Floats, n: int) -> NDArray[np.int32]:
    np.clip(places, 0, n - 1, out=places)
    return places.astype(np.int32)


@cache
def _chances() -> Floats:
    places = np.arange(2 * _MOST_LOGIT * _LOGIT_STEPS) + 0.5
    return _tabulate(lambda x: 1.0 / (1.0 + np.exp(-x)), places / _LOGIT_STEPS - _MOST_LOGIT)


@cache
def _deviations() -> Floats:
    places = np.arange((_MOST_LOG - _LEAST_LOG) * _LOG_STEPS + 1)
    return _tabulate(lambda x: np.exp(x / 2.0), places / _LOG_STEPS + _LEAST_LOG)


@cache
def _variances() -> Floats:
    places = np.arange((_MOST_LOG - _LEAST_LOG) * _LOG_STEPS + 1)
    return _tabulate(np.exp, places / _LOG_STEPS + _LEAST_LOG)


def _tabulate(function: Callable[[Floats], Floats], places: Floats) -> Floats:
    table: Floats = np.rint(function(places) * BACK)
    table.setflags(write=False)
    return table
