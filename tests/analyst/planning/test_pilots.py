"""Pilots, and the plans that follow from them, on the command line and from a sketch file."""

import json
import tomllib
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from analyst.planning.pilots import PilotOutline, parse_columns, plan_pilot
from analyst.planning.refining import MainOutline, refine
from analyst.sketching.answers import LocalSketches
from analyst.sketching.sketch_file import read_sketch_file
from shared import command
from shared.errors import ConfigError
from shared.plan import HistogramPart, WindowRule, plan_from_spec
from shared.wire.bodies.statistics import CalibrationBody
from tests.analyst.planning.commands import words_of

COLUMNS = "load:kW,trips:1:count"
N = 20_000


def make_records() -> np.ndarray:
    """Two well-separated clusters, in units nobody was told."""
    rng = np.random.default_rng(5)
    left, right = rng.normal((200.0, 20.0), (8.0, 2.0), (2, N // 2, 2))
    right += (150.0, 40.0)
    return np.concatenate([left, right])


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", make_records())
    return tmp_path


def outline(**changes: object) -> PilotOutline:
    fields: dict[str, object] = {
        "dimensions": parse_columns([COLUMNS]),
        "n_records": N,
        "n_sketches": 1,
        "epsilon": Fraction(1),
        "delta": Fraction(0),
        "shares_records": False,
        "window": WindowRule(kind="time", length_s=86400),
    }
    return PilotOutline(**(fields | changes))  # type: ignore[arg-type]


def pilot(*options: str, records: str = str(N)) -> int:
    given = ["--dimensions", COLUMNS, "--records", records, "--epsilon", "1"]
    return command.main(["plan", "pilot", *given, *options])


def make_calibration() -> CalibrationBody:
    """Return what a pilot of these records says."""
    assert pilot("--same-records", "-o", "local.toml") == 0
    assert command.main(["sketch", "x.npy", "--plan", "local.toml", "-o", "local.sketch"]) == 0
    plan = plan_from_spec(tomllib.loads(Path("local.toml").read_text(encoding="utf-8")))
    sketch = read_sketch_file(Path("local.sketch"))
    return LocalSketches(sketches=[sketch], plan=plan).calibrate(n_clusters=(2, 2))


def test_columns_need_a_name_and_a_unit_at_most() -> None:
    load, trips, place = parse_columns(["load:kW, trips:1:count", "place:levels=a|b|c"])
    assert (load.unit, load.transform and load.transform.resolution) == ("kW", 1e-6)
    assert (load.lower, load.upper) == (-(2.0**40) * 1e-6, 2.0**40 * 1e-6)
    assert (trips.transform and trips.transform.resolution, trips.upper) == (1.0, 2.0**40)
    assert place.levels == ("a", "b", "c")


@pytest.mark.parametrize("text", ["", ":kW", "a:b:c", "a:b:count:d", "a,a"])
def test_columns_of_another_form_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="--dimensions"):
        parse_columns([text])


def test_the_same_records_leave_the_rest_of_epsilon_to_the_main_study() -> None:
    shared = plan_pilot(outline(shares_records=True))
    assert shared.spec.epsilon == Fraction(1, 10)
    weak = plan_pilot(outline(shares_records=True, n_records=1000))
    assert weak.spec.epsilon == Fraction(1, 4)
    assert plan_pilot(outline()).spec.epsilon == 1


def test_many_sketches_carry_one_dimension_each_and_are_stronger_for_it() -> None:
    columns = parse_columns(["a:m,b:m,c:m,d:m"])
    one = plan_pilot(outline(dimensions=columns))
    many = plan_pilot(outline(dimensions=columns, n_sketches=1000))
    assert one.spec.dimensions_per_sketch is None
    assert many.spec.dimensions_per_sketch == 1
    # n epsilon / (d sqrt(L q / d)), by the exact noise.
    assert many.strength == pytest.approx(N / (4 * np.sqrt(1000 / 4)), rel=0.02)


def test_a_delta_is_used_only_where_it_helps() -> None:
    few = plan_pilot(outline(delta=Fraction(1, 10**6)))
    assert few.spec.delta == 0
    many = parse_columns([",".join(f"x{i}:m" for i in range(12))])
    assert plan_pilot(outline(dimensions=many, delta=Fraction(1, 10**6))).spec.delta > 0


def test_a_weak_pilot_is_refused_and_told_what_would_do(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert pilot("-o", "pilot.toml", records="150") == 2
    words = words_of(capsys.readouterr().err)
    assert "Do not run this" in words
    assert "200 records, or epsilon 1.4" in words
    assert not Path("pilot.toml").exists()
    assert pilot("-o", "pilot.toml", records="200") == 0
    assert pilot("-o", "weak.toml", "--anyway", records="150") == 0


@pytest.fixture
def pilot_file(folder: Path) -> Path:
    """The sketch of a pilot over the records that the main study reads too."""
    assert pilot("--same-records", "-o", "pilot.toml") == 0
    made = ["x.npy", "--plan", "pilot.toml", "-o", "pilot.sketch", "--ledger", "owner.ledger"]
    assert command.main(["sketch", *made]) == 0
    return folder / "pilot.sketch"


REFINE = ["plan", "refine", "pilot.sketch", "--plan", "pilot.toml", "--same-records"]


def test_columns_alone_lead_to_centroids_within_the_budget(
    pilot_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    choice = ["--clusters", "2", "--epsilon", "1", "-o", "main.toml"]
    assert command.main([*REFINE, *choice]) == 0
    words = words_of(capsys.readouterr().err)
    assert "one record costs epsilon 1." in words
    assert "0.1 q1 + 0.9 q2" in words
    plan = plan_from_spec(tomllib.loads(Path("main.toml").read_text(encoding="utf-8")))
    assert plan.release.epsilon == Fraction(9, 10)
    box = tomllib.loads(Path("main.box.toml").read_text(encoding="utf-8"))["search_box"]
    for dimension in plan.dimensions:
        lower, upper = box[dimension.name]
        assert dimension.bounds[0] <= lower < upper <= dimension.bounds[1]
    made = ["x.npy", "--plan", "main.toml", "--ledger", "owner.ledger"]
    assert command.main(["sketch", *made, "-o", "main.sketch"]) == 0
    # Both are counted: a third study of the same records has nothing left.
    assert command.main(["sketch", *made, "-o", "third.sketch"]) == 2
    capsys.readouterr()
    decode = ["decode", "file", "main.sketch", "--plan", "main.toml", "-k", "2", "--json"]
    assert command.main([*decode, "--within", "main.box.toml"]) == 0
    found = json.loads(capsys.readouterr().out)
    centroids = np.array(sorted(found["centroids"]))
    np.testing.assert_allclose(centroids, [[200, 20], [350, 60]], rtol=0.05)


def test_a_pilot_without_budget_for_both_is_refused(
    pilot_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main([*REFINE, "--clusters", "2", "--epsilon", "1/10", "-o", "m.toml"]) == 2
    assert "which the pilot has spent of the same records" in capsys.readouterr().err


def test_a_hopeless_main_study_is_refused_and_nothing_is_written(
    pilot_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--clusters", "2", "--epsilon", "1", "--records", "30", "-o", "m.toml"]
    assert command.main([*REFINE, *options]) == 2
    assert "Do not run this" in capsys.readouterr().err
    assert not Path("m.toml").exists()


def test_other_records_cost_the_larger_epsilon_and_begin_behind_the_pilot(
    pilot_file: Path,
) -> None:
    plan = plan_from_spec(tomllib.loads(Path("pilot.toml").read_text(encoding="utf-8")))
    local = LocalSketches(sketches=[read_sketch_file(pilot_file)], plan=plan)
    main = MainOutline(epsilon=Fraction(1), origin=604800)
    found = refine(local.calibrate(n_clusters=(2, 2)), plan, main, n_sketches=1)
    assert found.epsilon == 1
    assert "costs epsilon 1, one that both read 1.1" in found.describe_cost()
    spec = tomllib.loads(found.format_spec())
    assert spec["window"] == {"kind": "time", "origin": 604800, "length_s": 604800}


def test_a_pilot_of_other_records_ends_and_its_main_study_begins_there(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--window", "1d", "--start", "2026-01-01", "--windows", "7", "-o", "pilot.toml"]
    assert pilot(*options) == 0
    words = words_of(capsys.readouterr().err)
    assert "from 2026-01-01 00:00:00 UTC until before 2026-01-08 00:00:00 UTC count" in words
    plan = plan_from_spec(tomllib.loads(Path("pilot.toml").read_text(encoding="utf-8")))
    assert plan.is_bounded
    assert plan.window.n_slots == 7
    # A file has no times here, so that nobody takes records of the main study for the pilot's.
    assert command.main(["sketch", "x.npy", "--plan", "pilot.toml"]) == 2
    assert "late_rule: is leave-out-outside" in words_of(capsys.readouterr().err)
    found = refine(make_calibration(), plan, MainOutline(epsilon=Fraction(1)), n_sketches=1)
    main = plan_from_spec(tomllib.loads(found.format_spec()))
    assert main.window.origin == plan.window.end
    assert main.shares_no_record(plan)
    assert "one record costs epsilon 1, where devices read its time" in found.describe_cost()


@pytest.mark.parametrize(
    ("window", "why"),
    [
        (WindowRule(kind="count", length=20_000), "windows by count know no times"),
        (WindowRule(kind="time", origin=604800, length_s=604800), "it has no end"),
    ],
)
def test_a_pilot_without_an_end_may_share_records_and_says_so(
    folder: Path, window: WindowRule, why: str
) -> None:
    planned = plan_pilot(outline(window=window))
    assert not planned.plan.is_bounded
    assert why in " ".join(planned.describe())
    main = MainOutline(epsilon=Fraction(1), origin=1209600)
    found = refine(make_calibration(), planned.plan, main, n_sketches=1)
    assert "one that both read 2." in found.describe_cost()
    assert why in found.describe_cost()
    assert "the owner's ledger counts the sum" in found.describe_cost()


def test_drift_between_two_pilots_is_reported(
    pilot_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.save("y.npy", make_records() + np.array([400.0, 0.0]))
    np.save("z.npy", make_records()[::-1])
    for name in ("y", "z"):
        assert command.main(["sketch", f"{name}.npy", "--plan", "pilot.toml"]) == 0
    compare = ["plan", "compare", "pilot.sketch"]
    capsys.readouterr()
    assert command.main([*compare, "y.npy.sketch", "--plan", "pilot.toml", "--json"]) == 1
    moved = {drift["name"]: drift["has_moved"] for drift in json.loads(capsys.readouterr().out)}
    assert moved == {"load": True, "trips": False}
    assert command.main([*compare, "z.npy.sketch", "--plan", "pilot.toml"]) == 0


def test_bins_follow_the_strength() -> None:
    strong = plan_pilot(outline(n_records=10**6)).plan.statistic
    assert isinstance(strong, HistogramPart)
    assert strong.bins_log2 == (10, 10)
