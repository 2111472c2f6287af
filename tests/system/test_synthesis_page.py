"""The lines of the page on synthetic records work as they stand, on the demo's study."""

from __future__ import annotations

import json
import pickle
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from deploy.demo import cluster
from deploy.demo.cluster import Aggregator, enrol_device, finish_agent, start_agent
from sfumato.analyst import Client, Decode
from sfumato.shared import command
from sfumato.shared.errors import DecodingError
from tests.forking import forking_in
from tests.system.servers import start_server
from tests.system.test_tutorial import ROOT, read_blocks

PAGE = ROOT / "docs" / "how-to" / "synthesis.md"
DEMO = ROOT / "deploy" / "demo"
STUDIES = ("weather", "weather-pilot")
AIRPORTS = ("EWR", "JFK", "LGA")


def run(line: str, status: int = 0) -> None:
    program, *arguments = shlex.split(line, comments=True)
    assert program == "sfumato"
    assert command.main(arguments) == status, line


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Aggregator]:
    server = start_server(tmp_path, worker=True)
    monkeypatch.setenv("SFUMATO_URL", server.url)
    monkeypatch.setenv("SFUMATO_KEY", server.key)
    yield server
    server.stop()


def send_sketches(folder: Path, server: Aggregator, client: Client) -> None:
    agents = [
        enrol_device(
            folder,
            airport=airport,
            data=DEMO / "data" / f"{airport.lower()}.csv",
            aggregator=server,
            study_id=client.find_study(study),
            token=client.create_token(study),
            # A record that is in two studies costs its owner both.
            per_record=2,
        )
        for study in STUDIES
        for airport in AIRPORTS
    ]
    for agent in agents:
        finish_agent(start_agent(agent))


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
            # The devices have counted the same records in the ledger of their folder.
            f"--ledger files.ledger --budget 2 {columns}"
        )


def test_every_line_of_the_page_draws_records_that_say_where_they_are_from(
    server: Aggregator,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "deploy").symlink_to(ROOT / "deploy")
    monkeypatch.chdir(tmp_path)
    (_, plans), (_, studies), (_, files), *programs = read_blocks(PAGE)[""]
    for line in plans.splitlines():
        run(line)
    capsys.readouterr()
    with forking_in(cluster), Client(server.url, key=server.key) as client:
        send_sketches(tmp_path, server, client)
        study_id = client.find_study("weather")
    fresh, last = studies.splitlines()
    run(fresh)
    run(last)
    said = capsys.readouterr().out
    about = json.loads((tmp_path / "weather.csv.about.json").read_text(encoding="utf-8"))
    assert (about["study"], about["study_id"]) == ("weather", study_id)
    assert about["decoder"].startswith("mixture/")
    assert said.count(f"Drawn from decode {about['decode_id']} of 'weather': 5 clusters") == 2
    assert "cannot be stated without a histogram" in about["statement"]

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
    with Client(server.url, key=server.key) as client:
        result = Decode(client, about["decode_id"]).wait()
        assert result.synthesise(5).columns == client.synthesise(result.decode_id, 5).columns
        with pytest.raises(DecodingError, match="a copy of a result has no client"):
            pickle.loads(pickle.dumps(result)).synthesise(5)
    # Ranges of the true records.
    truth = space["weather"]["temp"].dropna()
    for cut in (40.0, 60.0, 75.0):
        error = np.mean(table["temperature"] < cut) - np.mean(truth < cut)
        assert abs(error) < 0.1
