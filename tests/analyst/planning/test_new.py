import io
import json
import math
import re
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sfumato.shared import command
from sfumato.shared.plan import SketchPlan, WindowRule, plan_from_json, plan_from_spec
from tests.analyst.planning.commands import SPEC, show, words_of

ANSWERS = [
    *("temperature", "°F", "0", "-10", "110", "8"),
    *("wind speed", "mph", "0", "0", "50", "4"),
    "",  # no more dimensions
    *("5", "values", "7d", "record", "40", "200000", "device", "yes", "1/2", "0"),
]


@dataclass(frozen=True, kw_only=True)
class Made:
    """A plan that answers have made, its specification, and what was said to who answered."""

    plan: SketchPlan
    text: str
    err: str
    output: Path

    @property
    def spec(self) -> dict[str, Any]:
        return tomllib.loads(self.text)


Answer = Callable[..., Made]


@pytest.fixture
def answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Answer:
    """Answer the questions of a new plan, whose specification must agree with it."""

    def make(answers: list[str], *options: str, name: str = "plan") -> Made:
        type_in(answers, monkeypatch)
        output = tmp_path / f"{name}.json"
        assert command.main(["plan", "new", "-o", str(output), *options]) == 0
        plan = plan_from_json(json.loads(output.read_text(encoding="utf-8")))
        text = output.with_suffix(".toml").read_text(encoding="utf-8")
        assert plan_from_spec(tomllib.loads(text)) == plan
        captured = capsys.readouterr()
        assert captured.out.strip() == ""  # questions go to standard error
        return Made(plan=plan, text=text, err=captured.err, output=output)

    return make


def type_in(answers: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("".join(f"{answer}\n" for answer in answers)))


def test_answers_become_a_specification_and_a_plan_that_agree(answer: Answer) -> None:
    made = answer(ANSWERS)
    plan, spec = made.plan, made.spec
    assert spec["radius_law"]["sigma_high"] == plan.radius_law.sigma_high
    assert [(d.name, d.unit, d.scale) for d in plan.dimensions] == [
        ("temperature", "°F", 8.0),
        ("wind speed", "mph", 4.0),
    ]
    assert plan.window.length_s == 7 * 86400
    assert str(plan.release.epsilon) == "1/2"
    assert 20 <= plan.n_frequencies <= 100
    assert plan.least_records <= 5000 <= plan.most_records
    assert f"sfumato study create NAME {made.output}" in made.err
    # Every new plan has a seed of its own.
    assert answer(ANSWERS, name="other").plan.frequencies != plan.frequencies


def test_wrong_answers_are_explained_and_asked_again(answer: Answer) -> None:
    made = answer(
        [
            *('say "x"\\', "1", "nan", "0", "-1", "1", "0", "0.1"),
            *(' say "x"\\ ', ""),
            *("none", "0", "2", "nothing", "values", "soon", "0d", "500 records", "10"),
            *("perhaps", " Y ", "-1", "1e-1", "2", "1e-6"),
        ]
    )
    for message in (
        "lower: must be a finite number",
        "upper: must be above the lower bound, 0",
        "scale: must be positive and at most the width of the bounds, 1",
        "name: is taken",
        "clusters: must be a whole number",
        "clusters: must be at least 1",
        "window: must be a length of time or a number of records",
        "window: must be at least 1",
        "devices: must be yes or no",
        "epsilon: must be greater than zero",
        "delta: must be from 0 to below 1",
    ):
        assert message in made.err
    plan = made.plan
    assert plan.dimensions[0].name == 'say "x"\\'
    assert (plan.window.kind, plan.window.length) == ("count", 500)
    assert plan.release.epsilon * 10 == 1


def test_answers_for_a_large_fleet_make_a_plan_of_small_sketches(answer: Answer) -> None:
    carried = {}
    for differ in ("yes", "no"):
        given = [*ANSWERS[:17], "400", "200000", "device", differ, "1/10", "0"]
        made = answer(given, name=differ)
        plan = made.plan
        assert plan.is_split
        carried[differ] = plan.frequencies_per_sketch
        assert made.spec["frequencies_per_sketch"] == plan.frequencies_per_sketch
        least = f"a selection needs at least {plan.blocks.n_blocks} sketches"
        assert least in made.text
        err = words_of(made.err)
        assert f"Each sketch carries {plan.frequencies_per_sketch} of the" in err
        assert f"Shortest selection: {plan.blocks.n_blocks} sketches" in err
        words = show(made.output)
        assert f"a sketch carries {plan.frequencies_per_sketch}, and noise for these alone" in words
        assert f"{plan.blocks.n_blocks} sketches, because fewer cannot carry" in words
    assert carried["no"] < carried["yes"]


@pytest.mark.parametrize(
    ("unit", "devices", "records"), [("", "1000000", "1000000"), ("device", "1500000", "70000000")]
)
def test_answers_for_phones_make_a_plan_of_phase_reports(
    unit: str,
    devices: str,
    records: str,
    answer: Answer,
) -> None:
    # Where the unit is a device, nobody is asked whether devices differ.
    differ = ["yes"] if not unit else []
    made = answer([*ANSWERS[:16], unit, devices, records, "device", *differ, "1", "0"])
    plan, spec = made.plan, made.spec
    assert (spec["release"], spec["unit"]) == ("phase.v1", "device")
    assert (spec["frequencies_per_sketch"], plan.payload_bytes) == (1, 2)
    assert not spec.keys() & {"mechanism", "delta", "neighbouring", "least_records", "most_records"}
    assert spec["most_sketches_per_device"] == 1
    assert "# Each further report of a device costs it epsilon once more." in made.text
    # A study of more devices than it accepts sketches would lock some of them out.
    assert plan.most_sketches >= int(devices)
    err = words_of(made.err)
    assert "A device reports once in the whole study" in err
    assert "devices are needed for a relative SSE of 1.2" in err
    assert ("different kinds" in err) == (not unit)
    assert ("epsilon for all records of a device in a window" in err) == bool(unit)


def test_answers_that_end_early_write_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    type_in(ANSWERS[:9], monkeypatch)
    assert command.main(["plan", "new", "-o", str(tmp_path / "plan.json")]) == 2
    assert "answers: ended before the last question; nothing was written" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_answers_that_hide_presence_make_a_plan_with_a_start_and_no_least_number(
    answer: Answer,
) -> None:
    windows = ("1000 records", "7d", "soon", "1970-01-01", "2026-01-31")
    answers = [*ANSWERS[:13], "5", "presence", *windows, "40", "30", "device", "no", "1/2", "0"]
    made = answer(answers, "--anyway")
    plan = made.plan
    assert (plan.release.neighbouring, plan.least_records) == ("add-remove-one", 0)
    assert plan.window == WindowRule(kind="time", origin=1_769_817_600, length_s=7 * 86400)
    for complaint in ("when a number of records is full", "must be a date", "after 1970-01-01"):
        assert complaint in made.err
    assert "least_records" not in made.text


def test_a_hopeless_plan_is_not_written_unless_it_is_wanted_anyway(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "plan.json"
    new = ["plan", "new", "-o", str(output)]
    hopeless = [*ANSWERS[:17], "1", "200", "1/2", "0"]
    type_in(hopeless, monkeypatch)
    assert command.main(new) == 2
    err = capsys.readouterr().err
    assert "sfumato: error: Do not run this: at epsilon 0.5, with 200 records in 1 sketch, " in err
    assert err.rstrip().endswith("Add --anyway to go on all the same")
    assert not list(tmp_path.iterdir())
    # The same records, but a thousand windows of them.
    type_in(hopeless, monkeypatch)
    assert command.main([*new, "--windows", "1000"]) == 0
    assert "from 1,000 windows together relative SSE between" in capsys.readouterr().err
    output.unlink()
    output.with_suffix(".toml").unlink()
    type_in(hopeless, monkeypatch)
    assert command.main([*new, "--anyway"]) == 0


def test_a_specification_is_hopeless_only_if_the_most_that_it_accepts_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text, output = SPEC.read_text(encoding="utf-8"), tmp_path / "plan.json"
    path = tmp_path / "weak.toml"
    path.write_text(re.sub(r'epsilon = "1"', 'epsilon = "1e-4"', text), encoding="utf-8")
    assert command.main(["plan", "new", str(path), "-o", str(output)]) == 2
    assert "Do not run this: at epsilon 0.0001" in capsys.readouterr().err
    assert not output.exists()
    assert command.main(["plan", "new", str(path), "-o", str(output), "--anyway"]) == 0
    assert command.main(["plan", "new", str(path), "--windows", "4"]) == 2
    assert "--windows: cannot be combined with a specification" in capsys.readouterr().err


def test_usual_ranges_are_offered_and_only_the_return_key_is_needed(answer: Answer) -> None:
    outdoor = ("outdoor_temp", "", "", "", "", "")
    humidity = ("relHumidity", "%", "7", "1", "", "", "all 10")
    made = answer([*outdoor, *humidity, "", "unknown", "", "", "", "1", "9000000", "1", "0"])
    err, plan = made.err, made.plan
    assert "not read off any data" in err
    assert "range: must be from 0 to 1" in err
    assert "planned" not in err
    assert "The number of clusters is unknown: this plans for up to 50" in err
    temperature, moisture = plan.dimensions
    assert (temperature.unit, temperature.lower, temperature.upper) == ("degC", -50.0, 60.0)
    assert (moisture.lower, moisture.upper) == (0.0, 100.0)
    # Spreads of all records are 9 and 10; the unknown k counts as the root of 5 times 50.
    share = 0.7 / math.sqrt(math.sqrt(250))
    assert temperature.scale == pytest.approx(9 * share, rel=0.01)
    assert moisture.scale == pytest.approx(10 * share, rel=0.01)
    assert "# 0.7 k^(-1/d) of a usual spread of 9" in made.text


@pytest.mark.parametrize("taken", ["plan.json", "plan.toml"])
def test_no_file_is_replaced_by_answers_and_nobody_is_asked_for_nothing(
    taken: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    type_in([], monkeypatch)
    (tmp_path / taken).write_text("mine", encoding="utf-8")
    assert command.main(["plan", "new", "-o", str(tmp_path / "plan.json")]) == 2
    assert f"{tmp_path / taken}: exists already" in capsys.readouterr().err
    assert (tmp_path / taken).read_text(encoding="utf-8") == "mine"


def test_answers_for_few_devices_that_are_the_unit_make_a_plan_of_means(answer: Answer) -> None:
    made = answer([*ANSWERS[:16], "person", "device", "2", "100", "20", "0"], "--anyway")
    plan, spec = made.plan, made.spec
    assert (plan.release.kind, plan.release.unit) == ("local.v1", "device")
    assert plan.most_records == spec["most_records"] == 200
    assert not spec.keys() & {"release", "neighbouring", "least_records", "max_records_per_person"}


def test_one_device_is_not_asked_whether_devices_differ(answer: Answer) -> None:
    assert "different kinds" not in answer([*ANSWERS[:17], "1", "200000", "1/2", "0"]).err


def test_values_over_powers_of_ten_are_offered_a_log_scale(answer: Answer) -> None:
    scales = {}
    for scale in ("log", "linear"):
        light = ("light", "lux", "", "", "", "logarithm", scale, "")
        made = answer([*light, "", "4", "", "", "", "1", "1000000", "1", "0"], name=scale)
        assert "transform: must be linear or log" in made.err
        (dimension,) = made.plan.dimensions
        assert (dimension.transform is None) == (scale == "linear")
        scales[scale] = dimension.scale
    # A quarter of 0.7 times 4 doublings, and of 0.7 times 12,000 lux.
    assert scales == {"log": pytest.approx(0.7), "linear": pytest.approx(2100.0)}


def test_a_plan_cannot_be_written_where_its_specification_goes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(["plan", "new", "-o", str(tmp_path / "plan.toml")]) == 2
    assert "--output: is the name of the specification" in capsys.readouterr().err


def test_a_plan_that_cannot_be_written_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["plan", "new", str(SPEC), "-o", "/nowhere/plan.json"]) == 2
    assert "/nowhere/plan.json: cannot be written" in capsys.readouterr().err
