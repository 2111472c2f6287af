"""Methods of the literature, as their papers have them."""

from __future__ import annotations

from fractions import Fraction
from typing import Literal

from sfumato.analyst.estimators.clustering import ClusteringEstimator
from sfumato.analyst.estimators.declaration import estimator
from sfumato.analyst.estimators.inputs import Exact, read_number
from sfumato.lab.clustering.kvariates import KVariatesMethod
from sfumato.lab.clustering.local_search import LocalSearchMethod
from sfumato.lab.clustering.privgene import PrivGeneMethod
from sfumato.lab.clustering.published_cover import PublishedCoverMethod
from sfumato.lab.clustering.sample_aggregate import SampleAggregateMethod
from sfumato.learning.clustering.methods.contract import Method
from sfumato.shared.arrays import Floats
from sfumato.shared.errors import ConfigError

METHODS = ("privgene", "sample-aggregate", "k-variates", "local-search", "cover")


@estimator
class ReferenceKMeans(ClusteringEstimator):
    """Private k-means as a paper has it that no other class of this package stands for.

    For comparison: none of these methods is competitive, and none releases shares of clusters.

    Parameters
    ----------
    epsilon, delta
        The guarantee: texts such as ``"0.1"`` or ``"1/10"``, integers, fractions, or floats, which
        stand for their decimal text. Only ``cover`` spends delta.
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
    """

    method: Literal["privgene", "sample-aggregate", "k-variates", "local-search", "cover"] = (
        "privgene"
    )
    spread: Exact | None = None

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
