import math

import numpy as np
import pytest

from aggregator.decoding.ensemble import (
    compute_floor,
    count_agreeing,
    fit_clusters,
    fit_over_complete,
    perturb_members,
    weigh_members,
)
from aggregator.decoding.gaussians import Atoms
from aggregator.decoding.levenberg import evaluate, refine
from aggregator.decoding.pooling import draw_pool, pool_clusters

from .targets import QUIET, draw_atoms, draw_target

TRUTH = Atoms(
    centres=np.array([[-5.0, 0.0, 1.0], [4.0, 4.0, -3.0], [3.0, -5.0, 5.0]]),
    log_variances=np.zeros(3),
    weights=np.array([0.5, 0.3, 0.2]),
)


def test_the_true_mixture_is_at_the_floor_of_its_noise() -> None:
    # The mean of |noise|^2 over 4000 coordinates: the floor is one standard deviation above, so
    # three above it is exceeded once in 30,000 such seeds.
    rng = np.random.default_rng(0)
    target = draw_target(rng, atoms=TRUTH, n_frequencies=4000, noise_variance=0.02)
    noise = rng.normal(size=8000) * 0.1
    noisy = target.with_sketch((target.sketch + noise).astype(np.float32))
    floor = compute_floor(noisy, 0)
    misfit = evaluate(noisy, TRUTH).misfit
    assert misfit < floor + 3.0 * 0.02 * np.sqrt(4000.0)
    assert misfit > 0.9 * floor


@pytest.mark.parametrize(("noise_variance", "n_fits"), [(0.0, 1), (0.01, 3)])
def test_one_fit_is_enough_without_noise_and_three_that_agree_with_it(
    noise_variance: float, n_fits: int
) -> None:
    rng = np.random.default_rng(1)
    target = draw_target(rng, atoms=TRUTH, n_frequencies=60, noise_variance=noise_variance)
    fits = fit_clusters(target, 3, n_replicates=12, rng=rng, monitor=QUIET)
    assert target.has_weak_noise == (noise_variance == 0.0)
    assert len(fits) == n_fits
    assert count_agreeing(target, fits) == n_fits


def test_shares_sum_to_one_and_fall_with_the_objective() -> None:
    rng = np.random.default_rng(2)
    target = draw_target(rng, atoms=TRUTH, noise_variance=0.5)
    fits = [evaluate(target, draw_atoms(rng, 3)) for _ in range(5)]
    fits.sort(key=lambda fit: fit.objective)
    shares = [member.share for member in weigh_members(target, fits)]
    assert sum(shares) == pytest.approx(1.0)
    assert shares == sorted(shares, reverse=True)


def test_shares_are_in_the_ratio_of_posterior_densities_unless_tempered() -> None:
    rng = np.random.default_rng(2)
    target = draw_target(rng, atoms=TRUTH, noise_variance=0.5)
    fits = [
        evaluate(target, TRUTH),
        refine(target, evaluate(target, TRUTH), n_iterations=1, tolerance=0.0, monitor=QUIET),
    ]
    log_odds = (fits[0].objective - fits[1].objective) / target.noise_variance
    for temper in (1.0, 10.0):
        one, other = (member.share for member in weigh_members(target, fits, temper=temper))
        assert math.log(other / one) == pytest.approx(log_odds / temper)


def test_at_weak_noise_all_members_count_alike() -> None:
    rng = np.random.default_rng(2)
    target = draw_target(rng, atoms=TRUTH)
    fits = [evaluate(target, draw_atoms(rng, 3)) for _ in range(4)]
    assert [member.share for member in weigh_members(target, fits)] == [0.25] * 4


def test_over_complete_fits_explain_more_than_k_atoms() -> None:
    rng = np.random.default_rng(3)
    truth = draw_atoms(rng, 8)
    target = draw_target(rng, atoms=truth, n_frequencies=120)
    few = fit_clusters(target, 3, n_replicates=1, rng=rng, monitor=QUIET)[0]
    members = fit_over_complete(target, 3, rng=rng, monitor=QUIET)
    assert len(members) == 10
    assert all(len(member.fitted.atoms) == 12 for member in members)
    assert max(member.fitted.misfit for member in members) < few.misfit


def test_draws_about_a_member_scatter_as_the_noise_lets_them() -> None:
    rng = np.random.default_rng(4)
    spread = []
    for noise_variance in (1e-4, 1e-2):
        target = draw_target(rng, atoms=TRUTH, n_frequencies=80, noise_variance=noise_variance)
        members = weigh_members(target, [evaluate(target, TRUTH)])
        drawn = perturb_members(target, members, n_draws=20, rng=rng, monitor=QUIET)
        assert sum(member.share for member in drawn) == pytest.approx(1.0)
        centres = np.array([member.fitted.atoms.centres for member in drawn])
        spread.append(float(np.mean(np.std(centres, axis=0))))
    # Ten times the standard deviation of the noise; 20 draws tell it to about a third.
    assert 5.0 < spread[1] / spread[0] < 20.0


def test_the_pool_has_the_moments_of_its_members_and_gives_their_clusters() -> None:
    rng = np.random.default_rng(5)
    target = draw_target(rng, atoms=TRUTH, n_frequencies=80)
    members = weigh_members(target, [evaluate(target, TRUTH)])
    pool = draw_pool(target, members, 50_000, rng)
    np.testing.assert_allclose(pool.mean(axis=0), TRUTH.weights @ TRUTH.centres, atol=0.1)
    clusters = pool_clusters(target, members, TRUTH, rng=rng, monitor=QUIET)
    order = np.argsort(-clusters.shares)
    np.testing.assert_allclose(clusters.centroids[order], TRUTH.centres, atol=0.1)
    np.testing.assert_allclose(clusters.shares[order], TRUTH.weights, atol=0.02)
    np.testing.assert_allclose(clusters.spreads, 1.0, atol=0.05)
