import numpy as np

from benchmarks.reported_pilots import COLUMNS, measure, plan_phones, report
from sfumato.learning.calibration.strength import LEAST_REPORTED


def test_devices_report_as_planned_and_strong_cases_are_not_refused() -> None:
    plan = plan_phones(1, 10_000)
    assert plan.reports_phases
    marginal = report(plan, np.full(10_000, 7.0), np.random.default_rng(1))
    assert marginal.n_records == 10_000
    assert marginal.strength > LEAST_REPORTED
    # The heaviest arc lies around the one value.
    assert abs(marginal.find_quantile(0.5) / 7.0 - 1.0) < 0.5


def test_every_kind_of_column_has_its_rows() -> None:
    rows = list(measure(quick=True))
    assert len(rows) == 3 * len(COLUMNS)
    ratios = [row.value for row in rows if row.figure == "worst_spread_ratio"]
    assert min(ratios) >= 1.0
    assert max(ratios) < 3.0
