from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from sfumato.learning.decoding.mixture.ensemble import fit_clusters
from sfumato.learning.decoding.mixture.gaussians import (
    Target,
    measure_in_wavelengths,
    prepare_target,
)
from sfumato.learning.decoding.mixture.growth import compute_drop_costs
from sfumato.learning.decoding.mixture.ladder import (
    Candidate,
    climb,
    compute_chance_cost,
    leaves_only_noise,
)
from tests.learning.decoding.conftest import MakeProblem
from tests.learning.decoding.targets import QUIET

MEANS = 3.0 + np.array([[-5.0, -4.0], [5.0, -3.0], [0.0, 5.0]])
N_RECORDS = 6000


def draw_records(spread: NDArray[np.float64], seed: int = 0) -> NDArray[np.float64]:
    rng = np.random.default_rng(seed)
    labels = rng.integers(3, size=N_RECORDS)
    return MEANS[labels] + rng.normal(size=(N_RECORDS, 2)) @ spread


def pose(make_problem: MakeProblem, records: NDArray[np.float64], noise_variance: float) -> Target:
    problem = make_problem(
        records, n_clusters=3, n_frequencies=90, half_width=12.0, noise_variance=noise_variance
    )
    energy = float(np.mean(np.abs(problem.sketch) ** 2)) - noise_variance
    sampling = (1.0 - energy) / len(records)
    known = replace(problem, noise_variance=noise_variance + sampling, sampling_variance=sampling)
    return prepare_target(measure_in_wavelengths(known))


def climb_from_nothing(target: Target) -> list[Candidate]:
    rng = np.random.default_rng(1)
    fits = fit_clusters(target, 3, n_replicates=6, rng=rng, monitor=QUIET)
    return climb(target, fits, rng=rng, monitor=QUIET)


@pytest.mark.parametrize(
    ("spread", "kind"),
    [
        (np.diag([1.5, 0.5]), "axes"),
        (np.array([[1.2, 0.9], [0.0, 0.5]]), "full"),
    ],
)
def test_the_model_of_the_records_is_chosen(
    make_problem: MakeProblem, spread: NDArray[np.float64], kind: str
) -> None:
    best = climb_from_nothing(pose(make_problem, draw_records(spread), 1e-4))[0]
    assert best.kind == kind
    assert len(best.fitted.atoms) == 3
    assert best.is_at_floor


def test_no_atom_is_left_that_chance_would_explain(make_problem: MakeProblem) -> None:
    rng = np.random.default_rng(2)
    ring = rng.uniform(0.0, 2.0 * np.pi, size=N_RECORDS)
    records = 3.0 + 4.0 * np.stack([np.cos(ring), np.sin(ring)], axis=1)
    target = pose(make_problem, records, 1e-4)
    for candidate in climb_from_nothing(target):
        if candidate.kind != "round":
            costs = compute_drop_costs(candidate.fitted.rows, candidate.fitted.atoms.weights)
            # The last steps of descent come after the last look.
            assert np.min(costs) > 0.5 * compute_chance_cost(target, candidate.fitted)


def test_clusters_that_are_not_round_leave_more_than_noise_to_round_ones(
    make_problem: MakeProblem,
) -> None:
    for spread, is_explained in ((np.eye(2), True), (np.diag([2.0, 0.4]), False)):
        target = pose(make_problem, draw_records(spread), 0.0)
        rng = np.random.default_rng(1)
        fits = fit_clusters(target, 3, n_replicates=6, rng=rng, monitor=QUIET)
        best = min(fits, key=lambda fit: fit.objective)
        assert leaves_only_noise(target, best, rng) == is_explained


@pytest.mark.parametrize("noise_variance", [0.0, 1e-3])
def test_round_clusters_stop_the_climb(make_problem: MakeProblem, noise_variance: float) -> None:
    target = pose(make_problem, draw_records(np.eye(2)), noise_variance)
    candidates = climb_from_nothing(target)
    assert all(len(candidate.fitted.atoms) == 3 for candidate in candidates)
    # Where the model is true, what is held out is missed as much as noise makes it: the sum over
    # 180 equations of errors that sampling ties together strays by a third and more.
    assert 0.4 < candidates[0].press / candidates[0].expected_press < 2.0
