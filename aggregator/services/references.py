"""References that people type: names and first digits, in place of ids."""

from __future__ import annotations

from sfumato.aggregator.records import StudyRecord
from sfumato.aggregator.services.service import Service
from sfumato.aggregator.storage import Identified
from sfumato.aggregator.storage.statements.references import find_identities, find_studies
from sfumato.aggregator.storage.statements.studies import list_studies
from sfumato.shared.wire.references import choose_identity, choose_study, is_beginning

_MOST = 11
"""Candidates that are looked up: an error lists ten, and says whether there are more."""


class ReferenceService(Service):
    """Finds what a reference names."""

    async def find_study(self, reference: str) -> str:
        """Return the id of a study, given its name or first digits.

        Raises
        ------
        NotFoundError, ConfigError
            It fits no study, or more than one; the error lists the candidates.
        """
        async with self._store.begin() as transaction:
            found = await find_studies(transaction, reference, limit=_MOST)
            if is_beginning(reference):
                for study_id in await find_identities(transaction, "study", reference, limit=_MOST):
                    study = await transaction.get(StudyRecord, study_id)
                    if study is not None and study.state != "withdrawn":
                        found = [*found, study]
            known = found or await list_studies(transaction, after=None, limit=_MOST)
        names = {study.study_id.hex(): study.name for study in known}
        return choose_study(reference, names.items())

    async def find(self, kind: Identified, reference: str) -> str:
        """Return the id of something, given its first digits.

        Raises
        ------
        NotFoundError, ConfigError
            None begins so, or more than one.
        """
        async with self._store.begin() as transaction:
            found = await find_identities(transaction, kind, reference, limit=_MOST)
        return choose_identity(reference, kind, [(each.hex(), kind) for each in found])
