"""Points of the figures of the seed paper that :mod:`benchmarks.paper` measures."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

D = K = 10
PAPERS_DECODER = "cl-ompr"

SNRS = tuple(10.0 ** (step / 2) for step in range(-1, 9))
FEATURES = (0.6, 1.0, 2.0, 5.0, 10.0, 20.0)
ALPHAS = (1, 10, 100)
"""m / r of Figure 2, left: 1 / alpha."""
EPSILONS = (3, 10, 30, 100, 300, 1000, 10_000)
"""Of Figure 3, in ten-thousandths."""


@dataclass(frozen=True, kw_only=True)
class PaperCase:
    """A point of a figure.

    Parameters
    ----------
    figure
        ``fig2 left``, ``fig2 right`` or ``fig3``.
    curve
        Its words.
    place
        SNR or epsilon.
    features
        m / (k d); 0 for a method without a sketch.
    decoder
        Name of the solver.
    mechanism
        Of the noise, in Figure 3.
    n_sketches, blocks, mask_groups
        L, and the parts that features are divided into between sketches and between records.
    method
        Of :mod:`benchmarks.contenders`, where there is no sketch.
    runs, quick_runs
        Seeds, in full and with ``--quick``.
    """

    figure: str
    curve: str
    place: float
    features: float = 0.0
    decoder: str = "mixture"
    mechanism: str = ""
    n_sketches: int = 1
    blocks: int = 1
    mask_groups: int = 1
    method: str = ""
    runs: int = 5
    quick_runs: int = 0

    @property
    def name(self) -> str:
        """The name of its rows."""
        axis = "eps" if self.figure == "fig3" else "snr"
        return f"{self.curve_name} {axis}={self.place:g}"

    @property
    def curve_name(self) -> str:
        """The name of the rows of its curve."""
        return f"{self.figure} {self.curve}"

    @property
    def n_frequencies(self) -> int:
        """The number m."""
        return round(self.features * K * D)


def list_cases() -> tuple[PaperCase, ...]:
    """List the points of all three figures."""
    left = [
        PaperCase(
            figure="fig2 left",
            curve=f"{decoder} alpha={1 / groups:g} m=10kd",
            place=snr,
            features=10.0,
            decoder=decoder,
            mask_groups=groups,
            quick_runs=int(groups == 1 and snr in (10.0, 100.0) and decoder == "mixture"),
        )
        for decoder in ("mixture", PAPERS_DECODER)
        for groups in ALPHAS
        for snr in SNRS
    ]
    right = [
        PaperCase(
            figure="fig2 right",
            curve=f"mixture m={features:g}kd",
            place=snr,
            features=features,
            quick_runs=int(features == 2.0 and snr in (10.0, 100.0)),
        )
        for features in FEATURES
        for snr in SNRS
    ]
    return (*left, *right, *_list_third())


@dataclass(frozen=True, kw_only=True)
class _Curve:
    """A curve of Figure 3: a mechanism, m / (k d), L and more."""

    mechanism: str
    features: float
    n_sketches: int = 1
    is_split: bool = False
    mask_groups: int = 1
    decoder: str = "mixture"
    runs: int = 5

    @property
    def words(self) -> str:
        more = " split" * self.is_split
        more += f" alpha={1 / self.mask_groups:g}" if self.mask_groups > 1 else ""
        more += f" {self.decoder}" if self.decoder != "mixture" else ""
        return f"{self.mechanism} L={self.n_sketches} m={self.features:g}kd{more}"


_CURVES = (
    _Curve(mechanism="laplace", features=10.0, runs=20),
    _Curve(mechanism="laplace", features=2.0, runs=20),
    _Curve(mechanism="laplace", features=10.0, mask_groups=10),
    _Curve(mechanism="laplace", features=10.0, decoder=PAPERS_DECODER),
    _Curve(mechanism="laplace", features=2.0, n_sketches=100),
    _Curve(mechanism="laplace", features=2.0, n_sketches=10_000),
    _Curve(mechanism="knorm", features=2.0, runs=20),
    _Curve(mechanism="knorm", features=2.0, n_sketches=100),
    _Curve(mechanism="knorm", features=2.0, n_sketches=10_000),
    _Curve(mechanism="knorm", features=2.0, n_sketches=10_000, is_split=True),
)
_CENTRAL = {
    "dplloyd uniform": "lloyd-uniform-published",
    "dplloyd sphere": "lloyd-published",
    "eugkm": "grid-published",
}
_QUOTED = ("laplace L=1 m=2kd", "knorm L=1 m=2kd")


def _list_third() -> Iterator[PaperCase]:
    for curve in _CURVES:
        for epsilon in EPSILONS:
            is_quick = curve.words in _QUOTED and epsilon in (10, 30)
            m = round(curve.features * K * D)
            yield PaperCase(
                figure="fig3",
                curve=curve.words,
                place=epsilon / 10_000,
                features=curve.features,
                decoder=curve.decoder,
                mechanism=curve.mechanism,
                n_sketches=curve.n_sketches,
                blocks=m if curve.is_split else 1,
                mask_groups=curve.mask_groups,
                runs=curve.runs,
                quick_runs=3 * int(is_quick),
            )
    for words, method in _CENTRAL.items():
        for epsilon in EPSILONS:
            yield PaperCase(
                figure="fig3",
                curve=words,
                place=epsilon / 10_000,
                method=method,
                runs=20,
                quick_runs=3 * int(epsilon == 30 and method == "lloyd-published"),
            )


CONTROL = PaperCase(
    figure="fig3",
    curve="control knorm L=1 m=2kd n=1e7",
    place=0.003,
    features=2.0,
    mechanism="knorm",
    runs=3,
)
