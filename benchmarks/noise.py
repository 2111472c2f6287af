"""Cost of exact noise: time, random bytes and variance of each mechanism for one sketch.

Run as ``python -m benchmarks.noise [--quick] [--json]``. One thread, thread CPU time. Cases are
named by mechanism, number of frequencies and epsilon, under replace-one; the Gaussian also has
delta 1e-6. Variances of the other mechanisms are relative to discrete Laplace noise at the same
epsilon, both measured in this run; the standard error is a separate figure.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

import numpy as np
from numpy.typing import NDArray

from benchmarks.rows import Row, measure_cpu_seconds, run_benchmark
from sfumato.shared.core import AMPLITUDE
from sfumato.shared.privacy import FourierShape, Mechanism, PrivacyTarget, calibrate_mechanism
from sfumato.shared.system import SystemSource

NAME = "noise"
_row = partial(Row, NAME)
MECHANISMS = {
    "laplace": ("discrete-laplace", Fraction(0)),
    "knorm": ("discrete-knorm", Fraction(0)),
    "gaussian": ("discrete-gaussian", Fraction(1, 10**6)),
}
EPSILONS = (Fraction(1, 10), Fraction(1), Fraction(10))


class CountingSource(SystemSource):
    """The operating system's generator, with a count of the bytes drawn."""

    def __init__(self) -> None:
        self.drawn = 0

    def draw_bytes(self, count: int) -> bytes:
        """Return ``count`` bytes and count them."""
        self.drawn += count
        return super().draw_bytes(count)


@dataclass(frozen=True, kw_only=True)
class Draws:
    """Statistics of some draws of one mechanism.

    Parameters
    ----------
    seconds
        Median thread CPU time of one draw.
    random_bytes
        Mean of one draw.
    energies
        Shape ``(n_draws,)``: mean square of each noise vector. Coordinates may share a radius, so
        only the draws are independent.
    """

    seconds: float
    random_bytes: float
    energies: NDArray[np.float64]

    @property
    def variance(self) -> float:
        """Variance of one real coordinate."""
        return float(self.energies.mean())

    @property
    def relative_error(self) -> float:
        """Standard error of the variance, relative to the variance."""
        return float(self.energies.std(ddof=1)) / math.sqrt(self.energies.size) / self.variance


def calibrate(name: str, m: int, epsilon: Fraction) -> Mechanism:
    """Return a mechanism for m frequencies, all used, under replace-one."""
    mechanism, delta = MECHANISMS[name]
    return calibrate_mechanism(
        PrivacyTarget(
            mechanism=mechanism,
            shape=FourierShape(n_frequencies=m, measurements_per_record=m),
            epsilon=epsilon,
            delta=delta,
            neighbouring="replace-one",
        )
    )


def draw_repeatedly(mechanism: Mechanism, m: int, runs: int) -> Draws:
    """Draw the noise of ``runs`` sketches, after one untimed draw."""
    source, sums = CountingSource(), np.zeros(2 * m, dtype=np.int64)
    energies: list[float] = []

    def draw() -> None:
        noise = mechanism.add_noise(sums, source)
        energies.append(float(np.mean(np.square(noise.astype(np.float64)))))

    seconds = measure_cpu_seconds(draw, runs)
    return Draws(
        seconds=seconds,
        random_bytes=source.drawn / len(energies),
        energies=np.array(energies),
    )


def measure(quick: bool) -> Iterator[Row]:
    """Yield time, random bytes and variance for each mechanism, size and epsilon."""
    # The relative error of a ratio is at most about 3 / sqrt(coordinates drawn): Laplace noise adds
    # 5 to its square, the shared radius of K-norm noise 4, the Gaussian 2. So 0.5 %, or 0.3 %.
    coordinates = 360_000 if quick else 1_000_000
    for m in (200, 1000, 20_000):
        runs = max(5 if quick else 25, math.ceil(coordinates / (2 * m)))
        for epsilon in EPSILONS:
            laplace: Draws | None = None
            for name in MECHANISMS:
                draws = draw_repeatedly(calibrate(name, m, epsilon), m, runs)
                case = f"{name} m={m} epsilon={float(epsilon):g}"
                yield _row(case, "ms_per_draw", draws.seconds * 1e3, "ms", runs, "none")
                yield _row(case, "random_bytes", draws.random_bytes, "B", runs, "none")
                if laplace is None:
                    laplace = draws
                    against, error = "16 m^2 A^2 / epsilon^2", draws.relative_error
                    ratio = draws.variance / (16 * (m * AMPLITUDE / float(epsilon)) ** 2)
                else:
                    against = "discrete Laplace in the same run"
                    error = math.hypot(draws.relative_error, laplace.relative_error)
                    ratio = draws.variance / laplace.variance
                yield _row(case, "relative_variance", ratio, "1", runs, against)
                yield _row(case, "relative_variance_stderr", ratio * error, "1", runs, against)


if __name__ == "__main__":
    run_benchmark(NAME, __doc__.splitlines()[0], measure)
