import dataclasses

import numpy as np
import pytest
from hypothesis import given, strategies as st
from numpy.typing import NDArray

from sfumato.learning.decoding.equations import (
    WeightedProblem,
    compute_quantile,
    standardise,
    weigh_equations,
)
from sfumato.learning.decoding.mixture.ellipsoid_descent import evaluate_shaped, form_equations
from sfumato.learning.decoding.mixture.ellipsoids import Ellipsoids, Kind, compute_rows, widen
from sfumato.learning.decoding.mixture.gaussians import (
    Target,
    compute_unit_atoms,
    measure_in_wavelengths,
    prepare_target,
)
from sfumato.learning.decoding.mixture.ladder import draw_errors
from sfumato.learning.decoding.points.atoms import compute_atoms, compute_misfit
from sfumato.learning.decoding.problem import DecodingProblem

from .targets import draw_atoms, draw_ellipsoids

Vector = NDArray[np.float64]

seeds = st.integers(0, 2**32 - 1)
KINDS: tuple[Kind, ...] = ("round", "axes", "full")


def draw_problem(seed: int, noise: Vector, *, n_dimensions: int = 3) -> DecodingProblem:
    """Draw a problem with a sketch of chance and features of the given noise."""
    rng = np.random.default_rng(seed)
    d, m = n_dimensions, len(noise)
    return DecodingProblem(
        sketch=rng.uniform(size=m) * np.exp(2j * np.pi * rng.uniform(size=m)),
        frequencies=rng.normal(size=(d, m)) / np.sqrt(d),
        lower=np.full(d, -10.0),
        upper=np.full(d, 10.0),
        centre=np.zeros(d),
        unit=np.ones(d),
        noise_variance=float(np.mean(noise)),
        n_clusters=1,
        feature_noise=noise,
    )


def draw_noise(seed: int, n_frequencies: int = 40) -> Vector:
    """Draw variances over two decades, none of them weak."""
    exponents = np.random.default_rng(seed).uniform(-2.0, 0.0, size=n_frequencies)
    noise: Vector = 10.0**exponents
    return noise


def repeat_features(problem: DecodingProblem, counts: NDArray[np.intp]) -> DecodingProblem:
    """Return the problem with every feature stated several times, each with the same noise."""
    return dataclasses.replace(
        problem,
        sketch=np.repeat(problem.sketch, counts),
        frequencies=np.repeat(problem.frequencies, counts, axis=1),
        feature_noise=None,
    )


def weigh(problem: DecodingProblem) -> WeightedProblem:
    weighted = weigh_equations(problem)
    assert isinstance(weighted, WeightedProblem)
    return weighted


def without_factors(target: Target) -> Target:
    return dataclasses.replace(target, factors=None)


@given(seed=seeds)
def test_weighted_equations_have_one_noise_variance_the_harmonic_mean(seed: int) -> None:
    noise = draw_noise(seed)
    problem = draw_problem(seed, noise)
    weighted = weigh(problem)
    harmonic = 1.0 / np.mean(1.0 / noise)
    np.testing.assert_allclose(weighted.factors**2 * noise, harmonic)
    assert weighted.feature_noise is not None
    np.testing.assert_allclose(weighted.feature_noise, harmonic)
    assert weighted.noise_variance == pytest.approx(harmonic)
    assert np.sum(weighted.factors**2) == pytest.approx(40.0)
    np.testing.assert_allclose(weighted.sketch, weighted.factors * problem.sketch)


@given(seed=seeds, scale=st.floats(1.0, 1e6))
def test_only_the_ratios_of_the_noise_make_the_factors(seed: int, scale: float) -> None:
    noise = draw_noise(seed)
    one, two = weigh(draw_problem(seed, noise)), weigh(draw_problem(seed, scale * noise))
    np.testing.assert_allclose(one.factors, two.factors, rtol=1e-12)


@pytest.mark.parametrize("noise", [np.zeros(40), np.full(40, 0.3), np.linspace(0.0, 1e-5, 40)])
def test_features_of_equal_or_weak_noise_count_alike(noise: Vector) -> None:
    problem = draw_problem(1, noise)
    alike = weigh_equations(problem)
    assert not isinstance(alike, WeightedProblem)
    assert alike.feature_noise is None
    assert alike.noise_variance == problem.noise_variance
    np.testing.assert_array_equal(alike.sketch, problem.sketch)


# Every row is the row of the equation times its factor.


@given(seed=seeds)
def test_the_rows_of_all_atoms_are_multiplied_by_the_factors(seed: int) -> None:
    rng = np.random.default_rng(seed)
    target = prepare_target(draw_problem(seed, draw_noise(seed)))
    plain = without_factors(target)
    assert target.factors is not None
    omega = target.factors.astype(np.float64)
    factors = np.tile(omega, 2)
    atoms, shaped = draw_atoms(rng, 3), draw_ellipsoids(rng, 3, slanted=True)
    points = atoms.centres
    np.testing.assert_allclose(
        compute_unit_atoms(target, atoms),
        factors * compute_unit_atoms(plain, atoms),
        rtol=1e-5,
        atol=1e-9,
    )
    np.testing.assert_allclose(
        compute_rows(target, shaped), factors * compute_rows(plain, shaped), rtol=1e-5, atol=1e-9
    )
    w = 2.0 * np.pi * target.turns
    masses = compute_atoms(points, w, omega)
    np.testing.assert_allclose(masses, factors * compute_atoms(points, w))
    np.testing.assert_allclose(np.sum(masses**2, axis=1), 40.0, rtol=1e-6)


def draw_shaped(rng: np.random.Generator, kind: Kind) -> Ellipsoids:
    if kind == "round":
        return widen(draw_atoms(rng, 2))
    return draw_ellipsoids(rng, 2, slanted=kind == "full")


# A feature with half of the noise counts as two features.


@given(seed=seeds, kind=st.sampled_from(KINDS))
def test_a_feature_with_half_of_the_noise_counts_as_two(seed: int, kind: Kind) -> None:
    rng = np.random.default_rng(seed)
    counts = rng.integers(1, 4, size=40)
    problem = draw_problem(seed, 0.5 / counts)
    once, often = prepare_target(problem), prepare_target(repeat_features(problem, counts))
    atoms = draw_shaped(rng, kind)
    one, many = evaluate_shaped(once, atoms), evaluate_shaped(often, atoms)
    # sum_j omega_j^2 = m in both.
    ratio = np.sum(counts) / 40.0
    assert ratio * one.misfit == pytest.approx(many.misfit, rel=1e-4)
    found, expected = (
        jacobian @ np.column_stack([fitted.residual, jacobian.T])
        for jacobian, fitted in (
            (form_equations(target, fitted, kind=kind)[0], fitted)
            for target, fitted in ((once, one), (often, many))
        )
    )
    np.testing.assert_allclose(ratio * found, expected, atol=1e-4 * np.abs(expected).max())


@given(seed=seeds)
def test_point_masses_see_it_twice_too(seed: int) -> None:
    rng = np.random.default_rng(seed)
    counts = rng.integers(1, 4, size=40)
    problem = draw_problem(seed, 0.5 / counts)
    points, weights = rng.normal(size=(2, 3)), rng.uniform(size=2)
    once, often = (
        compute_misfit(points, weights, posed.frequencies, posed.target, posed.factors)
        for posed in (standardise(problem), standardise(repeat_features(problem, counts)))
    )
    ratio = np.sum(counts) / 40.0
    assert ratio * once[0] == pytest.approx(often[0])
    np.testing.assert_allclose(ratio * once[1], often[1])
    np.testing.assert_allclose(ratio * once[2], often[2])


# Quantities beside the rows.


def test_simulated_noise_is_that_of_each_weighted_equation() -> None:
    noise = np.where(np.arange(400) % 2, 0.25, 0.01)
    problem = dataclasses.replace(draw_problem(6, noise), sampling_variance=0.008)
    target = prepare_target(problem)
    atoms = evaluate_shaped(target, widen(draw_atoms(np.random.default_rng(0), 3)))
    errors = draw_errors(target, atoms, np.random.default_rng(1))
    # E|error|^2 of a complex equation, over the 200 equations of either kind and 64 draws.
    energies = np.mean(errors[:400] ** 2 + errors[400:] ** 2, axis=1)
    assert target.noise_variance == pytest.approx(1.0 / 52.0)
    # White noise scatters by 1 in sqrt(12800), sampling errors, which 2,000 samples stand for and
    # which are correlated, by some 1 in 40.
    assert np.mean(energies[::2]) == pytest.approx(1.0 / 52.0, rel=0.15)
    assert np.mean(energies[1::2]) == pytest.approx(1.0 / 52.0, rel=0.05)
    sampled = draw_errors(
        dataclasses.replace(target, feature_noise=np.zeros(400)), atoms, np.random.default_rng(1)
    )
    shares = np.mean(sampled[:400] ** 2 + sampled[400:] ** 2, axis=1)
    assert np.mean(shares[::2]) / np.mean(shares[1::2]) == pytest.approx(25.0, rel=0.2)


def test_weighing_twice_is_weighing_once() -> None:
    weighted = weigh_equations(draw_problem(0, draw_noise(0)))
    assert weigh_equations(weighted) is weighted


def test_weak_noise_stays_known_where_it_does_not_make_the_factors() -> None:
    noise = np.where(np.arange(40) % 2, 1e-9, 0.1)
    weighted = weigh(draw_problem(1, noise))
    assert weighted.feature_noise is not None
    np.testing.assert_allclose(weighted.feature_noise, weighted.factors**2 * noise)
    assert np.max(weighted.feature_noise[1::2]) < 1e-8


def test_loud_features_do_not_pass_for_signal() -> None:
    noise = np.tile([0.01, 0.04, 0.01, 1e9], 10)
    problem = draw_problem(1, noise)
    sketch = np.where(noise > 1.0, 5e4, problem.sketch)
    factors = weigh(dataclasses.replace(problem, sketch=sketch)).factors
    np.testing.assert_allclose(factors[0::4] / factors[1::4], 2.0)


@given(seed=seeds, sketch=st.sampled_from([0.0, 1.0]))
def test_noise_of_any_size_gives_finite_factors(seed: int, sketch: float) -> None:
    rng = np.random.default_rng(seed)
    noise = rng.choice([0.0, 1e-300, 1e-9, 1.0, 1e12], size=12)
    problem = draw_problem(seed, noise)
    weighted = weigh_equations(dataclasses.replace(problem, sketch=sketch * problem.sketch))
    if isinstance(weighted, WeightedProblem):
        assert np.all(np.isfinite(weighted.factors))
        assert np.sum(weighted.factors**2) == pytest.approx(12.0)


@given(seed=seeds, share=st.floats(0.01, 0.99))
def test_quantiles_by_equal_precision_are_those_of_numpy(seed: int, share: float) -> None:
    values = np.random.default_rng(seed).normal(size=21)
    found = compute_quantile(values, share, np.full(21, 0.7))
    assert found == pytest.approx(np.quantile(values, share))


def test_features_that_count_nothing_have_no_part_in_a_quantile() -> None:
    values, factors = np.arange(60.0), np.repeat([1.0, 1e-9], 30)
    assert compute_quantile(values, 0.5, factors) == pytest.approx(14.5, abs=0.5)


def test_features_of_boundless_noise_do_not_shape_the_search() -> None:
    noise = np.where(np.arange(40) % 2, 1e9, 0.01)
    problem = draw_problem(5, noise)
    quiet = dataclasses.replace(
        problem,
        sketch=problem.sketch[::2],
        frequencies=problem.frequencies[:, ::2],
        feature_noise=None,
        noise_variance=0.01,
    )
    whole, half = (prepare_target(measure_in_wavelengths(posed)) for posed in (problem, quiet))
    np.testing.assert_allclose(whole.lower, half.lower, rtol=0.02)
    np.testing.assert_allclose(whole.log_variance_bounds, half.log_variance_bounds, rtol=0.02)
    assert whole.n_informative == pytest.approx(20.0, rel=1e-3)
    assert half.n_informative == 20
    # Each of the equations that count is multiplied by sqrt(2).
    assert whole.noise_variance == pytest.approx(2.0 * half.noise_variance, rel=1e-6)
    shortened = whole.shorten(20)
    np.testing.assert_array_equal(shortened.turns, whole.turns[:, ::2])
    np.testing.assert_allclose(shortened.sketch, np.sqrt(2.0) * half.sketch, rtol=1e-5)
    assert shortened.feature_noise is not None
    np.testing.assert_allclose(shortened.feature_noise, 0.02, rtol=1e-6)
