"""Releases of generative models are stored, read back, and sampled without spending again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from sfumato.analyst.estimators import MomentMixture
from sfumato.lab import NetworkMixture
from sfumato.shared.cbor import decode_deterministic, encode_deterministic
from sfumato.shared.errors import MalformedMessageError, PrivacyError
from tests.analyst.estimators import test_moment_mixture
from tests.lab.estimators import test_network_mixture

Model = MomentMixture | NetworkMixture


def fit_moments() -> Model:
    return test_moment_mixture.make().fit(*test_moment_mixture.draw(3000))


def fit_networks() -> Model:
    return test_network_mixture.make(n_steps=5).fit(*test_network_mixture.draw(2000))


def fit_found_parts() -> Model:
    records, _ = test_network_mixture.draw(2000)
    changes: dict[str, Any] = {"parts": None, "n_parts": 2, "n_steps": 5, "n_kernel_features": 16}
    model = test_network_mixture.make(**changes, start=records[:2], public_seed="a")
    return model.fit(records.to_numpy())


@pytest.fixture(
    scope="module",
    params=[
        fit_moments,
        pytest.param(fit_networks, marks=pytest.mark.lab),
        pytest.param(fit_found_parts, marks=pytest.mark.lab),
    ],
)
def model(request: pytest.FixtureRequest) -> Model:
    fit: Callable[[], Model] = request.param
    return fit()


def test_a_stored_release_is_the_same_model_and_spends_nothing(model: Model) -> None:
    data = model.release_.encode()
    again = type(model).decode(data)
    assert again.release_.encode() == data
    assert again.events_ == ()
    assert again.guarantee_ == model.guarantee_
    assert again.parts_ == model.parts_
    assert again.describe() == model.describe()
    again.random_state = model.random_state
    for mine, theirs in zip(again.sample(50), model.sample(50), strict=True):
        assert np.array_equal(mine, theirs)
    names = vars(model).get("feature_names_in_")
    assert (names is None) == ("feature_names_in_" not in vars(again))
    with pytest.raises(PrivacyError, match="would spend it again"):
        again.fit(np.zeros((10, model.n_features_in_)))


DAMAGE: dict[str, tuple[tuple[str | int, ...], Any]] = {
    "format": (("format",), "sfumato"),
    "version": (("version",), 99),
    "no design": (("design",), {}),
    "negative number": (("n_records",), -1),
    "few sums": (("sums",), [1, 2, 3]),
    "sums as text": (("sums",), "many"),
    "a fraction among sums": (("sums", 0), 0.5),
    "a sum beyond 64 bits": (("sums", 0), 2**70),
    "bounds": (("design", "parameters", "bounds"), [[0.0], [2.0]]),
    "epsilon": (("design", "parameters", "epsilon"), "much"),
    "relation": (("design", "parameters", "relation"), "neighbours"),
    "unknown parameter": (("design", "parameters", "secret"), 1),
    "names": (("design", "names"), None),
    "estimator": (("design", "estimator"), "AutoKMeans"),
}


@pytest.mark.parametrize(("path", "value"), DAMAGE.values(), ids=DAMAGE)
def test_bytes_that_do_not_hold_together_are_refused_by_name(
    model: Model, path: tuple[str | int, ...], value: Any
) -> None:
    document: Any = decode_deterministic(model.release_.encode(), what="release")
    place = document
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    with pytest.raises(MalformedMessageError, match="release"):
        type(model).decode(encode_deterministic(document))


def test_bytes_that_are_cut_or_of_another_model_are_refused(model: Model) -> None:
    data = model.release_.encode()
    with pytest.raises(MalformedMessageError, match="release"):
        type(model).decode(data[:-1])
    other = NetworkMixture if isinstance(model, MomentMixture) else MomentMixture
    with pytest.raises(
        MalformedMessageError, match=f"release: must be a release of {other.__name__}"
    ):
        other.decode(data)


def test_nothing_that_is_stored_names_a_file_or_a_seed_of_draws(model: Model) -> None:
    stored = model.release_.design["parameters"]
    assert not {"ledger", "source", "budget", "random_state", "refit"} & set(stored)
