from pathlib import Path
from typing import Any

import pytest

from tests.device_agent.conftest import BASE, HOUR, Agent
from tests.device_agent.sources.streams import make_stream

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "sources.md"


def configure(agent: Agent, **source: Any) -> None:
    text = agent.config.read_text()
    lines = [
        f"{key} = {str(value).lower() if isinstance(value, bool) else repr(value)}"
        for key, value in source.items()
    ]
    head = text[: text.index("[streams.source]")]
    agent.config.write_text(
        head
        + "\n".join(["[streams.source]", 'timestamp = "time"', 'timestamp_format = "unix"', *lines])
    )
    agent.rejoin()


def write(path: Path, *slots: int) -> None:
    path.write_text("time,x,y\n" + "".join(f"{BASE + slot * HOUR},1,2\n" for slot in slots))


def test_a_window_over_several_files_stores_the_position_of_each(enrolled: Agent) -> None:
    configure(enrolled, kind="csv", path="records.csv", replaced="join_successors")
    write(enrolled.records, 0, 0)
    assert enrolled.once()["records_read"] == 2
    enrolled.records.rename(enrolled.folder / "records.csv.1")
    write(enrolled.records, 5)
    assert enrolled.once()["records_read"] == 1
    # Neither is read again under any name.
    for name in ("records.csv.1", "records.csv"):
        configure(enrolled, kind="csv", path=name, replaced="join_successors")
        assert enrolled.once()["records_read"] == 0
    assert sum(m.header.n_records or 0 for m in enrolled.server.stored.values()) == 3


def test_files_are_deleted_when_they_are_in_released_sketches(enrolled: Agent) -> None:
    folder = enrolled.folder / "in"
    folder.mkdir()
    configure(enrolled, kind="folder", path="in", whole=True, released="delete")
    write(folder / "a.csv", 0, 0)
    write(folder / "b.csv", 1, 2)
    report = enrolled.once("--no-send")
    assert report["released"] == 3
    assert list(folder.iterdir()) == []
    write(folder / "a.csv", 3)
    assert enrolled.once()["records_read"] == 1


def test_check_states_the_guarantee_and_takes_nothing_from_a_source(
    enrolled: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert enrolled.run("check") == 0, enrolled.err
    assert "each record is read exactly once" in enrolled.out
    configure(enrolled, kind="stdin")
    assert enrolled.run("check") == 0, enrolled.err
    assert "each record is read at most once; can be lost: what was read" in enrolled.out


def test_check_says_where_a_time_does_not_stand_first(enrolled: Agent) -> None:
    sentence = "the column 'time' stands behind others"
    enrolled.records.write_text("time,x,y\n")
    assert enrolled.run("check") == 0, enrolled.err
    assert sentence not in enrolled.out
    enrolled.records.write_text("note,time,x,y\n")
    assert enrolled.run("check") == 0, enrolled.err
    assert sentence in enrolled.out


def _samples() -> list[str]:
    blocks = PAGE.read_text().split("```toml\n")[1:]
    return [block.split("```")[0] for block in blocks]


@pytest.mark.parametrize("sample", [s for s in _samples() if "[streams.source]" in s])
def test_every_sample_of_the_documentation_is_a_configuration(sample: str, tmp_path: Path) -> None:
    import tomllib

    source = tomllib.loads(sample)["streams"]
    document = (source[0] if isinstance(source, list) else source)["source"]
    assert make_stream(tmp_path, **document).source.kind == document["kind"]
