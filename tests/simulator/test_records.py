import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st

from sfumato.shared.errors import ConfigError, RecordError
from sfumato.simulator.records import FileRecords, MixtureRecords
from tests.device_agent.conftest import make_plan

PLAN = make_plan()


def make_mixture(n_records: int = 3, held: int | None = None, seed: int = 1) -> MixtureRecords:
    return MixtureRecords.of(
        PLAN, n_clusters=4, n_records=n_records, clusters_per_device=held, seed=seed
    )


@given(st.integers(0, 20), st.integers(1, 20))
def test_a_device_has_the_same_records_with_whomever_it_is_loaded(first: int, count: int) -> None:
    mixture = make_mixture()
    loaded = mixture.load(first, first + count)
    assert loaded.shape == (count, 3, 2)
    assert np.array_equal(loaded[-1:], mixture.load(first + count - 1, first + count))


def test_centres_lie_inside_the_box_and_apart() -> None:
    centres = make_mixture().centres
    assert np.all(np.abs(centres) <= 8.0)
    gaps = np.linalg.norm(centres[:, None] - centres[None, :], axis=2)
    assert np.min(gaps[~np.eye(4, dtype=bool)]) >= 4.0


def test_a_device_may_hold_a_few_clusters_only() -> None:
    mixture = make_mixture(n_records=200, held=1)
    for records in mixture.load(0, 10):
        assert np.all(records.std(axis=0) < 2.0)
    assert make_mixture(n_records=200).load(0, 1).std(axis=1).max() > 2.0
    with pytest.raises(ConfigError) as refusal:
        make_mixture(held=5)
    assert refusal.value.field == "--clusters-per-device"


def test_a_file_is_dealt_in_its_order_and_what_is_left_over_is_not_used(tmp_path: Path) -> None:
    path = tmp_path / "records.csv"
    path.write_text("x,y\n" + "".join(f"{i},{-i}\n" for i in range(7)))
    records = FileRecords.read(path, PLAN, n_devices=3)
    assert records.n_records == 2
    assert records.load(1, 3)[:, :, 0].tolist() == [[2, 3], [4, 5]]


def test_values_that_are_missing_keep_their_record(tmp_path: Path) -> None:
    path = tmp_path / "records.csv"
    path.write_text("x,y\n1,2\n,3\n")
    records = FileRecords.read(path, PLAN, n_devices=2)
    assert math.isnan(records.load(1, 2)[0, 0, 0])


def test_a_file_of_too_few_records_or_without_a_dimension_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "records.csv"
    path.write_text("x,y\n1,2\n")
    with pytest.raises(ConfigError, match="1 records for 2 devices"):
        FileRecords.read(path, PLAN, n_devices=2)
    path.write_text("x,z\n1,2\n")
    with pytest.raises(RecordError):
        FileRecords.read(path, PLAN, n_devices=1)
