import json
import re
import shlex
from pathlib import Path

import pytest

from sfumato.analyst.planning.fleets import describe_selection
from sfumato.analyst.planning.phases import round_up
from sfumato.shared import command
from tests.analyst.planning.commands import STUDY, run, words_of

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "planning.md"
FLEET = STUDY | {
    "--records": "1000000",
    "--devices": "1000",
    "--windows": "1",
    "--dimensions": "10",
    "--clusters": "10",
    "--epsilon": "0.1",
    "--target-sse": "1.2",
}
PHONES = FLEET | {"--devices": "1000000", "--epsilon": "1"}


def test_advise_names_the_choice_what_it_rests_on_and_what_is_next(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run("advise", STUDY) == 0
    words = words_of(capsys.readouterr().out)
    assert "Recommended: discrete-knorm with 100 frequencies at epsilon 1 for each record" in words
    assert "It supports k up to 6 within the target" in words
    assert "smallest epsilon whose whole band lies within relative SSE 1.1 is 0.71" in words
    assert "Radius law: adapted, sigma from" in words
    assert "(w is the scale), because noise is" in words
    assert "|z|^2 is 0.32" in words
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
        if language:
            continue  # only what has no language is output
        for part in text.split("\n\n"):
            assert words_of(part) in printed
            n_shown += 1
    assert n_shown == 9


def test_phones_with_a_record_each_are_advised_to_report_phases_and_told_why(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run("advise", PHONES) == 0
    words = words_of(capsys.readouterr().out)
    for part in (
        "Recommended: phase-report with 500 frequencies at epsilon 1 for all records of a device",
        "Each device reports a noisy phase of 1 of the 500 frequencies, because the best sum that "
        "it noises itself gives a relative SSE of 1.05 to 1.33.",
        "It costs 2 bytes a sketch",
        "A report depends on the first record of a window alone",
        "A device reports once in the whole study, unless most_sketches_per_device allows more.",
        "About 660,000 devices are needed for a relative SSE of 1.2.",
        'put release = "phase.v1", unit = "device", n_frequencies = 500, ',
        "frequencies_per_sketch = 1, most_clusters = 10, ",
        "most_sketches_per_device = 1 and radius_law = {",
    ):
        assert part in words
    for part in ("different kinds of records", "neighbouring = ", "records count"):
        assert part not in words
    assert run("advise", PHONES, "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["unit"], document["recommended"]["unit"]) == ("record", "device")
    releases = {c["mechanism"]: c["release"] for c in document["candidates"]}
    assert releases["discrete-knorm"] == "local.v1"
    assert releases["phase-report"] == document["recommended"]["release"] == "phase.v1"
    assert 600_000 < document["phase_reports"]["reports_needed"] < 700_000
    assert document["fleets"][-1]["recommended"] == document["recommended"]
    assert document["fleets"][-1]["without_splitting"]["mechanism"] == "discrete-knorm"
    assert [fleet["recommended"]["release"] for fleet in document["fleets"][:-1]] == [
        "local.v1"
    ] * 6


def test_several_reports_of_a_device_are_advised_with_what_they_cost(
    capsys: pytest.CaptureFixture[str],
) -> None:
    several = PHONES | {"--records": "5000000", "--windows": "4", "--unit": "device"}
    assert run("advise", several) == 0
    words = words_of(capsys.readouterr().out)
    for part in (
        "Here it has to be 4, which costs a device up to 4 times epsilon.",
        "So 4,000,000 of the 5,000,000 records count.",
        "About 660,000 reports are needed for a relative SSE of 1.2, 4 from each device.",
        "most_sketches = 8000000, most_sketches_per_device = 4",
    ):
        assert part in words


def test_where_the_unit_is_a_device_a_sketch_is_said_to_count_as_one_record(
    capsys: pytest.CaptureFixture[str],
) -> None:
    few = FLEET | {"--devices": "20", "--epsilon": "10", "--unit": "device"}
    assert run("advise", few, "--anyway") == 0
    words = words_of(capsys.readouterr().out)
    assert "Each sketch counts as one record, whatever the number of records in its window" in words
    assert "allow more, or gather more sketches" in words
    assert 'put unit = "device", n_frequencies = ' in words
    assert run("advise", few, "--anyway", "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert {candidate["unit"] for candidate in document["candidates"]} == {"device"}
    assert document["phase_reports"] is None


def test_phase_reports_are_said_to_surpass_a_delta_or_to_be_shorter_than_a_better_sum(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run("advise", PHONES | {"--delta": "1e-6"}) == 0
    words = words_of(capsys.readouterr().out)
    assert "Phase reports under pure epsilon are better here than discrete-gaussian" in words
    many = PHONES | {"--records": "20000000"}
    assert run("advise", many, "--bytes-are-scarce") == 0
    words = words_of(capsys.readouterr().out)
    assert "because the best sum, for a relative SSE of 1.00 to 1.07, takes " in words


@pytest.mark.parametrize(("number", "rounded"), [(1, 1), (99, 99), (101, 110), (284_101, 290_000)])
def test_a_number_of_devices_is_rounded_up_to_two_digits(number: int, rounded: int) -> None:
    assert round_up(number) == rounded


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


def test_a_hopeless_study_is_advised_against_before_anything_else_and_scripts_see_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    weak = STUDY | {"--records": "1000", "--epsilon": "0.01"}
    assert run("advise", weak) == 2
    captured = capsys.readouterr()
    words = words_of(captured.out)
    assert words.startswith(
        "Do not run this: at epsilon 0.01, with 1,000 records in 12 sketches, the decoder's "
        'verdict on every answer of 5 clusters would be "do not use", because SNR m / (k d) is '
    )
    assert "Any one of these would reach relative SSE 1.1: epsilon " in words
    assert words.index("in as many sketches") < words.index("Recommended")
    assert captured.err == ""
    assert run("advise", weak, "--json") == 2
    advice = json.loads(capsys.readouterr().out)
    assert advice["recommended"]["relative_sse"]["high"] is None
    assert advice["do_not_run"]["would_do"]["n_records"] > 100_000
    assert advice["do_not_run"]["statement"].startswith("Do not run this: ")
    assert run("advise", weak, "--json", "--anyway") == 0
    assert json.loads(capsys.readouterr().out) == advice
    assert run("advise", STUDY, "--json") == 0
    assert json.loads(capsys.readouterr().out)["do_not_run"] is None


def test_what_is_said_to_do_does(capsys: pytest.CaptureFixture[str]) -> None:
    weak = STUDY | {"--records": "4000", "--epsilon": "0.25"}
    assert run("advise", weak, "--json") == 2
    remedies = json.loads(capsys.readouterr().out)["do_not_run"]["would_do"]
    for change in (
        {"--epsilon": remedies["epsilon"]},
        {"--records": str(remedies["n_records"])},
        {
            "--records": str(-(-4000 * remedies["n_sketches"] // 12)),
            "--devices": str(remedies["n_sketches"]),
            "--windows": "1",
        },
    ):
        assert run("advise", weak | change, "--json") == 0
        assert json.loads(capsys.readouterr().out)["meets_target"]


def test_a_study_that_misses_its_target_is_doubted_first_but_not_refused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run("advise", STUDY | {"--target-sse": "1.01"}) == 0
    words = words_of(capsys.readouterr().out)
    assert words.startswith("Doubt: relative SSE 1.01 is not assured. Relative SSE between ")
    assert run("advise", STUDY) == 0
    assert words_of(capsys.readouterr().out).startswith("Candidates")


def test_windows_by_count_exclude_phase_reports(capsys: pytest.CaptureFixture[str]) -> None:
    for windows_by, release in (("time", "phase.v1"), ("count", "local.v1")):
        options = PHONES | {"--windows-by": windows_by}
        assert run("advise", options, "--json") == 0
        assert json.loads(capsys.readouterr().out)["recommended"]["release"] == release
    assert run("advise", PHONES | {"--windows-by": "count", "--unit": "device"}) == 2
    assert "where the unit is a device" in capsys.readouterr().err


def test_a_target_out_of_reach_is_said_to_be(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("advise", STUDY | {"--target-sse": "1.01"}) == 0
    assert "No epsilon brings the whole band to relative SSE 1.01" in words_of(
        capsys.readouterr().out
    )


def test_candidates_left_out_are_named_with_the_reason(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("advise", STUDY | {"--epsilon": "1000"}) == 0
    words = words_of(capsys.readouterr().out)
    assert "left out: discrete-knorm, m = 40: epsilon: is above 273" in words


@pytest.mark.parametrize("study", [FLEET, PHONES])
def test_advise_draws_a_picture(
    study: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    picture = tmp_path / "quality.png"
    assert run("advise", study | {"--plot": str(picture), "--delta": "1e-6"}, "--json") == 0
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
        ({"--unit": "person"}, "--unit: must be one of 'record', 'device'"),
        (
            {"--unit": "device", "--neighbouring": "add-remove-one"},
            "--neighbouring: must be replace-one where the unit is a device",
        ),
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


def test_a_grid_is_advised_where_it_is_better(capsys: pytest.CaptureFixture[str]) -> None:
    small = STUDY | {"--records": "3000", "--devices": "1", "--windows": "1", "--dimensions": "2"}
    assert run("advise", small | {"--clusters": "10"}, "--anyway", "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert "A grid is expected to be better here" in document["better_grid"]["statement"]
    assert len(document["better_grid"]["cells"]) == 2
    assert run("advise", STUDY, "--json") == 0
    assert json.loads(capsys.readouterr().out)["better_grid"] is None


def test_a_method_is_advised_for_records_in_one_place_and_the_sketch_for_many(
    capsys: pytest.CaptureFixture[str],
) -> None:
    here = STUDY | {"--devices": "1", "--windows": "1", "--epsilon": "0.1"}
    assert run("advise", here, "--anyway", "--json") == 0
    method = json.loads(capsys.readouterr().out)["method"]
    assert method["name"] in method["expected_relative_sse"]
    assert "compressive" in method["expected_relative_sse"]
    assert run("advise", here, "--anyway") == 0
    words = words_of(capsys.readouterr().out)
    assert method["reason"].removeprefix("on sets") in words
    assert "Method: " in words
    assert run("advise", STUDY | {"--epsilon": "1"}, "--json") == 0
    method = json.loads(capsys.readouterr().out)["method"]
    assert method["name"] == "compressive"
    assert "only sketches add up" in method["reason"]
    device = PHONES | {"--unit": "device"}
    assert run("advise", device, "--anyway", "--json") == 0
    assert json.loads(capsys.readouterr().out)["method"] is None
