"""The page of the seed paper's figures has their points and crossings."""

from benchmarks.paper_page import write_page
from benchmarks.rows import Row


def test_every_table_has_its_rows() -> None:
    rows = [
        Row("paper", f"fig3 knorm L=1 m=2kd eps={x:g}", "median_relative_sse", y, "1", 20, "")
        for x, y in ((0.001, 1.15), (0.01, 1.0))
    ]
    rows += [
        Row("paper", "fig3 knorm L=1 m=2kd", "epsilon_for_1.2", 0.00093, "1", 2, ""),
        Row("paper", "fig2 right mixture m=2kd snr=100", "median_relative_sse", 1.1, "1", 3, ""),
    ]
    page = write_page([row.to_json() for row in rows], "2026-11-23", "../pictures/paper.png")
    assert page.startswith("# Figures 2 and 3 of the seed paper\n\nMeasured on 2026-11-23 by")
    assert "| knorm L=1 m=2kd | 20 | 1.15 | 1.00 |" in page
    assert "| knorm L=1 m=2kd | 2 | 0.00093 |" in page
    assert "| mixture m=2kd | 3 | 1.10 |" in page
    # A figure that was not measured has no table.
    assert "## Figure 2, left" not in page
