"""What exact noise costs: milliseconds and random bytes for the noise of one sketch.

Run as ``python -m benchmarks.noise [--quick] [--json]``. One thread, thread CPU time.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from benchmarks.rows import Row, measure_cpu_seconds, run_benchmark
from shared.core import feature_table
from shared.entropy import SystemSource
from shared.privacy import DiscreteLaplace, compute_sensitivity

NAME = "noise"
AMPLITUDE = 16380


class CountingSource(SystemSource):
    """The operating system's generator, counting what is drawn from it."""

    def __init__(self) -> None:
        self.drawn = 0

    def draw_bytes(self, count: int) -> bytes:
        """Return ``count`` bytes and count them."""
        self.drawn += count
        return super().draw_bytes(count)


def calibrate_laplace(m: int, epsilon: Fraction) -> DiscreteLaplace:
    """Return the seed paper's mechanism for m frequencies under replace-one."""
    sensitivity = compute_sensitivity(
        feature_table(), measurements_per_record=m, neighbouring="replace-one"
    )
    return DiscreteLaplace.calibrate(
        sensitivity_l1=sensitivity.l1, epsilon=epsilon, neighbouring="replace-one"
    )


def measure(quick: bool) -> Iterator[Row]:
    """Yield time, measured variance and random bytes for each size."""
    runs = 5 if quick else 25
    for m in (200, 1000, 20_000):
        sums = np.zeros(2 * m, dtype=np.int64)
        for epsilon in (Fraction(1, 10), Fraction(1), Fraction(10)):
            mechanism = calibrate_laplace(m, epsilon)
            source = CountingSource()
            case = f"laplace m={m} epsilon={float(epsilon):g}"
            drawn: list[np.ndarray] = []

            def draw(
                mechanism: DiscreteLaplace = mechanism,
                source: CountingSource = source,
                sums: np.ndarray = sums,
                drawn: list[np.ndarray] = drawn,
            ) -> None:
                drawn.append(mechanism.add_noise(sums, source))

            seconds = measure_cpu_seconds(draw, runs)
            formula = 16 * (m * AMPLITUDE / float(epsilon)) ** 2
            variance = float(np.mean(np.concatenate(drawn).astype(np.float64) ** 2))
            yield _row(case, "ms_per_draw", seconds * 1e3, "ms", runs, "none")
            yield _row(
                case, "relative_variance", variance / formula, "1", runs, "16 m^2 A^2 / epsilon^2"
            )
            yield _row(case, "random_bytes", source.drawn / len(drawn), "B", runs, "none")


def _row(case: str, figure: str, value: float, unit: str, runs: int, baseline: str) -> Row:
    return Row(
        benchmark=NAME,
        case=case,
        figure=figure,
        value=value,
        unit=unit,
        runs=runs,
        baseline=baseline,
    )


if __name__ == "__main__":
    run_benchmark(NAME, __doc__.splitlines()[0], measure)
