"""The notebooks, and the lines of the ten questions, work as they stand and give true answers."""

from __future__ import annotations

import ast
import contextlib
import json
import re
import shlex
import shutil
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from deploy.demo import cluster
from deploy.demo.cluster import Aggregator, enrol_device, finish_agent, start_agent
from sfumato.analyst import Client
from sfumato.shared import command
from sfumato.shared.plan import plan_from_spec
from tests.analyst.planning.commands import words_of
from tests.forking import forking_in
from tests.system.servers import start_server
from tests.system.test_tutorial import ROOT, read_blocks

NOTEBOOKS = ROOT / "docs" / "notebooks"
QUESTIONS = ROOT / "docs" / "how-to" / "questions.md"
DATA = ROOT / "deploy" / "demo" / "data"
AIRPORTS = ("EWR", "JFK", "LGA")
COLUMNS = {"temperature": "temp", "dew point": "dewp", "wind speed": "wind_speed"}
EIGHTH_OF_A_YEAR = 365 * 86400 // 8
AUTUMN = "2013-10-01"
"""Begin of the first window in autumn."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Aggregator]:
    """A server with a year of weather in eight windows of three stations."""
    folder = tmp_path_factory.mktemp("fleet")
    spec = tomllib.loads((ROOT / "deploy" / "demo" / "plan.toml").read_text(encoding="utf-8"))
    spec["window"]["length_s"] = EIGHTH_OF_A_YEAR
    # Without visibility, of which nearly all values are alike, every run has a good verdict.
    spec["dimensions"] = [each for each in spec["dimensions"] if each["name"] in COLUMNS]
    server = start_server(folder, worker=True)
    try:
        with forking_in(cluster), Client(server.url, key=server.key) as client:
            study = client.create_study("weather", plan_from_spec(spec)).study_id
            agents = [
                enrol_device(
                    folder,
                    airport=airport,
                    data=DATA / f"{airport.lower()}.csv",
                    aggregator=server,
                    study_id=study,
                    token=client.create_token(study),
                    columns=COLUMNS,
                )
                for airport in AIRPORTS
            ]
            for process in [start_agent(agent) for agent in agents]:
                finish_agent(process)
        yield server
    finally:
        server.stop()


@pytest.fixture(autouse=True)
def environment(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if "server" in request.fixturenames:
        server: Aggregator = request.getfixturevalue("server")
        monkeypatch.setenv("SFUMATO_URL", server.url)
        monkeypatch.setenv("SFUMATO_KEY", server.key)
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setenv("MPLBACKEND", "agg")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder as the notebooks expect it, and nothing else to write into."""
    shutil.copytree(DATA, tmp_path / "deploy" / "demo" / "data")
    shutil.copytree(NOTEBOOKS, tmp_path / "docs" / "notebooks")
    return tmp_path


def read_truth() -> pd.DataFrame:
    """Return the records of all stations that lack nothing, by name of dimension."""
    frames = [pd.read_csv(DATA / f"{airport.lower()}.csv") for airport in AIRPORTS]
    records = pd.concat(frames)[list(COLUMNS.values())].dropna()
    return records.rename(columns={column: name for name, column in COLUMNS.items()})


def execute(path: Path) -> dict[str, Any]:
    """Run the cells of a notebook in this process, show what they end with; return their names."""
    space: dict[str, Any] = {"_sfumato": lambda words: command.main(shlex.split(words))}
    with contextlib.chdir(path.parent):
        for cell in read_cells(path):
            text = re.sub(r"^!sfumato (.*)$", r"assert _sfumato('\1') == 0", cell, flags=re.M)
            tree = ast.parse(text)
            last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
            exec(compile(tree, path.name, "exec"), space)
            if isinstance(last, ast.Expr):
                value = eval(compile(ast.Expression(last.value), path.name, "eval"), space)
                (getattr(value, "_repr_html_", None) or value.__repr__)()
    plt.close("all")
    return space


def read_cells(path: Path) -> list[str]:
    """Return the code of a notebook, which must hold no output."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert [(cell["outputs"], cell["execution_count"]) for cell in code] == [([], None)] * len(code)
    assert code
    return ["".join(cell["source"]) for cell in code]


def test_the_data_scientists_notebook_gives_the_clusters_of_the_records(checkout: Path) -> None:
    # Each run draws noise of its own, and a rare one leaves too little for bars.
    for _ in range(3):
        space = execute(checkout / "docs" / "notebooks" / "data-scientist.ipynb")
        if space["again"].verdict in ("sound", "rough"):
            break
    truth = read_truth()
    assert space["again"].verdict in ("sound", "rough")
    assert 0.999 < float(space["private"].guarantee_.epsilon) <= 1.0
    # Bars hold nine times in ten, and the true values were never more than two bars away.
    for name, true in (
        ("warm", float((truth["temperature"] >= 70).mean())),
        ("median", float(truth["temperature"].median())),
    ):
        bar = space[name]
        value = bar.share if name == "warm" else bar.value
        assert bar.low < value < bar.high
        assert abs(value - true) < 2.0 * (bar.high - bar.low)
    # k-means in degrees and miles: the clusters are cold, mild and warm.
    assert sorted(round(row[0] / 20) for row in space["exact"].cluster_centers_) == [2, 3, 4]
    labels = space["labels"]
    assert np.count_nonzero(labels == -1) == 5
    assert set(labels) == {-1, 0, 1, 2}
    # Two clusters of a year are its warm and its cold half.
    assert abs(space["two"][0][0] - space["two"][1][0]) > 15
    assert space["comparison"].is_alarm
    assert space["comparison"].size > 0.5


def test_the_fleet_analysts_notebook_shows_the_alarm_in_autumn(
    server: Aggregator, checkout: Path
) -> None:
    space = execute(checkout / "docs" / "notebooks" / "fleet-analyst.ipynb")
    assert space["result"].verdict in ("sound", "rough")
    windows = space["windows"]
    assert len(windows) == 8
    # Between late summer and October the mean temperature falls by more than one scale.
    assert AUTUMN in [each.start[:10] for each in space["autumn"]]
    assert AUTUMN in set(windows.loc[windows["is_alarm"].astype(bool), "start"].str[:10])
    assert space["groups"].body.values == list(AIRPORTS)
    # Fresh noise: one of three honest devices is so silent with a chance of 3e-9.
    assert min(space["health"].to_frame()["p_silence"]) > 1e-9
    warm = space["warm"]
    true = float((read_truth()["temperature"] >= 70).mean())
    assert abs(warm.share - true) < 2.0 * (warm.high - warm.low)
    page = (checkout / "docs" / "notebooks" / "weather.html").read_text(encoding="utf-8")
    assert space["result"].verdict in page


def test_every_line_of_the_ten_questions_is_answered(
    server: Aggregator, capsys: pytest.CaptureFixture[str]
) -> None:
    blocks = read_blocks(QUESTIONS)
    preamble = blocks.pop("")
    blocks = {heading: block for heading, block in blocks.items() if heading[3].isdigit()}
    assert [int(heading[3:].partition(".")[0]) for heading in blocks] == [*range(1, 11)]
    space: dict[str, Any] = {}
    exec(preamble[0][1], space)
    said = []
    try:
        for heading, ((kind, text),) in blocks.items():
            assert text.count("\n") == 1, f"{heading} has one line"
            if kind == "python":
                exec(text, space)
            else:
                program, *arguments = shlex.split(text)
                assert program == "sfumato"
                status = command.main(arguments)
                assert status == (1 if arguments[0] == "compare" else 0), capsys.readouterr().err
            said.append(words_of(capsys.readouterr().out))
    finally:
        space["client"].close()
    patterns, trust, number, share, median, change, differ, groups, devices, cluster = said
    assert "temperature" in patterns
    assert re.match(r"(sound|rough|doubtful)", trust)
    assert "stability" in number
    truth = read_truth()
    found = float(share.partition("%")[0]) / 100
    assert abs(found - float((truth["temperature"] >= 70).mean())) < 0.1
    found = float(median.split()[0])
    assert abs(found - float(truth["temperature"].median())) < 8
    assert f"a change at {AUTUMN}" in change
    assert "they differ" in differ
    assert all(airport in groups for airport in AIRPORTS)
    assert all(airport in devices for airport in AIRPORTS)
    assert cluster.strip() in ("[0]", "[1]", "[2]")
    result = space["result"]
    # A muggy day is in the warmest cluster.
    assert int(cluster.strip()[1]) == int(np.argmax(result.centroids[:, 0]))
