"""A sweep varies one thing at a time, on the same records and from the same seeds."""

import itertools
import json
import math
import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sfumato.learning.planning.plans import AXES, vary_plan
from sfumato.shared.errors import PrivacyError
from sfumato.shared.plan import (
    Dimension,
    LogTransform,
    PlanSpec,
    SketchPlan,
    WindowRule,
    create_plan,
)
from sfumato.shared.plan.derivation import verify
from sfumato.simulator.devices import DeviceMaker
from sfumato.simulator.records import FileRecords, MixtureRecords
from sfumato.simulator.report import describe_sweep, sweep_to_json
from sfumato.simulator.sweep import FACTORS, run_sweep
from tests.device_agent.conftest import make_plan
from tests.simulator.test_cli import simulate, write_plan
from tests.simulator.test_fleet import LOUD, PLANS, records_of

__all__ = ["write_plan"]

PLAN = make_plan(n_frequencies=16, **LOUD)


def sweep(plan: SketchPlan = PLAN, **options: Any) -> Any:
    known: dict[str, Any] = {
        "axes": ("scale",),
        "factors": (Fraction(1, 4), Fraction(1)),
        "n_devices": 1,
        "n_windows": 1,
        "n_clusters": 2,
        "n_repeats": 1,
        "seed": 1,
        "n_processes": 1,
    }
    records = options.pop("records", records_of(120))
    return run_sweep(plan, records, **(known | options))


@pytest.mark.parametrize("name", ["time", "masks", "blocks", "phases", "secret", "device"])
def test_a_variation_changes_one_thing_of_a_valid_plan(name: str) -> None:
    plan = PLANS[name]
    for axis, factor in itertools.product(AXES, (min(FACTORS), max(FACTORS))):
        try:
            varied = vary_plan(plan, axis, factor)
        except PrivacyError:
            assert axis == "epsilon"  # noise for an absurd one cannot be calibrated
            continue
        verify(varied)
        share = float(factor)
        sides = np.diff([d.bounds for d in plan.dimensions])[:, 0] * (
            share if axis == "bounds" else 1
        )
        assert np.diff([d.bounds for d in varied.dimensions])[:, 0] == pytest.approx(sides)
        middle = [sum(d.bounds) for d in plan.dimensions]
        assert [sum(d.bounds) for d in varied.dimensions] == pytest.approx(middle)
        scales = plan.scale * (share if axis == "scale" else 1)
        assert varied.scale == pytest.approx(scales)
        wanted = plan.release.epsilon * (factor if axis == "epsilon" else 1)
        assert varied.release.epsilon == wanted
        m = plan.n_frequencies * (share if axis == "m" else 1)
        step = max(plan.frequencies_per_sketch if plan.is_split else 1, round(1 / plan.alpha))
        assert abs(varied.n_frequencies - max(step, m)) <= step / 2
        assert varied.alpha == plan.alpha
        assert varied.is_split == plan.is_split or varied.n_frequencies == step


def test_the_plan_as_it_is_and_its_variations_are_compared_on_the_same_records() -> None:
    found = sweep(axes=("scale", "epsilon"), factors=(Fraction(1), Fraction(10)))
    assert found.is_complete
    assert found.n_compared == found.n_records == 120
    assert [(q.axis, q.factor, q.value) for q in found.varied] == [
        ("scale", 10, None),
        ("epsilon", 10, str(10**10)),
    ]
    assert 0.999 < found.base.median < found.varied[0].median
    # Next to no noise is left for more epsilon to remove.
    assert found.varied[1].median == pytest.approx(found.base.median, rel=0.01)


def test_the_same_seed_gives_the_same_sweep_and_repeats_differ() -> None:
    noisy, records = make_plan(n_frequencies=8), records_of(60)
    both = sweep(noisy, n_repeats=2, axes=(), records=records).base
    again, other = (sweep(noisy, axes=(), seed=seed, records=records).base for seed in (1, 2))
    assert again.relative_sse == pytest.approx(both.relative_sse[:1])
    assert other.relative_sse != both.relative_sse[:1]
    assert both.relative_sse[0] != both.relative_sse[1]
    assert both.worst == max(both.relative_sse)


@pytest.mark.parametrize("name", ["phases", "masks", "time"])
def test_seeded_devices_send_the_same_messages_and_others_do_not(name: str) -> None:
    plan, records = PLANS[name], records_of(20)

    def send(noise_seed: int | None) -> list[bytes]:
        maker = DeviceMaker(plan=plan, n_windows=2, noise_seed=noise_seed)
        return [message for _, message, _ in maker.sketch(3, records.load(3, 4)[0])]

    assert send(7) == send(7) != send(8)
    # Without a seed, keys and noise are the operating system's.
    assert send(None) != send(None)


def test_bounds_that_are_too_narrow_are_seen_although_they_clip(tmp_path: Path) -> None:
    path, rng = tmp_path / "records.csv", np.random.default_rng(3)
    # Two clusters, at the middle and beyond the plan's bounds of -10 to 10.
    points = rng.normal(size=(400, 2)) + np.where(rng.random((400, 1)) < 0.5, 0.0, 16.0)
    path.write_text("x,y\n" + "".join(f"{x},{y}\n" for x, y in points.tolist()))
    records = FileRecords.read(path, PLAN, n_devices=1)
    found = sweep(records=records, axes=("bounds",), factors=(Fraction(1, 2), Fraction(2)))
    narrow, wide = (quality.median for quality in found.varied)
    assert narrow > found.base.median > 2
    assert wide < 1.2


def test_what_a_plan_cannot_be_is_refused_in_its_place_and_the_rest_is_run() -> None:
    found = sweep(axes=("m",), factors=(Fraction(1, 16), Fraction(2)))
    refused, fine = found.varied
    assert "n_clusters" in refused.refusal
    assert fine.relative_sse
    shown = [part for part in describe_sweep(found) if isinstance(part, str)]
    assert any(part.startswith("m x 1/16: n_clusters: must be at most") for part in shown)
    document = sweep_to_json(found, seed=1, seconds=0.5)
    assert document["varied"][0]["relative_sse"] is None
    json.dumps(document, allow_nan=False)


def test_a_sweep_ends_when_its_time_is_up_but_not_before_the_plan_has_an_answer() -> None:
    seen: list[tuple[int, int]] = []
    found = sweep(is_over=lambda: True, on_progress=lambda *done: seen.append(done))
    assert seen == [(1, 2)]
    assert not found.is_complete
    assert found.base.relative_sse
    assert math.isnan(found.varied[0].median)
    assert any("raise --minutes" in str(part) for part in describe_sweep(found))


def test_a_sweep_is_printed_drawn_and_labelled_as_a_simulation(
    write_plan: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan, picture = write_plan("time"), tmp_path / "sweep.png"
    options = ["--records-per-device", "60", "-k", "2", "--processes", "1", "--repeats", "1"]
    options += ["--sweep", "scale", "--factors", "2", "--plot", str(picture)]
    status, out, err = simulate(capsys, plan, *options)
    assert status == 0, err
    words = " ".join(out.split())
    assert words.startswith("A simulation: its noise comes from a seed and protects nothing")
    assert re.search(r"\bx 2\b", out)
    assert "The plan as it is (60 records, 2 clusters, m = 8, epsilon 1e+09, 1 repeat): " in words
    assert picture.read_bytes().startswith(b"\x89PNG")
    status, out, _ = simulate(capsys, plan, *options[:-2], "--json")
    document = json.loads(out)
    assert (status, document["label"]) == (0, words[: len(document["label"])])
    assert [(one["axis"], one["factor"]) for one in document["varied"]] == [("scale", "2")]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--sweep", "bounds,box"), "--sweep: must be some of bounds, scale, m, epsilon, or all"),
        (("--factors", "2"), "--factors: needs --sweep"),
        (("--sweep", "all", "--factors", "0"), "--factors: must be greater than zero"),
        (("--sweep", "all", "--factors", "2,x"), "--factors: must be an exact number"),
        (("--minutes", "1"), "--minutes: needs --sweep"),
        (("--sweep", ""), "--sweep: must be some of"),
        (
            ("--column", "x=a"),
            "--column: needs --file",
        ),
    ],
)
def test_what_cannot_be_swept_is_refused_with_a_fix(
    arguments: tuple[str, ...], words: str, write_plan: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, err = simulate(capsys, write_plan("time"), "-k", "2", *arguments)
    assert status == 2
    assert not out
    assert words in err


def test_bounds_of_a_logarithmic_dimension_move_on_its_scale() -> None:
    plan = create_plan(
        PlanSpec(
            dimensions=(
                Dimension(
                    name="light",
                    unit="lux",
                    lower=0.0,
                    upper=1023.0,
                    scale=1.0,
                    transform=LogTransform(resolution=1.0),
                ),
                Dimension(name="room", unit="1", levels=("hall", "attic")),
            ),
            n_frequencies=16,
            seed="x",
            epsilon=Fraction(10**9),
            mechanism="discrete-laplace",
            most_records=1000,
            window=WindowRule(kind="count", length=100),
        )
    )
    # T of the bounds is 0 and 10: half as wide it is 2.5 and 7.5.
    narrow = vary_plan(plan, "bounds", Fraction(1, 2)).dimensions
    assert narrow[0].bounds == pytest.approx((2**2.5 - 1, 2**7.5 - 1))
    assert narrow[1] == plan.dimensions[1]
    records = MixtureRecords.of(plan, n_clusters=2, n_records=200, clusters_per_device=None, seed=1)
    found = sweep(plan, records=records, axes=("bounds",), factors=(Fraction(2),))
    assert found.n_compared == 200
    assert 0.99 < found.base.median < 2
