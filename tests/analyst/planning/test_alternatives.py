"""Advice for secure sums: the three ways of adding noise, and which one to prefer."""

from __future__ import annotations

import io
import json
import tomllib
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from sfumato.analyst.planning.alternatives import describe_ways
from sfumato.learning.planning.alternatives import (
    PARTS,
    Fleet,
    Ways,
    choose_parts,
    compare_ways,
    sum_outline,
)
from sfumato.learning.planning.outline import StudyOutline
from sfumato.learning.planning.planner import advise
from sfumato.learning.planning.plans import predict_plan
from sfumato.shared import command
from sfumato.shared.errors import PrivacyError
from sfumato.shared.plan import draft_from_json
from tests.analyst.planning.commands import words_of
from tests.shared.sharing.samples import make_draft

ADVISE = ["plan", "advise", "--dimensions", "2", "--clusters", "2", "--epsilon", "1"]


def compare(n_records: int, n_devices: int, *, epsilon: int = 1, parts: int = 1) -> Ways:
    outline = StudyOutline(n_records=n_records, n_sketches=n_devices, n_dimensions=2, n_clusters=2)
    fleet = Fleet(n_groups=1, parts=parts)
    return compare_ways(advise(outline, epsilon=Fraction(epsilon), target_sse=1.1), fleet)


def test_a_large_fleet_of_one_record_devices_is_summed_by_two_servers() -> None:
    ways = compare(10_000, 10_000)

    assert ways.preferred == "sum"
    summed, curator = ways.candidates["sum"], ways.candidates["curator"]
    assert summed is not None
    assert curator is not None
    assert summed.release == "sum.v1"
    assert summed.band.high <= curator.band.high + 0.1
    assert "do not work together" in " ".join(describe_ways(ways))


def test_each_batch_has_two_noises_and_parts_multiply_them() -> None:
    outline = StudyOutline(n_records=10_000, n_sketches=10_000, n_dimensions=2, n_clusters=2)
    snrs = []
    for parts in (1, 16):
        study = sum_outline(outline, Fleet(n_groups=1, parts=parts))
        assert study.noises == 2 * parts
        advice = advise(study, epsilon=Fraction(1), target_sse=1.1)
        of_20 = [c for c in advice.candidates if c.n_frequencies == 20]
        snrs.append(of_20[0].snr)
        assert not any(c.is_split or c.reports_phases for c in advice.candidates)

    assert 8 < snrs[0] / snrs[1] <= 16


def test_a_plan_predicts_the_noise_of_its_batches() -> None:
    draft = make_draft(most_records=1)
    local = make_draft(most_records=1, release="local.v1", least_reports=None, most_reports=None)
    sizes: dict[str, Any] = {
        "n_records": 5000,
        "n_sketches": 5000,
        "n_clusters": 2,
        "devices_differ": False,
    }

    summed, each = (predict_plan(plan, **sizes) for plan in (draft, local))

    # Two noises instead of 5000; little of the error is sampling.
    assert summed.expected.snr / each.expected.snr > 1000


def test_a_secure_sum_has_no_smaller_selection_and_no_windows_by_count() -> None:
    outline = StudyOutline(n_records=100, n_sketches=100, n_dimensions=2, n_clusters=2)
    fleet = Fleet(n_groups=1)

    with pytest.raises(PrivacyError, match="smallest_selection: must be left out"):
        sum_outline(replace(outline, smallest_selection=10), fleet)
    with pytest.raises(PrivacyError, match="by_time: must be true"):
        sum_outline(replace(outline, by_time=False), fleet)


def test_a_batch_needs_two_reports(capsys: pytest.CaptureFixture[str]) -> None:
    sizes = ["--records", "100", "--devices", "100", "--release", "sum", "--parts", "64"]
    assert command.main([*ADVISE, *sizes]) == 2
    assert "--parts: gives 64 batches for 100 sketches" in capsys.readouterr().err


def test_the_command_shows_all_ways(capsys: pytest.CaptureFixture[str]) -> None:
    sizes = ["--records", "10000", "--devices", "10000"]
    assert command.main([*ADVISE, *sizes, "--release", "sum", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)

    assert document["recommended"]["release"] == "sum.v1"
    assert document["ways"]["preferred"] == "sum"
    assert [way["draws"] for way in document["ways"]["ways"]] == [10_000, 10, 1]

    assert command.main([*ADVISE, *sizes, "--release", "sum", "--parts", "65"]) == 2
    assert "--parts: must be at most 64" in capsys.readouterr().err
    assert command.main([*ADVISE, *sizes, "--parts", "2"]) == 2
    assert "--parts: needs --release sum" in capsys.readouterr().err


def test_a_fleet_that_can_bear_it_has_parts_by_default() -> None:
    def choose(n_devices: int, *, epsilon: int = 1) -> int:
        outline = StudyOutline(
            n_records=n_devices, n_sketches=n_devices, n_dimensions=3, n_clusters=5
        )
        return choose_parts(
            outline, 1, epsilon=Fraction(epsilon), delta=Fraction(0), target_sse=1.1
        )

    assert choose(20_000, epsilon=4) == PARTS
    assert choose(499, epsilon=4) == 1
    # Five noises would make a usable answer useless.
    assert choose(500, epsilon=4) == 1


def test_answers_become_a_draft_for_the_helper(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answers = [
        *("temperature", "°F", "0", "-10", "110", "8", ""),
        *("2", "values", "7d", "record", "10000", "10000", "both", "servers", "99", "4"),
        *("1", "0"),
    ]
    monkeypatch.setattr("sys.stdin", io.StringIO("".join(f"{each}\n" for each in answers)))
    output = tmp_path / "draft.json"

    assert command.main(["plan", "new", "-o", str(output)]) == 0

    err = capsys.readouterr().err
    assert "must be device or servers" in err
    assert "parts: must be at most 64" in err
    assert f"sfumato helper accept {output}" in err
    draft = draft_from_json(json.loads(output.read_text(encoding="utf-8")))
    assert draft.sum_release is not None
    assert draft.sum_release.parts == 4
    assert draft.sum_release.helper is None
    spec = tomllib.loads(output.with_suffix(".toml").read_text(encoding="utf-8"))
    assert spec["release"] == "sum.v1"

    assert command.main(["plan", "show", str(output)]) == 0
    shown = words_of(capsys.readouterr().out)
    assert "none yet: this is a draft" in shown
    assert "4 for every window" in shown


def test_where_not_even_a_curator_has_an_answer_no_way_is_preferred() -> None:
    ways = compare(40, 40)

    assert ways.preferred is None
    assert "Even one curator" in next(iter(describe_ways(ways)))


def test_nobody_has_to_trust_anybody_where_each_device_reaches_the_target() -> None:
    ways = compare(1_000_000, 40)

    assert ways.preferred == "local"
    assert "reaches the target" in next(iter(describe_ways(ways)))


def test_few_sketches_are_better_noised_by_each_device() -> None:
    """Nine sketches at an epsilon at which neither way reaches the target."""
    ways = compare(1500, 9)
    local = ways.candidates["local"]

    assert local is not None
    assert not local.band.reaches(1.1)
    assert not local.band.is_hopeless
    assert ways.preferred == "local"
    assert "below 20" in next(iter(describe_ways(ways)))


def test_small_batches_get_a_least_number_of_reports_that_they_reach() -> None:
    ways = compare(120, 120)

    assert ways.fleet.choose_least_reports(ways.outline) == 60
    assert "state least_reports = 60" in " ".join(describe_ways(ways))
