"""Reproducible figures: one module per claim, run as ``python -m benchmarks.NAME``.

It may import every package, none may import it, and it does not ship in the wheel.
"""

import os

# Every figure is of one thread. The libraries read these variables when they are loaded, and every
# benchmark imports this package first.
for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
