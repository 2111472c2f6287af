from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from sfumato.learning.decoding.judgement import LEAST_SNR_PER_PARAMETER
from sfumato.learning.planning.outline import StudyOutline
from sfumato.learning.planning.planner import advise, can_reach
from sfumato.learning.planning.quality import predict_relative_sse
from sfumato.learning.planning.remedies import find_remedies

TARGET = 1.2


def make_outline(**fields: Any) -> StudyOutline:
    known = {"n_records": 2000, "n_sketches": 4, "n_dimensions": 3, "n_clusters": 6}
    return StudyOutline(**(known | fields))


@pytest.mark.parametrize(
    ("fields", "epsilon"),
    [
        ({}, "0.2"),
        ({"neighbouring": "add-remove-one"}, "0.3"),
        ({"by_time": False, "n_sketches": 40}, "1"),
    ],
)
def test_each_remedy_alone_reaches_the_target_and_less_does_not(
    fields: dict[str, Any], epsilon: str
) -> None:
    outline, budget = make_outline(**fields), Fraction(epsilon)
    remedies = find_remedies(outline, epsilon=budget, target_sse=TARGET)

    def reaches(study: StudyOutline, share: Fraction = budget) -> bool:
        return can_reach(study, epsilon=share, target_sse=TARGET)

    assert not reaches(outline)
    assert remedies.epsilon is not None
    assert reaches(outline, remedies.epsilon)
    assert not reaches(outline, remedies.epsilon * Fraction(9, 10))
    records = remedies.n_records
    assert records is not None
    assert reaches(replace(outline, n_records=records))
    assert not reaches(replace(outline, n_records=int(0.98 * records)))
    count = remedies.n_sketches
    assert count is not None
    size = outline.n_records // outline.n_sketches
    assert reaches(replace(outline, n_records=size * count, n_sketches=count))
    if remedies.n_clusters is not None:
        assert reaches(replace(outline, n_clusters=remedies.n_clusters))
        assert not reaches(replace(outline, n_clusters=remedies.n_clusters + 1))


@pytest.mark.parametrize("features", [2, 5, 10])
def test_a_band_is_hopeless_just_where_the_verdict_is_do_not_use(features: int) -> None:
    k, d = 4, 3
    for factor, hopeless in ((0.99, True), (1.01, False)):
        snr = factor * LEAST_SNR_PER_PARAMETER / features
        band = predict_relative_sse(
            snr=snr, n_frequencies=features * k * d, n_clusters=k, n_dimensions=d
        )
        assert band.is_hopeless == hopeless
        assert band.reaches(1e300) != hopeless


def test_where_a_sketch_counts_as_one_record_more_records_are_no_remedy() -> None:
    outline = make_outline(unit="device", n_sketches=100)
    remedies = find_remedies(outline, epsilon=Fraction(1), target_sse=TARGET)
    assert remedies.n_records is None
    assert remedies.n_sketches is not None


def test_a_target_below_the_misfit_has_no_remedy() -> None:
    remedies = find_remedies(make_outline(), epsilon=Fraction(1), target_sse=1.01)
    assert (remedies.epsilon, remedies.n_records, remedies.n_sketches) == (None, None, None)
    assert remedies.n_clusters is None


def test_a_recommendation_is_hopeless_only_if_every_candidate_is() -> None:
    for n_records in (100, 1000, 10_000):
        advice = advise(make_outline(n_records=n_records), epsilon=Fraction(1), target_sse=TARGET)
        unmasked = [c for c in advice.candidates if not c.has_masks]
        assert advice.recommended.band.is_hopeless == all(c.band.is_hopeless for c in unmasked)
