"""Laboratory: methods of the literature, for comparison with those of the product.

``from sfumato.lab import ReferenceKMeans, NetworkMixture``. To import it also lets
``sfumato.ClusterRelease`` read what these methods release.
"""

from sfumato.lab.clustering.kvariates import KVariatesMethod
from sfumato.lab.clustering.local_search import LocalSearchMethod
from sfumato.lab.clustering.privgene import PrivGeneMethod
from sfumato.lab.clustering.published_cover import PublishedCoverMethod
from sfumato.lab.clustering.sample_aggregate import SampleAggregateMethod
from sfumato.lab.estimators.network_mixture import NetworkMixture
from sfumato.lab.estimators.reference import ReferenceKMeans
from sfumato.learning.clustering.methods.registry import METHODS

__all__ = ["NetworkMixture", "ReferenceKMeans"]

METHODS.update(
    (method.name, method)
    for method in (
        KVariatesMethod,
        LocalSearchMethod,
        PrivGeneMethod,
        PublishedCoverMethod,
        SampleAggregateMethod,
    )
)
