"""Estimators for a person who holds the records: fit once, privately, then use what was released.

They have the methods of scikit-learn's estimators and work in its tools, but do not need it.
"""

from analyst.estimators.auto import AutoKMeans
from analyst.estimators.candidates import CandidateKMeans
from analyst.estimators.cover import CoverKMeans
from analyst.estimators.grid import GridKMeans
from analyst.estimators.kernel import KernelKMeans
from analyst.estimators.kmeans import CompressiveKMeans
from analyst.estimators.lloyd import LloydKMeans
from analyst.estimators.mixture import CompressiveMixture
from analyst.estimators.moment_mixture import MomentMixture
from analyst.estimators.network_mixture import NetworkMixture
from analyst.estimators.pca import PrivatePCA
from analyst.estimators.reference import ReferenceKMeans
from analyst.estimators.tree import TreeKMeans

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
    "NetworkMixture",
    "PrivatePCA",
    "ReferenceKMeans",
    "TreeKMeans",
]
