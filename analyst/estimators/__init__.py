"""Estimators for a person who holds the records: fit once, privately, then use what was released.

They have the methods of scikit-learn's estimators and work in its tools, but do not need it.
"""

from sfumato.analyst.estimators.auto import AutoKMeans
from sfumato.analyst.estimators.candidates import CandidateKMeans
from sfumato.analyst.estimators.cover import CoverKMeans
from sfumato.analyst.estimators.grid import GridKMeans
from sfumato.analyst.estimators.kernel import KernelKMeans
from sfumato.analyst.estimators.kmeans import CompressiveKMeans
from sfumato.analyst.estimators.lloyd import LloydKMeans
from sfumato.analyst.estimators.mixture import CompressiveMixture
from sfumato.analyst.estimators.moment_mixture import MomentMixture
from sfumato.analyst.estimators.pca import PrivatePCA
from sfumato.analyst.estimators.split import SplitKMeans
from sfumato.analyst.estimators.tree import TreeKMeans

__all__ = [
    "AutoKMeans",
    "CandidateKMeans",
    "CompressiveKMeans",
    "CompressiveMixture",
    "CoverKMeans",
    "GridKMeans",
    "KernelKMeans",
    "LloydKMeans",
    "MomentMixture",
    "PrivatePCA",
    "SplitKMeans",
    "TreeKMeans",
]
