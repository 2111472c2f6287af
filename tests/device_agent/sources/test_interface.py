import doctest
import subprocess
import sys
from importlib import metadata
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from typing import Any

import pytest

from sfumato.device_agent.sources import interface
from sfumato.shared.errors import ConfigError
from tests.device_agent.sources.streams import Reader, make_stream


def test_the_example_of_a_source_is_a_source(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    globs: dict[str, Any] = dict(vars(interface))
    example = doctest.DocTestFinder(recurse=False).find(interface, globs=globs)[0]
    runner = doctest.DocTestRunner()
    assert runner.run(example, clear_globs=False).failed == 0
    monkeypatch.setattr(interface, "Counting", example.globs["Counting"], raising=False)
    entry = EntryPoint(
        "counting", "sfumato.device_agent.sources.interface:Counting", "sfumato.sources"
    )
    monkeypatch.setattr(metadata, "entry_points", lambda **_: EntryPoints([entry]))
    reader = Reader(make_stream(tmp_path, kind="counting", limit=25))
    assert reader.once(limit=4) == [0, 1, 2, 3]
    assert reader.once() == list(range(4, 25))
    assert reader.once() == []


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1", "cp1252", "gb18030", "shift_jis", "big5"])
def test_an_encoding_in_which_each_line_stands_by_itself_is_taken(
    encoding: str, tmp_path: Path
) -> None:
    make_stream(tmp_path, kind="csv", path="f", encoding=encoding)


def test_unit_docstrings_hold() -> None:
    from sfumato.device_agent.sources import known_files
    from sfumato.shared.plan import catalogue, quantities

    for module in (known_files, catalogue, quantities):
        assert doctest.testmod(module).failed == 0


def test_only_configured_sources_are_imported(tmp_path: Path) -> None:
    program = (
        "import sys, sfumato.device_agent.sources, sfumato.device_agent.settings.agent_settings\n"
        "loaded = {'paho', 'pyarrow', 'httpx', 'sqlite3'} & set(sys.modules)\n"
        "assert not loaded, loaded\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


GOOD: dict[str, dict[str, Any]] = {
    "stdin": {},
    "csv": {"path": "f"},
    "folder": {"path": "f"},
    "sqlite": {"path": "f", "key": "id", "query": "SELECT :last, :n"},
    "mqtt": {"url": "mqtt://localhost", "topic": "a/b", "client_id": "c"},
    "http": {"url": "http://localhost/"},
}


@pytest.mark.parametrize(
    ("kind", "change", "field"),
    [
        ("stdin", {"encoding": "utf-16"}, "encoding"),
        ("mqtt", {"encoding": "utf-16"}, "encoding"),
        ("csv", {"encoding": "utf-16-le"}, "encoding"),
        ("csv", {"packed": "zip"}, "packed"),
        ("stdin", {"packed": "gzip"}, "packed"),
        ("csv", {"records": "feeds"}, "records"),
        ("folder", {"records": "feeds"}, "records"),
        ("csv", {"timestamp_format": "iso8601 or excel"}, "timestamp_format"),
        ("csv", {"timestamp_format": "unix or iso8601"}, "timestamp_format"),
        ("csv", {"encoding": "nonsense"}, "encoding"),
        ("csv", {"delimiter": ";;"}, "delimiter"),
        ("csv", {"delimiter": '"'}, "delimiter"),
        ("csv", {"multiline": True}, "multiline"),
        ("csv", {"encoding": "iso2022_jp"}, "encoding"),
        ("csv", {"encoding": "iso2022_kr"}, "encoding"),
        ("csv", {"encoding": "hz"}, "encoding"),
        ("csv", {"encoding": "utf-7"}, "encoding"),
        ("csv", {"replaced": "follow"}, "replaced"),
        ("folder", {"replaced": "rewritten"}, "replaced"),
        ("csv", {"missing": "maybe"}, "missing"),
        ("csv", {"header": [1]}, "header[0]"),
        ("csv", {"timestamp_zone": "Mars/Olympus"}, "timestamp_zone"),
        ("csv", {"timestamp_format": "unix_s"}, "timestamp_format"),
        ("csv", {"typo": 1}, "typo"),
        ("folder", {"glob": "a/*.csv"}, "glob"),
        ("folder", {"released": "move"}, "move_to"),
        ("folder", {"move_to": "done"}, "move_to"),
        ("folder", {"released": "move", "move_to": "f"}, "move_to"),
        ("folder", {"released": "delete"}, "released"),
        ("folder", {"format": "jsonl", "delimiter": ";"}, "delimiter"),
        ("sqlite", {"query": "SELECT 1"}, "query"),
        ("sqlite", {"poll_s": 0}, "poll_s"),
        ("sqlite", {"first": True}, "first"),
        ("mqtt", {"url": "http://localhost"}, "url"),
        ("mqtt", {"url": "mqtt://user@localhost"}, "url"),
        ("mqtt", {"topic": "a/+", "id": "n"}, "id"),
        ("mqtt", {"topic": "a/#/b"}, "topic"),
        ("mqtt", {"topic": "a/b+"}, "topic"),
        ("mqtt", {"topic": "a/b\0"}, "topic"),
        ("mqtt", {"format": "csv"}, "header"),
        ("http", {"url": "localhost"}, "url"),
        ("http", {"poll_s": "fast"}, "poll_s"),
    ],
)
def test_a_wrong_setting_is_named_with_rule_and_fix(
    kind: str, change: dict[str, Any], field: str, tmp_path: Path
) -> None:
    make_stream(tmp_path, kind=kind, **GOOD[kind])
    with pytest.raises(ConfigError) as caught:
        make_stream(tmp_path, kind=kind, **{**GOOD[kind], **change})
    assert caught.value.field == f"streams[0].source.{field}"
    assert caught.value.fix


@pytest.mark.parametrize(
    ("column", "field"),
    [
        ({"convert": "degF"}, "convert"),
        ({"convert": "degF -> m"}, "convert"),
        ({"convert": "degX -> degC"}, "convert"),
        ({"convert": "degF -> degC", "scale": 2.0}, "convert"),
        ({"scale": 0}, "scale"),
        ({"offset": "1"}, "offset"),
        ({"unit": "m"}, "unit"),
    ],
)
def test_a_wrong_conversion_is_named(column: dict[str, Any], field: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        make_stream(tmp_path, kind="csv", path="f", columns={"x": column})
    assert caught.value.field == f"streams[0].columns.x.{field}"
    assert caught.value.fix
