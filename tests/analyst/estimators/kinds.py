"""Every estimator with small parameters, and records of three clusters for all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import numpy as np
import pytest
from numpy.typing import NDArray

from sfumato.analyst.estimators import (
    AutoKMeans,
    CandidateKMeans,
    CompressiveKMeans,
    CompressiveMixture,
    CoverKMeans,
    GridKMeans,
    KernelKMeans,
    LloydKMeans,
    MomentMixture,
    PrivatePCA,
    SplitKMeans,
    TreeKMeans,
)
from sfumato.lab import NetworkMixture, ReferenceKMeans
from tests.soak import leave_to_lab

Floats = NDArray[np.float64]
K, D = 3, 2
MEANS = np.array([[-5.0, -4.0], [5.0, -5.0], [0.0, 6.0]])
KERNEL = {"delta": "1e-6", "n_features": 60, "scale": 0.7}
NETWORK = {"delta": "1e-6", "n_steps": 2, "n_hidden": 2, "n_latent": 1}
CENTRAL: Final[Mapping[str, tuple[Callable[..., Any], dict[str, Any]]]] = {
    "grid": (GridKMeans, {}),
    "grid alone": (GridKMeans, {"n_rounds": 0}),
    "grid published": (GridKMeans.published, {}),
    "candidates": (CandidateKMeans, {}),
    "local-search": (ReferenceKMeans, {"method": "local-search"}),
    "privgene": (ReferenceKMeans, {}),
    "sample-aggregate": (ReferenceKMeans, {"method": "sample-aggregate"}),
    "cover": (CoverKMeans, {"delta": "1e-9"}),
    "kernel": (KernelKMeans, KERNEL),
    "lloyd": (LloydKMeans, {}),
    "lloyd published": (LloydKMeans.published, {}),
    "split": (SplitKMeans, {"delta": "1e-6"}),
    "tree": (TreeKMeans, {}),
}
"""The central methods of clustering, each shape of what they release."""
KINDS: Final[Mapping[str, tuple[Callable[..., Any], dict[str, Any]]]] = {
    **CENTRAL,
    "auto": (AutoKMeans, {"scale": 0.7}),
    "compressive": (CompressiveKMeans, {"scale": 0.7}),
    "mixture": (CompressiveMixture, {"n_components": 2, "scale": 0.7}),
    "components": (PrivatePCA, {}),
    "moments": (MomentMixture, {"delta": "1e-6"}),
    "networks": (NetworkMixture, NETWORK),
}
LAB = ("local-search", "privgene", "sample-aggregate", "networks")
GAUSSIAN = ("kernel", "moments", "networks", "split")
"""Kinds whose rounds compose to less than the sum of their epsilons."""


def each_of(names: Iterable[str]) -> pytest.MarkDecorator:
    """Run a test for each kind, and for those of the laboratory in its own run."""
    return pytest.mark.parametrize("name", leave_to_lab(names, LAB))


def is_of_clusters(name: str) -> bool:
    return name in CENTRAL or name in ("auto", "compressive")


def make(name: str, **changes: Any) -> Any:
    kind, own = KINDS[name]
    given: dict[str, Any] = {"epsilon": "8", "bounds": (-10.0, 10.0), "random_state": 0, **own}
    if is_of_clusters(name):
        given["n_clusters"] = K
    return kind(**given | changes)


def make_records(n: int = 3000, seed: int = 0) -> Floats:
    rng = np.random.default_rng(seed)
    return MEANS[rng.choice(K, size=n, p=(0.5, 0.3, 0.2))] + rng.normal(scale=0.7, size=(n, D))


def list_values(release: Any) -> NDArray[Any]:
    """Return the numbers of a release that noise was added to."""
    values: NDArray[Any] = (
        release.answers[0].values if hasattr(release, "answers") else release.sums
    )
    return values
