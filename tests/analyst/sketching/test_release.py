from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sfumato.analyst.estimators import CompressiveKMeans
from sfumato.analyst.sketching.answers import LocalSketches
from sfumato.analyst.sketching.reader import RecordReader, choose_fields
from sfumato.analyst.sketching.release import release_sketch, require_suitable, sum_file
from sfumato.analyst.sketching.sketch_file import SketchFile, read_sketch_file
from sfumato.shared.core.engines import NumpyEngine
from sfumato.shared.errors import ConfigError, PlanError, PrivacyError, RecordError
from sfumato.shared.plan import LocalRelease
from sfumato.shared.privacy import Budget
from sfumato.shared.spending import Account
from tests.analyst.sketching.samples import NAMES, make_plan, make_records, sum_of
from tests.device_agent.sources.streams import make_dimensions
from tests.shared.sharing.samples import make_plan as make_sum_plan
from tests.shared.spending.killing import count_releases, read_kept


@pytest.mark.parametrize("suffix", ["npy", "csv"])
def test_a_file_that_grows_while_it_is_read_is_refused(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"x.{suffix}"
    if suffix == "npy":
        np.save(path, make_records(100))
    else:
        path.write_text("a,b,c\n" + "1,2,3\n" * 100)

    def append(n_records: int, reader: RecordReader) -> None:
        assert n_records == 100
        assert reader.bytes_read > 0
        with path.open("ab") as file:
            file.write(b"4,5,6\n")

    with pytest.raises(RecordError, match="was changed while it was read"):
        sum_file(
            path,
            make_plan(),
            choose_fields(make_dimensions(*NAMES)),
            stream="main",
            engine=NumpyEngine(),
            n_threads=1,
            on_progress=append,
        )


def test_a_sketch_whose_file_cannot_be_written_is_given_anew_and_counted_once(
    tmp_path: Path,
) -> None:
    records, taken = tmp_path / "x.npy", tmp_path / "taken"
    np.save(records, make_records(100))
    taken.touch()
    account = Account(ledger=tmp_path / "owner.ledger", records=records, budget=Budget())
    accumulator = sum_of(records, make_plan()).accumulator

    def release(output: Path) -> SketchFile:
        return release_sketch(
            accumulator, make_plan(), "main", exact=False, account=account, output=output
        )[0]

    # Another program has made the file since the command looked.
    with pytest.raises(ConfigError, match="exists"):
        release(taken)
    (kept,) = read_kept(tmp_path)
    made = release(tmp_path / "x.sketch")
    assert made.sums.tolist() == kept
    assert read_sketch_file(tmp_path / "x.sketch") == made
    assert count_releases(tmp_path) == 1
    assert not list(tmp_path.glob("*.turn"))


@pytest.mark.parametrize("masked", [False, True])
def test_the_stream_decides_the_masks_and_nothing_else(masked: bool, tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    np.save(path, make_records(100))
    sums = [
        sum_file(
            path,
            make_plan(masked=masked),
            choose_fields(make_dimensions(*NAMES)),
            stream=stream,
            engine=NumpyEngine(),
            n_threads=2,
        ).accumulator.sums.tolist()
        for stream in ("one", "two")
    ]
    assert (sums[0] != sums[1]) == masked


def test_a_plan_whose_noise_two_servers_add_has_no_sketch_of_a_file() -> None:
    plan = make_sum_plan()
    sums = np.zeros(plan.n_coordinates, dtype=np.int64)
    for refused in (
        lambda: require_suitable(plan, "main"),
        lambda: LocalSketches(sketches=[], plan=plan),
        lambda: CompressiveKMeans(2).fit_sketch((sums, 5), plan=plan),
    ):
        with pytest.raises(PlanError, match=r"release: cannot be sum.v1 here"):
            refused()


def test_a_plan_that_protects_devices_is_refused() -> None:
    plan = make_plan()
    assert isinstance(plan.release, LocalRelease)
    of_devices = replace(plan, release=replace(plan.release, unit="device"))
    with pytest.raises(PrivacyError) as refusal:
        require_suitable(of_devices, "main")
    assert refusal.value.field == "unit"


def test_a_plan_that_keeps_the_number_of_records_secret_is_refused() -> None:
    plan = make_plan()
    assert isinstance(plan.release, LocalRelease)
    secret = replace(plan, release=replace(plan.release, neighbouring="add-remove-one"))
    with pytest.raises(PrivacyError, match="keeps the number of records secret"):
        require_suitable(secret, "main")


@pytest.mark.parametrize("stream", ["", "x" * 65])
def test_a_stream_needs_a_name_of_usual_length(stream: str) -> None:
    with pytest.raises(ConfigError, match="--stream: must have 1 to 64 characters"):
        require_suitable(make_plan(), stream)


def test_a_file_of_no_known_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.xlsx"
    path.write_bytes(b"PK")
    with pytest.raises(
        ConfigError, match=r"x\.xlsx: ends with none of \.csv, \.jsonl, \.json, \.npy, \.parq"
    ):
        sum_of(path, make_plan())


@pytest.mark.parametrize("option", ["a", "a=", "d=x", "=x"])
def test_a_column_option_of_another_form_is_refused(option: str) -> None:
    with pytest.raises(ConfigError, match="--column: must be DIMENSION=COLUMN"):
        choose_fields(make_dimensions(*NAMES), [option])


def test_a_dimension_takes_one_column() -> None:
    with pytest.raises(ConfigError, match="once a dimension"):
        choose_fields(make_dimensions(*NAMES), ["a=x", "a=y"])
    assert choose_fields(make_dimensions(*NAMES), ["a=x=y"]).values == ("x=y", "b", "c")
