"""Queries "holds any item of a set", on images and on sparse records: rows of the synthesis.

``mnist`` has 60,000 images of 784 pixels that are set or not. ``sparse`` is a published recipe and
no one's data, in the manner of call records: 100,000 records of 300 items from 20 latent profiles,
with Zipf popularity and Poisson sizes of mean 9. Item sets are uniform; their sizes are uniform
from 1 to i fifths of the largest record, i = 1 to 5, or from 1 to 3, because nearly every record
holds an item of a long set. Errors are relative, with a floor of 0.1 %, means over 200 sets; delta
is 1e-5, under add-remove-one, one curator. Such queries depend on single items mostly, so that
independent items are hard to beat here.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from benchmarks.mnist import load_digits
from benchmarks.runner import Case, Figure
from benchmarks.synthesis_ways import draw_pair_tree, draw_table
from sfumato.analyst.estimators import MomentMixture
from sfumato.lab import NetworkMixture
from sfumato.lab.generative.bins import Bins
from sfumato.shared.privacy.mechanisms.gaussian import DiscreteGaussian
from sfumato.shared.system import SystemSource

DELTA: Final = "1e-5"
RELATION: Final = "add-remove-one"
_COMMON: Final[Mapping[str, Any]] = {
    "delta": DELTA,
    "bounds": (0, 1),
    "binary": True,
    "relation": RELATION,
}
_EPSILON: Final = "1"
_N_DRAWN: Final = 20_000
_N_SETS: Final = 200
_FLOOR: Final = 1e-3
_N_SPARSE, _N_ITEMS, _N_PROFILES = 100_000, 300, 20
_N_STEPS: Final = 300
_COUNT_UNIT: Final = 4
"""A record counts as so many items in the sum that holds their number."""

Bits = NDArray[np.float32]


@dataclass(frozen=True, kw_only=True, eq=False)
class ItemSet:
    """Records of items that they hold or not.

    Parameters
    ----------
    name
        Name of the set.
    records
        Shape ``(n, d)``, 0 or 1.
    most_items
        Public: items beyond so many of a record are dropped where a method has to clip.
    parts
        Public parts of the records, shape ``(n,)``; None without.
    """

    name: str
    records: Bits
    most_items: int
    parts: NDArray[np.int64] | None = None


@lru_cache(maxsize=1)
def load_mnist() -> ItemSet:
    """Load the images.

    Raises
    ------
    PackageUnavailableError
        They cannot be fetched.
    """
    data = load_digits()
    return ItemSet(
        name="mnist", records=data.images.astype(np.float32), most_items=200, parts=data.digits
    )


@lru_cache(maxsize=1)
def draw_sparse() -> ItemSet:
    """Draw the sparse records of the recipe; always the same."""
    rng = np.random.default_rng(20)
    popularity = 1.0 / np.arange(1, _N_ITEMS + 1)
    profiles = rng.dirichlet(np.ones(_N_PROFILES))
    # Each profile favours some items over the popular ones.
    tastes = popularity * rng.gamma(0.3, size=(_N_PROFILES, _N_ITEMS))
    logs = np.log(tastes + 1e-300)
    chosen = rng.choice(_N_PROFILES, size=_N_SPARSE, p=profiles)
    sizes = rng.poisson(8.0, _N_SPARSE) + 1
    records = np.zeros((_N_SPARSE, _N_ITEMS), dtype=np.float32)
    for first in range(0, _N_SPARSE, 10_000):
        rows = slice(first, first + 10_000)
        # The largest of logs with Gumbel noise are a draw without replacement.
        keys = logs[chosen[rows]] + rng.gumbel(size=(10_000, _N_ITEMS))
        ranks = np.argsort(np.argsort(-keys, axis=1), axis=1)
        records[rows] = ranks < sizes[rows, None]
    return ItemSet(name="sparse", records=records, most_items=24)


def draw_queries(data: ItemSet, rng: np.random.Generator) -> dict[str, Bits]:
    """Draw item sets by the name of their sizes: shapes ``(q, d)``."""
    d, longest = data.records.shape[1], int(data.records.sum(axis=1).max())
    sizes = {f"{i}/5": max(1, i * longest // 5) for i in range(1, 6)}
    found = {}
    for name, most in {"1 to 3": 3, **sizes}.items():
        queries = np.zeros((_N_SETS, d), dtype=np.float32)
        for query in queries:
            query[rng.choice(d, size=rng.integers(1, min(most, d) + 1), replace=False)] = 1.0
        found[name] = queries
    return found


def share_of_any(records: Bits, queries: Bits) -> NDArray[np.float64]:
    """Return the shares of records that hold any item of each set: shape ``(q,)``."""
    held = np.zeros(len(queries))
    for first in range(0, len(records), 10_000):
        held += (records[first : first + 10_000] @ queries.T > 0.5).sum(axis=0)
    return held / len(records)


def clip_items(records: Bits, most: int) -> Bits:
    """Keep the first items of each record."""
    clipped: Bits = records * (np.cumsum(records, axis=1) <= most)
    return clipped


def draw_by_items(data: ItemSet, epsilon: str, seed: int) -> Bits:
    """Draw each item by its noisy share, independent of the others."""
    kept = clip_items(data.records, data.most_items)
    sums = np.append(kept.sum(axis=0), _COUNT_UNIT * len(kept)).astype(np.int64)
    noise = DiscreteGaussian.calibrate(
        n_coordinates=sums.size,
        sensitivity_l2_squared=data.most_items + _COUNT_UNIT**2,
        epsilon=Fraction(epsilon),
        delta=Fraction(DELTA),
        neighbouring=RELATION,
    )
    found = noise.add_noise(sums, SystemSource())
    shares = np.clip(found[:-1] / max(found[-1] / _COUNT_UNIT, 1.0), 0.0, 1.0)
    drawn: Bits = (np.random.default_rng(seed).random((_N_DRAWN, shares.size)) < shares).astype(
        np.float32
    )
    return drawn


def draw_by_moments(data: ItemSet, epsilon: str, seed: int, *, by_parts: bool = False) -> Bits:
    """Draw from one Gaussian, or one for each public part, on a private basis."""
    norm = math.sqrt(data.records.sum(axis=1).mean())
    own = {"norm": norm, "origin": "lower", "random_state": seed}
    parts = range(10) if by_parts else None
    model = MomentMixture(parts, epsilon=epsilon, **own, **_COMMON)  # type: ignore[arg-type]
    labels = data.parts if by_parts else None
    records, _ = model.fit(data.records.astype(np.float64), labels).sample(_N_DRAWN)
    return records.astype(np.float32)


def draw_by_tree(data: ItemSet, epsilon: str, seed: int) -> Bits:
    """Draw from a tree of pairs of items; its noise is pure."""
    tree = draw_pair_tree(_make_bins(data.records.shape[1]), Fraction(epsilon), seed)
    return np.rint(tree(data.records, _N_DRAWN)).astype(np.float32)


def draw_by_mwem(data: ItemSet, epsilon: str, seed: int) -> Bits:
    """Refuse: a table of all items cannot be held."""
    table = draw_table(_make_bins(data.records.shape[1]), _N_SETS, 50, Fraction(epsilon), seed)
    return table(data.records, _N_DRAWN).astype(np.float32)


def draw_by_network(data: ItemSet, epsilon: str, seed: int) -> Bits:
    """Draw from one autoencoder."""
    own = {"batch_rate": 0.02, "n_steps": _N_STEPS, "random_state": seed}
    model = NetworkMixture(epsilon=epsilon, **own, **_COMMON)  # type: ignore[arg-type]
    records, _ = model.fit(data.records.astype(np.float64)).sample(_N_DRAWN)
    return records.astype(np.float32)


def _make_bins(d: int) -> Bins:
    return Bins(lower=np.zeros(d), upper=np.ones(d), n_bins=(2,) * d)


Way = Callable[[ItemSet, str, int], Bits]

INDEPENDENT: Final = "independent items"
LENGTHS: Final = ("1 to 3", "1/5", "2/5", "3/5", "4/5", "5/5")
_BOTH: Final[Mapping[str, Way]] = {
    INDEPENDENT: draw_by_items,
    "MomentMixture": draw_by_moments,
    "NetworkMixture": draw_by_network,
}
# A tree of 784 pixels takes minutes to choose.
WAYS: Final[Mapping[str, tuple[Callable[[], ItemSet], Mapping[str, Way]]]] = {
    "sparse": (draw_sparse, {**_BOTH, "pair tree": draw_by_tree, "MWEM": draw_by_mwem}),
    "mnist": (
        load_mnist,
        {
            **_BOTH,
            "MomentMixture, a part a digit": partial(draw_by_moments, by_parts=True),
            "MWEM": draw_by_mwem,
        },
    ),
}
"""Records and ways by set, and by the name of their rows."""
Loaded = tuple[ItemSet, dict[str, Bits], dict[str, NDArray[np.float64]]]
"""Records, queries by the name of their sizes, and true shares."""


def list_item_cases(
    summarise: Callable[[Sequence[Mapping[str, float]]], Iterable[Figure]],
) -> Iterator[Case[Loaded, dict[str, float]]]:
    """List the sets; the quick form needs no package, and has no slow way."""

    def load_with(load: Callable[[], ItemSet], seed: int) -> Loaded:
        data = load()
        queries = draw_queries(data, np.random.default_rng(seed))
        return data, queries, {k: share_of_any(data.records, each) for k, each in queries.items()}

    def judge(draw: Way, loaded: Loaded, seed: int) -> dict[str, float]:
        data, queries, true = loaded
        started = time.process_time()
        drawn = draw(data, _EPSILON, seed)
        figures = {"cpu_s": time.process_time() - started}
        for name, each in queries.items():
            missed = np.abs(share_of_any(drawn, each) - true[name])
            error = float(np.mean(missed / np.maximum(true[name], _FLOOR)))
            figures[f"any_item_error, {name}"] = error
        return figures

    for name, (load, ways) in WAYS.items():
        yield Case(
            name=f"{name} eps={_EPSILON}",
            load=partial(load_with, load),
            methods={way: partial(judge, draw) for way, draw in ways.items()},
            summarise=summarise,
            runs=10,
            first_seed=0,
        )
