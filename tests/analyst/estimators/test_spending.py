"""Events of every estimator: planned before it reads a record, and then spent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pytest

import sfumato.analyst.estimators as package
from sfumato.analyst.estimators import NetworkMixture
from sfumato.analyst.estimators.contract import PrivateEstimator

GAUSSIAN = {"delta": "1e-6"}
SMALL = {"n_steps": 2, "n_hidden": 2, "n_latent": 1, **GAUSSIAN}
FITS: Final[Mapping[str, list[dict[str, Any]]]] = {
    "AutoKMeans": [{}, {"scale": 1.0}, {"scale": 1.0, "public_seed": 1}],
    "CandidateKMeans": [{}],
    "CompressiveKMeans": [{}, {"scale": 1.0}, {"scale": 1.0, "public_seed": 1}],
    "CompressiveMixture": [{"n_components": 2, "scale": 1.0}],
    "CoverKMeans": [GAUSSIAN | {"max_records": 2000}],
    "GridKMeans": [{}],
    "KernelKMeans": [GAUSSIAN],
    "LloydKMeans": [{}],
    "MomentMixture": [GAUSSIAN],
    "NetworkMixture": [SMALL, SMALL | {"n_parts": 2}, SMALL | {"public_seed": 1}],
    "PrivatePCA": [{}, GAUSSIAN],
    "ReferenceKMeans": [{}],
    "TreeKMeans": [{}],
}
"""Parameters of the fits of every estimator: each shape of what they release."""
COUNTLESS = ("MomentMixture", "NetworkMixture", "PrivatePCA")
"""Estimators whose cost does not depend on the number of records."""


def test_every_private_estimator_is_tested_here() -> None:
    known = {name: getattr(package, name) for name in package.__all__}
    assert set(FITS) == {
        name
        for name, kind in known.items()
        if isinstance(kind, type) and issubclass(kind, PrivateEstimator)
    }


@pytest.mark.parametrize(
    ("name", "changes"), [(name, changes) for name, fits in FITS.items() for changes in fits]
)
def test_a_fit_spends_the_events_that_were_planned(name: str, changes: dict[str, Any]) -> None:
    if name == NetworkMixture.__name__:
        pytest.importorskip("dp_accounting")
    records = np.random.default_rng(0).normal(size=(2000, 2))
    parameters: dict[str, Any] = {"epsilon": "2", "bounds": (-5.0, 5.0), **changes}
    if name.endswith("KMeans"):
        parameters["n_clusters"] = 2
    found = getattr(package, name)(**parameters)
    size = (2,) if name in COUNTLESS else (2000, 2)
    planned = found.plan_events(*size)
    assert planned
    assert found.fit(records).events_ == planned
    # Another estimator with the same parameters plans the same, also where its seed is fresh.
    assert getattr(package, name)(**parameters).plan_events(*size) == planned
    # A second fit may read the same records, and costs on its own.
    again = found.plan_events(*size)
    assert {event.stream for event in again} == {"main.2"}
