"""Windows in order: readings, clusters of each window, changes, and windows that say nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from sfumato.learning.decoding.density import GaussianMixture
from sfumato.learning.decoding.kmeans import cluster
from sfumato.learning.decoding.solver import Monitor
from sfumato.learning.insight.covariance import Floats
from sfumato.learning.insight.history import History
from sfumato.learning.insight.selection import Selection
from sfumato.learning.insight.windows import MOST_WINDOWS, follow_windows
from sfumato.shared.errors import DecodingCancelledError, DecodingError
from tests.learning.insight.drawing import MIXTURE, Fleet, make_plan

PLAN = make_plan(40, epsilon=Fraction(10))
GROWN = GaussianMixture(
    weights=np.array([0.35, 0.3, 0.35]), means=MIXTURE.means, variances=MIXTURE.variances
)


def draw(seed: int, *mixtures: GaussianMixture) -> list[Selection]:
    """Draw a window of 4,000 records for each mixture."""
    fleet = Fleet(PLAN, seed)
    return [
        fleet.draw(1000, 4, mixture=mixture, name=f"w{i}") for i, mixture in enumerate(mixtures)
    ]


def follow(windows: Sequence[Selection | str], **options: object) -> History:
    given = {"n_clusters": 3, "windows_per_year": 52.0} | options
    return follow_windows(PLAN, windows, **given)  # type: ignore[arg-type]


def match(found: History) -> list[int]:
    """Return the cluster of the fit that is nearest to each of the mixture."""
    distances = found.model.fit.means[:, None] - MIXTURE.means
    nearest: list[int] = np.argmin(np.sum(distances**2, axis=2), axis=0).tolist()
    return nearest


def test_a_cluster_that_grew_is_found_where_it_grew_and_by_how_much() -> None:
    found = follow(draw(1, *[MIXTURE] * 3, *[GROWN] * 3))
    (change,) = found.changes
    assert change.window == 3
    assert change.p < 0.01
    order = match(found)
    named = {(each.cluster, each.quantity) for each in change.comparison.named}
    assert {(order[0], "weight"), (order[2], "weight")} <= named
    for window, mixture in zip(found.windows, [MIXTURE] * 3 + [GROWN] * 3, strict=True):
        estimate = window.estimate
        assert estimate is not None
        assert np.allclose(estimate.weights[order], mixture.weights, atol=0.06)
        assert np.sum(estimate.weights) == pytest.approx(1.0)
    assert found.windows[0].reading is None
    alarm = found.windows[3].reading
    assert alarm is not None
    assert alarm.is_alarm
    assert found.describe()[0].startswith("a change at w3: as if every record had moved by")


def find_clusters(mixture: GaussianMixture) -> tuple[Floats, Floats]:
    """Return weights and centroids that k-means finds with very many records of a mixture."""
    points = mixture.draw_samples(100_000, rng=np.random.default_rng(0))
    found = cluster(
        points, [mixture.means], n_restarts=0, rng=np.random.default_rng(0), monitor=Monitor()
    )
    return np.bincount(found.labels) / len(points), found.centroids


def test_the_errors_of_a_window_are_those_that_it_has() -> None:
    # 12 windows of 9 figures: an honest root mean square leaves 0.6 to 1.4 less than once in 100
    # seeds. Bars are somewhat longer than errors are, see benchmarks.bars.
    scores = []
    weights, centroids = find_clusters(MIXTURE)
    for seed in range(2):
        found = follow([*draw(100 + seed, *[MIXTURE] * 6)], seed=seed)
        order = match(found)
        for window in found.windows:
            each = window.estimate
            assert each is not None
            assert each.verdict.word in ("sound", "rough")
            moved = (each.centres[order] - centroids) / each.centre_errors[order]
            grown = (each.weights[order] - weights) / each.weight_errors[order]
            scores += [*moved.ravel().tolist(), *grown.tolist()]
    assert 0.6 < np.sqrt(np.mean(np.square(scores))) < 1.4, np.mean(np.abs(scores) < 1.645)


def test_a_window_that_is_far_from_the_others_is_decoded_where_it_is() -> None:
    far = replace(MIXTURE, means=MIXTURE.means + np.array([[4.0, -3.0], [-2.0, 5.0], [3.0, 2.0]]))
    found = follow([*draw(4, *[MIXTURE] * 3, far)])
    estimate = found.windows[-1].estimate
    assert estimate is not None
    assert estimate.verdict.word in ("sound", "rough")
    distances = np.linalg.norm(far.means[:, None] - estimate.centres, axis=2)
    assert np.max(np.min(distances, axis=1)) < 0.5


def test_a_window_that_cannot_be_read_changes_no_answer_of_the_others() -> None:
    windows = draw(3, *[MIXTURE] * 2, *[GROWN] * 2)
    place, without = 2, follow(windows)
    assert without.changes
    found = follow([*windows[:place], "contains no sketch", *windows[place:]])
    gap = found.windows[place]
    assert (gap.doubt, gap.reading, gap.estimate, gap.n_sketches) == (
        "contains no sketch",
        None,
        None,
        0,
    )
    rest = [*found.windows[:place], *found.windows[place + 1 :]]
    for one, other in zip(rest, without.windows, strict=True):
        assert (one.reading, one.size_error, one.snr) == (
            other.reading,
            other.size_error,
            other.snr,
        )
        assert one.estimate is not None
        assert other.estimate is not None
        assert np.array_equal(one.estimate.centres, other.estimate.centres)
    moved = [change.window + (place <= change.window) for change in without.changes]
    assert [change.window for change in found.changes] == moved
    assert found.describe()[0] == "1 of 5 windows cannot be read: contains no sketch"


def test_where_noise_hides_a_figure_it_is_left_out() -> None:
    # One small sketch under epsilon 1 beside five large ones.
    plan = make_plan(60, epsilon=Fraction(1))
    fleet = Fleet(plan, 7)
    windows = [fleet.draw(20_000, 2, name=f"w{i}") for i in range(5)]
    windows.append(fleet.draw(60, 1, name="small"))
    found = follow_windows(plan, windows, n_clusters=3, windows_per_year=52.0)
    small, large = found.windows[-1].estimate, found.windows[0].estimate
    assert small is None
    assert found.windows[-1].unknown is not None
    assert large is not None
    assert large.verdict.word in ("sound", "rough")


@pytest.mark.parametrize(
    ("windows", "field"),
    [
        (["contains no sketch"] * 3, "windows"),
        (["contains no sketch"] * (MOST_WINDOWS + 1), "windows"),
        ([draw(8, MIXTURE)[0], "contains no sketch"], "windows"),
    ],
)
def test_too_few_or_too_many_windows_are_refused(
    windows: list[Selection | str], field: str
) -> None:
    with pytest.raises(DecodingError) as refusal:
        follow(windows)
    assert refusal.value.field == field


def test_the_same_seed_gives_the_same_answer() -> None:
    windows = draw(4, *[MIXTURE] * 2)
    one, other = follow(windows, seed=5), follow(windows, seed=5)
    assert [w.reading for w in one.windows] == [w.reading for w in other.windows]
    another = follow(windows, seed=6)
    assert [w.reading for w in one.windows] != [w.reading for w in another.windows]


def test_a_plan_that_is_not_supported_is_refused_as_a_whole() -> None:
    masked = make_plan(60, "discrete-laplace", epsilon=Fraction(10), measurements_per_record=30)
    window = Fleet(masked, 1).draw(1000)
    with pytest.raises(DecodingError, match="masks"):
        follow_windows(
            masked,
            [window, replace(window, members=frozenset({9}))],
            n_clusters=3,
            windows_per_year=52.0,
        )


def test_who_cancels_gets_no_answer() -> None:
    with pytest.raises(DecodingCancelledError):
        follow([*draw(5, *[MIXTURE] * 2)], cancelled=lambda: True)


def test_progress_rises_to_one() -> None:
    shares: list[float] = []
    follow([*draw(6, *[MIXTURE] * 2)], progress=shares.append)
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
