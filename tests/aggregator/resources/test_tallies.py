import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from sfumato.aggregator.base.store import Store
from sfumato.aggregator.base.transaction import Transaction
from sfumato.aggregator.resources.sketches.store.sketches import list_refusals
from sfumato.aggregator.resources.studies.record import StudyRecord
from sfumato.aggregator.resources.studies.store import add_study
from sfumato.aggregator.resources.tallies import Tallies
from sfumato.shared.errors import TransportError
from tests.aggregator.databases import open_as

pytestmark = pytest.mark.anyio

STUDY = StudyRecord(study_id=b"s", name="pumps", plan=b"", plan_digest=b"", created=0.0)


class AwayStore(Store):
    """A store that may be away."""

    is_away = False

    @asynccontextmanager
    async def begin(self, *, write: bool = False) -> AsyncIterator[Transaction]:
        if self.is_away:
            raise TransportError("the database does not answer")
        async with super().begin(write=write) as transaction:
            yield transaction


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[AwayStore]:
    async with open_as(AwayStore, tmp_path / "aggregator.db") as opened:
        async with opened.begin(write=True) as transaction:
            assert await add_study(transaction, STUDY)
        yield opened


async def count(store: Store) -> dict[str, int]:
    async with store.begin() as transaction:
        found = await list_refusals(transaction, STUDY.study_id)
    return {record.problem: record.count for record in found}


async def test_counts_wait_for_a_database_that_is_away_and_none_is_doubled(
    store: AwayStore,
) -> None:
    tallies = Tallies(store)
    tallies.note_refusal(STUDY.study_id, "not-found")
    store.is_away = True
    for _ in range(2):
        with pytest.raises(TransportError):
            await tallies.flush()
        tallies.note_refusal(STUDY.study_id, "not-found")
    store.is_away = False
    await tallies.flush()
    await tallies.flush()
    assert await count(store) == {"not-found": 3}


async def test_what_was_noted_is_written_at_the_latest_when_the_server_stops(
    store: AwayStore,
) -> None:
    tallies = Tallies(store)
    stop = asyncio.Event()
    running = asyncio.create_task(tallies.run(stop))
    tallies.note_refusal(STUDY.study_id, "too-large")
    stop.set()
    await running
    assert await count(store) == {"too-large": 1}
