"""The demo, and on its studies the page about synthetic records, work as they stand."""

from __future__ import annotations

import json
import os
import pickle
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from deploy.demo import cluster, run_demo
from sfumato.analyst import Client, Decode
from sfumato.shared import command
from sfumato.shared.errors import DecodingError
from tests.commands import run_inside
from tests.forking import put_programs
from tests.system.test_tutorial import ROOT, read_blocks

PAGE = ROOT / "docs" / "how-to" / "synthesis.md"
DEMO = ROOT / "deploy" / "demo"
AIRPORTS = ("EWR", "JFK", "LGA")
INHERITING = """\
from tests import forking
forking.refuse_bare_names()
from deploy.demo import cluster, year
year.WINDOW_DAYS = 45  # eight windows rather than thirteen
scope = forking.forking_in(cluster)
scope.__enter__()
"""


@dataclass(frozen=True, kw_only=True)
class Demo:
    """A demo that leaves its server up, and what it has printed and drawn."""

    figures: dict[str, Any]
    picture: Path
    folder: Path

    def make_key(self) -> str:
        """Make an operator's key for its server."""
        database = str(self.folder / "aggregator.sqlite")
        key = run_inside(command.main, ["operator-key", "--name", "test", "--database", database])
        assert key.returncode == 0, key.stderr
        return key.stdout.strip()

    @property
    def url(self) -> str:
        """Address of its server, as that logged it."""
        first = (self.folder / "aggregator.log").read_text(encoding="utf-8").splitlines()[0]
        return first.removeprefix("Sfumato is listening on ").strip()


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    folder = tmp_path_factory.mktemp("demo")
    picture = folder / "weather.png"
    command = [
        sys.executable,
        str(DEMO / "run_demo.py"),
        "--json",
        "--keep",
        "--picture",
        str(picture),
    ]
    # Every process of the demo fails if it loads a room by its bare name, from the checkout.
    (folder / "sitecustomize.py").write_text(INHERITING)
    options = put_programs(folder)
    options["env"] |= {
        "PYTHONPATH": os.pathsep.join([str(folder), str(ROOT)]),
        "TMPDIR": str(folder),
    }
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **options) as running:
        assert running.stdout is not None
        figures = json.loads(running.stdout.readline())
        (own,) = folder.glob("sfumato-demo-*")
        yield Demo(figures=figures, picture=picture, folder=own)
        running.send_signal(signal.SIGINT)
        assert running.stdout.read() == ""
    assert running.returncode == 0
    assert not own.exists()


def test_the_demo_ends_with_one_json_line_and_a_picture_and_shows_the_seasons(demo: Demo) -> None:
    figures = demo.figures
    assert (figures["sketches"], figures["records"]) == (12, 26115)
    assert figures["bytes_sent"] < 20_000 < figures["raw_bytes"]
    # Noise is fresh at every run: a bound that a broken path misses, not a measure of quality.
    assert 1.0 <= figures["relative_sse"] < 3.0
    assert 120 < figures["snr"] < 400
    assert 3.3 < figures["snr"] / figures["snr_with_laplace"] < 4.2
    # Without the histogram it is 3 % of the records.
    assert figures["synthetic"]["range_error"] < 0.025
    assert figures["synthetic"]["correlation_error"] < 0.2
    assert demo.picture.read_bytes().startswith(b"\x89PNG")
    # The difference between seasons has over ten standard errors, so that noise hides it in no run.
    assert figures["alarms"]


def run(line: str, status: int = 0) -> None:
    program, *arguments = shlex.split(line, comments=True)
    assert program == "sfumato"
    assert command.main(arguments) == status, line


def make_files(folder: Path) -> None:
    """Make the plans and sketch files that the page names: those of one station."""
    for name, plan in (("main", "plan.toml"), ("pilot", "pilot.toml")):
        spec = (DEMO / plan).read_text(encoding="utf-8").replace("4000", "10000")
        # One window of all records.
        spec = spec.replace("7884000", "31622400").partition("[[labels]]")[0]
        (folder / f"{name}.toml").write_text(spec, encoding="utf-8")
        columns = " ".join(f"--column '{a}={b}'" for a, b in cluster.COLUMNS.items())
        run(
            f"sfumato sketch {DEMO / 'data' / 'jfk.csv'} --plan {name}.toml -o {name}.sketch "
            f"--ledger files.ledger --budget 2 {columns}"
        )


def test_every_line_of_the_page_draws_records_that_say_where_they_are_from(
    demo: Demo,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    url, key = demo.url, demo.make_key()
    monkeypatch.setenv("SFUMATO_URL", url)
    monkeypatch.setenv("SFUMATO_KEY", key)
    (tmp_path / "deploy").symlink_to(ROOT / "deploy")
    monkeypatch.chdir(tmp_path)
    (_, plans), (_, studies), (_, files), *programs = read_blocks(PAGE)[""]
    for line in plans.splitlines():
        run(line)
    # The demo has published both, and its devices have sent their sketches.
    assert capsys.readouterr().out.count("nothing has changed") == 2
    with Client(url, key=key) as client:
        study_id = client.find_study("weather")
    fresh, last = studies.splitlines()
    run(fresh)
    run(last)
    said = capsys.readouterr().out
    about = json.loads((tmp_path / "weather.csv.about.json").read_text(encoding="utf-8"))
    assert (about["study"], about["study_id"]) == ("weather", study_id)
    assert about["decoder"].startswith("mixture/")
    assert said.count(f"Drawn from decode {about['decode_id']} of 'weather': 5 clusters") == 2
    # By the verdict on the demo, with or without what would help.
    assert "cannot be stated" in about["statement"]

    make_files(tmp_path)
    run(files.strip())
    space: dict[str, Any] = {
        "weather": pd.concat(
            pd.read_csv(DEMO / "data" / f"{airport.lower()}.csv") for airport in AIRPORTS
        )[[*cluster.COLUMNS.values()]]
    }
    for kind, text in programs:
        assert kind == "python"
        exec(text, space)
    table = space["table"]
    assert len(table) == 10_000
    assert len(space["drawn"]) == 10_000
    from_server = table.attrs["sfumato"]
    assert from_server["matched"] == list(cluster.COLUMNS)
    estimated = space["mixture"].result_.synthesise(5).about
    assert len(estimated["snapshot_id"]) == len(estimated["plan_digest"]) == 64
    assert estimated["decoder"].startswith("mixture/")
    with Client(url, key=key) as client:
        result = Decode(client, about["decode_id"]).wait()
        assert result.synthesise(5).columns == client.synthesise(result.decode_id, 5).columns
        with pytest.raises(DecodingError, match="a copy of a result has no client"):
            pickle.loads(pickle.dumps(result)).synthesise(5)
    # Ranges of the true records.
    truth = space["weather"]["temp"].dropna()
    for cut in (40.0, 60.0, 75.0):
        error = np.mean(table["temperature"] < cut) - np.mean(truth < cut)
        assert abs(error) < 0.1


def test_the_demo_of_phones_ends_with_one_json_line_and_a_picture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    picture = tmp_path / "phones.png"
    options = ["--phones", "--devices", "3000", "--json", "--picture", str(picture)]
    monkeypatch.setattr(sys, "argv", ["run_demo.py", *options])
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        assert run_demo.main() == 0
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    (line,) = capsys.readouterr().out.splitlines()
    figures = json.loads(line)
    assert (figures["phones"], figures["bytes_a_report"]) == (3000, 2)
    # Noise is fresh at every run: a bound that a broken path misses, not a measure of quality.
    assert 1.0 <= figures["relative_sse"] < 2.2
    assert picture.read_bytes().startswith(b"\x89PNG")
