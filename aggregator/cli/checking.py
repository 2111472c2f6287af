"""`sfumato check-store`."""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import AsyncIterator, Awaitable
from dataclasses import asdict, dataclass

from aggregator.cli.arguments import (
    EXIT_FAILED,
    add_database,
    create_parser,
    read_settings,
    run,
)
from aggregator.logs import describe_cause
from aggregator.services.plans import PlanCache
from aggregator.storage import Layout, Transaction, open_store
from aggregator.storage.engine import mapped_errors
from aggregator.storage.models import CellSum, Sketch, Study
from shared.errors import PlanError, TransportError, WireError

_EXAMPLES = """\
  sfumato check-store --database sfumato.db
  sfumato check-store --database postgresql://sfumato@db/sfumato --json"""
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
            # A torn page, or a value of another kind, ends this check; the others may say more.
            self.is_warning = False
            self._add(f"cannot be read ({describe_cause(error)})")
        return self

    def _add(self, fault: str) -> None:
        self.n_faults += 1
        if len(self.faults) < _MOST_SHOWN:
            self.faults += (fault,)


def check_store(argv: list[str]) -> int:
    """Read the whole database and say whether all of it fits together.

    Returns
    -------
    int
        0 when it does, 1 for a fault or a database that does not answer, 2 for wrong options, 3 for
        gaps in the sequence numbers of a stream and nothing else.
    """
    parser = create_parser(
        "check-store",
        "Sum every stored sketch anew and compare; check digests, headers, signatures, counts\n"
        "and references.\n"
        "It changes nothing, and servers may run meanwhile: it looks at one moment.\n"
        "A gap in the numbers of a stream is a warning, with exit status 3: its device may not\n"
        "have sent these sketches yet, or they were refused for good, or an older database was\n"
        "put back by hand. Put it back by `sfumato restore`: then devices send what it\n"
        "lacks again.",
        _EXAMPLES,
    )
    add_database(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    return run(parser, argv, lambda arguments: asyncio.run(_check(arguments)))


async def _check(arguments: argparse.Namespace) -> int:
    settings = read_settings(config=arguments.config, database_url=arguments.database_url)
    store = open_store(settings.database_url)
    reports: list[CheckReport] = []
    try:
        await store.require_ready()
        async with store.begin() as transaction:
            reports = await _inspect(transaction)
    except TransportError:
        # A damaged file cannot even be let go of; what was found counts.
        if not any(report.n_faults for report in reports):
            raise
    finally:
        await store.close()
    ok = not any(report.n_faults for report in reports if not report.is_warning)
    is_warned = any(report.n_faults for report in reports if report.is_warning)
    if arguments.json:
        print(json.dumps({"ok": ok, "checks": [asdict(report) for report in reports]}))
    else:
        _print_table(reports)
    if not ok:
        return EXIT_FAILED
    return EXIT_WARNED if is_warned else 0


async def _inspect(transaction: Transaction) -> list[CheckReport]:
    n_studies = await _count(transaction.count_rows(Study))
    n_sketches = await _count(transaction.count_rows(Sketch))
    n_cells = await _count(transaction.count_rows(CellSum))
    n_rows = await _count(transaction.count_all_rows())
    faults = (
        ("file", n_rows, transaction.find_file_faults()),
        ("plans", n_studies, transaction.find_plan_faults()),
        ("sketches", n_sketches, transaction.find_sketch_faults()),
        ("signatures", n_sketches, transaction.find_signature_faults()),
        ("counts", n_studies, transaction.find_count_faults()),
        ("references", n_rows, transaction.find_orphans()),
        ("sums", n_cells, _find_sum_faults(transaction)),
    )
    reports = [
        await CheckReport(check=name, n_checked=count).take(found) for name, count, found in faults
    ]
    gaps = CheckReport(check="gaps", n_checked=n_sketches, is_warning=True)
    return [*reports, await gaps.take(transaction.describe_gaps())]


async def _count(rows: Awaitable[int]) -> int:
    """Count rows, or nothing where that cannot be done: the checks themselves say why."""
    try:
        with mapped_errors():
            return await rows
    except TransportError:
        return 0


async def _find_sum_faults(transaction: Transaction) -> AsyncIterator[str]:
    """Compare the cells of every study with the sums of its sketches."""
    plans = PlanCache()
    for study_id in await transaction.list_study_ids():
        study = await transaction.get_study(study_id)
        assert study is not None
        where = f"study {study_id.hex()}"
        try:
            plan = await plans.get(study)
            wrong = await transaction.check_sums(study_id, layout=Layout.of(plan))
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
