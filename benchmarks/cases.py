"""Cases of the benchmark ``decoding``, and their names."""

from __future__ import annotations

from fractions import Fraction

from benchmarks.datasets import Mixture, RealData, Source
from benchmarks.sketches import Noise
from benchmarks.trials import Case

DELTA = Fraction(1, 10**6)
TEN = Mixture(n_dimensions=10, n_clusters=10)
# Real data are the same for every seed; only the frequencies and the noise are drawn again.
REAL_RUNS = 5
FEW_RUNS = 3
MANY_RUNS = 20
# Laplace and K-norm noise are pure; the Gaussian needs a delta.
MECHANISMS: dict[str, tuple[str, Fraction]] = {
    "knorm": ("discrete-knorm", Fraction(0)),
    "laplace": ("discrete-laplace", Fraction(0)),
    "gaussian": ("discrete-gaussian", DELTA),
}


def list_decoding_cases() -> tuple[Case, ...]:
    """List the cases of the decoder."""
    return (
        *_noiseless(),
        *_wrong_scales(),
        *_wide_bounds(),
        *_private_mixtures(),
        *_real(),
    )


def make_noise(name: str, epsilon: Fraction) -> Noise:
    """Make the noise of a name and an epsilon."""
    mechanism, delta = MECHANISMS[name]
    return Noise(mechanism=mechanism, epsilon=epsilon, delta=delta)


def describe_noise(name: str, n_epsilon: str) -> str:
    """Describe a noise and its budget as case names do."""
    words = f"{name} delta=1e-6" if MECHANISMS[name][1] else name
    return f"{words} n_eps={n_epsilon}"


def _noiseless() -> tuple[Case, ...]:
    sizes = (
        (2, 10, 5, MANY_RUNS, 3),
        (10, 10, 5, MANY_RUNS, 3),
        (20, 20, 5, MANY_RUNS, 0),
        (10, 50, 5, MANY_RUNS, 0),
        (5, 100, 5, MANY_RUNS, 0),
        (10, 10, 2, MANY_RUNS, 0),
        # Each of these takes half a minute.
        (10, 100, 5, FEW_RUNS, 0),
        (10, 200, 5, FEW_RUNS, 0),
    )
    return tuple(
        Case(
            name=f"noiseless d={d} k={k} m={f}kd",
            source=Mixture(n_dimensions=d, n_clusters=k),
            features=f,
            runs=runs,
            quick_runs=quick,
        )
        for d, k, f, runs, quick in sizes
    )


def _wrong_scales() -> tuple[Case, ...]:
    bare = tuple(
        Case(
            name=f"scale x{factor:g} d=10 k=10 m=5kd",
            source=TEN,
            features=5,
            scale=factor,
            quick_runs=2 if factor == 0.5 else 0,
        )
        for factor in (0.25, 0.5, 2.0, 4.0)
    )
    real = tuple(
        Case(
            name=f"{name} scale x{factor:g} m=5kd",
            source=RealData(name=name),
            features=5,
            scale=factor,
            runs=REAL_RUNS,
        )
        for name in ("weather", "shuttle")
        for factor in (0.5, 2.0)
    )
    private = tuple(
        Case(
            name=f"knorm n_eps=2e4 scale x{factor:g} d=10 k=10 L=1",
            source=TEN,
            scale=factor,
            noise=make_noise("knorm", Fraction(20_000, TEN.n_records)),
        )
        for factor in (0.5, 2.0)
    )
    return (*bare, *real, *private)


def _wide_bounds() -> tuple[Case, ...]:
    """List bounds 20 times too wide at the right scale, without and with a search box."""
    kinds = (("", 1.0, False), (" bounds x20", 20.0, False), (" bounds x20 search box", 20.0, True))
    few = Mixture(n_dimensions=4, n_clusters=5, n_records=60_000)
    weather = RealData(name="weather")
    measured: tuple[tuple[str, Source, Fraction], ...] = (
        (f"{describe_noise('knorm', '2e4')} d=4 k=5", few, Fraction(20_000, few.n_records)),
        (f"{describe_noise('knorm', '5e3')} d=4 k=5", few, Fraction(5_000, few.n_records)),
        (f"{describe_noise('knorm', '1e4')} d=10 k=10", TEN, Fraction(10_000, TEN.n_records)),
        ("weather knorm epsilon=1", weather, Fraction(1)),
        ("weather knorm epsilon=4", weather, Fraction(4)),
    )
    return tuple(
        Case(
            name=f"{name}{words or ' bounds x1'}",
            source=source,
            noise=make_noise("knorm", epsilon),
            widening=widening,
            is_searched_within=is_searched_within,
            runs=REAL_RUNS,
            quick_runs=3 if i == 0 else 0,
        )
        for i, (name, source, epsilon) in enumerate(measured)
        for words, widening, is_searched_within in kinds
    )


def _private_mixtures() -> tuple[Case, ...]:
    choices = (
        ("knorm", "2e4", 1, 2),
        ("knorm", "1e4", 1, 0),
        ("gaussian", "1e4", 1, 1),
        ("gaussian", "4e3", 1, 0),
        ("knorm", "1e5", 100, 0),
        ("gaussian", "1e5", 100, 0),
    )
    of_ten = tuple(
        Case(
            name=f"{describe_noise(name, n_epsilon)} d=10 k=10 L={n_sketches}",
            source=TEN,
            noise=make_noise(name, Fraction(n_epsilon) / TEN.n_records),
            n_sketches=n_sketches,
            quick_runs=quick,
        )
        for name, n_epsilon, n_sketches, quick in choices
    )
    # Time of the smallest and the largest decodes under noise.
    others = tuple(
        Case(
            name=f"{describe_noise('knorm', n_epsilon)} d={d} k={k} L=1",
            source=(mixture := Mixture(n_dimensions=d, n_clusters=k)),
            noise=make_noise("knorm", Fraction(n_epsilon) / mixture.n_records),
            runs=FEW_RUNS,
        )
        for d, k, n_epsilon in ((4, 5, "1e4"), (10, 50, "1e5"))
    )
    return of_ten + others


def _real() -> tuple[Case, ...]:
    weather, shuttle = RealData(name="weather"), RealData(name="shuttle")
    one, tenth = Fraction(1), Fraction(1, 10)
    return (
        Case(name="weather noiseless", source=weather, features=5, runs=REAL_RUNS, quick_runs=3),
        Case(
            name="weather knorm epsilon=1",
            source=weather,
            noise=make_noise("knorm", one),
            runs=REAL_RUNS,
            quick_runs=3,
        ),
        Case(
            name="weather gaussian delta=1e-6 epsilon=0.1",
            source=weather,
            noise=make_noise("gaussian", tenth),
            runs=REAL_RUNS,
        ),
        Case(name="shuttle noiseless", source=shuttle, features=5, runs=REAL_RUNS, quick_runs=3),
        Case(
            name="shuttle knorm epsilon=1",
            source=shuttle,
            noise=make_noise("knorm", one),
            runs=REAL_RUNS,
        ),
        Case(name="digits noiseless m=5kd", source=RealData(name="digits"), features=5),
    )
