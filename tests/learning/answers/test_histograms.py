import pytest

from sfumato.learning.answers.histograms import find_histogram_doubts
from sfumato.shared.structure import structure
from sfumato.shared.wire.objects.declaration import make_sample
from sfumato.shared.wire.objects.statistics import HistogramBody, LevelBody, MarginalBody


def answer(*marginals: MarginalBody) -> HistogramBody:
    sample = (make_sample(HistogramBody) or {}) | {"marginals": []}
    whole = structure(HistogramBody, sample)
    return HistogramBody(**(vars(whole) | {"marginals": [*marginals]}))


def marginal(**changes: object) -> MarginalBody:
    known: dict[str, object] = {
        "name": "load", "unit": "kW", "scale": "linear", "n_records": 1e4, "bars": [],
        "quantiles": [], "levels": [], "seen_lower": None, "seen_upper": None,
        "below": 0.0, "above": 0.0, "missing": 0.0, "error": 0.001,
    }  # fmt: skip
    return MarginalBody(**(known | changes))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"error": 0.03}, "load: noise of 3.0% of the records in each bin"),
        ({"missing": 0.06}, "load: 6% of the records have no value"),
        ({"below": 0.02, "above": 0.01}, "load: 3% of the records lie beyond the bounds"),
        ({"levels": [LevelBody(level="a", share=0.002, error=0.001)]}, "load: no level"),
    ],
)
def test_what_spoils_a_marginal_is_a_doubt(changes: dict[str, object], words: str) -> None:
    (found,) = find_histogram_doubts(answer(marginal(**changes), marginal()))
    assert words in found


def test_what_noise_may_have_made_is_no_doubt() -> None:
    beside = marginal(missing=0.06, below=0.03, error=0.01)
    assert find_histogram_doubts(answer(beside, marginal())) == []


def test_an_answer_without_marginals_is_a_doubt() -> None:
    assert "nothing is shown" in find_histogram_doubts(answer())[0]
