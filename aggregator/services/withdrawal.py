"""Withdrawing a study: nothing of it can be read from then on, and all that it held is removed."""

from __future__ import annotations

from dataclasses import replace

from aggregator.records import LOCAL_ACTOR, Clock, StudyRecord
from aggregator.services.audit import write_entry
from aggregator.services.plans import require_study
from aggregator.storage import Store
from shared.errors import ConfigError

_BATCH = 256
"""Rows in one transaction: few enough that on SQLite no upload waits long for it."""


class WithdrawalService:
    """Withdraws studies, and removes what they held."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self.is_due = False
        """True if this process knows of something to be removed."""

    async def withdraw(
        self, study_id: bytes, *, name: str, actor: str = LOCAL_ACTOR
    ) -> StudyRecord:
        """Withdraw a study, at once and for good.

        Its identity stays taken: sketches that come late learn why they are refused, and the same
        name and plan make no study again. What it held is removed by :meth:`purge`.

        Parameters
        ----------
        name
            The study's name, typed by who asks: there is no way back.

        Raises
        ------
        NotFoundError, StudyWithdrawnError
            There is no such study, or no longer.
        ConfigError
            The name is another.
        """
        async with self._store.begin(write=True) as transaction:
            study = await require_study(transaction, study_id)
            if name != study.name:
                raise ConfigError(
                    "is not the name of this study, which confirms that it is meant",
                    field="confirm",
                    fix="give the study's name; everything that it holds will be removed",
                )
            if not await transaction.withdraw_study(study_id):
                # Another request did so since.
                await require_study(transaction, study_id)
            await write_entry(
                transaction,
                now=self._clock.now(),
                actor=actor,
                action="study.withdraw",
                target=study_id.hex(),
                details={"name": study.name, "n_sketches": study.n_sketches},
            )
        self.is_due = True
        return replace(study, state="withdrawn")

    async def purge(self) -> int:
        """Remove all that withdrawn studies held; return how many rows.

        Raises
        ------
        TransportError
            The database does not answer.
        """
        self.is_due = False
        n_removed = 0
        while True:
            async with self._store.begin(write=True) as transaction:
                n_batch = await transaction.purge_withdrawn(most=_BATCH)
            n_removed += n_batch
            if n_batch == 0:
                return n_removed
