import json

from benchmarks.calibration_page import BEGIN, END, replace_section, write_section

FIGURES = {"median_over_oracle": 1.01, "worst_over_oracle": 1.2, "told": 0.5, "above_band": 0.1}


def test_rows_become_the_section_and_the_rest_of_the_page_stays() -> None:
    common = {"case": "rare n_eps=1e5 pilot", "commit": "abc", "runs": 10, "machine": "a machine"}
    lines = [
        json.dumps({"figure": name, "value": value} | common) for name, value in FIGURES.items()
    ]
    section = write_section(lines, "2026-01-02")
    assert "| rare |  | 1.010, 1.200 (50% told, 10% above) |  |" in section
    assert "2026-01-02, commit abc, 10 seeds" in section
    page = replace_section(f"before\n{BEGIN}\nold\n{END}\nafter\n", section)
    assert page == f"before\n{section}\nafter\n"
    assert replace_section(page, section) == page
