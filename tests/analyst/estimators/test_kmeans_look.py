"""A second look at the records of a fit, and the optimum that an exact fit ends in."""

from __future__ import annotations

import warnings
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.datasets import load_wine

from sfumato import CompressiveKMeans
from sfumato.learning.answers.clusters import find_worse
from sfumato.shared.errors import BudgetExceededError, ConfigError, TableError
from sfumato.shared.plan import ClustersPart
from sfumato.shared.spending import OwnersLedger
from sfumato.shared.spending.turns import CountedTurn
from tests.analyst.sketching.samples import seed_sketches

Floats = NDArray[np.float64]
CENTRES = np.array([[-8.0, 0.0, 3.0], [0.0, 8.0, -3.0], [8.0, -4.0, 0.0], [2.0, -8.0, 8.0]])


@pytest.fixture(autouse=True)
def _seed(monkeypatch: pytest.MonkeyPatch) -> None:
    # What is measured lies within five of its errors; with fresh noise one run in 300 would not.
    seed_sketches(monkeypatch)


def make_records(n: int = 20_000, seed: int = 0) -> Floats:
    rng = np.random.default_rng(seed)
    chosen = rng.choice(4, n, p=[0.4, 0.3, 0.2, 0.1])
    return np.asarray(CENTRES[chosen] + rng.normal(size=(n, 3)))


def fit(records: Floats, epsilon: str = "1/2", **more: Any) -> CompressiveKMeans:
    return CompressiveKMeans(
        4, epsilon=epsilon, bounds=(-15, 15), scale=1.0, random_state=0, public_seed=1, **more
    ).fit(records)


def cost(records: Floats, centres: Floats) -> float:
    return float(((records[:, None] - centres) ** 2).sum(axis=2).min(axis=1).sum())


def test_a_look_measures_and_refines_what_was_found_at_a_cost_that_is_counted() -> None:
    records = make_records()
    found = fit(records)
    first = found.cluster_centers_.copy()
    look = found.look(records, epsilon="1/2", refine=True)
    assert look.verdict == find_worse(look.body.verdict.word, found.result_.verdict)
    assert look.body.verdict.word in ("sound", "rough")
    labels = ((records[:, None] - first) ** 2).sum(axis=2).argmin(axis=1)
    counts = np.bincount(labels, minlength=4)
    for each, count in zip(look.body.clusters, counts, strict=True):
        assert each.n_records.value == pytest.approx(count, abs=5 * each.n_records.error)
    before, after = cost(records, first), cost(records, look.centers)
    best = KMeans(4, init=CENTRES, n_init=1).fit(records).inertia_
    assert after < before
    assert after < 1.0005 * best
    assert look.body.gain is not None
    means = np.array([records[labels == j].mean(axis=0) for j in range(4)])
    gain = 1.0 - cost(records, means) / before
    assert look.body.gain.value == pytest.approx(gain, abs=5 * look.body.gain.error)
    assert np.array_equal(found.cluster_centers_, look.centers)
    assert np.array_equal(found.predict(CENTRES), [0, 1, 2, 3])
    assert np.array_equal(found.centers_std_, look.centers_std)
    assert found.guarantee_.epsilon == 1
    assert [event.epsilon for event in found.events_] == [Fraction(1, 2), Fraction(1, 2)]
    # Decoding again leaves the look behind, and what it cost stays counted.
    assert np.array_equal(found.decode().cluster_centers_, first)
    assert found.guarantee_.epsilon == 1


def test_two_looks_of_the_same_records_cost_twice_and_have_noise_of_their_own() -> None:
    records = make_records(8000)
    found = fit(records)
    looks = [found.look(records, epsilon="1/4") for _ in range(2)]
    assert found.guarantee_.epsilon == 1
    shares = [[each.share.value for each in look.body.clusters] for look in looks]
    assert shares[0] != shares[1]
    assert looks[0].plan == looks[1].plan


@pytest.mark.parametrize("relation", ["replace-one", "add-remove-one"])
def test_gaussian_noise_and_a_secret_number_of_records_are_measured_too(relation: str) -> None:
    records = make_records()
    found = fit(records, relation=relation, max_records=30_000)
    look = found.look(records, epsilon="1/2", delta="1e-6")
    assert look.body.n_records.value == pytest.approx(20_000, abs=5 * look.body.n_records.error)
    assert look.guarantee.neighbouring == relation


def test_a_budget_that_does_not_suffice_refuses_a_look_before_noise_is_drawn(
    tmp_path: Path,
) -> None:
    records = make_records(8000)
    source = tmp_path / "records.csv"
    source.write_text("1\n")
    account = {"ledger": str(tmp_path / "ledger"), "source": str(source), "budget": "1"}
    found = fit(records, **account)
    with pytest.raises(BudgetExceededError):
        found.look(records, epsilon="3/4")
    assert found.guarantee_.epsilon == Fraction(1, 2)
    assert found.look(records, epsilon="1/2").guarantee.epsilon == Fraction(1, 2)


def test_a_look_at_other_columns_or_after_an_exact_fit_is_refused() -> None:
    records = make_records(4000)
    with pytest.raises(TableError):
        fit(records).look(records[:, :2], epsilon="1")
    with pytest.raises(ConfigError, match="exact"):
        CompressiveKMeans(4).fit(records).look(records, epsilon="1")


def test_an_exact_fit_ends_in_an_optimum_of_k_means() -> None:
    records = load_wine().data[:, :4]
    found = CompressiveKMeans(5, random_state=0).fit(records)
    scaled = records / found.metric_
    reference = KMeans(5, n_init=4, random_state=0).fit(scaled)
    assert cost(scaled, found.cluster_centers_ / found.metric_) < 1.01 * reference.inertia_
    labels = found.labels_
    means = np.array([records[labels == j].mean(axis=0) for j in range(5)])
    assert np.allclose(means, found.cluster_centers_, rtol=1e-6)
    assert np.allclose(found.weights_, np.bincount(labels) / len(records))
    assert np.array_equal(found.result_.centroids, found.cluster_centers_)
    assert found.n_iter_ > 1


@pytest.mark.parametrize("share", ["auto", "0.4"])
def test_a_fit_that_leaves_a_share_for_a_look_spends_epsilon_once(share: str) -> None:
    records = make_records(40_000)
    found = fit(records, epsilon="1", look_share=share)
    assert found.guarantee_.epsilon == 1
    assert len(found.events_) == 2
    assert [event.epsilon for event in found.plan_events(40_000, 3)] == [
        event.epsilon for event in found.events_
    ]
    assert np.array_equal(found.cluster_centers_, found.look_.centers)
    assert cost(records, found.cluster_centers_) < 1.001 * cost(records, CENTRES)


def test_a_look_is_left_out_where_the_rest_of_epsilon_would_not_find_the_clusters() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = fit(make_records(2000), epsilon="1", look_share="auto")
    assert [event.epsilon for event in found.events_] == [1]
    with pytest.raises(AttributeError, match="no second look"):
        found.look_  # noqa: B018 - asking is the test


class Killed(BaseException):
    """Ends a fit as a signal does: nothing that follows is done."""


@pytest.mark.parametrize("survived", [0, 1, 2])
def test_a_fit_that_is_killed_at_its_sketch_or_its_look_is_finished_without_spending_again(
    survived: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = make_records()
    source = tmp_path / "records.csv"
    source.write_text("1\n")
    given: dict[str, Any] = {"ledger": tmp_path / "ledger", "source": source, "budget": "1"}
    drawn: list[list[int]] = []

    def draw(turn: CountedTurn, draw_sums: Any, *, original: Any = CountedTurn.draw) -> Any:
        drawn.append(original(turn, draw_sums).tolist())
        if len(drawn) > survived:
            raise Killed
        return np.array(drawn[-1])

    def refuse(*_: object) -> None:
        raise Killed

    def make() -> CompressiveKMeans:
        return CompressiveKMeans(
            4, epsilon="1", bounds=(-15, 15), scale=1.0, look_share="0.4", **given
        )

    with monkeypatch.context() as patch:
        patch.setattr(CountedTurn, "draw", draw)
        if survived == 2:
            # Both were drawn, and neither was shown.
            patch.setattr("sfumato.analyst.estimators.look.take_looks", refuse)
        with pytest.raises(Killed):
            make().fit(records)
    found = make().fit(records)
    assert found.release_.sums.tolist() == drawn[0]
    if survived:
        cells = found.look_.body.clusters
        part = found.look_.plan.statistic
        assert isinstance(part, ClustersPart)
        numbers = [round(each.n_records.value * part.units.count) for each in cells]
        size = (len(drawn[1]) - 1) // len(cells)
        assert numbers == drawn[1][: size * len(cells) : size]
    assert found.guarantee_.epsilon == 1
    events, _ = OwnersLedger(tmp_path / "ledger").load()
    assert sorted(event.epsilon for event in events) == [Fraction(2, 5), Fraction(3, 5)]
    assert not list(tmp_path.glob("*.turn"))


def test_a_budget_that_does_not_cover_the_look_refuses_the_fit_before_its_sketch(
    tmp_path: Path,
) -> None:
    source = tmp_path / "records.csv"
    source.write_text("1\n")
    account = {"ledger": str(tmp_path / "ledger"), "source": str(source), "budget": "0.9"}
    with pytest.raises(BudgetExceededError):
        fit(make_records(8000), epsilon="1", look_share="0.4", **account)
    # Nothing was spent: the whole budget is there.
    fit(make_records(8000), epsilon="0.9", **account)


def test_the_result_of_a_fit_with_a_look_promises_what_both_cost() -> None:
    found = fit(make_records(40_000), epsilon="1", look_share="0.4")
    assert found.result_.body.privacy.epsilon == "1"
    assert fit(make_records(4000), epsilon="1", look_share="0").result_.body.privacy.epsilon == "1"


def test_a_look_that_shows_nothing_but_noise_leaves_finite_weights() -> None:
    records = make_records(2000)
    found = fit(records, epsilon="50")
    for _ in range(12):
        found.look(records, epsilon="0.000001", refine=True)
        assert np.isfinite(found.weights_).all()
        assert np.isfinite(found.cluster_centers_).all()
    # Rounded up, not to the nearest: epsilon = 50.000012.
    assert "epsilon = 50.0001" in found.describe()


@pytest.mark.parametrize("share", [-0.1, 1, "2"])
def test_an_impossible_share_is_refused(share: object) -> None:
    with pytest.raises(ConfigError, match="share of epsilon"):
        fit(make_records(2000), look_share=share)


def test_records_that_come_in_parts_cannot_be_looked_at_again() -> None:
    made = CompressiveKMeans(4, epsilon="1", bounds=(-15, 15), scale=1.0, look_share="0.3")
    with pytest.raises(ConfigError, match="look_share"):
        made.set_params(max_records=9000).partial_fit(make_records(4000))
