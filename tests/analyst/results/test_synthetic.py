"""Synthetic records as a table and as files."""

import csv
import json
from pathlib import Path

import pandas as pd
import polars
import pytest

from sfumato.analyst.results.synthetic import SyntheticRecords, split_parts
from sfumato.shared import command
from sfumato.shared.errors import ConfigError
from sfumato.shared.wire.objects.answers import DimensionBody
from sfumato.shared.wire.objects.synthesis import (
    CorrelationErrorBody,
    RangeErrorBody,
    SyntheticBody,
)


def make_part(number: int, columns: list[list[float] | list[str]]) -> SyntheticBody:
    return SyntheticBody(
        decode_id="5f" * 32,
        snapshot_id="33" * 32,
        study="water",
        study_id="44" * 32,
        plan_digest="55" * 32,
        decoder="mixture/5",
        histogram=None,
        seed=4,
        part=number,
        n_records=len(columns[0]),
        dimensions=[
            DimensionBody(name="flow, <b>", unit="l/s"),
            DimensionBody(name="site", unit="1"),
        ],
        columns=columns,
        matched=[],
        errors=[RangeErrorBody(n_columns=1, error=0.02)],
        correlation_errors=[CorrelationErrorBody(columns=["flow, <b>", "site"], error=0.05)],
        verdict="sound",
        statement="Synthetic.",
        privacy=[],
    )


RECORDS = SyntheticRecords(
    [make_part(0, [[1.5, 2.0], ["north", "south"]]), make_part(1, [[-3.0], ['say "hi"']])]
)


@pytest.mark.parametrize(
    ("n_records", "sizes"),
    [(1, [1]), (20_000, [20_000]), (20_001, [20_000, 1]), (45_000, [20_000, 20_000, 5_000])],
)
def test_large_draws_have_several_parts(n_records: int, sizes: list[int]) -> None:
    assert split_parts(n_records) == sizes


def test_parts_are_one_table_of_pandas_or_polars() -> None:
    frame = RECORDS.to_frame()
    assert frame["flow, <b>"].tolist() == [1.5, 2.0, -3.0]
    assert frame.attrs["sfumato"]["n_records"] == len(RECORDS) == 3
    assert "columns" not in frame.attrs["sfumato"]
    assert RECORDS.to_frame("polars").equals(polars.DataFrame(RECORDS.columns))


def test_a_csv_file_has_its_promise_beside_it(tmp_path: Path) -> None:
    files = RECORDS.save(tmp_path / "records.csv")
    assert [each.name for each in files] == ["records.csv", "records.csv.about.json"]
    rows = list(csv.reader(files[0].read_text().splitlines()))
    assert rows == [["flow, <b>", "site"], ["1.5", "north"], ["2.0", "south"], ["-3.0", 'say "hi"']]
    about = json.loads(files[1].read_text())
    assert (about["statement"], about["errors"][0]["error"]) == ("Synthetic.", 0.02)


def test_a_parquet_file_has_its_promise_in_its_metadata(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    (file,) = RECORDS.save(tmp_path / "records.parquet")
    table = parquet.read_table(file)
    assert table.to_pydict() == RECORDS.columns
    assert json.loads(table.schema.metadata[b"sfumato"])["verdict"] == "sound"
    assert [each.name for each in tmp_path.iterdir()] == ["records.parquet"]


def test_a_file_that_cannot_be_written_is_refused_before_anything_is_decoded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # There is no such plan and no such sketch, which would be the next refusals.
    for out, said in (("x.xlsx", "must end in .csv"), ("nowhere/x.csv", "is no folder")):
        arguments = ["absent.sketch", "--plan", "absent.toml", "-k", "2"]
        assert command.main(["synthesise", *arguments, "--out", str(tmp_path / out)]) == 2
        assert said in " ".join(capsys.readouterr().err.split())


def test_a_notebook_shows_names_as_text() -> None:
    shown = RECORDS._repr_html_()
    assert "flow, &lt;b&gt;" in shown
    assert "3 synthetic records" in shown


def test_none_is_no_number_of_records() -> None:
    with pytest.raises(ConfigError, match="n_records: must be at least 1"):
        split_parts(0)


def test_errors_are_by_number_of_columns_and_by_pair() -> None:
    assert RECORDS.errors == {1: 0.02}
    assert RECORDS.correlation_errors == {("flow, <b>", "site"): 0.05}


def test_a_json_file_is_one_object(tmp_path: Path) -> None:
    (file,) = RECORDS.save(tmp_path / "records.json")
    assert pd.DataFrame(json.loads(file.read_text())["columns"]).shape == (3, 2)


@pytest.mark.parametrize("name", ["records", "records.xlsx"])
def test_other_files_are_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"out: must end in .csv, .parquet or .json"):
        RECORDS.save(tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be written"):
        RECORDS.save(tmp_path / "nowhere" / "records.csv")
