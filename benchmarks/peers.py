"""CL-OMPR of pycle, the Python toolbox of the seed paper's authors, on the same sketches."""

from __future__ import annotations

import importlib
import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.packages import PYCLE, PackageUnavailableError, fetch_package
from benchmarks.trials import Recover
from sfumato.learning.decoding.problem import DecodingProblem

PYCLE_NAME = f"pycle/{PYCLE.version}"


def load_pycle() -> Recover:
    """Return pycle's CL-OMPR with one replicate and default settings; installed or from its wheel.

    Raises
    ------
    PackageUnavailableError
        It is not installed and its wheel cannot be fetched, or it cannot be imported.
    """
    learning, sketching = _import("compressive_learning"), _import("sketching")

    def recover(problem: DecodingProblem, seed: int) -> NDArray[np.float64]:
        # pycle draws from NumPy's global generator.
        np.random.seed(seed)
        features = sketching.SimpleFeatureMap("complexExponential", np.array(problem.frequencies))
        # pycle's phases have their origin at zero, the problem's at the centre.
        bounds = np.stack([problem.lower - problem.centre, problem.upper - problem.centre])
        solver = learning.CLOMP_CKM(
            features, problem.n_clusters, bounds, sketch=np.array(problem.sketch)
        )
        solver.fit_once()
        return np.asarray(solver.get_centroids(), dtype=np.float64) + problem.centre

    return recover


def _import(module: str) -> Any:
    try:
        return importlib.import_module(f"pycle.{module}")
    except ModuleNotFoundError as error:
        if error.name != "pycle":
            raise _cannot_import(error) from error
    wheel = str(fetch_package(PYCLE))
    sys.path.append(wheel)
    importlib.invalidate_caches()
    try:
        return importlib.import_module(f"pycle.{module}")
    except ImportError as error:
        raise _cannot_import(error) from error


def _cannot_import(error: ImportError) -> PackageUnavailableError:
    return PackageUnavailableError(f"cannot be imported: {error}", field="pycle")
