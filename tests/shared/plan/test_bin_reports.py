"""Plans whose devices report one bin each, and their payloads."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from sfumato.shared.core import SketchAccumulator
from sfumato.shared.errors import MalformedMessageError, PlanError, PlanMismatchError
from sfumato.shared.plan import (
    SketchPlan,
    decode_plan,
    describe_release,
    encode_plan,
    make_statement,
    plan_from_json,
    plan_from_spec,
    plan_to_json,
)
from sfumato.shared.plan.derivation import verify
from sfumato.shared.privacy.testing import SeededSource
from sfumato.shared.wire import PayloadForm

NUMBER = {"name": "x", "unit": "m", "lower": -10, "upper": 10}
LEVELS = {"name": "kind", "unit": "1", "levels": ["a", "b", "c"]}


def make(*dimensions: dict[str, Any], **changes: Any) -> SketchPlan:
    chosen = dimensions or (NUMBER, {**NUMBER, "name": "y"})
    return plan_from_spec(
        {
            "dimensions": list(chosen),
            "statistic": "histogram",
            "release": "phase.v1",
            "epsilon": "1",
            "window": {"kind": "time", "length_s": 86400},
            **changes,
        }
    )


@pytest.mark.parametrize(
    "plan", [make(), make(dimensions_per_sketch=2, bins_log2=4, epsilon="3"), make(LEVELS)]
)
def test_bytes_and_json_carry_the_plan_exactly(plan: SketchPlan) -> None:
    verify(plan)
    assert decode_plan(encode_plan(plan)) == plan
    assert plan_from_json(plan_to_json(plan)) == plan


def test_a_sketch_reports_one_dimension_in_two_bytes() -> None:
    plan = make()
    assert (plan.n_reports, plan.blocks.n_blocks, plan.payload_bytes) == (1, 2, 2)
    assert plan.mechanism.gain == pytest.approx(0.366, abs=1e-3)
    assert make_statement(plan).influence == (1 / plan.mechanism.gain,) * 2
    assert describe_release(plan) == (
        "a noisy bin of the first record of each slot; of 1 of 2 dimensions in each sketch; "
        "epsilon 1 for all records of a window together"
    )


def test_reports_of_every_dimension_share_epsilon() -> None:
    together = make(dimensions_per_sketch=2, epsilon="2").mechanism.scale
    assert together == make(epsilon="1").mechanism.scale


@pytest.mark.parametrize("value", [-11.0, -10.0, 0.3, 10.0, 11.0, np.nan])
def test_every_record_is_reported_by_its_bin_and_the_payload_carries_it(value: float) -> None:
    plan = make(epsilon="7", bins_log2=1)
    form = PayloadForm.of(plan)
    accumulator = SketchAccumulator(plan.statistic_of(b"", block=0))
    accumulator.add(np.array([[value, value]]))
    source = SeededSource(5)
    released = [plan.mechanism.add_noise(accumulator.sums, source) for _ in range(20)]
    for sums in released:
        assert sums.sum() == 1
        assert np.array_equal(form.decode(form.encode(sums))[0], sums)
    # At epsilon 7 a report is right with probability 0.99.
    assert np.array_equal(np.median(released, axis=0), accumulator.sums)


@pytest.mark.parametrize(
    ("dimensions", "changes", "field"),
    [
        ((NUMBER, LEVELS), {"dimensions_per_sketch": 2}, "bins_log2"),
        ((NUMBER, {**LEVELS, "levels": ["a", "b", "c", "d"]}), {"bins_log2": [1, 0]}, "bins_log2"),
        ((NUMBER,), {"bins_log2": 11}, "bins_log2"),
        ((NUMBER,), {"unit": "record"}, "unit"),
        ((NUMBER,), {"delta": "1e-6"}, "delta"),
        ((NUMBER,), {"mechanism": "discrete-laplace"}, "mechanism"),
        ((NUMBER,), {"most_records": 2}, "most_records"),
        ((NUMBER,), {"statistic": "moments"}, "release"),
        ((NUMBER,), {"statistic": "grid", "cells": [8]}, "release"),
    ],
)
def test_plans_that_cannot_report_bins_are_refused_by_name(
    dimensions: tuple[dict[str, Any], ...], changes: dict[str, Any], field: str
) -> None:
    with pytest.raises(PlanError) as refusal:
        make(*dimensions, **changes)
    assert refusal.value.field == field


def test_a_plan_with_another_law_is_refused() -> None:
    plan = make()
    for changes in ({"arc": 42}, {"odds": plan.release.scale * 2}):
        with pytest.raises(PlanMismatchError):
            verify(replace(plan, release=replace(plan.release, **changes)))


def test_places_beyond_the_circle_are_refused() -> None:
    form = PayloadForm.of(make())
    assert form.decode((258).to_bytes(2, "little")).argmax() == 256
    with pytest.raises(MalformedMessageError, match="numbers below 259"):
        form.decode((259).to_bytes(2, "little"))
