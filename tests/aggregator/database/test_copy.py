"""Backups of a file, and copies of a whole database."""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
from sqlalchemy import inspect, update

from sfumato.aggregator.base.clock import SystemClock
from sfumato.aggregator.base.files import back_up_file
from sfumato.aggregator.base.generation import get_generation, renew_generation
from sfumato.aggregator.base.store import Store, open_store
from sfumato.aggregator.base.sums.selection import Selection
from sfumato.aggregator.database.copy import copy_database
from sfumato.aggregator.database.schema import migrate_database, require_ready
from sfumato.aggregator.resources.devices.record import TokenRecord
from sfumato.aggregator.resources.sketches.store.tables import CELLS
from sfumato.aggregator.resources.studies.store import list_studies
from sfumato.aggregator.services import Services
from sfumato.aggregator.settings import normalise_database_url
from sfumato.shared.errors import ConfigError, StoreError
from sfumato.shared.plan import plan_to_json
from tests.aggregator.databases import open_sqlite
from tests.aggregator.fleet import Device, make_plan

pytestmark = pytest.mark.anyio
PLAN = make_plan()


@pytest.fixture
async def source(tmp_path: Path) -> AsyncIterator[Store]:
    async with open_sqlite(tmp_path / "source.db") as store:
        yield store


async def fill(store: Store, n_sketches: int = 5) -> bytes:
    """Take in sketches of two devices, all but the last merged; return the study."""
    services = Services(store, SystemClock())
    summary, _, _ = await services.studies.create("copied", plan_to_json(PLAN))
    study = summary.study.study_id
    devices = [Device(1), Device(2, {"site": "south"})]
    token, _ = await services.enrolment.create_token(study, max_uses=2, labels=None)
    for device in devices:
        body = device.enrolment(token, study)
        await services.enrolment.enrol(
            token=token,
            study_id=study,
            public_key=device.public_key,
            labels=device.labels,
            proof=bytes.fromhex(body["proof"]),
        )
    for number in range(n_sketches):
        if number == n_sketches - 1:
            await services.merger.merge_all()
        device = devices[number % 2]
        sketch, message = device.message(study, PLAN, sequence=number, slots=(number, number))
        assert await services.sketches.receive(study, bytes.fromhex(sketch), message)
    await services.keys.create(name="ana", scope="analyst")
    return study


async def tokens_of(store: Store, study: bytes) -> Sequence[TokenRecord]:
    async with store.begin() as transaction:
        return await transaction.list_page(TokenRecord, study_id=study, after=None, limit=9)


async def totals_of(store: Store, study: bytes) -> bytes:
    services: Services = Services(store, SystemClock())
    assert await services.merger.check(study) == []
    snapshot, _ = await services.snapshots.create(study, Selection())
    return snapshot.digest


async def test_a_copy_has_every_row_and_the_same_snapshot(
    source: Store, empty_store: Store
) -> None:
    study = await fill(source)
    (token,) = await tokens_of(source, study)
    await Services(source, SystemClock()).enrolment.revoke_token(token.token_hash)
    counts = await copy_database(source, empty_store)
    assert counts["sketches"] == 5
    assert counts["pending_sketches"] == 1
    assert counts["devices"] == 2
    assert counts["cells"] > 0
    (copied,) = await tokens_of(empty_store, study)
    assert copied.revoked is not None
    assert [copied] == await tokens_of(source, study)
    assert await totals_of(empty_store, study) == await totals_of(source, study)
    async with source.begin() as old, empty_store.begin() as new:
        assert await get_generation(old) != await get_generation(new)


async def test_a_target_that_holds_something_is_refused(source: Store, store: Store) -> None:
    await fill(source)
    await fill(store)
    with pytest.raises(ConfigError, match="Name an empty database"):
        await copy_database(source, store)


async def test_a_copy_that_is_interrupted_leaves_nothing_and_can_be_run_again(
    source: Store, empty_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = await fill(source)

    async def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("sfumato.aggregator.database.copy._require_count", stop)
        with pytest.raises(KeyboardInterrupt):
            await copy_database(source, empty_store)
    async with empty_store.begin() as transaction:
        assert await list_studies(transaction, after=None, limit=1) == []
    await copy_database(source, empty_store)
    assert await totals_of(empty_store, study) == await totals_of(source, study)


async def test_running_sums_that_are_not_those_of_the_sketches_are_not_copied(
    source: Store, empty_store: Store
) -> None:
    await fill(source)
    async with source.engine.begin() as connection:
        await connection.execute(update(CELLS).values(magnitude=CELLS.c.magnitude + 1))
    with pytest.raises(StoreError, match="running sums"):
        await copy_database(source, empty_store)
    async with empty_store.begin() as transaction:
        assert await list_studies(transaction, after=None, limit=1) == []


async def accept(_: Path) -> None:
    """Take any copy for sound."""


async def test_a_backup_made_while_a_writer_is_at_work_is_whole(
    source: Store, tmp_path: Path
) -> None:
    study = await fill(source)
    async with source.begin(write=True) as transaction:
        await renew_generation(transaction)
        n_bytes = await back_up_file(tmp_path / "source.db", tmp_path / "backup.db", check=accept)
    assert n_bytes == (tmp_path / "backup.db").stat().st_size
    assert (tmp_path / "backup.db").stat().st_mode & 0o777 == 0o600
    assert {path.name for path in tmp_path.glob("backup.db*")} == {"backup.db"}
    copy = open_store(normalise_database_url(str(tmp_path / "backup.db")))
    assert await totals_of(copy, study) == await totals_of(source, study)
    await copy.close()


async def test_a_backup_replaces_no_file(source: Store, tmp_path: Path) -> None:
    (tmp_path / "backup.db").write_text("precious")
    with pytest.raises(ConfigError, match="exists"):
        await back_up_file(tmp_path / "source.db", tmp_path / "backup.db", check=accept)
    assert (tmp_path / "backup.db").read_text() == "precious"
    with pytest.raises(ConfigError, match="not a file"):
        await back_up_file(tmp_path / "nothing.db", tmp_path / "other.db", check=accept)


async def test_a_migration_that_is_interrupted_changes_nothing(
    empty_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("sfumato.aggregator.database.migration._add_server_row", _fail)
        with pytest.raises(KeyboardInterrupt):
            await migrate_database(empty_store.engine)
    async with empty_store.engine.connect() as connection:
        assert not await connection.run_sync(lambda sync: inspect(sync).has_table("studies"))
    await migrate_database(empty_store.engine)
    await require_ready(empty_store)


def _fail(*_: object) -> None:
    raise KeyboardInterrupt
