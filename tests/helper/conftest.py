"""A helper on each database, with reports of devices that its plan allows."""

from __future__ import annotations

import asyncio
import hashlib
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import Engine

from sfumato.helper.acceptance import Plans
from sfumato.helper.app import hash_key
from sfumato.helper.batches import Batches
from sfumato.helper.journal import Journal
from sfumato.helper.keys import KeyFolder
from sfumato.helper.tables import leader_keys, open_database, write
from sfumato.shared.plan import SketchPlan, compute_plan_digest
from sfumato.shared.privacy import RandomSource
from sfumato.shared.sharing.batches import BatchKey, choose_part, compute_members, compute_report
from sfumato.shared.sharing.masks import mask_sum, read_masked
from sfumato.shared.sharing.ring import Words
from sfumato.shared.sharing.seals import seal_seed
from sfumato.shared.system import SystemSource
from sfumato.shared.wire import PayloadForm, SketchHeader
from sfumato.shared.wire.message import encode_header
from sfumato.shared.wire.sum_messages import CommitRequest, ReportsRequest
from tests.aggregator.databases import address_of, create_postgres, give_back_postgres
from tests.shared.sharing.samples import make_draft

ORIGIN = 1_000_000
HOUR = 3600


@dataclass(kw_only=True)
class Report:
    """One report: its header, its masked words, and the exact sum that nobody sees."""

    header: SketchHeader
    data: bytes
    words: Words
    sums: np.ndarray


@dataclass(kw_only=True)
class World:
    """A helper with one accepted plan, and a clock that tests set."""

    folder: Path
    address: str
    source: RandomSource = field(default_factory=SystemSource)
    time: float = ORIGIN + HOUR + 60
    draft: SketchPlan = field(default_factory=make_draft)

    def __post_init__(self) -> None:
        self.keys = KeyFolder(self.folder / "keys")
        self.keys.make_identity()
        self.database: Engine | None = None
        self.restart()
        self.plan = self.batches.plans.accept(self.draft, name="A helper", now=self.time)
        self.digest = compute_plan_digest(self.plan)

    def restart(self) -> None:
        """Open everything again, as a new process would."""
        self.close()
        self.database = engine = open_database(self.address)
        self.batches = Batches(
            database=engine,
            plans=Plans(database=engine, keys=self.keys),
            journal=Journal.open(self.folder / "helper.journal"),
            identity=self.keys.load_identity(),
            source=self.source,
            now=lambda: self.time,
        )

    def back_up(self) -> None:
        """Copy the database as it is now."""
        self.close()
        shutil.copy(self.folder / "helper.db", self.folder / "backup.db")
        self.restart()

    def put_back(self, *, restarts: bool = True) -> None:
        """Put the copy in the database's place, before a new process or under a running one."""
        self.close()
        for path in self.folder.glob("helper.db*"):
            path.unlink()
        shutil.copy(self.folder / "backup.db", self.folder / "helper.db")
        if restarts:
            self.restart()

    def add_leader(self, secret: str) -> None:
        """Let a leader use the interface by a key."""
        row = {"key_hash": hash_key(secret), "name": secret, "created": 0.0}
        with write(self.engine) as connection:
            connection.execute(leader_keys.insert().values(**row))

    def close(self) -> None:
        """Close all connections."""
        if self.database is not None:
            self.database.dispose()

    @property
    def engine(self) -> Engine:
        assert self.database is not None
        return self.database

    @property
    def identity(self) -> bytes:
        return self.keys.load_identity().public_key().public_bytes_raw()

    def key(self, **changes: Any) -> BatchKey:
        fields: dict[str, Any] = {
            "plan_digest": self.digest,
            "slot": 0,
            "labels": {},
            "part": 0,
            "number": 0,
        }
        return BatchKey(**{**fields, **changes})

    def report(self, ordinal: int, *, seed: bytes | None = None, **changes: Any) -> Report:
        """Make a report of a device that has two records."""
        plan = self.plan
        rng = np.random.default_rng(ordinal)
        sums = rng.integers(-100, 100, size=plan.n_coordinates, dtype=np.int64)
        seed = seed or hashlib.sha256(b"seed %d" % ordinal).digest()
        stated: dict[str, Any] = {
            "study": b"t" * 32,
            "plan_digest": self.digest,
            "device": hashlib.sha256(b"device %d" % ordinal).digest(),
            "stream": "main",
            "sequence": 0,
            "slots": (0, 0),
            "n_records": 2,
            "n_public": True,
            "report_id": hashlib.sha256(b"id %d" % ordinal).digest()[:16],
            "payload_length": PayloadForm.of(plan).length,
            "payload_digest": bytes(32),
            "kind": "sum.v1",
        }
        header = SketchHeader(**{**stated, **changes})
        payload = mask_sum(sums, seed, bytes(32), header.mask_context, ring=plan.ring)
        header = replace(header, payload_digest=hashlib.sha256(payload).digest())
        box = seal_seed(seed, plan.helper.key, header.seal_context)
        header = replace(header, sealed=box)
        return Report(
            header=header,
            data=encode_header(header),
            words=read_masked(payload, ring=plan.ring, n_words=plan.n_coordinates),
            sums=sums,
        )

    def reports(self, count: int, *, first: int = 0) -> list[Report]:
        """Make reports of the first part."""
        n_parts = self.plan.sum_release.parts if self.plan.sum_release else 1
        made: list[Report] = []
        ordinal = first
        while len(made) < count:
            report = self.report(ordinal)
            if choose_part(report.header.sketch_id, n_parts) == 0:
                made.append(report)
            ordinal += 1
        return made

    def check(self, reports: list[Report], key: BatchKey | None = None) -> list[str]:
        batch = key or self.key()
        request = ReportsRequest(batch=batch, headers=tuple(each.data for each in reports))
        return list(self.batches.check(batch.batch_id, request))

    def commit(
        self,
        reports: list[Report],
        key: BatchKey | None = None,
        *,
        without: list[Report] | None = None,
    ) -> bytes:
        batch = key or self.key()
        return self.batches.commit(
            batch.batch_id,
            CommitRequest(
                members=compute_members(compute_report(each.data) for each in reports),
                count=len(reports),
                without=tuple(each.header.sketch_id for each in without or []),
            ),
        )


@pytest.fixture(params=["sqlite", "postgres"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield str(tmp_path / "helper.db")
        return
    name = asyncio.run(create_postgres(is_empty=True))
    yield address_of(name).replace("+psycopg", "")
    give_back_postgres(name, is_empty=True)


@pytest.fixture
def world(tmp_path: Path, address: str) -> Iterator[World]:
    made = World(folder=tmp_path, address=address)
    yield made
    made.close()


@pytest.fixture
def sqlite_world(tmp_path: Path) -> Iterator[World]:
    made = World(folder=tmp_path, address=str(tmp_path / "helper.db"))
    yield made
    made.close()
