"""Records for judging decoders, each set in a fixed public box.

Records outside their box are clipped to it, as in a sketch, before anything is measured. Synthetic
data are the seed paper's mixtures of round Gaussian clusters,

    x ~ (1/k) sum_i N(mu_i, I_d),    mu_i ~ N(0, (1.5 k^(1/d))^2 I_d)

(Schellekens et al., ICASSP 2019, section 5): the scale within a cluster is 1 by construction.
"""

from __future__ import annotations

import gzip
import tomllib
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Protocol

import numpy as np

from benchmarks.packages import RIVER, read_member
from benchmarks.real_tables import load_files, read_table
from sfumato.shared.arrays import Floats
from sfumato.shared.plan import plan_from_spec

DEMO = Path(__file__).resolve().parents[1] / "deploy" / "demo"
AIRPORTS = ("EWR", "JFK", "LGA")
SPREAD = 1.0
"""Standard deviation within a cluster, per dimension."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Dataset:
    """Records with the public knowledge of them.

    Parameters
    ----------
    name
        Name of the records, seed included.
    records
        Shape ``(n, d)``, data units, inside the box.
    lower, upper
        The public box, data units, the same in each dimension.
    n_clusters
        The number k of clusters to find.
    true_means
        Shape ``(k, d)``; None for real data.
    spread
        Standard deviation within a cluster, per dimension; None where only k-means can estimate it.
    """

    name: str
    records: Floats
    lower: float
    upper: float
    n_clusters: int
    true_means: Floats | None = None
    spread: float | None = None

    @property
    def n_dimensions(self) -> int:
        """The number of dimensions d."""
        return int(self.records.shape[1])


class Source(Protocol):
    """Source of the records of a trial."""

    @property
    def n_records(self) -> int:
        """The number of records n, equal for every seed."""

    def load(self, seed: int) -> Dataset:
        """Return the records of one seed; real data are the same for all."""


@dataclass(frozen=True, kw_only=True)
class Mixture:
    """A different mixture for each seed; see :func:`draw_mixture`."""

    n_dimensions: int
    n_clusters: int
    n_records: int = 200_000

    def load(self, seed: int) -> Dataset:
        """Draw the mixture of one seed."""
        return _load_mixture(self, seed)


TEN = Mixture(n_dimensions=10, n_clusters=10)


@dataclass(frozen=True, kw_only=True)
class RealData:
    """One of ``weather``, ``shuttle``, ``diamonds`` and ``digits``."""

    name: str

    @property
    def n_records(self) -> int:
        """The number of records n."""
        return len(_load_real(self.name).records)

    def load(self, seed: int) -> Dataset:
        """Return the records; the seed has no effect."""
        return _load_real(self.name)


def draw_mixture(
    n_dimensions: int, n_clusters: int, n_records: int, seed: int
) -> tuple[Floats, Floats]:
    """Draw means of shape ``(k, d)`` and records of shape ``(n, d)``, the same for a same seed."""
    rng = np.random.default_rng((seed, n_dimensions, n_clusters))
    width = 1.5 * n_clusters ** (1.0 / n_dimensions)
    means = rng.normal(0.0, width, size=(n_clusters, n_dimensions))
    records = rng.normal(0.0, SPREAD, size=(n_records, n_dimensions))
    records += means[rng.integers(n_clusters, size=n_records)]
    return means, records


def public_half_width(n_dimensions: int) -> float:
    """Half width of the public box: fixed, never read off the data.

    Means have standard deviation 4.7 per dimension at (d, k) = (2, 10), and at most 3.8 at the
    other sizes that are measured.
    """
    return 25.0 if n_dimensions < 5 else 20.0


# Two, because a trial loads its records more than once.
@lru_cache(maxsize=2)
def _load_mixture(mixture: Mixture, seed: int) -> Dataset:
    d, k = mixture.n_dimensions, mixture.n_clusters
    means, records = draw_mixture(d, k, mixture.n_records, seed)
    half_width = public_half_width(d)
    return Dataset(
        name=f"mixture d={d} k={k} n={mixture.n_records} seed={seed}",
        records=np.clip(records, -half_width, half_width),
        lower=-half_width,
        upper=half_width,
        n_clusters=k,
        true_means=means,
        spread=SPREAD,
    )


@cache
def _load_real(name: str) -> Dataset:
    return _LOADERS[name]()


def _load_weather() -> Dataset:
    """Load the demo's records, inside the demo's public box, standardised; its k = 5 too."""
    # Imported here, because it loads scikit-learn.
    from deploy.demo.baseline import compute_baseline  # noqa: PLC0415

    plan = plan_from_spec(tomllib.loads((DEMO / "plan.toml").read_text(encoding="utf-8")))
    pooled = compute_baseline(DEMO / "data", list(AIRPORTS), plan, 5)
    return _standardise("weather", pooled.records, n_clusters=5)


def _load_shuttle() -> Dataset:
    """Load the nine sensors of the Statlog shuttle data without their label; k = 7 as its classes.

    Raises
    ------
    PackageUnavailableError
        The wheel with the data cannot be fetched.
    """
    text = gzip.decompress(read_member(RIVER, "river/datasets/shuttle.csv.gz")).decode()
    table = np.loadtxt(text.splitlines(), delimiter=",", skiprows=1)
    return _standardise("shuttle", table[:, :-1], n_clusters=7)


def _load_diamonds() -> Dataset:
    """Load size, shape and price of 53,940 diamonds, of ggplot2; k = 5 as its cuts.

    Raises
    ------
    PackageUnavailableError
        The package with the data cannot be fetched.
    """
    table = read_table("diamonds", load_files()["diamonds"])
    assert table is not None
    return _standardise("diamonds", table.records, n_clusters=5)


def _load_digits() -> Dataset:
    """Load the 8 x 8 digits; a pixel has 0 to 16."""
    from sklearn.datasets import load_digits  # noqa: PLC0415

    records = np.asarray(load_digits().data, dtype=np.float64)
    return Dataset(name="digits", records=records, lower=0.0, upper=16.0, n_clusters=10)


def _standardise(name: str, records: Floats, *, n_clusters: int) -> Dataset:
    """Scale columns to mean 0 and variance 1, then clip to the public box [-4, 4]."""
    standard = (records - records.mean(axis=0)) / records.std(axis=0)
    return Dataset(
        name=name,
        records=np.clip(standard, -4.0, 4.0),
        lower=-4.0,
        upper=4.0,
        n_clusters=n_clusters,
    )


_LOADERS = {
    "weather": _load_weather,
    "shuttle": _load_shuttle,
    "diamonds": _load_diamonds,
    "digits": _load_digits,
}
