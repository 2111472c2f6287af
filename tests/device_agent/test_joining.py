"""A stream joins when its owner has looked at its records; from then on values stop nothing."""

import json
import re
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sfumato.device_agent.agent.dry_run import Sampler
from sfumato.device_agent.agent.dry_run_limits import find_problems, find_questions
from sfumato.device_agent.agent.membership import digest_reading
from sfumato.device_agent.cli.dry_run import show_dry_run
from sfumato.device_agent.settings.owner_tables import CheckTable
from sfumato.device_agent.sources import Position, RecordBatch, open_source
from sfumato.device_agent.sources.shown_rows import RowKeeper
from sfumato.shared.plan import Dimension, WindowRule
from sfumato.shared.plan.dimensions import LogTransform
from sfumato.shared.reading.records import make_table
from tests.device_agent.conftest import BASE, HOUR, Agent, AgentFor, make_plan
from tests.device_agent.serving import TOKEN
from tests.device_agent.sources.streams import make_stream
from tests.device_agent.test_one_source import feeding

SECRET: dict[str, Any] = {"neighbouring": "add-remove-one", "least_records": None}
N = 40
NOWHERE = Position(source="csv:r", place={})


def lines(time: str = "{t}", x: str = "1.5", y: str = "-2", n: int = N) -> str:
    """Return records, one an hour."""
    rows = ",".join((time, x, y))
    return "time,x,y\n" + "".join(rows.format(t=BASE + i * HOUR) + "\n" for i in range(n))


def set_source(agent: Agent, old: str, new: str) -> None:
    text = agent.config.read_text()
    assert old in text
    agent.config.write_text(text.replace(old, new))


def set_limit(agent: Agent, name: str, share: str) -> None:
    set_source(agent, "[check]\n", f"[check]\n{name} = {share}\n")


WRONG: dict[str, tuple[str, str, dict[str, Any]]] = {
    "times in another format": ("unreadable_times", "timestamp_format", {"time": "01.02.{t}"}),
    "times of another unit": ("times_outside", "timestamp_format", {"time": "9{t}"}),
    "a decimal comma": ("unreadable_values", "columns.x", {"x": '"1,5"'}),
    "another unit": ("clipped", "columns.y", {"y": "-271.15"}),
}


@pytest.mark.parametrize("what", WRONG)
def test_records_beyond_a_limit_keep_a_stream_from_joining_and_the_server_hears_nothing(
    what: str, agent: Agent
) -> None:
    limit, field, change = WRONG[what]
    agent.records.write_text(lines(**change))
    for command in (("check",), ("init", "--token", TOKEN)):
        assert agent.run(*command) == 2
        assert f"streams[0].{'source.' if 'format' in field else ''}{field}: must" in agent.err
        assert f"[check] {limit}" in agent.err
        assert "100%" in agent.err
    assert set(agent.server.requests) == {f"GET /v1/studies/{agent.study}/plan"}
    assert not agent.server.devices
    assert not agent.state.exists()
    # Whoever means it may say so.
    set_limit(agent, limit, "1")
    assert agent.run("check") == 0, agent.err
    agent.init()


@pytest.mark.parametrize(("n_bad", "joins"), [(4, True), (5, False)])
def test_a_limit_is_the_largest_share_that_joins(n_bad: int, joins: bool, agent: Agent) -> None:
    bad = lines("?", n=n_bad).removeprefix("time,x,y\n")
    agent.records.write_text(lines(n=N - n_bad) + bad)
    assert agent.run("init", "--token", TOKEN) == (0 if joins else 2)


def test_times_before_the_study_are_outside_of_it(agent_for: AgentFor) -> None:
    rule = WindowRule(kind="time", origin=BASE + N * HOUR, length_s=HOUR)
    agent = agent_for(make_plan(window=rule))
    agent.records.write_text(lines())
    assert agent.run("init", "--token", TOKEN) == 2
    assert "lie before the study's first window" in agent.err


def test_with_windows_by_count_no_time_keeps_a_stream_from_joining(agent_for: AgentFor) -> None:
    agent = agent_for(make_plan(window=WindowRule(kind="count", length=10)))
    agent.records.write_text(lines("never"))
    agent.init()
    assert agent.once()["released"] == N // 10


def test_no_more_records_are_looked_at_than_the_owner_says(agent: Agent) -> None:
    agent.records.write_text(lines() + lines("never", n=N).removeprefix("time,x,y\n"))
    set_limit(agent, "records", str(N))
    agent.init()


def test_once_a_stream_has_joined_its_values_change_no_exit_status_and_no_release(
    agent: Agent,
) -> None:
    agent.records.write_text(lines(n=2))
    agent.init()
    agent.records.write_text(lines(n=2) + lines("{t}", "oops", "999").removeprefix("time,x,y\n"))
    assert agent.run("check") == 0
    assert "columns" not in agent.out + agent.err
    assert agent.run("check", "--values") == 0
    assert "note  stream meter.columns.x: must be a column of numbers: 95.2%" in agent.out
    assert agent.once()["released"] == N


def test_a_device_that_enrols_again_leaves_joined_streams_alone(enrolled: Agent) -> None:
    enrolled.records.write_text(lines("never", "oops"))
    enrolled.rejoin()
    assert "looked" not in enrolled.out


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"unix"', '"unix_ms"'),
        ('timestamp = "time"', 'timestamp = "y"'),
        ('name = "meter"', 'name = "other"'),
        ("records.csv", "others.csv"),
    ],
)
def test_a_stream_that_is_read_otherwise_is_held_whatever_it_holds_until_the_owner_looks(
    old: str, new: str, agent: Agent
) -> None:
    (agent.folder / "others.csv").write_text(lines("never"))
    agent.records.write_text(lines())
    agent.init()
    set_source(agent, old, new)
    for content in (lines(), lines("never", "oops")):
        agent.records.write_text(content)
        before = agent.dump()
        assert agent.once(status=2)["records_read"] == 0
        assert "`sfumato-agent init`, which looks at the records first" in agent.err
        assert agent.dump() == before
        assert agent.run("status") == 0
        assert "has not joined" in agent.out
    assert agent.run("init") != 0
    set_source(agent, new, old)
    agent.records.write_text(lines())
    assert agent.once()["released"] == N


def test_a_stream_that_was_set_right_joins_again_and_loses_nothing(agent: Agent) -> None:
    agent.records.write_text(lines())
    agent.init()
    agent.records.write_text(lines("{t}000"))
    set_source(agent, '"unix"', '"unix_ms"')
    agent.rejoin()
    assert agent.once()["released"] == N


def test_records_that_were_read_before_are_looked_at_when_settings_change(agent: Agent) -> None:
    agent.records.write_text(lines())
    agent.init()
    agent.once()
    set_source(agent, '"unix"', '"iso8601"')
    assert agent.run("init") == 2
    assert "cannot be read as iso8601" in agent.err


def test_a_setting_that_decides_no_record_needs_no_new_decision(tmp_path: Path) -> None:
    def digest(**settings: Any) -> str:
        table = {"kind": "csv", "path": "r", "timestamp": "t", **settings}
        return digest_reading(make_stream(tmp_path, **table))

    usual = digest()
    unchanged: list[dict[str, Any]] = [
        {"lock": False},
        {"missing": "wait"},
        {"disjoint": "a"},
        {"path": "./r"},
    ]
    assert {digest(**same) for same in unchanged} == {usual}
    others: list[dict[str, Any]] = [
        {"path": "s"},
        {"timestamp": "u"},
        {"timestamp_zone": "Europe/Berlin"},
        {"timestamp_format": "unix"},
        {"delimiter": ";"},
        {"encoding": "latin-1"},
        {"header": ["t", "x"]},
    ]
    assert len({usual, *(digest(**other) for other in others)}) == 1 + len(others)


def test_whoever_forgets_the_device_looks_again(agent: Agent) -> None:
    agent.records.write_text(lines())
    agent.init()
    assert agent.run("forget", "--yes") == 0
    agent.server.tokens[TOKEN] = 1
    agent.records.write_text(lines() + lines("never").removeprefix("time,x,y\n"))
    assert agent.run("init", "--token", TOKEN) == 2


def test_a_lost_note_of_joining_holds_streams_until_the_owner_looks(enrolled: Agent) -> None:
    enrolled.append(0)
    (path,) = enrolled.state.glob("*/joined.json")
    for damage in (b"{", b'{"meter": {"digest": 1}}', b"[]"):
        path.write_bytes(damage)
        assert enrolled.once(status=2)["released"] == 0
    path.unlink()
    assert enrolled.once(status=2)["released"] == 0
    enrolled.rejoin()
    assert enrolled.once()["released"] == 1


@pytest.mark.parametrize("choices", [SECRET, {"unit": "device"}])
def test_where_no_wait_may_show_times_nothing_joins_unseen_unless_the_owner_says_so(
    choices: dict[str, Any], agent_for: AgentFor
) -> None:
    rule = WindowRule(kind="time", origin=BASE, length_s=10**8)
    agent = agent_for(make_plan(window=rule, **choices))
    server = agent.server
    agent.write_config(unseen=False)
    for command in (("check",), ("init", "--token", TOKEN)):
        assert agent.run(*command) == 2
        assert "[check] unseen = true" in agent.err
    assert not server.devices
    agent.records.write_text(lines())
    agent.init()


def test_an_unseen_stream_begins_with_times_that_can_be_read(enrolled: Agent) -> None:
    assert enrolled.run("check") == 0
    enrolled.records.write_text(lines("{t}000"))
    before = enrolled.dump()
    report = enrolled.once(status=2)
    assert (report["released"], enrolled.dump()) == (0, before)
    assert "stream meter: does not begin: most times of its first records" in enrolled.err
    set_source(enrolled, '"unix"', '"unix_ms"')
    enrolled.rejoin()
    assert enrolled.once()["released"] == N
    # From then on unreadable times are told, and hold up nothing.
    with enrolled.records.open("a") as file:
        file.write("never,1,1\n" * 9 + f"{BASE + 99 * HOUR}000,1,1\n")
    assert enrolled.once()["released"] == 2


def test_an_unseen_stream_begins_by_itself_once_most_times_can_be_read(enrolled: Agent) -> None:
    enrolled.records.write_text("time,x,y\nbroken\n")
    assert enrolled.once(status=2)["records_read"] == 0
    enrolled.append(0, lines=3)
    assert enrolled.once()["records_read"] == 4
    assert list(enrolled.server.payloads()) == [0]


def test_what_reading_takes_away_is_not_looked_at_and_the_owner_is_told(agent: Agent) -> None:
    set_source(agent, 'kind = "csv"\npath = "records.csv"', 'kind = "stdin"')
    with feeding(lines().encode()):
        assert agent.run("check") == 0
        assert "reading takes its records away, so none was read" in agent.out
        agent.init()
        assert "it begins with the first records whose times can be read" in agent.out
        assert agent.once()["released"] == N


def test_a_json_document_has_all_that_the_owner_asks_for(agent: Agent) -> None:
    agent.records.write_text(lines() + "\x1b[31m,?,20\n")
    assert agent.run("check", "--json") == 0
    assert json.loads(agent.out)["streams"] == []
    assert agent.run("check", "--json", "--values") == 0
    document = json.loads(agent.out)
    assert (document["ok"], document["errors"]) == (True, [])
    (run,) = document["streams"]
    assert (run["n_records"], run["n_unsketchable"], run["n_windows"]) == (N + 1, 1, N)
    times = run["times"]
    assert (times["n_unreadable"], times["n_slots"]) == (1, N)
    assert times["earliest"] == "2023-11-14T22:00:00Z"
    x, y = run["columns"]
    assert (x["n_unreadable"], y["n_above"], y["greatest"]) == (1, 1, 20)
    assert len(run["rows"]) == 5
    last = run["rows"][-1]
    assert (last["place"], last["time_text"]) == (N + 2, "\N{REPLACEMENT CHARACTER}[31m")
    assert [cell["state"] for cell in last["cells"]] == ["unreadable", "above"]
    assert [cell["step"] for cell in run["rows"][0]["cells"]] == [4915, -6553]
    agent.records.write_text(lines("never"))
    assert agent.run("check", "--json") == 2
    (error,) = json.loads(agent.out)["errors"]
    assert error["field"] == "streams[0].source.timestamp_format"


def test_the_table_fits_and_says_what_becomes_of_each_value(agent_for: AgentFor) -> None:
    dimensions = (
        Dimension(
            name="a very long name of a dimension", unit="m/s", lower=0.0, upper=9.0, scale=1.0
        ),
        Dimension(name="y", unit="1", lower=-10.0, upper=10.0, scale=1.0),
    )
    agent = agent_for(make_plan(dimensions=dimensions))
    agent.config.write_text(
        agent.config.read_text() + '\n[streams.columns]\n"a very long name of a dimension" = "x"'
    )
    agent.records.write_text(lines(x="8.25") + f"{BASE},11,{'z' * 999}\n")
    assert agent.run("check", "--values") == 0, agent.err
    table = [line for line in agent.out.splitlines() if line.startswith("      ")]
    assert max(map(len, table)) <= 100, max(table, key=len)
    text = "\n".join(re.sub(" +", " ", line).strip() for line in table)
    assert "41 records, in 40 windows; 1 of them (2.4%) cannot be sketched and add zero" in text
    assert "slots 40 of 1 hour" in text
    assert "a very long nam... x 0 to 9 m/s 8.25 to 11 0.0% 2.4% 0.0%" in text
    assert "a very long nam... 11 11 9 (was above) adds zero" in text
    assert "unreadable adds zero" in text


@pytest.mark.parametrize("choices", [SECRET, {"unit": "device"}])
def test_after_joining_how_many_records_there_are_is_shown_to_who_asks_alone(
    choices: dict[str, Any], agent_for: AgentFor, monkeypatch: pytest.MonkeyPatch
) -> None:
    rule = WindowRule(kind="time", origin=BASE, length_s=10**8)
    agent = agent_for(make_plan(window=rule, **choices))
    agent.records.write_text(lines())
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    assert agent.run("check") == 0
    assert "40 records" in agent.out
    agent.init()
    agent.records.write_text(lines() + f"{BASE},1,1")
    assert agent.run("check") == 0
    assert "records, in" not in agent.out
    assert "line 42" not in agent.out
    assert agent.run("check", "--values") == 0
    assert "records, in" in agent.out


def test_logarithms_levels_and_public_values_are_shown_as_they_are_sketched(
    tmp_path: Path,
) -> None:
    dimensions = (
        Dimension(
            name="x",
            unit="W",
            lower=0.0,
            upper=15.0,
            scale=1.0,
            transform=LogTransform(resolution=1.0),
        ),
        Dimension(name="y", unit="1", lower=-10.0, upper=10.0, scale=1.0, missing=5.0),
        Dimension(name="z", unit="1", levels=("a", "b", "c")),
    )
    plan = make_plan(dimensions=dimensions)
    stream = make_stream(tmp_path, kind="csv", path="r", timestamp="t")
    sampler = Sampler(stream, plan, CheckTable(), now=BASE + 9.0 * HOUR)
    values = np.array([[3.0, 1.0, 2.0], [99.0, np.nan, 0.0], [1.0, 1.0, np.nan], [1.0, 1.0, 7.0]])
    timestamps = BASE + HOUR * np.arange(4.0)
    places = range(2, 6)
    keeper = RowKeeper(has_times=True)
    keeper.add(values, values, make_table(values, timestamps), places, None)
    sampler.add(RecordBatch(values=values, timestamps=timestamps, position_after=lambda i: NOWHERE))
    (tmp_path / "r").write_text("t,x,y,z\n")
    with closing(open_source(stream, plan.dimensions, [], bytes(32))) as source:
        run = sampler.finish(source, keeper.rows)
    x, y, z = run.columns
    assert (x.n_above, y.n_unreadable, z.n_unreadable, run.n_unsketchable) == (1, 1, 2, 2)
    first, second, third, _ = run.rows
    # 3 W is two octaves above the resolution of 1 W, half of the way to 15 W.
    assert [cell.step for cell in first.cells] == [0, 3277, 2]
    assert [cell.state for cell in second.cells] == ["above", "imputed", "kept"]
    assert [cell.bounded for cell in second.cells] == [15.0, 5.0, "a"]
    assert {cell.step for cell in third.cells} == {None}
    assert third.cells[2].state == "unreadable"
    shown = show_dry_run(run)
    assert "0 to 15 W, log" in shown
    assert "a, b, c" in shown
    assert "5 (instead)" in shown
    # Many may be missing where a public value stands for them; levels that the plan lacks may not.
    problems = find_problems(run, CheckTable(clipped=1.0), field="s")
    assert [problem.field for problem in problems] == ["s.columns.z"]


WIDE = (
    # As a pilot refines them: bounds hold everything, and the scale is that of its clusters.
    Dimension(name="co2", unit="ppm", lower=-2310.0, upper=3390.0, scale=60.0),
    Dimension(
        name="power",
        unit="W",
        lower=0.0,
        upper=3.1e9,
        scale=0.6,
        transform=LogTransform(resolution=10.0),
    ),
    Dimension(name="humidity", unit="%", lower=-180.0, upper=270.0, scale=4.0),
)
BOX = {"co2": [380.0, 900.0], "power": [60.0, 6000.0], "humidity": [15.0, 75.0]}


def ask(folder: Path, columns: np.ndarray, box: dict[str, list[float]]) -> list[str]:
    """Return what is asked about records of these columns: dimension, field, doubt."""
    stream = make_stream(folder, kind="csv", path="r")
    sampler = Sampler(stream, make_plan(dimensions=WIDE), CheckTable(), now=BASE, box=box)
    nan = np.full(len(columns), np.nan)
    sampler.add(RecordBatch(values=columns, timestamps=nan, position_after=lambda i: NOWHERE))
    (folder / "r").write_text("co2,power,humidity\n")
    with closing(open_source(stream, WIDE, [], bytes(32))) as source:
        run = sampler.finish(source, [])
    return find_questions(run, field="meter")


def make_columns(seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.column_stack(
        [rng.normal(540, 80, 300), rng.lognormal(6, 1, 300), rng.normal(45, 10, 300)]
    )


@pytest.mark.parametrize("box", [BOX, {}])
def test_columns_that_are_right_are_not_questioned_within_wide_bounds(
    box: dict[str, list[float]], tmp_path: Path
) -> None:
    assert ask(tmp_path, make_columns(), box) == []


@pytest.mark.parametrize(
    ("what", "expected"),
    [
        ("swapped", {"co2", "humidity"}),
        ("kilowatts", {"power"}),
        ("constant", {"humidity"}),
        ("thousandths", {"humidity"}),
    ],
)
@pytest.mark.parametrize("box", [BOX, {}])
def test_another_column_or_unit_is_questioned_though_bounds_hold_its_values(
    what: str, expected: set[str], box: dict[str, list[float]], tmp_path: Path
) -> None:
    columns = make_columns()
    match what:
        case "swapped":
            columns = columns[:, [2, 1, 0]]
        case "kilowatts":
            columns[:, 1] /= 1000
        case "constant":
            columns[:, 2] = 41.5
        case "thousandths":
            columns[:, 2] = 40 + columns[:, 2] / 1000
    asked = ask(tmp_path, columns, box)
    assert {text.split(".")[2].split(":")[0] for text in asked} == expected
    assert not [text for text in asked if re.search(r"41\.5", text)]


def test_what_is_questioned_joins_all_the_same_and_changes_nothing_later(agent: Agent) -> None:
    agent.server.search_box = {"x": [5.0, 9.0]}
    agent.records.write_text(lines())
    assert agent.run("check") == 0
    assert "note  stream meter.columns.x: is 'x' the right column? 100% of its values" in agent.out
    assert "columns.y: is 'y' the right column? All records that were looked at have" in agent.out
    agent.init()
    assert "5 to 9" in agent.err
    assert agent.run("check") == 0
    assert "right column" not in agent.out + agent.err
    assert agent.run("check", "--values") == 0
    assert "right column" in agent.out
    assert agent.once()["released"] == N


@pytest.mark.parametrize("columns", ['x = "y"', 'x = "time"\ny = "time"'])
def test_one_field_in_two_dimensions_is_refused_before_a_record_is_read(
    columns: str, agent: Agent
) -> None:
    agent.records.write_text(lines())
    with agent.config.open("a") as file:
        file.write(f"[streams.columns]\n{columns}\n")
    for command in (("check",), ("init", "--token", TOKEN)):
        assert agent.run(*command) == 2
        assert "streams.columns.y: cannot be read from" in agent.err


def test_files_that_may_be_copies_keep_a_stream_from_joining_until_its_owner_says_what_they_are(
    agent: Agent,
) -> None:
    folder = agent.folder / "in"
    folder.mkdir()
    set_source(agent, 'kind = "csv"\n', 'kind = "folder"\n')
    set_source(agent, 'path = "records.csv"\n', 'path = "in"\n')
    for name, n in (("f.csv", 2), ("f-20261126.csv", 1), ("g.csv", 1)):
        (folder / name).write_text(lines(n=n))
    for command in (("check",), ("init", "--token", TOKEN)):
        assert agent.run(*command) == 2
        assert "streams[0].source.copies: must say whether files repeat records" in agent.err
        assert "may be a copy of f.csv" in agent.err
        assert "1 more of the kind" in agent.err
    # One is named as a copy, and is left; the other has a name of its own.
    set_source(agent, 'path = "in"\n', 'path = "in"\ncopies = "refuse"\n')
    assert agent.run("check") == 2
    assert "g.csv may be a copy of f.csv, because both begin with the same records" in agent.err
    (folder / "g.csv").unlink()
    agent.init()
    assert agent.once()["records_read"] == 2
    # From now on names and ages alone decide, and nothing that a file holds changes a status.
    (folder / "h.csv").write_text(lines(n=1))
    (folder / "f.csv.1").write_text(lines(x="7", n=1))
    assert agent.run("check") == 0
    assert "h.csv" not in agent.out
    assert "f.csv.1: may be a copy of f.csv" in agent.out
    assert agent.run("check", "--values") == 0
    assert "h.csv may be a copy of f.csv" in agent.out
    assert agent.once()["records_read"] == 1
