"""`sfumato check-store`."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable
from dataclasses import asdict, dataclass
from pathlib import Path

from sfumato.aggregator.base.engine import mapped_errors
from sfumato.aggregator.base.sums.layout import Layout
from sfumato.aggregator.base.transaction import Transaction
from sfumato.aggregator.cli.databases import open_database
from sfumato.aggregator.cli.settings import read_settings
from sfumato.aggregator.database.inspection import (
    count_all_rows,
    count_rows,
    find_count_faults,
    find_file_faults,
    find_orphans,
    find_plan_faults,
    find_signature_faults,
    find_sketch_faults,
    list_study_ids,
)
from sfumato.aggregator.database.schema import require_ready
from sfumato.aggregator.logs import describe_cause
from sfumato.aggregator.resources.batches.store.check import check_sums
from sfumato.aggregator.resources.plans import PlanCache
from sfumato.aggregator.resources.sketches.store.streams import describe_gaps
from sfumato.aggregator.resources.sketches.store.tables import CELLS, SKETCHES
from sfumato.aggregator.resources.studies.record import StudyRecord
from sfumato.aggregator.resources.studies.store import STUDIES
from sfumato.shared.command import EXIT_FAILED
from sfumato.shared.errors import PlanError, TransportError, WireError

EXIT_WARNED = 3
_MOST_SHOWN = 1000
"""Faults of one check that are named; all are counted."""


@dataclass(kw_only=True)
class CheckReport:
    """The findings of one check."""

    check: str
    n_checked: int
    n_faults: int = 0
    faults: tuple[str, ...] = ()
    is_warning: bool = False

    async def take(self, found: AsyncIterator[str]) -> CheckReport:
        """Count faults, and name the first of them."""
        try:
            with mapped_errors():
                async for fault in found:
                    self._add(fault)
        except Exception as error:
            # A torn page, or a value of another type, ends this check; the others may find more.
            self.is_warning = False
            self._add(f"cannot be read ({describe_cause(error)})")
        return self

    def _add(self, fault: str) -> None:
        self.n_faults += 1
        if len(self.faults) < _MOST_SHOWN:
            self.faults += (fault,)


async def check(config: Path | None, database_url: str | None, *, as_json: bool) -> int:
    """Check the whole store and print the findings.

    Returns
    -------
    int
        0 when all of it fits together, 1 for a fault, 3 for gaps in the sequence numbers of a
        stream and nothing else.
    """
    settings = read_settings(config=config, database_url=database_url)
    reports = await inspect_database(settings.database_url)
    ok = not any(report.n_faults for report in reports if not report.is_warning)
    is_warned = any(report.n_faults for report in reports if report.is_warning)
    if as_json:
        print(json.dumps({"ok": ok, "checks": [asdict(report) for report in reports]}))
    else:
        _print_table(reports)
    if not ok:
        return EXIT_FAILED
    return EXIT_WARNED if is_warned else 0


async def inspect_database(url: str) -> list[CheckReport]:
    """Check the whole store at one moment.

    Raises
    ------
    ConfigError, TransportError
        As :func:`~sfumato.aggregator.cli.databases.open_database`.
    """
    reports: list[CheckReport] = []
    try:
        async with open_database(url) as store:
            await require_ready(store)
            async with store.begin() as transaction:
                reports = await _inspect(transaction)
    except TransportError:
        # Closing a damaged file may fail too; the faults found before still count.
        if not any(report.n_faults for report in reports):
            raise
    return reports


async def _inspect(transaction: Transaction) -> list[CheckReport]:
    n_studies = await _count(count_rows(transaction, STUDIES))
    n_sketches = await _count(count_rows(transaction, SKETCHES))
    n_cells = await _count(count_rows(transaction, CELLS))
    n_rows = await _count(count_all_rows(transaction))
    faults = (
        ("file", n_rows, find_file_faults(transaction)),
        ("plans", n_studies, find_plan_faults(transaction)),
        ("sketches", n_sketches, find_sketch_faults(transaction)),
        ("signatures", n_sketches, find_signature_faults(transaction)),
        ("counts", n_studies, find_count_faults(transaction)),
        ("references", n_rows, find_orphans(transaction)),
        ("sums", n_cells, _find_sum_faults(transaction)),
    )
    reports = [
        await CheckReport(check=name, n_checked=count).take(found) for name, count, found in faults
    ]
    gaps = CheckReport(check="gaps", n_checked=n_sketches, is_warning=True)
    return [*reports, await gaps.take(describe_gaps(transaction))]


async def _count(rows: Awaitable[int]) -> int:
    """Count rows; 0 where that fails, because the checks themselves report why."""
    try:
        with mapped_errors():
            return await rows
    except TransportError:
        return 0


async def _find_sum_faults(transaction: Transaction) -> AsyncIterator[str]:
    """Compare the cells of every study with the sums of its sketches."""
    plans = PlanCache()
    for study_id in await list_study_ids(transaction):
        study = await transaction.get(StudyRecord, study_id)
        assert study is not None
        where = f"study {study_id.hex()}"
        try:
            plan = await plans.get(study)
            wrong = await check_sums(transaction, study_id, layout=Layout.of(plan))
        except (PlanError, WireError) as error:
            yield f"{where}: cannot be summed anew ({error})"
            continue
        for cell in wrong:
            yield f"{where}: {cell} is not the sum of its sketches"


def _print_table(reports: list[CheckReport]) -> None:
    print(f"{'check':<12}{'rows':>12}{'faults':>10}")
    for report in reports:
        print(f"{report.check:<12}{report.n_checked:>12}{report.n_faults:>10}")
    for report in reports:
        for fault in report.faults:
            print(f"{report.check}: {fault}")
        if report.n_faults > len(report.faults):
            print(f"{report.check}: and {report.n_faults - len(report.faults)} more")
