import numpy as np
import pytest

from benchmarks.calibration import measure
from benchmarks.runner import Bench
from benchmarks.unknown_sets import SETS, load_set


# Functions are measured by a run of their own programs, which takes long.
@pytest.mark.parametrize("name", [name for name in SETS if name != "functions"])
def test_a_seed_determines_the_records_of_a_set(name: str) -> None:
    first, again, other = load_set(name, 5), SETS[name](_seeded(name, 5)), load_set(name, 6)
    assert np.array_equal(first.records, again.records)
    assert not np.array_equal(first.records, other.records)
    assert np.isfinite(first.place(first.records)).all()


def _seeded(name: str, seed: int) -> np.random.Generator:
    return np.random.default_rng((seed, list(SETS).index(name)))


def test_two_studies_without_knowledge_come_near_the_oracle() -> None:
    rows = list(measure(Bench(cases=["lognormal n_eps=1e5 pilot"], seeds=1, first_seed=1)))
    assert [(row.case, row.figure) for row in rows] == [
        ("lognormal n_eps=1e5 oracle", "median_relative_sse"),
        ("lognormal n_eps=1e5 oracle", "worst_relative_sse"),
        ("lognormal n_eps=1e5 pilot", "median_relative_sse"),
        ("lognormal n_eps=1e5 pilot", "worst_relative_sse"),
        ("lognormal n_eps=1e5 pilot", "median_over_oracle"),
        ("lognormal n_eps=1e5 pilot", "worst_over_oracle"),
        ("lognormal n_eps=1e5 pilot", "told"),
        ("lognormal n_eps=1e5 pilot", "above_band"),
    ]
    assert all(row.runs == 1 for row in rows)
    assert 0.999 < rows[0].value < 1.1
    assert rows[4].value < 1.1
    assert rows[7].value == 0.0
