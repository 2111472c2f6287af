"""Queries "holds any item of a set" on sparse records: rows of the synthesis.

``sparse`` is a published recipe and no one's data, in the manner of call records: 100,000 records
of 300 items from 20 latent profiles, with Zipf popularity and Poisson sizes of mean 9. Item sets
are uniform; their sizes are uniform from 1 to i fifths of the largest record, i = 1 to 5, or from 1
to 3, because nearly every record holds an item of a long set. Errors are relative, with a floor of
0.1 %, means over 200 sets; delta is 1e-5, under add-remove-one, one curator. Such queries depend on
single items mostly, so that independent items are hard to beat here.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache, partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from benchmarks.runner import Case, Figure
from benchmarks.synthesis_ways import N_DRAWN, RELATION, release_and_draw
from sfumato.analyst.estimators import MomentMixture
from sfumato.lab import NetworkMixture
from sfumato.lab.generative.bins import Bins
from sfumato.lab.generative.pair_tree import PairTreeDesign
from sfumato.shared.arrays import Floats
from sfumato.shared.privacy.mechanisms.gaussian import DiscreteGaussian
from sfumato.shared.system import SystemSource

DELTA: Final = "1e-5"
_COMMON: Final[Mapping[str, Any]] = {
    "delta": DELTA,
    "bounds": (0, 1),
    "binary": True,
    "relation": RELATION,
}
_EPSILON: Final = "1"
_N_SETS: Final = 200
_FLOOR: Final = 1e-3
_N_SPARSE, _N_ITEMS, _N_PROFILES = 100_000, 300, 20
_MOST_ITEMS: Final = 24
"""Public: items beyond so many of a record are dropped where a method has to clip."""
_N_STEPS: Final = 300
_COUNT_UNIT: Final = 4
"""A record counts as so many items in the sum that holds their number."""

Bits = NDArray[np.float32]


@lru_cache(maxsize=1)
def draw_sparse() -> Bits:
    """Draw the records of the recipe, 0 or 1, always the same: shape ``(n, d)``."""
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
    return records


def draw_queries(records: Bits, rng: np.random.Generator) -> dict[str, Bits]:
    """Draw item sets by the name of their sizes: shapes ``(q, d)``."""
    d, longest = records.shape[1], int(records.sum(axis=1).max())
    sizes = {f"{i}/5": max(1, i * longest // 5) for i in range(1, 6)}
    found = {}
    for name, most in {"1 to 3": 3, **sizes}.items():
        queries = np.zeros((_N_SETS, d), dtype=np.float32)
        for query in queries:
            query[rng.choice(d, size=rng.integers(1, min(most, d) + 1), replace=False)] = 1.0
        found[name] = queries
    return found


def share_of_any(records: Bits, queries: Bits) -> Floats:
    """Return the shares of records that hold any item of each set: shape ``(q,)``."""
    held = np.zeros(len(queries))
    for first in range(0, len(records), 10_000):
        held += (records[first : first + 10_000] @ queries.T > 0.5).sum(axis=0)
    return held / len(records)


def draw_by_items(records: Bits, epsilon: str, seed: int) -> Bits:
    """Draw each item by its noisy share, independent of the others."""
    # The first items of each record.
    kept = records * (np.cumsum(records, axis=1) <= _MOST_ITEMS)
    sums = np.append(kept.sum(axis=0), _COUNT_UNIT * len(kept)).astype(np.int64)
    noise = DiscreteGaussian.calibrate(
        n_coordinates=sums.size,
        sensitivity_l2_squared=_MOST_ITEMS + _COUNT_UNIT**2,
        epsilon=Fraction(epsilon),
        delta=Fraction(DELTA),
        neighbouring=RELATION,
    )
    found = noise.add_noise(sums, SystemSource())
    shares = np.clip(found[:-1] / max(found[-1] / _COUNT_UNIT, 1.0), 0.0, 1.0)
    drawn: Bits = (np.random.default_rng(seed).random((N_DRAWN, shares.size)) < shares).astype(
        np.float32
    )
    return drawn


def draw_by_moments(records: Bits, epsilon: str, seed: int) -> Bits:
    """Draw from one Gaussian on a private basis."""
    norm = math.sqrt(records.sum(axis=1).mean())
    own = {"norm": norm, "origin": "lower", "random_state": seed}
    model = MomentMixture(epsilon=epsilon, **own, **_COMMON)  # type: ignore[arg-type]
    drawn, _ = model.fit(records.astype(np.float64)).sample(N_DRAWN)
    return drawn.astype(np.float32)


def draw_by_tree(records: Bits, epsilon: str, seed: int) -> Bits:
    """Draw from a tree of pairs of items; its noise is pure."""
    d = records.shape[1]
    bins = Bins(lower=np.zeros(d), upper=np.ones(d), n_bins=(2,) * d)
    design = PairTreeDesign(bins=bins, relation=RELATION, epsilon=Fraction(epsilon))
    return np.rint(release_and_draw(design, records, seed)).astype(np.float32)


def draw_by_network(records: Bits, epsilon: str, seed: int) -> Bits:
    """Draw from one autoencoder."""
    own = {"batch_rate": 0.02, "n_steps": _N_STEPS, "random_state": seed}
    model = NetworkMixture(epsilon=epsilon, **own, **_COMMON)  # type: ignore[arg-type]
    drawn, _ = model.fit(records.astype(np.float64)).sample(N_DRAWN)
    return drawn.astype(np.float32)


Way = Callable[[Bits, str, int], Bits]

INDEPENDENT: Final = "independent items"
WAYS: Final[Mapping[str, Way]] = {
    INDEPENDENT: draw_by_items,
    "MomentMixture": draw_by_moments,
    "NetworkMixture": draw_by_network,
    "pair tree": draw_by_tree,
}
"""By the name of their rows."""
Loaded = tuple[Bits, dict[str, Bits], dict[str, Floats]]
"""Records, queries by the name of their sizes, and true shares."""


def make_item_case(
    summarise: Callable[[Sequence[Mapping[str, float]]], Iterable[Figure]],
) -> Case[Loaded, dict[str, float]]:
    """Make the case of the sparse records."""

    def load(seed: int) -> Loaded:
        records = draw_sparse()
        queries = draw_queries(records, np.random.default_rng(seed))
        return records, queries, {k: share_of_any(records, each) for k, each in queries.items()}

    def judge(draw: Way, loaded: Loaded, seed: int) -> dict[str, float]:
        records, queries, true = loaded
        started = time.process_time()
        drawn = draw(records, _EPSILON, seed)
        figures = {"cpu_s": time.process_time() - started}
        for name, each in queries.items():
            missed = np.abs(share_of_any(drawn, each) - true[name])
            error = float(np.mean(missed / np.maximum(true[name], _FLOOR)))
            figures[f"any_item_error, {name}"] = error
        return figures

    return Case(
        name=f"sparse eps={_EPSILON}",
        load=load,
        methods={way: partial(judge, draw) for way, draw in WAYS.items()},
        summarise=summarise,
        runs=10,
        first_seed=0,
    )
