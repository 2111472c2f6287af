"""Plans that this helper has accepted: each with a key of its own, and the helper's endorsement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from sqlalchemy import Connection, Engine, Row, select

from sfumato.helper.keys import KeyFolder
from sfumato.helper.tables import batches, leader_keys, plans, reports, write
from sfumato.shared.errors import ConfigError, ForbiddenError, PlanNotAcceptedError
from sfumato.shared.plan import (
    Helper,
    SketchPlan,
    compute_plan_digest,
    decode_plan,
    encode_plan,
    endorse,
)


@dataclass(frozen=True, kw_only=True)
class Plans:
    """The accepted plans of a helper.

    Parameters
    ----------
    database, keys
        Where plans and their keys are kept.
    """

    database: Engine
    keys: KeyFolder

    def accept(
        self, draft: SketchPlan, *, name: str, now: float, leader: str | None = None
    ) -> SketchPlan:
        """Accept the draft of a plan: make its key, sign the plan, and note it.

        Parameters
        ----------
        name
            The organisation that runs this helper, as owners will read it.
        leader
            The organisation that runs the other server: only its keys reach the plan's batches.
            None for any.

        Raises
        ------
        PlanError
            It is no draft of a secure sum, or the name breaks a rule.
        """
        identity = self.keys.load_identity()
        key = X25519PrivateKey.generate()
        helper = Helper(
            name=name,
            identity=identity.public_key().public_bytes_raw(),
            key=key.public_key().public_bytes_raw(),
        )
        plan = endorse(draft, helper, identity.sign)
        encoded = encode_plan(plan)
        # Read again: whatever a device would refuse is refused here, before anything is written.
        decode_plan(encoded)
        digest = compute_plan_digest(plan)
        # The key first: a plan without its key would be worse than a key without a plan.
        self.keys.save_plan_key(digest, key)
        with write(self.database) as connection:
            connection.execute(
                plans.insert().values(digest=digest, plan=encoded, accepted=now, leader=leader)
            )
        return plan

    def list(self) -> Sequence[Row[Any]]:
        """Return the accepted plans, oldest first."""
        with self.database.connect() as connection:
            return connection.execute(plans.select().order_by(plans.c.accepted)).all()

    def choose_leader(self, name: str | None) -> str:
        """Return the name of a leader that has a key: the given one, or the only one.

        Raises
        ------
        ConfigError
            It has no key, or there are several to choose from.
        """
        with self.database.connect() as connection:
            known = select(leader_keys.c.name).where(leader_keys.c.revoked.is_(None)).distinct()
            names: list[str] = sorted(connection.execute(known).scalars())
        if name is not None and name in names:
            return name
        if name is None and len(names) == 1:
            return names[0]
        raise ConfigError(
            f"must be one of {', '.join(names)}" if names else "has no key yet",
            field="--leader",
            fix="name the organisation that runs the other server"
            if names
            else "make one with `sfumato helper key --name ORGANISATION` first",
        )

    def require_leader(self, plan_digest: bytes, leader: str) -> None:
        """Refuse the batches of a plan that another leader runs; an unknown plan is nobody's.

        Raises
        ------
        ForbiddenError
            It is of another leader.
        """
        with self.database.connect() as connection:
            row = _find(connection, plan_digest)
        if row is not None and row.leader not in (None, leader):
            raise ForbiddenError(
                "is that of another organisation than the one whose plan this is",
                field="Authorization",
                fix="use the key of the plan's leader, or let the helper's operator accept a draft "
                "for this one with `sfumato helper accept --leader`",
            )

    def require(self, plan_digest: bytes) -> SketchPlan:
        """Return an accepted plan.

        Raises
        ------
        PlanNotAcceptedError
            It was never accepted, or is retired.
        """
        with self.database.connect() as connection:
            row = _find(connection, plan_digest)
        if row is None or row.retired is not None:
            raise PlanNotAcceptedError(
                "has not been accepted by this helper" if row is None else "is retired",
                field="plan",
                fix="let the helper's operator accept the draft with `sfumato helper accept`",
            )
        return decode_plan(row.plan)

    def read(self, plan_digest: bytes) -> SketchPlan:
        """Return a plan that was accepted once, retired or not.

        Raises
        ------
        PlanNotAcceptedError
            It was never accepted.
        """
        with self.database.connect() as connection:
            row = _find(connection, plan_digest)
        if row is None:
            raise _never_accepted()
        return decode_plan(row.plan)

    def is_retired(self, plan_digest: bytes) -> bool:
        """Return whether the key of an accepted plan is destroyed."""
        with self.database.connect() as connection:
            row = _find(connection, plan_digest)
        return row is not None and row.retired is not None

    def retire(self, plan_digest: bytes, *, now: float) -> int:
        """Destroy the key of a plan and all its seeds; return how many reports can never be opened.

        Raises
        ------
        PlanNotAcceptedError
            It was never accepted.
        """
        with write(self.database) as connection:
            if _find(connection, plan_digest) is None:
                raise _never_accepted()
            # First, and locked: reports that are being judged come before all of this, or not.
            connection.execute(
                plans.update()
                .where(plans.c.digest == plan_digest, plans.c.retired.is_(None))
                .values(retired=now)
            )
            of_plan = reports.c.plan_digest == plan_digest
            dropped = connection.execute(
                reports.update()
                .where(of_plan, reports.c.state == "accepted")
                .values(state="dropped", seed=None)
            ).rowcount
            connection.execute(
                batches.delete().where(
                    batches.c.plan_digest == plan_digest, batches.c.state == "open"
                )
            )
        self.keys.destroy_plan_key(plan_digest)
        return dropped


def _find(connection: Connection, plan_digest: bytes) -> Row[Any] | None:
    return connection.execute(plans.select().where(plans.c.digest == plan_digest)).first()


def _never_accepted() -> PlanNotAcceptedError:
    return PlanNotAcceptedError(
        "has not been accepted by this helper", field="plan", fix="see `sfumato helper plans`"
    )
