"""Methods of the literature, as their papers have them."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Literal

from sfumato.analyst.estimators.clustering import ClusteringEstimator, Floats
from sfumato.analyst.estimators.columns import Bounds, Scale
from sfumato.analyst.estimators.inputs import Exact, read_number
from sfumato.lab.clustering.kvariates import KVariatesMethod
from sfumato.lab.clustering.local_search import LocalSearchMethod
from sfumato.lab.clustering.privgene import PrivGeneMethod
from sfumato.lab.clustering.published_cover import PublishedCoverMethod
from sfumato.lab.clustering.sample_aggregate import SampleAggregateMethod
from sfumato.learning.clustering.methods.contract import Method
from sfumato.shared.errors import ConfigError
from sfumato.shared.reading.unreadable import MOST_UNREADABLE

METHODS = ("privgene", "sample-aggregate", "k-variates", "local-search", "cover")


class ReferenceKMeans(ClusteringEstimator):
    """Private k-means as a paper has it that no other class of this package stands for.

    For comparison: none of these methods is competitive, and none releases shares of clusters.

    Parameters
    ----------
    n_clusters
        k.
    epsilon, delta
        The guarantee: texts such as ``"0.1"`` or ``"1/10"``, integers, fractions, or floats, which
        stand for their decimal text. Only ``cover`` spends delta.
    bounds
        ``(lower, upper)``: numbers, or arrays of shape ``(d,)``, or a mapping of columns to pairs;
        data units. Required and public: they must not be read off the records.
    method
        ``privgene`` (Zhang et al. 2013), ``sample-aggregate`` (GUPT, Mohan et al. 2012),
        ``k-variates`` (Nock et al. 2016), ``local-search`` (Balcan et al. 2017) or ``cover``
        (Nguyen, Chaturvedi and Xu 2021, with their constants), which needs a delta and
        ``add-remove-one``.
    spread
        For ``k-variates`` alone, which is refused without it: public knowledge that on the records
        and on every neighbour of theirs the mean squared distance to the nearest centroid picked so
        far is at least this share of the squared diagonal of the bounds.
    scale
        Not used.
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
    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        epsilon: Exact,
        bounds: Bounds,
        delta: Exact = "0",
        scale: Scale | None = None,
        method: Literal[
            "privgene", "sample-aggregate", "k-variates", "local-search", "cover"
        ] = "privgene",
        spread: Exact | None = None,
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
        self.method = method
        self.spread = spread
        self.relation = relation
        self.max_records = max_records
        self.public_seed = public_seed
        self.random_state = random_state
        self.ledger = ledger
        self.source = source
        self.budget = budget
        self.refit = refit
        self.max_unreadable = max_unreadable

    def _make_method(self, lower: Floats, upper: Floats) -> Method:
        del lower, upper
        if self.method not in METHODS:
            raise ConfigError(
                f"must be one of {', '.join(METHODS)}", field="method", fix="use one of these"
            )
        if self.method == "privgene":
            return PrivGeneMethod()
        if self.method == "sample-aggregate":
            return SampleAggregateMethod()
        if self.method == "local-search":
            return LocalSearchMethod()
        if self.method == "cover":
            return PublishedCoverMethod()
        spread = Fraction(0) if self.spread is None else read_number(self.spread, "spread")
        return KVariatesMethod(spread=spread)
