import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from sfumato.analyst.cli.decodes import describe_decoded
from sfumato.analyst.cli.options import show
from sfumato.analyst.report import render_report
from sfumato.shared import command
from sfumato.shared.plan import plan_from_json
from sfumato.shared.structure import structure
from sfumato.shared.wire.objects.declaration import make_sample
from sfumato.shared.wire.objects.results import SnapshotBody
from tests.analyst.results.made import make_result

KEY = f"sfk_{16 * '0'}_{43 * 'a'}"
SPEC = Path(__file__).parents[2] / "deploy" / "demo" / "plan.toml"


def test_plan_new_prints_a_plan_that_verifies(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["plan", "new", str(SPEC)]) == 0
    plan = plan_from_json(json.loads(capsys.readouterr().out))
    assert plan.n_frequencies == 100
    assert plan.payload_width <= 4


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("lower = -10.0", "lower = 200.0"), "dimensions.temperature: the lower bound"),
        (("n_frequencies = 100", "n_frequencies = 0"), "n_frequencies: must be between 1"),
        (
            ("n_frequencies = 100", "n_frequencies = 100\nmeasurements_per_record = 7"),
            "measurements_per_record: must be a divisor of n_frequencies (100) and is 7",
        ),
        (('epsilon = "1"', 'epsilon = "0"'), "epsilon: must be greater than zero"),
        (('epsilon = "1"', 'epsilon = "1_000"'), "epsilon: must be an exact number"),
        (('epsilon = "1"', 'epsilon = "\u0661"'), "epsilon: must be an exact number"),
        (('epsilon = "1"', "epsilon = 0.1"), "epsilon: must be an exact number"),
        (("seed = ", "sede = "), "sede: is not a known key. Did you mean seed?"),
        (("[window]", "[window"), "is not TOML"),
    ],
)
def test_a_wrong_specification_is_refused_with_field_rule_and_exit_status(
    change: tuple[str, str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = tmp_path / "plan.toml"
    broken.write_text(SPEC.read_text(encoding="utf-8").replace(*change), encoding="utf-8")
    assert command.main(["plan", "new", str(broken)]) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.out == ""


@pytest.mark.parametrize("number", ["1_0", "\u0661"])
@pytest.mark.parametrize(
    ("typed", "field"),
    [
        ("ask STUDY --quantile x=N", "--quantile"),
        (f"decode water -k 2 --key {KEY} --within x=0:N", "--within"),
        ("cluster x.csv -k 2 --epsilon 1 --bounds x=0:N", "--bounds"),
        (
            "plan advise --records 9 --devices 2 --dimensions 4 --clusters 5 --epsilon N",
            "--epsilon",
        ),
        (
            "plan advise --records 9 --devices 2 --dimensions 4 --clusters N --epsilon 1",
            "--clusters",
        ),
    ],
)
def test_numbers_of_the_command_line_have_plain_digits(
    typed: str, field: str, number: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main([re.sub(r"\bN\b", number, part) for part in typed.split()]) == 2
    assert f"error: {field}: " in capsys.readouterr().err


def test_a_plan_that_was_tampered_with_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "plan.json"
    command.main(["plan", "new", str(SPEC), "-o", str(output)])
    document = json.loads(output.read_text(encoding="utf-8"))
    document["release"]["scale"] = "1"
    output.write_text(json.dumps(document), encoding="utf-8")
    assert command.main(["plan", "show", str(output)]) == 2
    assert "release.scale: is not what this machine derives" in capsys.readouterr().err


def test_a_dead_server_is_named_with_the_fix(capsys: pytest.CaptureFixture[str]) -> None:
    # Port 9 of the loopback address: the discard service, which nothing runs.
    status = command.main(["study", "list", "--url", "http://127.0.0.1:9", "--key", KEY])
    assert status == 1
    message = capsys.readouterr().err
    assert "http://127.0.0.1:9 does not answer" in message
    assert "sfumato serve" in message


def test_the_verdict_is_the_first_line_and_blurred_centroids_are_counted(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for part in describe_decoded(make_result()):
        show(part)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "rough: noise is strong"
    assert any("1 of the centroids cannot be told from noise" in line for line in lines)


@pytest.mark.parametrize(("n_excluded", "words"), [(1, "1 device"), (2, "2 devices")])
def test_devices_that_were_excluded_since_are_told_before_the_verdict(
    n_excluded: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    sample = (make_sample(SnapshotBody) or {}) | {"n_excluded_devices": n_excluded}
    snapshot = structure(SnapshotBody, sample, strict=False)
    result = replace(make_result(), snapshot=snapshot)
    for part in describe_decoded(result):
        show(part)
    told = " ".join(capsys.readouterr().out.split())
    assert told.startswith(f"Doubt: {words} in this result w")
    assert told.count("excluded later: do not use it, decode again") == 1
    assert "decode again</p>" in result._repr_html_()
    assert "decode again</p>" in render_report(result, title="flow")
