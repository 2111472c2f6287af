"""The design of a mixture of networks: what it publishes bounds the loss, and no size leaks."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import dp_accounting
import numpy as np
import pytest
from dp_accounting.pld import pld_privacy_accountant
from numpy.typing import NDArray

from sfumato.lab.generative import network_mixture
from sfumato.lab.generative.network_mixture import NetworkDesign, read_rate
from sfumato.lab.generative.networks import training
from sfumato.lab.generative.networks.clipping import NORM, Clipping
from sfumato.lab.generative.partition import FeatureMap, KernelPartition
from sfumato.lab.generative.wide_gaussian import WideGaussian
from sfumato.shared.core.quantise import Quantiser
from sfumato.shared.errors import ConfigError
from sfumato.shared.privacy.testing import SeededSource

D, K = 4, 2
EPSILON, DELTA = Fraction(2), Fraction(1, 10**5)


def make_quantiser() -> Quantiser:
    return Quantiser.from_bounds(np.zeros(D), np.ones(D))


def make_partition() -> KernelPartition:
    features = FeatureMap.draw(make_quantiser(), n_features=20, bandwidth=1.0, seed=bytes(32))
    return KernelPartition(features=features, n_parts=K, n_rounds=3, start=None, seed=1)


def make_design(**changes: Any) -> NetworkDesign:
    usual: dict[str, Any] = {
        "quantiser": make_quantiser(),
        "n_parts": K,
        "partition": None,
        "share_of_parts": Fraction(1, 4),
        "network": "vae",
        "n_hidden": 6,
        "n_latent": 2,
        "clipping": Clipping(),
        "rate": read_rate(0.25),
        "n_steps": 20,
        "learning_rate": 0.02,
        "relation": "add-remove-one",
        "epsilon": EPSILON,
        "delta": DELTA,
    }
    return NetworkDesign(**(usual | changes))


def audit(public: dict[str, Any]) -> float:
    """Compute delta of a published design anew, from variances and distances alone."""
    accountant = pld_privacy_accountant.PLDAccountant()

    def add(stage: dict[str, Any]) -> float:
        return math.sqrt((stage["sigma_squared"] - 4) / stage["squared_distance"])

    step = dp_accounting.PoissonSampledDpEvent(
        float(public["batch_rate"]), dp_accounting.GaussianDpEvent(add(public["gradients"]))
    )
    accountant.compose(dp_accounting.SelfComposedDpEvent(step, public["n_steps"]))
    accountant.compose(dp_accounting.GaussianDpEvent(add(public["sizes"])))
    if public["partition"]:
        rounds = dp_accounting.GaussianDpEvent(add(public["partition"]))
        accountant.compose(
            dp_accounting.SelfComposedDpEvent(rounds, public["partition"]["n_rounds"])
        )
    return float(accountant.get_delta(float(public["epsilon"])))


@pytest.mark.parametrize("finds_parts", [False, True])
def test_published_noise_guarantees_what_was_asked_and_little_more(finds_parts: bool) -> None:
    design = make_design(partition=make_partition() if finds_parts else None)
    assert 0.8 * float(DELTA) < audit(design.public) <= float(DELTA)


@pytest.mark.parametrize("stage", ["gradients", "sizes", "partition"])
def test_noise_that_is_scaled_by_a_wrong_sensitivity_is_found(stage: str) -> None:
    public = make_design(partition=make_partition()).public
    wrong = {**public[stage], "squared_distance": public[stage]["squared_distance"] * 4}
    if stage == "sizes":
        # They have a small share, so that it takes a larger mistake.
        wrong["squared_distance"] *= 16
    assert audit({**public, stage: wrong}) > float(DELTA)


def test_what_is_released_moves_by_no_more_than_what_is_published() -> None:
    # Each stage's distance is that of one record, however long: see also the tests of each stage.
    design = make_design(partition=make_partition())
    assert design.partition is not None
    public = design.public
    assert public["gradients"]["squared_distance"] == NORM**2
    assert public["partition"]["squared_distance"] == design.partition.squared_distance


class Spy:
    """Stands in for the training, and notes what it was given beside the records."""

    def __init__(self) -> None:
        self.given: list[tuple[float, Any]] = []
        self.n_records: list[int] = []

    def __call__(
        self, network: Any, records: NDArray[np.float64], rule: Any, *, size: float, **rest: Any
    ) -> list[NDArray[np.int64]]:
        del rest
        self.given.append((size, rule))
        self.n_records.append(len(records))
        return [np.zeros(shape, dtype=np.int64) for shape in network.shapes]


def watch(
    monkeypatch: pytest.MonkeyPatch, counts: tuple[int, int], *, leak: bool = False
) -> tuple[Spy, NDArray[np.int64]]:
    """Train on parts of some sizes with noise that makes the released sizes equal."""
    spy, wanted = Spy(), np.array([700, 300]) * 4096

    def cancel(self: WideGaussian, source: Any, count: int) -> NDArray[np.int64]:
        del self, source
        assert count == K
        return np.asarray(wanted - np.array(counts) * 4096)

    read = NetworkDesign.read_sizes
    with monkeypatch.context() as patch:
        patch.setattr(network_mixture, "train", spy)
        patch.setattr(WideGaussian, "draw", cancel)
        if leak:
            patch.setattr(
                NetworkDesign,
                "read_sizes",
                lambda self, noisy: read(self, 0 * noisy + 4096) * 0 + np.array(counts),
            )
        records = np.full((sum(counts), D), 0.5)
        places = np.repeat([0, 1], counts)
        numbers = make_design().release(records, places, SeededSource(0), np.random.default_rng(0))
    return spy, numbers


def test_nothing_but_noisy_sizes_reaches_a_training(monkeypatch: pytest.MonkeyPatch) -> None:
    first, one = watch(monkeypatch, (700, 300))
    second, two = watch(monkeypatch, (910, 300))
    assert first.n_records != second.n_records
    assert first.given == second.given == [(700.0, first.given[0][1]), (300.0, first.given[1][1])]
    assert one.tolist() == two.tolist()
    # The planted mistake: exact sizes.
    leaking, _ = watch(monkeypatch, (910, 300), leak=True)
    assert leaking.given != first.given


def test_a_part_that_noise_hides_is_not_trained_and_its_size_is_zero() -> None:
    rng = np.random.default_rng(0)
    records = rng.random((2000, D))
    design = make_design(n_parts=3)
    numbers = design.release(
        records, rng.integers(0, 2, size=2000), SeededSource(1), np.random.default_rng(0)
    )
    model = design.read(numbers)
    assert model.sizes[2] == 0.0
    assert np.allclose(model.sizes[:2], 1000, rtol=0.1)
    assert not any(layer.any() for layer in model.weights[2])
    assert all(layer.any() for layer in model.weights[0])
    _, of = model.draw(500, np.random.default_rng(0))
    assert set(of) == {0, 1}


def test_a_record_with_a_missing_value_or_without_part_changes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spy = Spy()
    monkeypatch.setattr(network_mixture, "train", spy)
    records = np.full((600, D), 0.5)
    records[:100, 1] = [np.nan, np.inf] * 50
    places = np.where(np.arange(600) < 200, 5, np.arange(600) % 2)
    places[:100] = 0
    make_design().release(records, places, SeededSource(0), np.random.default_rng(0))
    assert spy.n_records == [200, 200]


def test_replaced_records_take_more_noise() -> None:
    one, two = make_design(), make_design(relation="replace-one")
    assert two.rule.multiplier > 1.5 * one.rule.multiplier
    assert two.sizes_noise.variance > one.sizes_noise.variance


def test_the_first_weights_and_the_rest_of_chance_are_public(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # With noise that is nought and batches of all, a fit is a function of records and seed.
    monkeypatch.setattr(
        WideGaussian, "draw", lambda self, source, count: np.zeros(count, dtype=np.int64)
    )
    monkeypatch.setattr(training, "draw_batch", lambda source, n, rate: np.arange(n))
    records, places = np.random.default_rng(1).random((900, D)), np.zeros(900, dtype=np.intp)
    design = make_design(n_parts=1, network="rbm")
    found = [
        design.release(records, places, SeededSource(i), np.random.default_rng(3)).tolist()
        for i in range(2)
    ]
    assert found[0] == found[1]


def test_released_numbers_are_read_as_they_were_written() -> None:
    design = make_design(partition=make_partition())
    assert design.partition is not None
    n = design.n_centroids + K + K * design.n_weights
    model = design.read(np.arange(n, dtype=np.int64) + 10**6)
    assert model.centroids is not None
    assert model.centroids.shape == (K, 20)
    assert model.centroids[0, 0] == 10**6
    assert model.weights[-1][-1][-1, -1] == n - 1 + 10**6
    assert model.find_parts(np.array([[0.5] * D, [np.nan] * D])).tolist()[1] == -1


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"n_parts": 0}, "n_parts"),
        ({"n_hidden": 5000}, "n_hidden"),
        ({"n_latent": 0}, "n_latent"),
        ({"network": "gan"}, "network"),
        ({"learning_rate": 0.0}, "learning_rate"),
        ({"share_of_parts": Fraction(1)}, "share_for_parts"),
        (
            {"quantiser": Quantiser.from_bounds(np.zeros(5000), np.ones(5000))},
            "n_features",
        ),
    ],
)
def test_a_number_out_of_range_is_refused_by_name(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(ConfigError) as refused:
        make_design(**changes)
    assert refused.value.field == field
