import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sfumato.analyst.sketching import read_sketch_file
from sfumato.shared import command
from sfumato.shared.core import SketchAccumulator
from sfumato.shared.plan import plan_from_json, plan_to_json
from tests.analyst.sketching.samples import make_plan, make_records

N = 5000


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a plan and records, which is where the commands run."""
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", make_records(N))
    Path("plan.json").write_text(json.dumps(plan_to_json(make_plan())), encoding="utf-8")
    return tmp_path


def sketch(*arguments: str, file: str = "x.npy", plan: str = "plan.json") -> int:
    return command.main(["sketch", file, "--plan", plan, *arguments])


def test_a_private_sketch_is_written_and_told(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sketch("--threads", "2") == 0
    words = " ".join(capsys.readouterr().out.split())
    assert f"{N:,} records" in words
    assert "epsilon = 1 differentially private" in words
    assert "2 threads" in words
    assert "Do not sketch these records again" in words
    assert "spent epsilon 1 under replace-one for each record, counted in" in words
    assert "owner.ledger: the first release of these records" in words
    written = read_sketch_file(folder / "x.npy.sketch")
    written.require_plan(make_plan())
    assert (written.is_private, written.n_records, written.stream) == (True, N, "main")


def test_every_sketch_of_the_same_records_is_counted_and_refused_where_the_owner_set_a_limit(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sketch("-o", "one.sketch") == 0
    # Under another name it is the same file.
    os.link("x.npy", "y.npy")
    assert sketch("-o", "two.sketch", file="y.npy") == 0
    words = " ".join(capsys.readouterr().out.split())
    assert "the 2nd release of these records: together epsilon 2" in words
    assert sketch("-o", "three.sketch", "--budget", "2") == 2
    assert "above the owner's limit 2" in " ".join(capsys.readouterr().err.split())
    assert not Path("three.sketch").exists()
    # A ledger that is named has the usual limit.
    named = ("--ledger", "my.ledger")
    assert sketch("-o", "four.sketch", *named) == 0
    assert sketch("-o", "five.sketch", *named) == 2


def test_json_is_one_object_with_the_holders_counts_apart(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sketch("--json", "-o", "out.sketch", "--engine", "numpy", "--stream", "two") == 0
    captured = capsys.readouterr()
    made: dict[str, Any] = json.loads(captured.out)
    assert captured.err == ""
    assert (made["engine"], made["stream"], made["output"]) == ("numpy", "two", "out.sketch")
    assert made["ledger"] == os.environ["SFUMATO_LEDGER"]
    assert made["n_releases"] == 1
    assert "the first release of these records" in made["spent"]
    assert made["for_the_holder_only"]["n_unsketchable"] > 0
    assert set(made["for_the_holder_only"]["n_clipped"]) == {"a", "b", "c"}
    assert made["payload_sha256"] == read_sketch_file(Path("out.sketch")).payload_digest.hex()
    assert command.main(["sketch", "show", "out.sketch", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert "for_the_holder_only" not in shown
    assert {name: made[name] for name in shown if name != "privacy"}.items() <= shown.items()


CASES = {
    "commas in them": ("decimal.csv", "a,b,c\n" + '"52,39",1,2\n' * 50),
    "such as a unit": ("unit.csv", "a,b,c\n" + "52.3 °C,1,2\n" * 50),
    "value is missing": ("gone.jsonl", '{"a": "unavailable", "b": 1, "c": 2}\n' * 50),
}


@pytest.mark.parametrize("cause", CASES)
def test_a_file_that_cannot_be_read_spends_nothing_and_says_why(
    cause: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name, text = CASES[cause]
    Path(name).write_text(text, encoding="utf-8")
    assert sketch("--ledger", "owner.ledger", file=name) == 2
    words = " ".join(capsys.readouterr().err.split())
    assert "100% of the values of 'a' cannot be read" in words
    assert cause in words
    assert not list(folder.glob("owner.ledger*"))
    assert not list(folder.glob("*.sketch"))
    assert sketch("--ledger", "owner.ledger", "--max-unreadable", "1", file=name) == 0


def test_letters_of_another_encoding_in_a_header_are_refused_with_the_option(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "x.csv").write_bytes("a,b,Größe\n1,2,3\n".encode("cp1252"))
    assert sketch(file="x.csv") == 2
    words = " ".join(capsys.readouterr().err.split())
    assert "must be a header in UTF-8" in words
    assert "--read encoding=cp1252" in words


@pytest.mark.parametrize("engine", ["numpy", None])
def test_an_exact_sketch_is_the_sum_and_says_loudly_what_it_is(
    engine: str | None,
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if engine is not None:
        monkeypatch.setenv("SFUMATO_ENGINE", engine)
    assert sketch("--exact") == 0
    captured = capsys.readouterr()
    assert captured.err.startswith("NOT PRIVATE.")
    assert "NOT PRIVATE" in captured.out
    assert "nothing: no noise was drawn" in captured.out
    assert "NOT COUNTED" not in captured.out
    assert engine is None or "numpy, " in captured.out
    expected = SketchAccumulator(make_plan().statistic_of(b"file/main"))
    expected.add(make_records(N))
    written = read_sketch_file(folder / "x.npy.exact.sketch")
    assert written.sums.tolist() == expected.sums.tolist()
    assert written.n_unsketchable == expected.n_unsketchable
    assert command.main(["sketch", "show", "x.npy.exact.sketch"]) == 0
    assert "NOT PRIVATE" in capsys.readouterr().out


def test_columns_can_be_mapped_and_a_specification_serves_as_plan(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    demo = Path(__file__).parents[3] / "deploy" / "demo"
    rows = (demo / "data" / "ewr.csv").read_text(encoding="utf-8").splitlines()[:3001]
    Path("weather.csv").write_text("\n".join(rows), encoding="utf-8")
    header = rows[0].split(",")
    columns = ["temp", "dewp", "wind_speed", "visib"]
    assert set(columns) <= set(header), header
    names = ("temperature", "dew point", "wind speed", "visibility")
    options = [f"--column={name}={column}" for name, column in zip(names, columns, strict=True)]
    plan = str(demo / "plan.toml")
    assert sketch(*options, file="weather.csv", plan=plan) == 0
    assert command.main(["sketch", "show", "weather.csv.sketch", "--plan", plan]) == 0
    words = " ".join(capsys.readouterr().out.split())
    assert "the one named" in words
    assert "records 3,000" in words


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere.npy", "--plan", "plan.json"], "nowhere.npy: cannot be read (No such file"),
        (["x.npy", "--plan", "nowhere.json"], "nowhere.json: cannot be read"),
        (["x.npy"], "--plan"),
        (["x.npy", "--plan", "plan.json", "--threads", "0"], "--threads: must be at least 1"),
        (["x.npy", "--plan", "plan.json", "--engine", "gpu"], "SFUMATO_ENGINE: must be 'numpy'"),
        (["x.npy", "--plan", "plan.json", "-o", "no/x"], "no/x: is in a folder that is not there"),
        (["x.npy", "--plan", "tampered.json"], "release.scale: is not what this machine derives"),
        (["x.npy", "--plan", "version2.json"], "format_version: this release reads version 1"),
        (["show", "x.npy"], "x.npy, sketch file: is damaged, or of another format"),
        (["show", "nowhere"], "nowhere: cannot be read"),
        (["show"], "FILE: is missing. Run `sfumato sketch show --help`"),
        ([], "Usage: sfumato sketch"),
    ],
)
def test_a_refusal_names_what_and_where_and_leaves_no_file(
    arguments: list[str],
    message: str,
    folder: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    document = json.loads(Path("plan.json").read_text(encoding="utf-8"))
    Path("version2.json").write_text(json.dumps(document | {"format_version": 2}), "utf-8")
    document["release"]["scale"] = "1"
    Path("tampered.json").write_text(json.dumps(document), "utf-8")
    before = sorted(os.listdir(folder))
    assert command.main(["sketch", *arguments]) == 2
    captured = capsys.readouterr()
    assert message in captured.err + captured.out
    assert sorted(os.listdir(folder)) == before


def test_nothing_is_sketched_twice_into_one_file(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sketch() == 0
    before = (folder / "x.npy.sketch").read_bytes()
    assert sketch() == 2
    assert "costs the plan's epsilon once more" in capsys.readouterr().err
    assert (folder / "x.npy.sketch").read_bytes() == before


def test_the_file_of_another_plan_is_not_shown_as_this_ones(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sketch() == 0
    other = make_plan(most=N)
    Path("other.json").write_text(json.dumps(plan_to_json(other)), encoding="utf-8")
    assert plan_from_json(plan_to_json(other)) == other
    assert command.main(["sketch", "show", "x.npy.sketch", "--plan", "other.json"]) == 2
    assert "plan_digest: is not what a sketch of this plan has" in capsys.readouterr().err


def test_a_terminal_shows_progress(folder: Path) -> None:
    program = Path(sys.executable).parent / "sfumato"
    master, terminal = pty.openpty()
    options = ["sketch", "x.npy", "--plan", "plan.json", "-o"]
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "120"}
    done = subprocess.run(
        [program, *options, "1.sketch"],
        stdout=subprocess.PIPE,
        stderr=terminal,
        env=environment,
        check=True,
    )
    os.close(terminal)
    shown = os.read(master, 1 << 16).decode()
    os.close(master)
    assert f"{N:,} records" in shown
    assert "\x1b" not in done.stdout.decode()
