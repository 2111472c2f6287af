import pytest
from sqlalchemy import select, text

from sfumato.aggregator.base.store import Store
from sfumato.aggregator.base.transaction import follows
from sfumato.aggregator.resources.devices.store import DEVICES
from sfumato.aggregator.resources.sketches.store.tables import SKETCHES
from tests.aggregator.plans import Planner

pytestmark = pytest.mark.anyio


async def test_a_statement_that_reads_a_large_table_fails_and_one_that_follows_an_index_does_not(
    store: Store, planner: Planner | None
) -> None:
    reasons = select(DEVICES.c.reason)
    async with store.begin() as transaction:
        await transaction.connection.execute(reasons.where(DEVICES.c.device_id == b"x"))
    if store.has_one_writer or planner is not None:
        with pytest.raises(AssertionError, match="reads all of devices"):
            async with store.begin() as transaction:
                await transaction.connection.execute(reasons.where(DEVICES.c.reason == "x"))


async def test_postgres_plans_as_if_there_were_many_rows(planner: Planner | None) -> None:
    if planner is None:
        pytest.skip("needs a Postgres whose statistics may be changed")
    plan = planner.plan(text("SELECT sketch_id FROM sketches"), {})
    assert (plan["Node Type"], plan["Plan Rows"]) == ("Seq Scan", 10_000_000)


@pytest.mark.parametrize("newest_first", [False, True])
async def test_a_page_reads_no_row_of_the_pages_before(
    planner: Planner | None, newest_first: bool
) -> None:
    if planner is None:
        pytest.skip("needs a Postgres whose statistics may be changed")
    time, identity = SKETCHES.info["order"]
    later = follows(time, identity, (7.0, b"x"), newest_first=newest_first)
    page = select(SKETCHES.c.sequence).where(SKETCHES.c.study_id == b"x", *later)
    order = (time.desc(), identity.desc()) if newest_first else (time, identity)
    plan = planner.plan(page.order_by(*order).limit(9), {})
    while "Plans" in plan:
        (plan,) = plan["Plans"]
    assert "received" in plan["Index Cond"]
