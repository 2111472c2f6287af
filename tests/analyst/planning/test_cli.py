import io
import json
import re
import shlex
import tomllib
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from analyst.planning.fleets import describe_selection
from learning.planning.candidates import predict_candidate
from learning.planning.outline import StudyOutline
from shared import command
from shared.plan import WindowRule, plan_from_json, plan_from_spec

SPEC = Path(__file__).parents[3] / "deploy" / "demo" / "plan.toml"
PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "planning.md"
STUDY = {
    "--records": "26115",
    "--devices": "3",
    "--windows": "4",
    "--dimensions": "4",
    "--clusters": "5",
    "--epsilon": "1",
}
ANSWERS = [
    *("temperature", "°F", "-10", "110", "8"),
    *("wind speed", "mph", "0", "50", "4"),
    "",  # no more dimensions
    *("5", "values", "7d", "40", "200000", "yes", "1/2", "0"),
]
FLEET = STUDY | {
    "--records": "1000000",
    "--devices": "1000",
    "--windows": "1",
    "--dimensions": "10",
    "--clusters": "10",
    "--epsilon": "0.1",
    "--target-sse": "1.2",
}


def run(name: str, options: dict[str, str], *more: str) -> int:
    return command.main(["plan", name, *more, *(part for pair in options.items() for part in pair)])


def type_in(answers: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("".join(f"{answer}\n" for answer in answers)))


def words_of(text: str) -> str:
    return " ".join(text.split())


def test_advise_names_the_choice_what_it_rests_on_and_what_is_next(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run("advise", STUDY) == 0
    words = words_of(capsys.readouterr().out)
    assert "Recommended: discrete-knorm with 100 frequencies at epsilon 1 for each record" in words
    assert "It supports k up to 6 within the target" in words
    assert "smallest epsilon whose whole band lies within relative SSE 1.1 is 0.5" in words
    assert "Radius law: adapted, sigma from" in words
    assert "(w is the scale), because noise is" in words
    assert "|z|^2 is 0.35" in words
    assert "rule of thumb" in words
    assert "Next: make a plan with `sfumato plan new`" in words


def test_where_bytes_are_scarce_the_smallest_sketch_is_advised_and_an_unknown_k_is_planned_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rich = STUDY | {"--records": "1000000", "--target-sse": "1.2"}
    assert run("advise", rich, "--json") == 0
    best = json.loads(capsys.readouterr().out)
    assert run("advise", rich, "--json", "--bytes-are-scarce") == 0
    least = json.loads(capsys.readouterr().out)
    assert least["recommended"]["n_frequencies"] < best["recommended"]["n_frequencies"]
    assert least["meets_target"]
    assert run("advise", rich | {"--clusters": "unknown"}, "--json") == 0
    unknown = json.loads(capsys.readouterr().out)
    assert unknown["clusters"] > best["clusters"]
    assert unknown["clusters_within_target"] >= unknown["clusters"]


def test_a_number_of_clusters_that_is_none_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("advise", STUDY | {"--clusters": "some"}) == 2
    assert "--clusters: must be a whole number, or" in capsys.readouterr().err


def test_advise_as_json_carries_every_candidate(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("advise", STUDY | {"--delta": "1e-6", "--epsilon": "1/3"}, "--json") == 0
    advice = json.loads(capsys.readouterr().out)
    whole = [c for c in advice["candidates"] if c["frequencies_per_sketch"] == c["n_frequencies"]]
    assert len(whole) == 15
    assert advice["recommended"] in advice["candidates"]
    assert advice["recommended"]["epsilon"] == "1/3"
    assert advice["recommended"]["delta"] == "1/1000000"
    assert advice["meets_target"]
    assert advice["smallest_epsilon"]["relative_sse"]["high"] <= 1.1


def test_a_large_fleet_is_advised_to_send_small_sketches_and_told_why(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run("advise", FLEET) == 0
    words = words_of(capsys.readouterr().out)
    assert (
        "Each sketch carries 20 of the 500 frequencies, because 1,000 sketches would otherwise add "
        "1,000 times the noise of one."
    ) in words
    assert "Shortest selection: 25 sketches" in words
    assert "one window of 25 devices that enrolled one after another" in words
    assert "Devices may hold different kinds of records" in words
    assert "The same 1,000,000 records in other numbers of sketches" in words
    assert "n_frequencies = 500, frequencies_per_sketch = 20, most_clusters = 10" in words
    assert run("advise", FLEET, "--devices-alike", "--json") == 0
    alike = json.loads(capsys.readouterr().out)
    assert alike["recommended"]["frequencies_per_sketch"] < 20
    assert alike["recommended"] in alike["candidates"]
    assert not alike["devices_differ"]
    assert any("taken to hold the same kinds" in text for text in alike["assumptions"])
    assert run("advise", FLEET | {"--smallest-selection": "10"}, "--json") == 0
    wide = json.loads(capsys.readouterr().out)
    assert wide["smallest_selection"] == 10
    assert wide["recommended"]["shortest_selection"] <= 10


def test_advice_shows_the_same_records_in_other_numbers_of_sketches(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run("advise", FLEET, "--json") == 0
    document = json.loads(capsys.readouterr().out)
    fleets = {fleet["sketches"]: fleet for fleet in document["fleets"]}
    assert list(fleets) == [1, 10, 100, 1000, 10**4, 10**5, 10**6]
    assert fleets[1]["recommended"] == fleets[1]["without_splitting"]
    assert fleets[1000]["recommended"] == document["recommended"]
    high = fleets[1000]["without_splitting"]["relative_sse"]["high"]
    assert high > fleets[1000]["recommended"]["relative_sse"]["high"]
    # Three devices at two windows each: nothing is split, and one sketch can be decoded.
    assert run("advise", STUDY, "--json") == 0
    few = json.loads(capsys.readouterr().out)
    assert few["reason_for_small_sketches"] is None
    assert few["shortest_selection"]["statement"].startswith("1 sketch:")


def test_the_page_on_planning_shows_what_the_commands_print(
    capsys: pytest.CaptureFixture[str],
) -> None:
    # It also shows that small sketches under pure epsilon are said to surpass a delta.
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    printed, n_shown = "", 0
    for language, text in blocks:
        if language == "sh":
            assert command.main(shlex.split(text)[1:]) == 0
            printed = words_of(capsys.readouterr().out)
            continue
        for part in text.split("\n\n"):
            assert words_of(part) in printed
            n_shown += 1
    assert n_shown == 4


@pytest.mark.parametrize(
    ("shortest", "devices", "windows", "words"),
    [
        (1, 10, 5, "1 sketch: each carries every frequency"),
        (15, 1000, 1, "one window of 15 devices that enrolled one after another"),
        (15, 1000, 15, "one after another, or 15 successive windows of one device"),
        (15, 4, 10, "for instance at least 4 windows of all 4 devices"),
        (15, 1, 20, "for instance 15 successive windows of one device"),
        (15, None, 1, "15 sketches, because fewer cannot carry every frequency"),
    ],
)
def test_the_shortest_selection_is_told_in_devices_and_windows(
    shortest: int, devices: int | None, windows: int, words: str
) -> None:
    text = describe_selection(shortest, n_devices=devices, n_windows=windows)
    assert text.endswith(words)


def test_a_sketch_too_noisy_for_a_band_is_said_to_have_none(
    capsys: pytest.CaptureFixture[str],
) -> None:
    weak = STUDY | {"--records": "1000", "--epsilon": "0.01"}
    assert run("advise", weak) == 0
    words = words_of(capsys.readouterr().out)
    assert "no candidate reaches the target" in words
    assert "without an upper bound" in words
    assert run("advise", weak, "--json") == 0
    advice = json.loads(capsys.readouterr().out)
    assert advice["recommended"]["relative_sse"]["high"] is None


def test_a_target_out_of_reach_is_said_to_be(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("advise", STUDY | {"--target-sse": "1.01"}) == 0
    assert "No epsilon brings the whole band to relative SSE 1.01" in words_of(
        capsys.readouterr().out
    )


def test_candidates_left_out_are_named_with_the_reason(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("advise", STUDY | {"--epsilon": "1000"}) == 0
    words = words_of(capsys.readouterr().out)
    assert "left out: discrete-knorm, m = 40: epsilon: is above 273" in words


def test_advise_draws_a_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = tmp_path / "quality.png"
    assert run("advise", FLEET | {"--plot": str(picture), "--delta": "1e-6"}, "--json") == 0
    assert picture.read_bytes().startswith(b"\x89PNG")
    json.loads(capsys.readouterr().out)


def test_a_picture_that_cannot_be_written_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("advise", STUDY | {"--plot": "/nowhere/quality.png"}) == 2
    assert "--plot: cannot be written: No such file" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"--epsilon": "0"}, "--epsilon: must be greater than zero"),
        ({"--epsilon": "-1"}, "--epsilon: must be greater than zero"),
        ({"--epsilon": "nan"}, "--epsilon: must be an exact number"),
        ({"--epsilon": "inf"}, "--epsilon: must be an exact number"),
        ({"--epsilon": "0.1f"}, "--epsilon: must be an exact number"),
        ({"--epsilon": "1e999999999"}, "--epsilon: must be an exact number"),
        ({"--epsilon": "1/0"}, "--epsilon: must be an exact number"),
        ({"--epsilon": "1e-20"}, "--epsilon: is so small"),
        ({"--delta": "1"}, "--delta: must be from 0 to below 1"),
        ({"--delta": "nan"}, "--delta: must be an exact number"),
        ({"--clusters": "0"}, "--clusters: must be at least 1"),
        ({"--dimensions": "-3"}, "--dimensions: must be at least 1"),
        ({"--devices": "0"}, "--devices: must be at least 1"),
        ({"--windows": "0"}, "--windows: must be at least 1"),
        ({"--records": "11"}, "--records: must be at least the number of sketches, 12"),
        ({"--records": "many"}, "--records: "),
        ({"--records": "1" * 40}, "--records: must be at most"),
        ({"--target-sse": "1"}, "--target-sse: must be a number above 1"),
        ({"--target-sse": "nan"}, "--target-sse: must be a number above 1"),
        ({"--devises": "3"}, "--devises: is not an option of `sfumato plan advise`"),
        ({"--smallest-selection": "0"}, "--smallest-selection: must be at least 1"),
        ({"--smallest-selection": "13"}, "--smallest-selection: must be from 1 to the number"),
    ],
)
def test_bad_input_is_refused_in_one_line_with_field_rule_and_fix(
    change: dict[str, str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("advise", STUDY | change) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert captured.err.startswith(f"sfumato: error: {message}")
    assert ". " in captured.err  # a fix follows the rule


def test_a_missing_option_and_an_unknown_command_are_refused_in_one_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert command.main(["plan", "advise"]) == 2
    assert "--records: is missing. Run `sfumato plan advise --help`" in capsys.readouterr().err
    assert command.main(["plan", "advice"]) == 2
    assert "No such command 'advice'" in capsys.readouterr().err


def test_without_a_command_the_help_is_printed_and_the_status_is_2(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert command.main(["plan"]) == 2
    captured = capsys.readouterr()
    assert "advise" in captured.out + captured.err
    assert command.main(["plan", "--help"]) == 0


def test_answers_become_a_specification_and_a_plan_that_agree(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    type_in(ANSWERS, monkeypatch)
    output = tmp_path / "plan.json"
    assert command.main(["plan", "new", "-o", str(output)]) == 0
    plan = plan_from_json(json.loads(output.read_text(encoding="utf-8")))
    spec = tomllib.loads(output.with_suffix(".toml").read_text(encoding="utf-8"))
    assert plan_from_spec(spec) == plan
    assert spec["radius_law"]["sigma_high"] == plan.radius_law.sigma_high
    assert [(d.name, d.unit, d.scale) for d in plan.dimensions] == [
        ("temperature", "°F", 8.0),
        ("wind speed", "mph", 4.0),
    ]
    assert plan.window.length_s == 7 * 86400
    assert str(plan.release.epsilon) == "1/2"
    assert 20 <= plan.n_frequencies <= 100
    assert plan.least_records <= 5000 <= plan.most_records
    captured = capsys.readouterr()
    assert captured.out.strip() == ""  # questions go to standard error
    assert f"sfumato study create NAME {output}" in captured.err


def test_every_new_plan_has_a_seed_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seeds = set()
    for name in ("a.json", "b.json"):
        type_in(ANSWERS, monkeypatch)
        assert command.main(["plan", "new", "-o", str(tmp_path / name)]) == 0
        seeds.add(json.loads((tmp_path / name).read_text(encoding="utf-8"))["statistic"]["seed"])
    assert len(seeds) == 2


def test_wrong_answers_are_explained_and_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    type_in(
        [
            *('say "x"\\', "1", "nan", "0", "-1", "1", "0", "0.1"),
            *(' say "x"\\ ', ""),
            *(
                "none",
                "0",
                "2",
                "nothing",
                "values",
                "soon",
                "0d",
                "500 records",
                "10",
                "perhaps",
                " Y ",
                "-1",
                "1e-1",
                "2",
                "1e-6",
            ),
        ],
        monkeypatch,
    )
    output = tmp_path / "plan.json"
    assert command.main(["plan", "new", "-o", str(output)]) == 0
    errors = capsys.readouterr().err
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
        assert message in errors
    plan = plan_from_json(json.loads(output.read_text(encoding="utf-8")))
    assert plan.dimensions[0].name == 'say "x"\\'
    assert (plan.window.kind, plan.window.length) == ("count", 500)
    assert plan.release.epsilon * 10 == 1


def test_answers_for_a_large_fleet_make_a_plan_of_small_sketches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    carried = {}
    for answer in ("yes", "no"):
        type_in([*ANSWERS[:14], "400", "200000", answer, "1/10", "0"], monkeypatch)
        output = tmp_path / f"{answer}.json"
        assert command.main(["plan", "new", "-o", str(output)]) == 0
        plan = plan_from_json(json.loads(output.read_text(encoding="utf-8")))
        assert plan.is_split
        carried[answer] = plan.frequencies_per_sketch
        spec = output.with_suffix(".toml").read_text(encoding="utf-8")
        assert tomllib.loads(spec)["frequencies_per_sketch"] == plan.frequencies_per_sketch
        least = f"a selection needs at least {plan.blocks.n_blocks} sketches"
        assert least in spec
        err = words_of(capsys.readouterr().err)
        assert f"Each sketch carries {plan.frequencies_per_sketch} of the" in err
        assert f"Shortest selection: {plan.blocks.n_blocks} sketches" in err
        words = show(capsys, output)
        assert f"a sketch carries {plan.frequencies_per_sketch}, and noise for these alone" in words
        assert f"{plan.blocks.n_blocks} sketches, because fewer cannot carry" in words
    assert carried["no"] < carried["yes"]


def test_one_device_is_not_asked_whether_devices_differ(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    type_in([*ANSWERS[:14], "1", "200000", "1/2", "0"], monkeypatch)
    assert command.main(["plan", "new", "-o", str(tmp_path / "plan.json")]) == 0
    assert "different kinds" not in capsys.readouterr().err


def test_answers_that_end_early_write_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    type_in(ANSWERS[:7], monkeypatch)
    assert command.main(["plan", "new", "-o", str(tmp_path / "plan.json")]) == 2
    assert "answers: ended before the last question; nothing was written" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_answers_that_hide_presence_make_a_plan_with_a_start_and_no_least_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    windows = ("1000 records", "7d", "soon", "1970-01-01", "2026-01-31")
    type_in([*ANSWERS[:11], "5", "presence", *windows, "40", "30", "no", "1/2", "0"], monkeypatch)
    output = tmp_path / "plan.json"
    assert command.main(["plan", "new", "-o", str(output)]) == 0
    plan = plan_from_json(json.loads(output.read_text(encoding="utf-8")))
    assert (plan.release.neighbouring, plan.least_records) == ("add-remove-one", 0)
    assert plan.window == WindowRule(kind="time", origin=1_769_817_600, length_s=7 * 86400)
    err = capsys.readouterr().err
    for complaint in ("when a number of records is full", "must be a date", "after 1970-01-01"):
        assert complaint in err
    assert "least_records" not in output.with_suffix(".toml").read_text(encoding="utf-8")


PRESENCE = """
n_frequencies = 60
seed = "a study of presence"
epsilon = "1"
neighbouring = "add-remove-one"
most_records = 100000
window = { kind = "time", origin = 1769817600, length_s = 3600 }

[[dimensions]]
name = "x"
unit = "1"
lower = 0.0
upper = 1.0
scale = 0.1
"""


def test_a_plan_that_hides_presence_is_explained_with_what_that_asks_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "plan.toml"
    path.write_text(PRESENCE, encoding="utf-8")
    assert command.main(["plan", "show", str(path)]) == 0
    text = words_of(capsys.readouterr().out)
    for part in (
        "differ by the presence of one record",
        "that and when a device takes part",
        "a sketch for every 3600 s since 2026-01-31 00:00:00 UTC, empty or not",
        "sends the releases of the run before",
        "any number in one sketch; released with noise of",
    ):
        assert part in text
    assert "closes early" not in text
    assert "how many records it has" not in text
    given = ["--records", "5", "--devices", "40", "--clusters", "3", "--json"]
    assert command.main(["plan", "show", str(path), *given]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["neighbouring"] == "add-remove-one"
    # Fewer records than sketches: some are empty.
    assert document["prediction"]["snr"] > 0


def test_advice_on_hiding_presence_says_what_it_asks_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    relation = {"--neighbouring": "add-remove-one"}
    assert run("advise", STUDY | relation) == 0
    text = words_of(capsys.readouterr().out)
    assert "every device sends a sketch for every window" in text
    assert 'neighbouring = "add-remove-one" and radius_law = {' in text
    assert run("advise", STUDY | relation, "--json") == 0
    assert json.loads(capsys.readouterr().out)["neighbouring"] == "add-remove-one"
    assert run("advise", STUDY | {"--neighbouring": "both"}) == 2
    assert (
        "--neighbouring: must be one of 'replace-one', 'add-remove-one'" in capsys.readouterr().err
    )


@pytest.mark.parametrize("taken", ["plan.json", "plan.toml"])
def test_no_file_is_replaced_by_answers_and_nobody_is_asked_for_nothing(
    taken: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    type_in([], monkeypatch)
    (tmp_path / taken).write_text("mine", encoding="utf-8")
    assert command.main(["plan", "new", "-o", str(tmp_path / "plan.json")]) == 2
    assert f"{tmp_path / taken}: exists already" in capsys.readouterr().err
    assert (tmp_path / taken).read_text(encoding="utf-8") == "mine"


def test_a_plan_cannot_be_written_where_its_specification_goes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(["plan", "new", "-o", str(tmp_path / "plan.toml")]) == 2
    assert "--output: is the name of the specification" in capsys.readouterr().err


def test_a_plan_that_cannot_be_written_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["plan", "new", str(SPEC), "-o", "/nowhere/plan.json"]) == 2
    assert "/nowhere/plan.json: cannot be written" in capsys.readouterr().err


def show(capsys: pytest.CaptureFixture[str], path: Path, *options: str) -> str:
    assert command.main(["plan", "show", str(path), *options]) == 0
    return words_of(capsys.readouterr().out)


def test_show_says_what_is_not_protected_and_what_a_year_costs(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = show(capsys, SPEC)
    assert "how many records it has" in words
    assert "a stolen device" in words
    assert "epsilon 1 for a record" in words
    assert "at most epsilon 4 a year, over 4 windows" in words
    assert "stream names" in words
    assert "waiting sketches" in words
    assert "20 in each of 10 windows at 200" in words
    assert "--records, --devices and --clusters" in words


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('"unknown"', "24", "a person has at most 24 record(s) in a window"),
        ('"unknown"', "24", "24 in each of 10 windows at 240"),
        ('"unknown"', "1", "1 in each of 10 windows at 10"),
        # Gaussian noise: four windows cost less than their sum, twenty records more than theirs.
        (
            'epsilon = "1"',
            'epsilon = "1/3"\ndelta = "1e-6"',
            "at most epsilon 0.701 and delta 1e-06 a year",
        ),
        (
            'epsilon = "1"',
            'epsilon = "1"\ndelta = "1e-6"',
            "1e-06, epsilon is 2.13 for 2, 5.93 for 5, 33.1 for 20; at q times epsilon delta is "
            "3.24e-06 for 2, 3.17e-05 for 5, 0.0211 for 20",
        ),
        (
            'kind = "time"\norigin = 1356998400\nlength_s = 7884000',
            'kind = "count"\nlength = 1000',
            "once more with every 1000 records",
        ),
    ],
)
def test_show_follows_the_plans_people_delta_and_window(
    old: str, new: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = SPEC.read_text(encoding="utf-8")
    assert old in text
    changed = tmp_path / "plan.toml"
    changed.write_text(text.replace(old, new), encoding="utf-8")
    assert words in show(capsys, changed)


def test_show_predicts_what_advise_predicts_for_small_sketches(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small = tmp_path / "plan.toml"
    spec = SPEC.read_text(encoding="utf-8")
    small.write_text(f"frequencies_per_sketch = 5\n{spec}", encoding="utf-8")
    size = {"--records": "1000000", "--devices": "1000", "--clusters": "5"}
    for more in ([], ["--devices-alike"]):
        assert run("show", size, str(small), "--json", *more) == 0
        shown = json.loads(capsys.readouterr().out)
        assert run("advise", STUDY | size | {"--windows": "1"}, "--json", *more) == 0
        outline = json.loads(capsys.readouterr().out)
        predicted = predict_candidate(
            StudyOutline(
                n_records=outline["records"],
                n_sketches=outline["sketches"],
                n_dimensions=outline["dimensions"],
                n_clusters=outline["clusters"],
                devices_differ=outline["devices_differ"],
            ),
            mechanism="discrete-knorm",
            n_frequencies=100,
            frequencies_per_sketch=5,
            epsilon=Fraction(1),
        )
        assert shown["prediction"]["snr"] == predicted.snr
        assert (shown["frequencies_per_sketch"], shown["shortest_selection"]) == (5, 20)
    few = size | {"--records": "19000", "--devices": "19"}
    assert run("show", few, str(small)) == 2
    assert "sketches: must be at least 20 and are 19" in capsys.readouterr().err


def test_show_predicts_what_advise_predicts(capsys: pytest.CaptureFixture[str]) -> None:
    size = {name: STUDY[name] for name in ("--records", "--devices", "--windows", "--clusters")}
    assert run("show", size, str(SPEC), "--json") == 0
    shown = json.loads(capsys.readouterr().out)
    assert run("advise", STUDY, "--json") == 0
    candidates = json.loads(capsys.readouterr().out)["candidates"]
    same: Any = next(
        c for c in candidates if (c["mechanism"], c["n_frequencies"]) == ("discrete-knorm", 100)
    )
    assert shown["prediction"]["snr"] == same["snr"]
    assert shown["prediction"]["relative_sse"] == same["relative_sse"]
    assert shown["sketch_bytes"] == same["sketch_bytes"]
    assert shown["cost"]["per_record"] == {"epsilon": "1", "delta": "0"}
    liar = shown["influence_of_a_liar"]
    assert shown["most_records"] < liar["most"] < shown["most_records"] + liar["least"]
    words = show(capsys, SPEC, *(part for pair in size.items() for part in pair))
    assert f"can move the sum as far as {liar['least']:,.0f} equal records" in words
    assert "SNR 238, relative SSE between 1.00 and 1.08 is expected" in words


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"--records": "299", "--devices": "3"}, "--records: gives 99.6667 a sketch, below"),
        ({"--records": "26115", "--devices": "3"}, "--records: gives 8705 a sketch, above"),
        ({"--records": "0", "--devices": "3"}, "--records: must be at least 1"),
        ({"--records": "26115", "--devices": "0"}, "--devices: must be at least 1"),
        ({"--records": "26115"}, "--devices: is needed to predict the quality"),
        ({"--records": "9000", "--devices": "9", "--clusters": "0"}, "--clusters: must be at"),
        ({"--cluster": "3"}, "--cluster: is not an option of `sfumato plan show`"),
    ],
)
def test_sizes_that_the_plan_does_not_allow_are_refused(
    options: dict[str, str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    known = {"--clusters": "5"} if "--devices" in options else {}
    assert run("show", known | options, str(SPEC)) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith(f"sfumato: error: {message}")
    assert captured.err.count("\n") == 1


def test_names_in_a_plan_are_text_and_no_markup(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = SPEC.read_text(encoding="utf-8").replace('"dew point"', '"[red]:smile:"')
    changed = tmp_path / "plan.toml"
    changed.write_text(text, encoding="utf-8")
    assert "[red]:smile: (°F)" in show(capsys, changed)
