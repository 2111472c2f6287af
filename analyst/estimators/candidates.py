"""Private k-means from cells that hold many records."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from sfumato.analyst.estimators.clustering import ClusteringEstimator, Floats
from sfumato.analyst.estimators.columns import Bounds, Scale
from sfumato.analyst.estimators.inputs import Exact, read_whole
from sfumato.learning.clustering.methods.candidates import CandidateMethod
from sfumato.shared.reading.unreadable import MOST_UNREADABLE


class CandidateKMeans(ClusteringEstimator):
    """k-means among candidates, the centres of cells that hold many records.

    A quadtree divides cells that hold more records than noise explains; the centres of all such
    cells are candidates, and the noisy numbers of records nearest to each are clustered; a round
    sums residuals under cube noise (Balcan, Dick, Liang, Mou and Zhang 2017, with votes in place of
    their local search). For 2 to 4 columns; more than 10 are projected first, and
    :class:`CoverKMeans` is the better choice.

    Parameters
    ----------
    n_clusters
        k.
    epsilon, delta
        The guarantee: texts such as ``"0.1"`` or ``"1/10"``, integers, fractions, or floats, which
        stand for their decimal text. The noise is pure, so delta is not spent.
    bounds
        ``(lower, upper)``: numbers, or arrays of shape ``(d,)``, or a mapping of columns to pairs;
        data units. Required and public: they must not be read off the records.
    scale
        Standard deviation inside one cluster, a number or one a column, from public knowledge:
        residuals are clipped to four of them. If None, it is estimated from released candidates.
    depth
        Levels of the quadtree; None for a number by the columns.
    n_rounds
        Rounds of sums at the end, which share a third of epsilon. If None, one to five by
        ``n epsilon / k``.
    relation
        ``replace-one``, where the number of records is public, or ``add-remove-one``, where it is
        secret too.
    max_records
        Required under ``add-remove-one``: a public number of records that sizes follow from.
    public_seed
        Seed of choices that depend on no record; it is published. None: fresh.
    random_state
        Steers k-means on released points, never noise.
    ledger, source, budget
        An owner's ledger that counts the rounds, the file that the records come from, and the
        limit of epsilon for each of them.
    refit
        Allow a second fit, which spends again.
    max_unreadable
        The largest share of a column whose values cannot be read; more spends nothing.

    Attributes
    ----------
    cluster_centers_
        Shape ``(k, d)``, data units, by falling weight.
    weights_
        Shape ``(k,)``: shares of the records, with noise.
    metric_
        Lengths that count as one along each axis.
    release_, events_, guarantee_
        What was released: a :class:`sfumato.ClusterRelease` that
        can be stored and read again; what each round spent; and what all guarantee together.
    n_features_in_, feature_names_in_
        Number and, of a table, names of the columns.

    Examples
    --------
    >>> import numpy as np
    >>> from sfumato import CandidateKMeans
    >>> rng = np.random.default_rng(0)
    >>> records = rng.normal(size=(20_000, 2)) + rng.choice([-6.0, 6.0], size=(20_000, 1))
    >>> found = CandidateKMeans(2, epsilon="2", bounds=(-12, 12)).fit(records)
    >>> sorted(found.cluster_centers_[:, 0].round().astype(int).tolist())
    [-6, 6]
    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        epsilon: Exact,
        bounds: Bounds,
        delta: Exact = "0",
        scale: Scale | None = None,
        depth: int | None = None,
        n_rounds: int | None = None,
        relation: Literal["replace-one", "add-remove-one"] = "replace-one",
        max_records: int | None = None,
        public_seed: int | str | bytes | None = None,
        random_state: object = None,
        ledger: str | Path | None = None,
        source: str | Path | None = None,
        budget: Exact | None = None,
        refit: bool = False,
        max_unreadable: float = MOST_UNREADABLE,
    ) -> None:
        self.n_clusters = n_clusters
        self.epsilon = epsilon
        self.bounds = bounds
        self.delta = delta
        self.scale = scale
        self.depth = depth
        self.n_rounds = n_rounds
        self.relation = relation
        self.max_records = max_records
        self.public_seed = public_seed
        self.random_state = random_state
        self.ledger = ledger
        self.source = source
        self.budget = budget
        self.refit = refit
        self.max_unreadable = max_unreadable

    def _make_method(self, lower: Floats, upper: Floats) -> CandidateMethod:
        del lower, upper
        depth = (
            -1
            if self.depth is None
            else read_whole(self.depth, "depth", most=10, fix="leave it out")
        )
        n_rounds = (
            -1
            if self.n_rounds is None
            else read_whole(self.n_rounds, "n_rounds", most=10, fix="leave it out")
        )
        return CandidateMethod(depth=depth, n_rounds=n_rounds)
