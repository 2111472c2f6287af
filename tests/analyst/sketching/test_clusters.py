"""The libraries that hold tables, for real: what they hand over is what was in the file."""

import json
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sfumato.analyst.sketching.clusters import TRUST
from sfumato.analyst.sketching.datasets import sketch_dataset
from sfumato.analyst.sketching.sketch_file import read_sketch_file
from sfumato.shared.plan import plan_to_json
from tests.analyst.sketching.samples import NAMES, make_plan, make_records

parquet = pytest.importorskip("pyarrow.parquet")
import pyarrow  # noqa: E402

PLAN = make_plan()
ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five files of records, one of them with a single record."""
    folder = tmp_path_factory.mktemp("table")
    records = make_records(2001)
    for i, part in enumerate([*np.array_split(records[:2000], 4), records[2000:]]):
        table = pyarrow.table({name: part[:, j] for j, name in enumerate(NAMES)})
        parquet.write_table(table, folder / f"{i}.parquet")
    return folder


@pytest.fixture(scope="module")
def truth(folder: Path) -> list[int]:
    sums: list[int] = sketch_dataset(parquet.read_table(folder), PLAN, exact=True).sums.tolist()
    return sums


def test_the_example_of_the_guide_works(
    folder: Path, truth: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "records").symlink_to(folder)
    (tmp_path / "plan.json").write_text(json.dumps(plan_to_json(PLAN)))
    guide = (ROOT / "docs/how-to/clustering.md").read_text()
    guide = guide.partition("\n## Tables larger than memory")[2].partition("\n## ")[0]
    (code,) = re.findall(r"```python\n(.*?)```", guide, re.DOTALL)
    exec(code, {})
    sums = read_sketch_file(tmp_path / "records.sketch").sums
    assert np.abs(sums - np.array(truth)).max() <= PLAN.mechanism.noise_bound


def test_tables_of_polars_are_read_whole_or_in_batches(folder: Path, truth: list[int]) -> None:
    polars = pytest.importorskip("polars")
    frame = polars.scan_parquet(folder / "*.parquet")
    for source in (frame.collect(), frame.collect_batches()):
        assert sketch_dataset(source, PLAN, exact=True).sums.tolist() == truth


def test_relations_of_duckdb_are_read(folder: Path, truth: list[int]) -> None:
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect() as connection:
        relation = connection.sql(f"SELECT c AS z, b, a FROM '{folder}/*.parquet'")
        sketch = sketch_dataset(relation, PLAN, columns={"c": "z"}, exact=True)
    assert sketch.sums.tolist() == truth


@pytest.mark.filterwarnings("default")  # Dask speaks to pandas as of old
def test_partitions_of_dask_add_up(
    folder: Path, truth: list[int], capsys: pytest.CaptureFixture[str]
) -> None:
    frames = pytest.importorskip("dask.dataframe")
    from sfumato.analyst.sketching.dask import sketch_dask

    frame = frames.read_parquet(folder, split_row_groups=False, aggregate_files=False)
    assert frame.npartitions == 5
    assert sketch_dask(frame, PLAN, exact=True).sums.tolist() == truth
    assert TRUST in capsys.readouterr().err
    renamed = frame.rename(columns={"a": "p"})
    assert sketch_dask(renamed, PLAN, columns={"a": "p"}, exact=True).sums.tolist() == truth


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    # Absent on a developer's machine unless `make spark` has run; `.ci/run` installs both.
    sql = pytest.importorskip("pyspark.sql")
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java: apt-get install default-jre-headless")
    # Two workers, and three attempts of each task.
    builder = sql.SparkSession.builder.master("local[2,3]").appName("sfumato")
    settings = {
        "spark.ui.enabled": "false",
        # A few tasks only: compile little, and collect garbage in one thread.
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.shuffle.partitions": "3",
    }
    with pytest.MonkeyPatch.context() as patch:
        # Otherwise its workers are the first Python on the path, which may have no pyarrow.
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        session = builder.config(map=settings).getOrCreate()
        yield session
        session.stop()


@pytest.mark.soak  # the small case is the next one, where a task fails as well
@pytest.mark.filterwarnings("default")
def test_partitions_of_spark_add_up(folder: Path, truth: list[int], spark: Any) -> None:
    from sfumato.analyst.sketching.spark import sketch_spark

    frame = spark.read.parquet(str(folder)).repartition(7)
    assert sketch_spark(frame, PLAN, exact=True).sums.tolist() == truth


@pytest.mark.filterwarnings("default")
def test_a_task_that_spark_runs_again_counts_once(
    folder: Path, truth: list[int], tmp_path: Path, spark: Any
) -> None:
    from pyspark import TaskContext

    from sfumato.analyst.sketching.spark import sketch_spark

    def fail_once(batches: Iterator[Any]) -> Iterator[Any]:
        context = TaskContext.get()
        assert context is not None
        for batch in batches:
            yield batch
            # After some records were passed on, and perhaps summed.
            if context.partitionId() == 1 and not context.attemptNumber():
                (tmp_path / "failed").touch()
                raise RuntimeError("a worker was lost")

    frame = spark.read.parquet(str(folder)).repartition(3)
    failing = frame.mapInArrow(fail_once, frame.schema)
    assert sketch_spark(failing, PLAN, exact=True).sums.tolist() == truth
    assert (tmp_path / "failed").exists()


def test_tables_of_pandas_are_read(folder: Path, truth: list[int]) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.read_parquet(folder)
    assert sketch_dataset(frame, PLAN, exact=True).sums.tolist() == truth
