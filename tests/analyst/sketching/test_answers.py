"""Sketch files decoded without a server, as a server decodes them."""

from fractions import Fraction

import numpy as np

from sfumato.analyst.sketching.answers import LocalSketches
from sfumato.analyst.sketching.sketch_file import SketchFile
from sfumato.shared.core import SketchAccumulator
from sfumato.shared.plan import SketchPlan, compute_plan_digest
from sfumato.shared.privacy.testing import SeededSource
from sfumato.shared.wire import encode_payload
from tests.learning.insight.drawing import MIXTURE, make_plan

N_RECORDS = 1000


def make_file(plan: SketchPlan, seed: int, *, lies: bool = False) -> SketchFile:
    accumulator = SketchAccumulator(plan.statistic_of(b"main"))
    records = MIXTURE.draw_samples(N_RECORDS, rng=np.random.default_rng(seed))
    accumulator.add(np.full((N_RECORDS, 2), 15.0) if lies else records)
    sums = plan.mechanism.add_noise(accumulator.sums, SeededSource(seed))
    return SketchFile(
        kind="local.v1",
        plan_digest=compute_plan_digest(plan),
        stream="main",
        n_records=N_RECORDS,
        width=plan.payload_width,
        payload=encode_payload(sums, plan.payload_width),
    )


def test_one_file_of_eight_that_decides_a_cluster_makes_the_answer_doubtful() -> None:
    plan = make_plan(60, epsilon=Fraction(20))
    honest = [make_file(plan, seed) for seed in range(8)]
    result = LocalSketches(sketches=honest, plan=plan).decode(n_clusters=3)
    found = result.body.influence
    assert found is not None
    assert (found.source, found.n_sources) == ("file", 8)
    assert result.verdict in ("sound", "rough")
    mixed = [*honest[:7], make_file(plan, 9, lies=True)]
    result = LocalSketches(sketches=mixed, plan=plan).decode(n_clusters=4)
    assert result.verdict in ("doubtful", "do not use")
    assert "one file of 8 decides cluster" in result.reason
