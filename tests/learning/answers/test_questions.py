import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from sfumato.learning.answers.questions import Inquiry
from sfumato.learning.decoding.bars import LAWS
from sfumato.learning.decoding.density import Posterior
from sfumato.learning.decoding.verdict import describe_doubt
from sfumato.shared.errors import DecodingError
from sfumato.shared.plan import (
    Dimension,
    LogTransform,
    PlanSpec,
    SketchPlan,
    WindowRule,
    create_plan,
)
from sfumato.shared.wire.objects.questions import (
    MarginalQuestion,
    MeanQuestion,
    QuantileQuestion,
    QuestionsRequest,
)

from .posteriors import draw_posterior, make_posterior


def make_plan(*more: Dimension, steps: tuple[float | None, float | None] = (0, 0)) -> SketchPlan:
    columns = tuple(
        Dimension(name=name, unit="1", lower=-10.0, upper=10.0, scale=1.0, step=step)
        for name, step in zip("xy", steps, strict=True)
    )
    return create_plan(
        PlanSpec(
            dimensions=(*columns, *more),
            n_frequencies=32,
            seed="ab" * 32,
            epsilon=Fraction(1),
            window=WindowRule(kind="count", length=1000),
            most_records=1000,
        )
    )


PLAN = make_plan()


def inquire(posterior: Posterior, plan: SketchPlan = PLAN, n_records: int = 10_000) -> Inquiry:
    return Inquiry(plan=plan, posterior=posterior, n_records=n_records)


def draw(seed: int = 0, *, held_out: float = 1.0, d: int = 2) -> Posterior:
    rng = np.random.default_rng(seed)
    means = rng.normal(0.0, 3.0, size=(1, 3, d)) + 0.2 * rng.normal(size=(32, 3, d))
    roots = np.broadcast_to(np.eye(d), (32, 3, d, d)).copy()
    return make_posterior(means, roots, held_out=held_out)


@given(seed=st.integers(0, 999), cut=st.floats(-9.0, 9.0))
@settings(max_examples=25)
def test_two_halves_of_the_box_hold_all_records(seed: int, cut: float) -> None:
    posterior = draw_posterior(np.random.default_rng(seed), n_draws=4, n_atoms=3, d=2, slanted=True)
    inquiry = inquire(posterior)
    low = inquiry.find_share({"x": [None, cut]}, allow_narrow=True)
    high = inquiry.find_share({"x": [cut, None]}, allow_narrow=True)
    assert low.share is not None
    assert high.share is not None
    assert low.share + high.share == pytest.approx(1.0, abs=1e-9)
    for found in (low, high):
        assert found.share is not None
        assert found.low is not None
        assert found.high is not None
        assert 0.0 <= found.low <= found.share + 1e-12
        assert found.share - 1e-12 <= found.high <= 1.0


def test_all_kinds_of_questions_are_answered_in_order() -> None:
    found = inquire(draw()).answer(
        QuestionsRequest(
            ranges=[{"x": [0.0, None]}, {"x": [0.0, None], "y": [None, 2.0]}, {}],
            quantiles=[QuantileQuestion(dimension="x", share=share) for share in (0.1, 0.5, 0.9)],
            marginals=[MarginalQuestion(dimension="y", points=200)],
            means=[MeanQuestion(mean_of="y", within={"x": [0.0, None]})],
        )
    )
    shares = [each.share or 0.0 for each in found.ranges]
    assert shares[0] >= shares[1]
    assert shares[2] == pytest.approx(1.0)
    values = [each.value for each in found.quantiles]
    assert values == sorted(values)
    curve = found.marginals[0]
    step = curve.x[1] - curve.x[0]
    assert sum(curve.density) * step == pytest.approx(1.0, abs=0.01)
    assert found.bars == "stated"
    assert not found.is_rough
    assert found.level == 0.9
    assert found.words


def test_a_mean_is_that_of_the_records_in_the_range() -> None:
    posterior = draw(3)
    records = posterior.draw_samples(400_000, rng=np.random.default_rng(0))
    truth = records[records[:, 0] >= 0.0, 1].mean()
    found = inquire(posterior).find_mean(MeanQuestion(mean_of="y", within={"x": [0.0, None]}))
    assert found.mean == pytest.approx(truth, abs=0.03)
    assert found.low is not None
    assert found.high is not None
    assert found.low < truth < found.high


def test_bars_of_densities_that_miss_the_sketch_are_longer_and_say_so() -> None:
    question = QuestionsRequest(
        ranges=[{"x": [0.0, 3.0]}], quantiles=[QuantileQuestion(dimension="x", share=0.5)]
    )
    near, far = (inquire(draw(held_out=value)).answer(question) for value in (1.0, 5.0))
    for right, missing in ((near.ranges[0], far.ranges[0]), (near.quantiles[0], far.quantiles[0])):
        assert right.low is not None
        assert right.high is not None
        assert missing.low is not None
        assert missing.high is not None
        assert missing.high - missing.low > 1.2 * (right.high - right.low)
    assert "miss the sketch" in far.words[0]
    assert not any("miss the sketch" in sentence for sentence in near.words)


@pytest.mark.parametrize(("held_out", "bars"), [(1.0, "stated"), (30.0, "rough"), (1e9, "none")])
def test_bars_vanish_where_no_model_explains_the_sketch(held_out: float, bars: str) -> None:
    found = inquire(draw(held_out=held_out)).answer(
        QuestionsRequest(
            ranges=[{"x": [0.0, None]}],
            quantiles=[QuantileQuestion(dimension="x", share=0.5)],
            marginals=[MarginalQuestion(dimension="x", points=4)],
            means=[MeanQuestion(mean_of="y", within={"x": [0.0, None]})],
        )
    )
    assert found.bars == bars
    assert found.is_rough == (bars != "stated")
    ends = [found.ranges[0].low, found.quantiles[0].low, found.marginals[0].low]
    ends += [found.means[0].high]
    assert all((end is None) == (bars == "none") for end in ends)
    assert ("no bars" in found.words[0]) == (bars == "none")


def test_a_range_narrower_than_half_a_scale_is_refused_unless_it_is_allowed() -> None:
    inquiry = inquire(draw())
    for ends in ([0.0, 0.4], [9.8, None], [None, -9.9]):
        with pytest.raises(DecodingError, match="half of the plan's scale") as refused:
            inquiry.find_share({"x": ends})
        assert refused.value.field == "ranges.x"
        assert inquiry.find_share({"x": ends}, allow_narrow=True).share is not None
    assert inquiry.find_share({"x": [0.0, 0.5]}).share
    assert inquiry.find_share({"x": [20.0, None]}).share == 0.0


def test_a_logarithmic_dimension_is_asked_in_data_units() -> None:
    rain = Dimension(
        name="rain",
        unit="mm",
        lower=0.0,
        upper=1000.0,
        scale=1.0,
        transform=LogTransform(resolution=1.0),
    )
    plan = make_plan(rain)
    top = math.log2(1001.0)
    posterior = make_posterior(
        np.tile([0.0, 0.0, 5.0], (2, 1, 1)), np.broadcast_to(np.eye(3), (2, 1, 3, 3)).copy()
    )
    posterior = Posterior(
        **{
            **vars(posterior),
            "lower": np.array([-10.0, -10.0, 0.0]),
            "upper": np.array([10.0, 10.0, top]),
        }
    )
    inquiry = inquire(posterior, plan)
    records = np.expm1(
        np.log(2.0) * posterior.draw_samples(400_000, rng=np.random.default_rng(0))[:, 2]
    )
    share = inquiry.find_share({"rain": [20.0, 60.0]}).share
    assert share == pytest.approx(np.mean((records >= 20.0) & (records <= 60.0)), abs=0.004)
    median = inquiry.find_quantile(QuantileQuestion(dimension="rain", share=0.5))
    assert median.value == pytest.approx(31.0, rel=1e-3)
    mean = inquiry.find_mean(MeanQuestion(mean_of="rain", within={"x": [0.0, None]}))
    assert mean.mean == pytest.approx(records.mean(), rel=0.01)
    curve = inquiry.find_marginal(MarginalQuestion(dimension="rain", points=400))
    assert np.trapezoid(curve.density, curve.x) == pytest.approx(1.0, abs=0.01)


@pytest.mark.parametrize(
    ("questions", "field"),
    [
        (QuestionsRequest(ranges=[{"z": [0.0, 1.0]}]), "ranges[0].z"),
        (QuestionsRequest(ranges=[{"x": [1.0, 0.0]}]), "ranges[0].x"),
        (QuestionsRequest(ranges=[{"x": [math.nan, 0.0]}]), "ranges[0].x"),
        (QuestionsRequest(ranges=[{"city": [0.0, 1.0]}]), "ranges[0].city"),
        (
            QuestionsRequest(quantiles=[QuantileQuestion(dimension="x", share=1.0)]),
            "quantiles[0].share",
        ),
        (
            QuestionsRequest(marginals=[MarginalQuestion(dimension="city")]),
            "marginals[0].dimension",
        ),
    ],
)
def test_a_question_without_an_answer_is_refused_by_its_field(
    questions: QuestionsRequest, field: str
) -> None:
    plan = make_plan(Dimension(name="city", unit="1", levels=("A", "B")))
    with pytest.raises(DecodingError) as refused:
        inquire(draw(d=4), plan).answer(questions)
    assert refused.value.field == field
    assert refused.value.fix


def test_what_cannot_be_answered_alone_does_not_refuse_the_rest() -> None:
    found = inquire(draw()).answer(
        QuestionsRequest(
            ranges=[{"x": [0.0, 0.1]}, {"x": [0.0, None]}],
            means=[
                MeanQuestion(mean_of="x", within={"y": [11.0, None]}),
                MeanQuestion(mean_of="x", within={"y": [0.0, 0.1]}),
                MeanQuestion(mean_of="x"),
            ],
        )
    )
    narrow, wide = found.ranges
    assert narrow.share is None
    assert narrow.low is None
    assert "half of the plan's scale" in (narrow.refused or "")
    assert "allow_narrow" in str(narrow)
    assert wide.share is not None
    assert wide.refused is None
    assert [each.mean is None for each in found.means] == [True, True, False]
    assert "of the records" in (found.means[0].refused or "")


def test_answers_begin_with_the_doubt_that_their_bars_leave_out() -> None:
    doubt = describe_doubt("doubtful", "4.1% of the records would go unseen")
    asked = QuestionsRequest(ranges=[{"x": [0.0, 3.0]}])
    for trusted, n_doubts in ((True, 1), (False, 0)):
        posterior = replace(draw(), is_trusted=trusted)
        found = replace(inquire(posterior), doubt=doubt).answer(asked)
        assert [words for words in found.words if "would go unseen" in words] == (
            [f"{doubt}; bars leave that out"] * n_doubts
        )
        assert found.words[0].startswith("what was decoded is called doubtful") == trusted
    assert describe_doubt("rough", "any") == ""


def test_without_a_step_or_a_histogram_no_bar_is_stated_and_words_say_why() -> None:
    found = inquire(draw(), make_plan(steps=(None, 0))).answer(
        QuestionsRequest(
            ranges=[{"x": [0.0, None]}, {"y": [0.0, None]}, {"x": [0.0, None], "y": [0.0, None]}],
            quantiles=[QuantileQuestion(dimension=name, share=0.5) for name in "xy"],
            marginals=[MarginalQuestion(dimension=name, points=4) for name in "xy"],
            means=[MeanQuestion(mean_of="y", within={"x": [0.0, None]}), MeanQuestion(mean_of="y")],
        )
    )
    assert [each.low is None for each in found.ranges] == [True, False, True]
    assert [each.low is None for each in found.quantiles] == [True, False]
    assert [each.low is None for each in found.marginals] == [True, False]
    assert [each.low is None for each in found.means] == [True, False]
    assert found.words[0].startswith("no bars are shown for x")
    assert "histogram of the same records" in found.words[0]


def test_whole_numbers_are_asked_by_their_cells() -> None:
    posterior = draw(4)
    inquiry = inquire(posterior, make_plan(steps=(1, 1)))
    records = np.round(posterior.draw_samples(400_000, rng=np.random.default_rng(0)))
    for low, high in ((-2.0, 1.0), (-2.4, 1.4), (None, 0.0), (3.0, 3.0)):
        inside = (records[:, 0] >= (low if low is not None else -99)) & (records[:, 0] <= high)
        found = inquiry.find_share({"x": [low, high]}, allow_narrow=True)
        assert found.share == pytest.approx(np.mean(inside), abs=0.004)
    for share in (0.1, 0.5, 0.9):
        value = inquiry.find_quantile(QuantileQuestion(dimension="x", share=share))
        assert value.value == np.quantile(records[:, 0], share, method="inverted_cdf")
        assert value.low == round(value.low or 0.0)


def test_bars_shrink_with_the_spread_of_the_draws_and_keep_what_sampling_adds() -> None:
    roots = np.broadcast_to(np.eye(2), (8, 1, 2, 2)).copy()
    posterior = make_posterior(np.zeros((8, 1, 2)), roots)
    found = inquire(posterior, n_records=10_000).find_share({"x": [None, 0.0]})
    assert found.low is not None
    assert found.high is not None
    sampling = LAWS["share"].sampling * 0.005
    assert found.high - found.low == pytest.approx(2 * 1.645 * sampling, rel=1e-3)


def test_a_posterior_of_other_dimensions_is_refused() -> None:
    with pytest.raises(DecodingError, match="must have 2 coordinates, not 3"):
        inquire(draw(d=3))
