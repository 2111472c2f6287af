import numpy as np
import pytest

from sfumato.learning.decoding.mixture.ensemble import count_agreeing, fit_clusters
from sfumato.learning.decoding.mixture.gaussians import Atoms
from tests.learning.decoding.targets import QUIET, draw_target

TRUTH = Atoms(
    centres=np.array([[-5.0, 0.0, 1.0], [4.0, 4.0, -3.0], [3.0, -5.0, 5.0]]),
    log_variances=np.zeros(3),
    weights=np.array([0.5, 0.3, 0.2]),
)


@pytest.mark.parametrize(("noise_variance", "n_fits"), [(0.0, 2), (0.01, 3)])
def test_as_many_fits_are_made_as_have_to_agree_at_weak_noise_and_under_noise(
    noise_variance: float, n_fits: int
) -> None:
    rng = np.random.default_rng(1)
    target = draw_target(rng, atoms=TRUTH, n_frequencies=60, noise_variance=noise_variance)
    fits = fit_clusters(target, 3, n_replicates=12, rng=rng, monitor=QUIET)
    assert target.has_weak_noise == (noise_variance == 0.0)
    assert len(fits) == n_fits
    assert count_agreeing(target, fits) == n_fits


def test_fits_that_do_not_agree_are_made_again_up_to_the_limit() -> None:
    # A sketch of nothing but chance has many optima.
    rng = np.random.default_rng(2)
    target = draw_target(rng, n_frequencies=40)
    fits = fit_clusters(target, 4, n_replicates=3, rng=rng, monitor=QUIET)
    assert len(fits) == 3
    assert count_agreeing(target, fits) < 2


@pytest.mark.parametrize(("noise_variance", "n_fits"), [(3e-6, 1), (1e-5, 2)])
def test_one_large_fit_that_leaves_only_noise_is_enough_where_noise_hides_no_misplaced_cluster(
    noise_variance: float, n_fits: int
) -> None:
    rng = np.random.default_rng(3)
    atoms = Atoms(
        centres=rng.uniform(-6.0, 6.0, size=(140, 5)),
        log_variances=np.zeros(140),
        weights=np.full(140, 1.0 / 140.0),
    )
    target = draw_target(
        rng, n_dimensions=5, atoms=atoms, n_frequencies=1_000, noise_variance=noise_variance
    )
    fits = fit_clusters(target, 140, n_replicates=2, rng=rng, monitor=QUIET)
    assert len(fits) == n_fits
