"""Pilots, and the plans that follow from them, on the command line and from a sketch file."""

import io
import json
import re
import shutil
import tomllib
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sfumato.analyst.planning.campaigns import CampaignOutline, plan_campaign
from sfumato.analyst.planning.explanation import describe_statistic
from sfumato.analyst.planning.files import read_plan
from sfumato.analyst.planning.pilots import describe_pilot, format_pilot, parse_columns
from sfumato.analyst.planning.refinement import format_refinement
from sfumato.analyst.sketching.answers import LocalSketches
from sfumato.analyst.sketching.sketch_file import read_sketch_file
from sfumato.learning.answers.histograms import describe_calibration, describe_histogram
from sfumato.learning.calibration.strength import CLEAR_STRENGTH
from sfumato.learning.planning.pilots import PilotOutline, plan_pilot
from sfumato.learning.planning.refinement import MainOutline, refine
from sfumato.shared import command
from sfumato.shared.errors import ConfigError
from sfumato.shared.plan import HistogramPart, WindowRule, plan_from_spec
from sfumato.shared.wire.objects.statistics import CalibrationBody, HistogramBody
from sfumato.simulator.fleet import run_fleet
from sfumato.simulator.records import FileRecords
from tests.analyst.planning.commands import words_of
from tests.analyst.sketching.samples import seed_sketches

COLUMNS = "load:kW,trips:1:count"
N = 20_000


def make_records() -> np.ndarray:
    """Two clusters, in units nobody was told; each as wide as a plan for some clusters expects."""
    rng = np.random.default_rng(5)
    left, right = rng.normal((200.0, 20.0), (25.0, 8.0), (2, N // 2, 2))
    right += (150.0, 40.0)
    return np.concatenate([left, right])


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Records in a folder of their own; noise from a seed, so that every run is the same."""
    seed_sketches(monkeypatch)
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


def test_columns_need_a_name_and_a_unit_at_most() -> None:
    load, trips, place = parse_columns(["load:kW, trips:1:count", "place:levels=a|b|c"])
    assert (load.unit, load.transform and load.transform.resolution) == ("kW", 1e-6)
    assert (load.lower, load.upper) == (-(2.0**40) * 1e-6, 2.0**40 * 1e-6)
    assert (trips.transform and trips.transform.resolution, trips.upper) == (1.0, 2.0**40)
    assert place.levels == ("a", "b", "c")
    # Who writes no unit of a count means a count, not a unit of that name.
    (short,) = parse_columns(["trips:count"])
    assert short == trips


def test_a_column_far_from_zero_is_counted_between_its_bounds() -> None:
    (taken,) = parse_columns(["taken:s:-1.5e9..2e9"])
    assert (taken.unit, taken.bounds, taken.transform) == ("s", (-1.5e9, 2e9), None)


@pytest.mark.parametrize(
    "text", ["", ":kW", "a:b:c", "a:b:count:d", "a,a", "a:b:1..x", "a:b:1..2..3", "a:levels=x:1..2"]
)
def test_columns_of_another_form_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="--dimensions"):
        parse_columns([text])


def test_the_same_records_leave_the_rest_of_epsilon_to_the_main_study() -> None:
    shared = plan_pilot(outline(shares_records=True, n_records=2 * N))
    assert shared.spec.epsilon == Fraction(1, 10)
    # Half the records need twice the share to show long tails.
    clear = plan_pilot(outline(shares_records=True))
    assert clear.spec.epsilon == Fraction(1, 5)
    assert clear.strength == pytest.approx(CLEAR_STRENGTH, rel=0.02)
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


def test_devices_with_a_record_each_report_bins_and_are_stronger_for_it() -> None:
    columns = parse_columns(["a:m,b:m"])
    phones = plan_pilot(outline(dimensions=columns, n_records=40_000, n_sketches=40_000))
    plan = plan_from_spec(tomllib.loads(format_pilot(phones)))
    assert plan == phones.plan
    assert (plan.release.kind, plan.payload_bytes, plan.n_reports) == ("phase.v1", 2, 1)
    # 32 n g^2 with 20,000 reports of a dimension, 0.366 of which tell of a record.
    assert phones.strength == pytest.approx(0.366 * np.sqrt(32 * 20_000), rel=0.01)
    counts = replace(phones.outline, window=WindowRule(kind="count", length=1))
    assert plan_pilot(counts).strength < phones.strength / 2
    assert (
        "from about 19,000 reports on, to calibrate" in dict(describe_statistic(plan))["histogram"]
    )
    words = " ".join(describe_pilot(phones))
    assert "reports a noisy bin of one of 2 dimensions" in words
    assert "all records of a device in a window together cost epsilon 1" in words


@pytest.mark.parametrize(
    "change",
    [
        {"window": WindowRule(kind="count", length=10)},
        {"dimensions": parse_columns(["a:m,b:levels=x|y"])},
        {"n_records": 8_000_000},
        {"epsilon": Fraction(8)},
    ],
)
def test_counts_are_kept_where_bins_cannot_be_reported_or_devices_have_many_records(
    change: dict[str, object],
) -> None:
    given = {"n_records": 40_000, "n_sketches": 40_000, **change}
    assert plan_pilot(outline(**given)).plan.release.kind == "local.v1"


def test_the_reports_of_a_fleet_lead_to_the_plan_of_a_main_study() -> None:
    columns = parse_columns([COLUMNS])
    given = {"n_records": 4000, "n_sketches": 4000, "epsilon": Fraction(6)}
    plan = plan_pilot(outline(dimensions=columns, **given)).plan
    assert plan.reports_phases
    records = make_records()
    dealt = FileRecords(records=np.random.default_rng(1).permutation(records), n_records=1)
    tally, totals = run_fleet(plan, dealt, n_devices=4000, noise_seed=1, n_processes=1)
    assert tally.n_sketches == 4000
    found = describe_calibration(plan, totals, snapshot_id="00" * 32, n_clusters=(2, 2))
    assert found.refusal is None
    shown = describe_histogram(plan, totals, snapshot_id="00" * 32)
    main = refine(found, shown, plan, MainOutline(epsilon=Fraction(6)))
    assert "A record that only one of the two studies reads costs epsilon 6" in main.describe_cost()
    made = plan_from_spec(tomllib.loads(format_refinement(main)))
    assert made.release.unit == "device"
    for i, dimension in enumerate(made.dimensions):
        lower, upper = main.search_box[dimension.name]
        assert np.mean((records[:, i] >= lower) & (records[:, i] <= upper)) > 0.9
        assert dimension.transform is None
        assert upper - lower < 8.0 * records[:, i].std()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A pilot over the records that the main study reads too, and its sketch."""
    folder = tmp_path_factory.mktemp("pilot")
    with pytest.MonkeyPatch.context() as patch:
        seed_sketches(patch)
        patch.chdir(folder)
        np.save("x.npy", make_records())
        assert pilot("--same-records", "-o", "pilot.toml") == 0
        given = ["x.npy", "--plan", "pilot.toml", "-o", "pilot.sketch", "--ledger", "owner.ledger"]
        assert command.main(["sketch", *given]) == 0
    return folder


@pytest.fixture(scope="module")
def answers(made: Path) -> tuple[CalibrationBody, HistogramBody]:
    """What the pilot says, and shows."""
    plan = plan_from_spec(tomllib.loads((made / "pilot.toml").read_text(encoding="utf-8")))
    local = LocalSketches(sketches=[read_sketch_file(made / "pilot.sketch")], plan=plan)
    return local.calibrate(n_clusters=(2, 2)), local.histogram(bars=64)


@pytest.fixture
def pilot_file(folder: Path, made: Path) -> Path:
    """The files of the pilot, in a folder of the test's own."""
    shutil.copytree(made, folder, dirs_exist_ok=True)
    return folder / "pilot.sketch"


REFINE = ["plan", "refine", "pilot.sketch", "--plan", "pilot.toml", "--same-records"]


class Terminal(io.StringIO):
    """A terminal at which somebody types this."""

    def isatty(self) -> bool:
        return True


def read_toml(name: str) -> dict[str, Any]:
    return tomllib.loads(Path(name).read_text(encoding="utf-8"))


def test_a_pilot_that_leaves_the_person_open_warns_with_the_fix_and_goes_on(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert pilot("-o", "open.toml") == 0
    words = words_of(capsys.readouterr().err)
    assert "warning: max_records_per_person is unknown." in words
    assert "in one window at epsilon 2,016, which is next to no protection" in words
    assert "--per-person" in words
    assert read_toml("open.toml")["max_records_per_person"] == "unknown"
    # Also with windows by time, where reports of the first record alone are weighed too.
    assert pilot("--per-person", "3", "--devices", "40", "-o", "known.toml") == 0
    assert "max_records_per_person" not in capsys.readouterr().err
    assert read_toml("known.toml")["max_records_per_person"] == 3


def test_a_pilot_protects_a_devices_window_as_a_whole_and_counts_its_first_record(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    choice = ["--unit", "device", "--records", "9e5", "--devices", "200000"]
    # Categories cannot be reported, so devices count their first record.
    columns = ["--dimensions", "door:levels=open|shut"]
    for name, given, release in (("counts", columns, "local.v1"), ("reports", [], "phase.v1")):
        assert pilot(*choice, *given, "-o", f"{name}.toml") == 0
        words = words_of(capsys.readouterr().err)
        assert "so 200,000 of the 900,000 records count" in words
        assert "Somebody who is in all of them is protected in one window at epsilon 1" in words
        assert "per-person" not in words
        plan = plan_from_spec(read_toml(f"{name}.toml"))
        assert (plan.protects_devices, plan.most_records) == (True, 1)
        assert plan.release.kind == release
    assert pilot(*choice, *columns, "--per-person", "3") == 2
    assert "max_records_per_person: must be left out" in words_of(capsys.readouterr().err)


def test_at_a_terminal_a_pilot_asks_for_the_records_of_a_person(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for typed, known in (("4\n", 4), ("\n", "unknown")):
        monkeypatch.setattr("sys.stdin", Terminal(typed))
        assert pilot("-o", f"{known}.toml") == 0
        assert "most records of one person in a window" in capsys.readouterr().err
        assert read_toml(f"{known}.toml")["max_records_per_person"] == known


def test_refine_states_the_person_or_protects_a_devices_window(
    pilot_file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    choice = [*REFINE, "--clusters", "2", "--epsilon", "1"]
    assert command.main([*choice, "-o", "open.toml"]) == 0
    assert "max_records_per_person is unknown" in capsys.readouterr().err
    assert command.main([*choice, "--per-person", "5", "-o", "known.toml"]) == 0
    assert "max_records_per_person is" not in capsys.readouterr().err
    assert read_toml("known.toml")["max_records_per_person"] == 5
    monkeypatch.setattr("sys.stdin", Terminal("6\n"))
    assert command.main([*choice, "-o", "asked.toml"]) == 0
    assert read_toml("asked.toml")["max_records_per_person"] == 6
    monkeypatch.setattr("sys.stdin", Terminal(""))
    capsys.readouterr()
    assert command.main([*choice, "-o", "json.toml", "--json"]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)
    assert "max_records_per_person is unknown" in captured.err


def test_refine_plans_for_a_devices_window_as_a_whole(
    pilot_file: Path, answers: tuple[CalibrationBody, HistogramBody]
) -> None:
    plan = replace(plan_from_spec(read_toml("pilot.toml")), max_records_per_person=7)
    calibration, histogram = answers
    main = MainOutline(epsilon=Fraction(1), origin=604800, n_sketches=400)
    (whole, each) = (
        refine(calibration, histogram, plan, replace(main, unit=unit)) for unit in ("device", None)
    )
    made = whole.make_plan(seed="0" * 64)
    assert (made.release.unit, made.max_records_per_person) == ("device", None)
    assert each.make_plan(seed="0" * 64).max_records_per_person == 7
    assert tomllib.loads(format_refinement(whole))["unit"] == "device"


def test_columns_alone_lead_to_centroids_within_the_budget(
    pilot_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    choice = ["--clusters", "2", "--most-clusters", "10", "--epsilon", "1", "-o", "main.toml"]
    assert command.main([*REFINE, *choice]) == 0
    words = words_of(capsys.readouterr().err)
    assert "one record costs epsilon 1." in words
    assert "0.2 q1 + 0.8 q2" in words
    plan = plan_from_spec(tomllib.loads(Path("main.toml").read_text(encoding="utf-8")))
    assert plan.release.epsilon == Fraction(4, 5)
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
    # At epsilon 0.9 and with fresh noise all of 300 runs were sound, the largest error 1.5 %.
    assert command.main([*decode, "--within", "main.box.toml"]) == 0
    found = json.loads(capsys.readouterr().out)
    centroids = np.array(sorted(found["centroids"]))
    np.testing.assert_allclose(centroids, [[200, 20], [350, 60]], rtol=0.05)


def write_table(path: Path) -> None:
    """The same numbers with a text that belongs to the cluster; some of both are missing."""
    rng = np.random.default_rng(6)
    records = make_records()
    sites = np.where(np.arange(N) < N // 2, "north", "south")
    gone = rng.random((2, N)) < 0.1
    lines = [
        f"{load:.2f},{'' if no_trips else f'{trips:.2f}'},{'' if no_site else site}\n"
        for (load, trips), site, no_trips, no_site in zip(records, sites, *gone, strict=True)
    ]
    path.write_text("load,trips,site\n" + "".join(lines), encoding="utf-8")


def test_refine_says_which_columns_it_leaves_out_and_plans_for_the_complete_records(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(7)
    times = rng.uniform(1.6e9, 1.8e9, N)
    bounded = np.where(rng.random(N) < 0.2, 9e8, times)
    levels = np.where(rng.random(N) < 0.6, np.nan, make_records()[:, 0])
    n_complete = int(np.isfinite(levels).sum())
    np.save("x.npy", np.column_stack([make_records(), levels, times, bounded]))
    columns = f"{COLUMNS},level:m,time:s,start:s:1e9..2e9"
    given = ["--dimensions", columns, "--records", str(N), "--epsilon", "4", "--same-records"]
    assert command.main(["plan", "pilot", *given, "-o", "pilot.toml"]) == 0
    words = words_of(capsys.readouterr().err)
    assert "sees values up to 1.1e+06 on both sides of zero: load, level, time" in words
    assert "sees values up to 1.1e+12 on both sides of zero: trips" in words
    made = ["sketch", "x.npy", "--plan", "pilot.toml", "-o", "pilot.sketch"]
    assert command.main([*made, "--max-unreadable", "1"]) == 0
    capsys.readouterr()
    choice = ["--clusters", "2", "--epsilon", "4", "-o", "main.toml"]
    assert command.main([*REFINE, *choice]) == 0
    words = words_of(capsys.readouterr().err)
    assert "time is left out: 100% of the values lie outside the pilot's bounds" in words
    assert re.search(r"in start (19|20|21)% of the values lie outside the pilot's bounds", words)
    # Noise on the missing is Laplace of scale 25: beyond 280 once in 70,000 runs. 40 runs: 140.
    kept = re.search(r"for ([\d,]+) records in 1 sketch", words)
    assert kept
    assert int(kept[1].replace(",", "")) == pytest.approx(n_complete, abs=280)


def test_a_pilot_without_budget_for_both_is_refused(
    pilot_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main([*REFINE, "--clusters", "2", "--epsilon", "1/10", "-o", "m.toml"]) == 2
    assert "which the pilot has spent of the same records" in capsys.readouterr().err


def test_doubts_about_tails_and_the_scale_of_quality_are_put_in_words(
    pilot_file: Path, answers: tuple[CalibrationBody, HistogramBody]
) -> None:
    plan = plan_from_spec(tomllib.loads(Path("pilot.toml").read_text(encoding="utf-8")))
    calibration, histogram = answers
    main = MainOutline(epsilon=Fraction(1), origin=604800)

    def refine_with(code: str, **changes: Any) -> tuple[str, float]:
        load, trips = calibration.columns
        found = replace(load, codes=[code], findings=["far values"], **changes)
        body = replace(calibration, columns=[found, trips], strength=500.0)
        refined = refine(body, histogram, plan, main)
        return " ".join(refined.describe()), refined.band.high

    plain, high = refine_with("flag")
    assert "far values" not in plain
    assert "logarithmic" not in plain
    tail, wide = refine_with("tail")
    assert "cannot be had with load as it is: far values, and the sketch sees little" in tail
    assert "narrow the bounds of load in the plan" in tail
    assert wide == pytest.approx(8.0 * high)
    hidden, wide = refine_with("hidden")
    assert "far values of load may hide in the pilot's noise" in hidden
    assert "4 times the records or the epsilon" in hidden
    assert wide == pytest.approx(8.0 * high)
    apart, wide = refine_with("apart")
    assert "Warning: in load far values. If they stand for missing values" in apart
    assert wide == pytest.approx(high)
    narrow, wide = refine_with("narrow")
    assert "is not assured, because the scale of load is a guess: far values." in narrow
    assert wide == pytest.approx(8.0 * high)
    bent, _ = refine_with("log", resolution=1.0)
    assert "On the logarithmic scale: load. The relative SSE is meant on that scale" in bent
    assert "delete its line `transform`" in bent


def test_other_records_cost_the_larger_epsilon_and_begin_behind_the_pilot(
    pilot_file: Path, answers: tuple[CalibrationBody, HistogramBody]
) -> None:
    plan = plan_from_spec(tomllib.loads(Path("pilot.toml").read_text(encoding="utf-8")))
    found = refine(*answers, plan, MainOutline(epsilon=Fraction(1), origin=604800))
    assert found.epsilon == 1
    assert "costs epsilon 1, one that both read 1.2" in found.describe_cost()
    spec = tomllib.loads(format_refinement(found))
    assert spec["window"] == {"kind": "time", "origin": 604800, "length_s": 604800}


def test_a_pilot_of_other_records_ends_and_its_main_study_begins_there(
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    answers: tuple[CalibrationBody, HistogramBody],
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
    found = refine(*answers, plan, MainOutline(epsilon=Fraction(1)))
    main = plan_from_spec(tomllib.loads(format_refinement(found)))
    assert main.window.origin == plan.window.end
    assert main.shares_no_record(plan)
    assert "one record costs epsilon 1, where devices read its time" in found.describe_cost()


def test_a_main_study_begins_behind_the_phases_of_its_pilots_campaign(
    answers: tuple[CalibrationBody, HistogramBody],
) -> None:
    _, plan = plan_campaign(
        CampaignOutline(
            dimensions=outline().dimensions,
            n_records=N,
            n_devices=1,
            most_clusters=3,
            epsilon=Fraction(1),
            origin=1_767_225_600,
            length_s=86_400,
            n_windows=(1, 7, 7),
        )
    )
    found = refine(*answers, plan, MainOutline(epsilon=Fraction(1), n_windows=30))
    text = format_refinement(found)
    main = plan_from_spec(tomllib.loads(text))
    assert plan.campaign is not None
    last = plan.campaign.phases[-1].window
    assert main.window.origin == last.end
    assert main.window.n_slots == 30
    assert main.campaign is None
    assert "campaign read the records until 2026-01-16 00:00:00 UTC: this study begins" in text
    assert "# begins where the pilot's campaign has ended" in text


@pytest.mark.parametrize(
    ("window", "why"),
    [
        (WindowRule(kind="count", length=20_000), "windows by count know no times"),
        (WindowRule(kind="time", origin=604800, length_s=604800), "it has no end"),
    ],
)
def test_a_pilot_without_an_end_may_share_records_and_says_so(
    window: WindowRule, why: str, answers: tuple[CalibrationBody, HistogramBody]
) -> None:
    planned = plan_pilot(outline(window=window))
    assert not planned.plan.is_bounded
    assert why in " ".join(describe_pilot(planned))
    main = MainOutline(epsilon=Fraction(1), origin=1209600)
    found = refine(*answers, planned.plan, main)
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
    found = json.loads(capsys.readouterr().out)
    moved = {drift["name"]: drift["has_moved"] for drift in found["columns"]}
    assert (moved, found["has_moved"]) == ({"load": True, "trips": False}, True)
    assert found["false_alarm"] == 2 * found["false_alarm_of_a_column"] == 0.002
    assert command.main([*compare, "z.npy.sketch", "--plan", "pilot.toml"]) == 0
    assert "load: no drift stands out" in capsys.readouterr().out


def test_bins_follow_the_strength() -> None:
    strong = plan_pilot(outline(n_records=10**6)).plan.statistic
    assert isinstance(strong, HistogramPart)
    assert strong.bins_log2 == (10, 10)


def test_a_sensor_that_is_known_to_vary_little_is_counted_around_its_usual_range() -> None:
    pressure, inside, other = parse_columns(["pressure:hPa,room temperature:K,load:hPa"])
    assert (pressure.bounds, pressure.transform) == ((-90.0, 1680.0), None)
    assert inside.transform is None
    assert other.transform is not None
    planned = plan_pilot(outline(dimensions=(pressure,)))
    assert any("sees pressure from -90 to 1680, around" in text for text in describe_pilot(planned))
    (bounded,) = parse_columns(["pressure:hPa:900..1100"])
    assert bounded.bounds == (900.0, 1100.0)


def test_too_few_devices_are_refused_and_told_how_many_would_do(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fleet = ["--devices", "4000"]
    assert pilot("-o", "p.toml", *fleet, records="4000") == 2
    words = words_of(capsys.readouterr().err)
    assert "19,000 devices, or epsilon 4.9" in words
    assert not Path("p.toml").exists()
    assert pilot("-o", "p.toml", "--devices", "19000", records="19000") == 0


def test_categories_and_rules_for_missing_values_lead_to_a_plan_that_decodes(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_table(folder / "x.csv")
    columns = f"{COLUMNS},site:levels=north|south|unknown"
    given = ["--dimensions", columns, "--records", str(N), "--epsilon", "2", "--same-records"]
    assert command.main(["plan", "pilot", *given, "-o", "pilot.toml"]) == 0
    text = Path("pilot.toml").read_text(encoding="utf-8")
    ruled = text.replace('levels = ["north"', 'missing = "unknown"\nlevels = ["north"')
    Path("pilot.toml").write_text(ruled, encoding="utf-8")
    made = ["sketch", "x.csv", "--plan"]
    assert command.main([*made, "pilot.toml", "-o", "pilot.sketch"]) == 0
    choice = ["--clusters", "2", "--most-clusters", "6", "--epsilon", "2", "-o", "main.toml"]
    assert command.main([*REFINE, *choice, "--plot", "main.svg"]) == 0
    assert Path("main.svg").read_bytes().startswith(b"<?xml")
    words = words_of(capsys.readouterr().err)
    assert re.search(r"more than 5% of the values are missing in trips \d+%\. Up to", words)
    # What stands for a missing number is a person's choice; the text's is the pilot's.
    plan = Path("main.toml")
    spec = plan.read_text(encoding="utf-8").replace("# missing = ", "missing = ")
    plan.write_text(spec, encoding="utf-8")
    _, trips, site = read_plan(plan).dimensions
    assert (site.levels, site.missing) == (("north", "south", "unknown"), "unknown")
    assert trips.missing == pytest.approx(40.0, abs=15.0)
    assert command.main([*made, "main.toml", "-o", "main.sketch"]) == 0
    capsys.readouterr()
    decode = ["decode", "file", "main.sketch", "--plan", "main.toml", "-k", "2", "--json"]
    assert command.main([*decode, "--within", "main.box.toml"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["names"] == ["load", "trips", "site=north", "site=south", "site=unknown"]
    left, right = sorted(found["centroids"])
    # A tenth of the trips count as about 40, and a tenth of the sites as unknown.
    np.testing.assert_allclose([left[:2], right[:2]], [[200, 22], [350, 58]], rtol=0.1)
    # With fresh noise each site led its cluster by 0.59 to 0.72 in 60 runs.
    assert min(left[2] - max(left[3:]), right[3] - max(right[2], right[4])) > 0.3


def test_no_plan_is_replaced_because_its_sketches_could_not_be_read_any_more(
    pilot_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    choice = [*REFINE, "--clusters", "2", "--epsilon", "1", "-o", "main.toml"]
    assert command.main(choice) == 0
    before = Path("main.toml").read_bytes(), Path("pilot.toml").read_bytes()
    assert command.main(choice) == 2
    assert "main.toml: cannot be written: File exists. Choose another with -o" in words_of(
        capsys.readouterr().err
    )
    assert pilot("-o", "pilot.toml") == 2
    assert (Path("main.toml").read_bytes(), Path("pilot.toml").read_bytes()) == before


def test_a_hopeless_main_study_is_refused_and_nothing_is_written(
    pilot_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--clusters", "2", "--epsilon", "1", "--records", "30", "-o", "m.toml"]
    assert command.main([*REFINE, *options]) == 2
    assert "Do not run this" in capsys.readouterr().err
    assert not Path("m.toml").exists()


def test_a_pilot_that_may_miss_long_tails_says_how_many_records_would_show_them() -> None:
    (told,) = (
        text for text in describe_pilot(plan_pilot(outline(n_records=2000))) if "hide" in text
    )
    assert "4,000 records would do" in told
    for clear in (outline(), outline(n_records=2000, dimensions=parse_columns(["x:1:0..9"]))):
        assert not any("hide" in text for text in describe_pilot(plan_pilot(clear)))
