import numpy as np

from sfumato.learning.estimate.limbs import split_limbs
from sfumato.learning.estimate.problem import pose_problem
from sfumato.learning.estimate.sizes import SizeMoments
from sfumato.learning.estimate.totals import Totals
from sfumato.learning.estimate.weights import SIZE_WEIGHTS
from sfumato.shared.core import SketchAccumulator
from tests.shared.plan.test_plan import SPEC, make


def test_the_decoder_is_told_which_axes_are_levels() -> None:
    category = {"name": "kind", "unit": "1", "levels": ["a", "b"]}
    number = SPEC["dimensions"][0]
    plan = make(dimensions=[number, category, {**number, "name": "other"}])
    accumulator = SketchAccumulator(plan.statistic_of(b""))
    accumulator.add(np.array([[20.0, 0.0, 30.0], [80.0, 1.0, 90.0]] * 50))
    totals = Totals(
        sums=accumulator.sums,
        size_sums=split_limbs([100 * value for value in accumulator.sums.tolist()]),
        moments=SizeMoments.of_sizes([100]),
    )
    problem = pose_problem(plan, totals, SIZE_WEIGHTS, signal_energy=0.5, n_clusters=2)
    assert problem.is_level is not None
    assert problem.is_level.tolist() == [False, True, True, False]
    assert problem.lower[problem.is_level].tolist() == [0.0, 0.0]
