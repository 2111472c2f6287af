import re
import shlex
from pathlib import Path

import pytest

from sfumato.analyst.planning.candidates import describe_selection
from sfumato.learning.planning.outline import round_up
from sfumato.shared import command
from tests.analyst.planning.commands import STUDY, advise, advise_json, refuse_advice, words_of

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


def assert_says(words: str, *parts: str) -> None:
    assert [part for part in parts if part not in words] == [], words


def test_advise_names_the_choice_what_it_rests_on_and_what_is_next() -> None:
    words = advise(STUDY)
    assert words.startswith("Candidates")
    assert_says(
        words,
        "Recommended: discrete-knorm with 100 frequencies at epsilon 1 for each record",
        "It supports k up to 6 within the target",
        "smallest epsilon whose whole band lies within relative SSE 1.1 is 0.71",
        "Radius law: adapted, sigma from",
        "(w is the scale), because noise is",
        "|z|^2 is 0.32",
        "rule of thumb",
        "Next: make a plan with `sfumato plan new`",
    )
    doubted = advise(STUDY | {"--target-sse": "1.01"})
    assert doubted.startswith("Doubt: relative SSE 1.01 is not assured. Relative SSE between ")
    assert "No epsilon brings the whole band to relative SSE 1.01" in doubted
    left_out = advise(STUDY | {"--epsilon": "1000"})
    assert "left out: discrete-knorm, m = 40: epsilon: is above 273" in left_out


def test_where_bytes_are_scarce_the_smallest_sketch_is_advised_and_unknown_ks_are_planned_for() -> (
    None
):
    rich = STUDY | {"--records": "1000000", "--target-sse": "1.2"}
    best, least = advise_json(rich), advise_json(rich, "--bytes-are-scarce")
    assert least["recommended"]["n_frequencies"] < best["recommended"]["n_frequencies"]
    assert least["meets_target"]
    unknown = advise_json(rich | {"--clusters": "unknown"})
    assert unknown["clusters"] > best["clusters"]
    assert unknown["clusters_within_target"] >= unknown["clusters"]


def test_a_large_fleet_is_advised_to_send_small_sketches_and_told_why() -> None:
    assert_says(
        advise(FLEET),
        "Each sketch carries 20 of the 500 frequencies, because 1,000 sketches would otherwise add "
        "1,000 times the noise of one.",
        "Shortest selection: 25 sketches",
        "one window of 25 devices that enrolled one after another",
        "Devices may hold different kinds of records",
        "The same 1,000,000 records in other numbers of sketches",
        "n_frequencies = 500, frequencies_per_sketch = 20, most_clusters = 10",
    )
    alike = advise_json(FLEET, "--devices-alike")
    assert alike["recommended"]["frequencies_per_sketch"] < 20
    assert alike["recommended"] in alike["candidates"]
    assert not alike["devices_differ"]
    assert any("taken to hold the same kinds" in text for text in alike["assumptions"])
    wide = advise_json(FLEET | {"--smallest-selection": "10"})
    assert wide["smallest_selection"] == 10
    assert wide["recommended"]["shortest_selection"] <= 10


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


def test_phones_with_a_record_each_are_advised_to_report_phases_and_told_why() -> None:
    words = advise(PHONES)
    assert_says(
        words,
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
    )
    for part in ("different kinds of records", "neighbouring = ", "records count"):
        assert part not in words
    document = advise_json(PHONES)
    assert (document["unit"], document["recommended"]["unit"]) == ("record", "device")
    releases = {c["mechanism"]: c["release"] for c in document["candidates"]}
    assert releases["discrete-knorm"] == "local.v1"
    assert releases["phase-report"] == document["recommended"]["release"] == "phase.v1"
    assert 600_000 < document["phase_reports"]["reports_needed"] < 700_000
    *others, fleet = document["fleets"]
    assert fleet["recommended"] == document["recommended"]
    assert fleet["without_splitting"]["mechanism"] == "discrete-knorm"
    assert [each["recommended"]["release"] for each in others] == ["local.v1"] * 6
    by_count = advise_json(PHONES | {"--windows-by": "count"})
    assert by_count["recommended"]["release"] == "local.v1"


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


def test_a_hopeless_study_is_advised_against_before_anything_else_and_scripts_see_it() -> None:
    weak = STUDY | {"--records": "1000", "--epsilon": "0.01"}
    words = advise(weak, status=2)
    assert words.startswith(
        "Do not run this: at epsilon 0.01, with 1,000 records in 12 sketches, the decoder's "
        'verdict on every answer of 5 clusters would be "do not use", because SNR m / (k d) is '
    )
    assert "Any one of these would reach relative SSE 1.1: epsilon " in words
    assert words.index("in as many sketches") < words.index("Recommended")
    advice = advise_json(weak, status=2)
    assert advice["recommended"]["relative_sse"]["high"] is None
    assert advice["do_not_run"]["would_do"]["n_records"] > 100_000
    assert advice["do_not_run"]["statement"].startswith("Do not run this: ")
    assert advise_json(weak, "--anyway") == advice


REFUSED = [
    ({"--clusters": "some"}, "--clusters: must be a whole number, or"),
    ({"--neighbouring": "both"}, "--neighbouring: must be one of 'replace-one', 'add-remove-one'"),
    ({"--epsilon": "0"}, "--epsilon: must be greater than zero"),
    ({"--epsilon": "1e999999999"}, "--epsilon: must be an exact number"),
    ({"--epsilon": "1e-20"}, "--epsilon: is so small"),
    ({"--delta": "1"}, "--delta: must be from 0 to below 1"),
    ({"--delta": "nan"}, "--delta: must be an exact number"),
    ({"--clusters": "0"}, "--clusters: must be at least 1"),
    ({"--windows": "0"}, "--windows: must be at least 1"),
    ({"--records": "11"}, "--records: must be at least the number of sketches, 12"),
    ({"--records": "1" * 40}, "--records: must be at most"),
    ({"--target-sse": "1"}, "--target-sse: must be a number above 1"),
    ({"--target-sse": "nan"}, "--target-sse: must be a number above 1"),
    ({"--devises": "3"}, "--devises: is not an option of `sfumato plan advise`"),
    ({"--unit": "person"}, "--unit: must be one of 'record', 'device'"),
    (
        {"--unit": "device", "--neighbouring": "add-remove-one"},
        "--neighbouring: must be replace-one where the unit is a device",
    ),
    ({"--unit": "device", "--windows-by": "count"}, ""),
    ({"--smallest-selection": "0"}, "--smallest-selection: must be at least 1"),
    ({"--smallest-selection": "13"}, "--smallest-selection: must be from 1 to the number"),
]


def test_bad_input_is_refused_in_one_line_with_field_rule_and_fix() -> None:
    faults = []
    for change, message in REFUSED:
        err = refuse_advice(STUDY | change)
        is_one_line = err.count("\n") == 1 and ". " in err  # a fix follows the rule
        if not is_one_line or not err.startswith(f"sfumato: error: {message}"):
            faults.append((change, err))
    assert faults == []
    unwritten = refuse_advice(STUDY | {"--plot": "/nowhere/quality.png"})
    assert "--plot: cannot be written: No such file" in unwritten
    assert "--records: is missing. Run `sfumato plan advise --help`" in refuse_advice({})


def test_a_grid_is_advised_where_it_is_better() -> None:
    small = STUDY | {"--records": "3000", "--devices": "1", "--windows": "1", "--dimensions": "2"}
    better = advise_json(small | {"--clusters": "10"}, "--anyway")["better_grid"]
    assert "A grid is expected to be better here" in better["statement"]
    assert len(better["cells"]) == 2


def test_a_method_is_advised_for_records_in_one_place_and_the_sketch_for_many() -> None:
    here = STUDY | {"--devices": "1", "--windows": "1", "--epsilon": "0.1"}
    method = advise_json(here, "--anyway")["method"]
    assert method["name"] in method["expected_relative_sse"]
    assert "compressive" in method["expected_relative_sse"]
    assert_says(advise(here, "--anyway"), method["reason"].removeprefix("on sets"), "Method: ")
    method = advise_json(STUDY)["method"]
    assert method["name"] == "compressive"
    assert "only sketches add up" in method["reason"]


def test_advise_as_json_carries_every_candidate() -> None:
    study = STUDY | {"--delta": "1e-6", "--epsilon": "1/3"}
    assert "at epsilon 1/3 and delta 1e-06 for each record" in advise(study)
    advice = advise_json(study)
    whole = [c for c in advice["candidates"] if c["frequencies_per_sketch"] == c["n_frequencies"]]
    assert len(whole) == 15
    assert advice["recommended"] in advice["candidates"]
    assert advice["recommended"]["epsilon"] == "1/3"
    assert advice["recommended"]["delta"] == "1/1000000"
    assert advice["meets_target"]
    assert advice["smallest_epsilon"]["relative_sse"]["high"] <= 1.1


def test_advice_shows_the_same_records_in_other_numbers_of_sketches() -> None:
    document = advise_json(FLEET)
    fleets = {fleet["sketches"]: fleet for fleet in document["fleets"]}
    assert list(fleets) == [1, 10, 100, 1000, 10**4, 10**5, 10**6]
    assert fleets[1]["recommended"] == fleets[1]["without_splitting"]
    assert fleets[1000]["recommended"] == document["recommended"]
    high = fleets[1000]["without_splitting"]["relative_sse"]["high"]
    assert high > fleets[1000]["recommended"]["relative_sse"]["high"]
    # Three devices at two windows each: nothing is split, and one sketch can be decoded.
    few = advise_json(STUDY)
    assert few["reason_for_small_sketches"] is few["do_not_run"] is few["better_grid"] is None
    assert few["shortest_selection"]["statement"].startswith("1 sketch:")


def test_several_reports_of_a_device_are_advised_with_what_they_cost() -> None:
    several = PHONES | {"--records": "5000000", "--windows": "4", "--unit": "device"}
    assert_says(
        advise(several),
        "Here it has to be 4, which costs a device up to 4 times epsilon.",
        "So 4,000,000 of the 5,000,000 records count.",
        "About 660,000 reports are needed for a relative SSE of 1.2, 4 from each device.",
        "most_sketches = 8000000, most_sketches_per_device = 4",
    )
    assert advise_json(PHONES | {"--unit": "device"}, "--anyway")["method"] is None


def test_where_the_unit_is_a_device_a_sketch_is_said_to_count_as_one_record() -> None:
    few = FLEET | {"--devices": "20", "--epsilon": "10", "--unit": "device"}
    assert_says(
        advise(few, "--anyway"),
        "Each sketch counts as one record, whatever the number of records in its window",
        "allow more, or gather more sketches",
        'put unit = "device", n_frequencies = ',
    )
    document = advise_json(few, "--anyway")
    assert {candidate["unit"] for candidate in document["candidates"]} == {"device"}
    assert document["phase_reports"] is None


def test_phase_reports_are_said_to_surpass_a_delta_or_to_be_shorter_than_a_better_sum(
    tmp_path: Path,
) -> None:
    picture = tmp_path / "quality.png"
    words = advise(PHONES | {"--delta": "1e-6", "--plot": str(picture)})
    assert "Phase reports under pure epsilon are better here than discrete-gaussian" in words
    assert picture.read_bytes().startswith(b"\x89PNG")
    words = advise(PHONES | {"--records": "20000000"}, "--bytes-are-scarce")
    assert "because the best sum, for a relative SSE of 1.00 to 1.07, takes " in words


def test_a_number_of_devices_is_rounded_up_to_two_digits() -> None:
    rounded = [round_up(number) for number in (1, 99, 101, 284_101)]
    assert rounded == [1, 99, 110, 290_000]


def test_an_unknown_command_is_refused_in_one_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert command.main(["plan", "advice"]) == 2
    assert "No such command 'advice'" in capsys.readouterr().err
    assert command.main(["plan"]) == 2
    captured = capsys.readouterr()
    assert "advise" in captured.out + captured.err
    assert command.main(["plan", "--help"]) == 0


def test_advice_on_hiding_presence_says_what_it_asks_for() -> None:
    hiding = STUDY | {"--neighbouring": "add-remove-one"}
    assert_says(
        advise(hiding),
        "every device sends a sketch for every window",
        'neighbouring = "add-remove-one" and radius_law = {',
    )
    assert advise_json(hiding)["neighbouring"] == "add-remove-one"
