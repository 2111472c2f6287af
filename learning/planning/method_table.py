"""Relative SSE of private methods; see :mod:`learning.planning.methods`.

Written by ``python -m benchmarks.choosing ROWS --write FILE``. A row is: whether the spread inside
a cluster is known; d; n epsilon / k under replace-one; and the median SSE over that of k-means, by
column, 0 where a method has no answer. A delta is 1e-6.
"""

from typing import Final

COLUMNS: Final = (
    "candidates",
    "compressive",
    "compressive with delta",
    "cover",
    "grid",
    "lloyd",
    "tree",
)
# fmt: off
ROWS: Final[tuple[tuple[bool, int, float, tuple[float, ...]], ...]] = (
    (True, 2, 1000.0, (1.03, 1.06, 1.06, 1.2, 1.03, 2.39, 1.27)),
    (True, 2, 32000.0, (1, 1, 1, 1, 1, 1.02, 1.25)),
    (True, 3, 1000.0, (1.08, 1.16, 1.01, 1.48, 1.05, 2.7, 1.49)),
    (True, 6, 1000.0, (1.25, 1.15, 1.02, 1.51, 1.51, 1.45, 1.4)),
    (True, 6, 3200.0, (1.01, 1.01, 1.01, 1.28, 1.16, 1.18, 1.18)),
    (True, 10, 10000.0, (1.01, 1, 1, 1.04, 1.18, 1, 1)),
    (True, 10, 320000.0, (1, 1, 1, 1, 1.18, 1, 1)),
    (True, 20, 100000.0, (1.33, 1, 1, 1.32, 0, 1.15, 1)),
)
