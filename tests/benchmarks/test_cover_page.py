"""The page of max cover has its points, and its picture its curves."""

from pathlib import Path

from benchmarks.cover_page import draw_cover, write_page
from benchmarks.rows import Row


def make_rows() -> list[Row]:
    rows = []
    for k, cost in ((16, 15_000.0), (64, 2_551.0)):
        for name, factor in (("cover", 1.0), ("one centre", 5.0)):
            case = f"d=100 k={k} eps=1 {name}"
            rows.append(Row("cover", case, "mean_squared_distance", factor * cost, "1", 5, ""))
            rows.append(
                Row("cover", case, "spread_over_seeds", 120.0 * (name == "cover"), "1", 5, "")
            )
            rows.append(Row("cover", case, "cpu_seconds", 0.5, "s", 5, "none"))
    rows.append(
        Row("cover", "accounting eps=1 delta=1e-06 published", "exponent", 0.0266, "1", 1, "")
    )
    return rows


def test_every_table_has_its_rows(tmp_path: Path) -> None:
    rows = make_rows()
    page = write_page([row.to_json() for row in rows], "2026-11-23", "../pictures/cover.png")
    assert page.startswith(
        "# Max cover: many clusters of many columns\n\nMeasured on 2026-11-23 by"
    )
    assert "means over 5 seeds" in page
    assert "| k=64 eps=1 | 12,755 | 2,551/120 |" in page
    assert "| d=100 k=16 eps=1 | 0.50 | 0.50 |" in page
    assert "| eps=1 delta=1e-06 published | exponent | 0.0266 |" in page
    # What was not measured has no table.
    assert "MNIST" not in page
    draw_cover(rows, tmp_path / "cover.png")
    assert (tmp_path / "cover.png").stat().st_size > 10_000
