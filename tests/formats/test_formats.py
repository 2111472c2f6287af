"""Ordinary files are read right, or refused with the reason; the table of formats says which."""

import math
import shutil
import subprocess
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from sfumato.analyst.sketching.reader import RecordReader, choose_fields, read_settings
from sfumato.device_agent.agent.dry_run import DryRun, examine_stream
from sfumato.device_agent.agent.dry_run_limits import find_problems
from sfumato.device_agent.agent.guess import guess_file
from sfumato.device_agent.settings.owner_tables import CheckTable
from sfumato.device_agent.sources import open_source
from sfumato.device_agent.sources.settings import StreamSettings
from sfumato.shared.errors import ConfigError, SketchError
from sfumato.shared.plan import Dimension
from sfumato.shared.reading import WatchedFile
from sfumato.shared.structure import structure
from tests.device_agent.conftest import make_plan
from tests.device_agent.sources.streams import DIGEST_KEY, make_dimensions
from tests.formats.declaration import Format, Refused
from tests.formats.page import FORMATS, PAGE, render_page
from tests.formats.refused import REFUSED

NOW = 1_777_777_777.0


def write(folder: Path, form: Format | Refused) -> tuple[Path, StreamSettings]:
    path = folder / form.file
    path.write_bytes(form.data)
    document = {"name": "main", **form.document}
    document["source"]["path"] = str(path)
    return path, structure(StreamSettings, document, "streams[0]")


def read_expected(form: Format) -> tuple[list[float], list[list[float]]]:
    lines = [line.split() for line in form.records.strip().splitlines()]
    times = [math.nan if time == "-" else read_time(time) for time, *_ in lines]
    return times, [[float(value) for value in values] for _, *values in lines]


def read_time(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def look(stream: StreamSettings, limits: CheckTable) -> DryRun:
    """Look at a stream as ``sfumato-agent check`` does."""
    dimensions = [
        Dimension(name=name, unit="1", lower=-1e5, upper=1e5, scale=1e4) for name in stream.columns
    ]
    plan = make_plan(dimensions=tuple(dimensions))
    return examine_stream(stream, plan, limits, known=(), digest_key=DIGEST_KEY, now=NOW)


def name_of(form: Format | Refused) -> str:
    return form.name


@pytest.mark.parametrize("form", FORMATS, ids=name_of)
def test_a_format_is_read_as_the_table_says(form: Format, tmp_path: Path) -> None:
    _, stream = write(tmp_path, form)
    times, values = read_expected(form)
    dimensions = make_dimensions(*stream.columns)
    with closing(open_source(stream, dimensions, (), DIGEST_KEY, now=lambda: NOW)) as source:
        batches = list(source.read())
        assert source.report.notes == []
    np.testing.assert_allclose(np.concatenate([b.values for b in batches]), values, rtol=1e-9)
    np.testing.assert_allclose(np.concatenate([b.timestamps for b in batches]), times, atol=1e-3)

    limits = CheckTable(unreadable_values=0.9)
    run = look(stream, limits)
    assert (run.n_records, run.unseen) == (len(values), None)
    assert find_problems(run, limits, field="streams[0]") == []
    shown = [[math.nan if c.value is None else float(c.value) for c in row.cells]
             for row in run.rows]  # fmt: skip
    np.testing.assert_allclose(np.array(shown), np.array(values[: len(shown)]), rtol=1e-9)


PLAIN = [f for f in FORMATS if "join" not in f.document["source"]
         and f.document["source"]["kind"] in ("csv", "jsonl")]  # fmt: skip


@pytest.mark.parametrize("form", PLAIN, ids=name_of)
def test_a_sketch_of_the_file_reads_the_same_values(form: Format, tmp_path: Path) -> None:
    path, stream = write(tmp_path, form)
    source = form.document["source"]
    packed = {"gzip": ".gz", "zstd": ".zst"}.get(source.pop("packed", ""), "")
    path = path.rename(path.with_name(f"r.{source.pop('kind')}{packed}"))
    options = [
        f"{name}={each}"
        for name, value in source.items()
        if not name.startswith("timestamp") and not isinstance(value, dict)
        for each in (value if isinstance(value, list) else [value])
    ]
    options += [f"where.{name}={text}" for name, text in source.get("where", {}).items()]
    columns = [f"{name}={stream.find_field(name).name}" for name in stream.columns]
    settings = read_settings(options)
    fields = choose_fields(make_dimensions(*stream.columns), columns, settings)
    with WatchedFile(path) as file:
        batches = list(RecordReader(file, fields, settings).batches(1))
    found = np.concatenate([np.asarray(getattr(b, "to_array", lambda b=b: b)()) for b in batches])
    units = [stream.find_field(name).conversion for name in stream.columns]
    found = found * [unit.scale for unit in units] + [unit.offset for unit in units]
    np.testing.assert_allclose(found, read_expected(form)[1], rtol=1e-9)


@pytest.mark.parametrize("form", FORMATS, ids=name_of)
def test_a_guess_reads_the_values_or_leaves_the_choice(form: Format, tmp_path: Path) -> None:
    path, stream = write(tmp_path, form)
    times, values = read_expected(form)
    found = guess_file(path)
    if not form.is_guessed:
        assert found.doubts
        return
    wanted = {stream.find_field(name).name: i for i, name in enumerate(stream.columns)}
    assert wanted.keys() <= set(found.columns.values())
    zone = stream.source.timestamp_zone
    for row, time, record in zip(found.rows, times, values, strict=True):
        if zone == "UTC":
            assert row[0] == "" if math.isnan(time) else read_time(row[0][:19]) == int(time)
        for cell, field in zip(row[1:], found.columns.values(), strict=True):
            if field in wanted and not math.isnan(record[wanted[field]]):
                value = stream.find_field(list(stream.columns)[wanted[field]]).conversion
                number = float(cell) * value.scale + value.offset
                assert number == pytest.approx(record[wanted[field]], rel=1e-4)


@pytest.mark.parametrize("form", REFUSED, ids=name_of)
def test_what_is_refused_names_the_reason_and_the_command(form: Refused, tmp_path: Path) -> None:
    path, stream = write(tmp_path, form)
    with pytest.raises(ConfigError) as refused:
        guess_file(path)
    assert form.why in str(refused.value)
    assert form.command in str(refused.value)

    # Nobody reads it without a word who configures it all the same.
    try:
        run = look(stream, CheckTable())
    except SketchError:
        pass
    else:
        assert find_problems(run, CheckTable(), field="streams[0]")

    command = str(refused.value).partition("Make lines of it: ")[2]
    if form.made and shutil.which(command.split()[0]):
        subprocess.run(command, cwd=tmp_path, shell=True, check=True)
        (made,) = (each for each in tmp_path.iterdir() if each != path)
        assert made.read_text() == form.made
        assert guess_file(made).rows


def test_the_page_says_what_the_tests_show() -> None:
    assert len(FORMATS) >= 32
    assert PAGE.read_text(encoding="utf-8") == render_page(), "run `python -m tests.formats.page`"
