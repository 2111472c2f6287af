import numpy as np
import pytest

from sfumato.learning.decoding.mixture.ellipsoid_descent import evaluate_shaped
from sfumato.learning.decoding.mixture.ellipsoids import widen
from sfumato.learning.decoding.mixture.gaussians import Atoms, Target
from sfumato.learning.decoding.mixture.ladder import Candidate
from sfumato.learning.decoding.mixture.pool import (
    choose_members,
    draw_pool,
    drop_unsupported,
    pool_clusters,
)
from sfumato.learning.decoding.mixture.posterior import draw_around
from tests.learning.decoding.targets import QUIET, draw_target

TRUTH = Atoms(
    centres=np.array([[-5.0, 0.0, 1.0], [4.0, 4.0, -3.0], [3.0, -5.0, 5.0]]),
    log_variances=np.zeros(3),
    weights=np.array([0.5, 0.3, 0.2]),
)


def candidate_of(target: Target, atoms: Atoms, press: float = 1.0) -> Candidate:
    return Candidate(
        fitted=evaluate_shaped(target, widen(atoms)),
        kind="round",
        press=press,
        floor=1.0,
        deviation=0.1,
        expected_press=1.0,
        left=np.zeros((2 * target.n_frequencies, 1)),
        leverages=np.zeros(2 * target.n_frequencies),
    )


def test_members_are_weighed_by_what_they_miss_of_held_out_equations() -> None:
    rng = np.random.default_rng(2)
    target = draw_target(rng, atoms=TRUTH, n_frequencies=80, noise_variance=1e-3)
    presses = (1.0, 1.1, 3.0)
    candidates = [candidate_of(target, TRUTH, press) for press in presses]
    members = choose_members(target, candidates, rng)
    assert sum(member.share for member in members) == pytest.approx(1.0)
    # The third misses more than twice as much as the first and has no part.
    assert 24 < len(members) <= 50


def test_an_atom_far_from_all_others_that_explains_next_to_nothing_goes_and_a_real_one_stays() -> (
    None
):
    rng = np.random.default_rng(6)
    rare = Atoms(
        centres=np.array([[8.0, 8.0, 8.0]]), log_variances=np.zeros(1), weights=np.array([0.05])
    )
    truth = TRUTH.join(rare)
    target = draw_target(rng, atoms=truth, n_frequencies=80, noise_variance=1e-5)
    phantom = Atoms(
        centres=np.array([[-9.0, 9.0, -9.0]]),
        log_variances=np.zeros(1),
        weights=np.array([0.002]),
    )
    candidates = [candidate_of(target, truth) for _ in range(3)]
    candidates.append(candidate_of(target, truth.join(phantom)))
    kept = drop_unsupported(target, candidates, rng)
    assert [len(candidate.fitted.atoms) for candidate in kept] == [4, 4, 4, 4]
    # One that only one fit found, but which explains much, is no phantom.
    lonely = [candidate_of(target, TRUTH) for _ in range(3)] + [candidate_of(target, truth)]
    assert [len(c.fitted.atoms) for c in drop_unsupported(target, lonely, rng)] == [3, 3, 3, 4]


def test_the_pool_has_the_moments_of_its_members_and_gives_their_clusters() -> None:
    rng = np.random.default_rng(5)
    target = draw_target(rng, atoms=TRUTH, n_frequencies=80, noise_variance=1e-6)
    members = choose_members(target, [candidate_of(target, TRUTH)], rng)
    pool = draw_pool(members, 50_000, rng)
    np.testing.assert_allclose(pool.mean(axis=0), TRUTH.weights @ TRUTH.centres, atol=0.1)
    clusters = pool_clusters(target, members, TRUTH.centres, rng=rng, monitor=QUIET).sort()
    np.testing.assert_allclose(clusters.centroids, TRUTH.centres, atol=0.1)
    np.testing.assert_allclose(clusters.shares, TRUTH.weights, atol=0.02)
    np.testing.assert_allclose(clusters.spreads, 1.0, atol=0.05)
    assert all(witness.ratio == pytest.approx(1.0, abs=0.02) for witness in clusters.witnesses)


def test_draws_about_a_fit_scatter_as_the_noise_lets_them() -> None:
    rng = np.random.default_rng(4)
    spread = []
    for noise_variance in (1e-4, 1e-2):
        target = draw_target(rng, atoms=TRUTH, n_frequencies=80, noise_variance=noise_variance)
        drawn = draw_around(target, candidate_of(target, TRUTH), 60, rng)
        centres = np.array([atoms.centres for atoms in drawn])
        spread.append(float(np.mean(np.std(centres, axis=0))))
    # Ten times the standard deviation of the noise; 60 draws tell it to a fifth.
    assert 6.0 < spread[1] / spread[0] < 15.0


def test_a_fit_of_light_atoms_that_no_other_supports_keeps_them() -> None:
    rng = np.random.default_rng(7)
    target = draw_target(rng, atoms=TRUTH, n_frequencies=80, noise_variance=1.0)
    astray = Atoms(
        centres=np.array([[-9.0, 9.0, -9.0], [9.0, -9.0, -9.0]]),
        log_variances=np.zeros(2),
        weights=np.array([1e-3, 1e-3]),
    )
    candidates = [candidate_of(target, TRUTH) for _ in range(3)]
    candidates.append(candidate_of(target, astray))
    kept = drop_unsupported(target, candidates, rng)
    assert [len(candidate.fitted.atoms) for candidate in kept] == [3, 3, 3, 2]
    assert sum(member.share for member in choose_members(target, kept, rng)) == pytest.approx(1.0)
