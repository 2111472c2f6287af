"""The page of comparisons shows every row that it is given, in tables of one width."""

from benchmarks.insight import Scope, measure_false_alarms
from benchmarks.insight_page import write_page
from benchmarks.progress import show_progress
from benchmarks.rows import Row
from tests.benchmarks.test_insight import SETTING

LAMPS = [
    Row("insight", "devices, knorm eps=1, no noise", lamp, value, "1", 5, "none")
    for lamp, value in (("content", 0.0), ("silence", 1.0), ("unusual", 0.25))
]
WATCHED = [
    Row("insight", "year of nothing", f"monitor_false_alarms_{level}", value, "1", 51, "1")
    for level, value in (("5", 0.8), ("1.9", 1.1))
]
SCOPE = Scope(n_studies=1, n_pairs=10, n_tries=1, n_years=1, n_fleets=1)


def test_every_table_has_its_rows() -> None:
    with show_progress(1) as bar:
        rows = [*measure_false_alarms(SETTING, SCOPE, bar), *LAMPS, *WATCHED]
    page = write_page([row.to_json() for row in rows], "2026-11-23")
    assert page.startswith("# Comparisons of sketches\n\nMeasured on 2026-11-23 by")
    assert "| knorm eps=1, no noise | 5 | 0 | 1 | 0.25 |" in page
    assert "| small | 10 | " in page
    assert "| year of nothing | 51 | 0.80 | 1.10 |" in page
    # A part that was not measured has no table.
    assert "## Power" not in page
    for table in page.split("\n\n"):
        lines = [line for line in table.splitlines() if line.startswith("|")]
        assert len({line.count("|") for line in lines}) <= 1
