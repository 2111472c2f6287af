"""Factors of error bars; see :mod:`sfumato.learning.decoding.bars`.

Written by ``python -m benchmarks.bars --fit FILE``: fitted to 129 decodes that were
found sound or rough, of 162 of 81 shapes, under noise from none to
n epsilon = 5,000. No bar is judged on these shapes. A row is, of a kind of answer: the factors of
the posterior's spread where densities explain the sketch and where they miss it, and that of the
error of sampling. Correlations were added later, fitted to 131 decodes of the same shapes; their
last factor is of what half of the plan's scale blurs.
"""

from collections.abc import Mapping
from typing import Final

ROWS: Final[Mapping[str, tuple[float, float, float]]] = {
    "centroid": (1.213, 2.003, 0.000),
    "correlation": (1.368, 1.454, 1.000),
    "mean": (0.814, 2.469, 0.891),
    "quantile": (1.049, 4.716, 0.504),
    "share": (1.139, 3.514, 0.974),
    "weight": (1.304, 1.803, 0.000),
}
