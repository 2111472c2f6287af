"""Published results, which devices apply by themselves, and the key that signs them.

The key lies in the database, as everything that servers share: any of them may sign.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sfumato.aggregator.base.transaction import PageKey, Transaction
from sfumato.aggregator.resources.jobs.record import DecodeRecord, PublicationRecord
from sfumato.aggregator.resources.jobs.store import find_last_publication
from sfumato.aggregator.resources.keys.record import LOCAL_ACTOR, ResultKeyRecord
from sfumato.aggregator.resources.keys.service.audit import write_entry
from sfumato.aggregator.resources.keys.service.result_keys import (
    make_result_key,
    require_result_keys,
)
from sfumato.aggregator.resources.parts import Service
from sfumato.aggregator.resources.plans import require_known, require_study
from sfumato.shared.errors import DecodingError, NotFoundError, StaleVersionError, StoreError
from sfumato.shared.wire import UNUSABLE, PublishedResult, compute_key_id, encode_published


class PublishingService(Service):
    """Publishes results of decodes, and keeps the server's result keys."""

    async def list_keys(self) -> Sequence[ResultKeyRecord]:
        """Return the result keys, the present one last; none before the first study."""
        async with self._store.begin() as transaction:
            return await transaction.list_all(ResultKeyRecord)

    async def rotate_key(
        self, *, endorse: bool, actor: str = LOCAL_ACTOR
    ) -> Sequence[ResultKeyRecord]:
        """Replace the result key; return all keys.

        Parameters
        ----------
        endorse
            Let the old key name its successor, so that devices follow. False where the old key may
            be in other hands: then each owner pins the new one.

        Raises
        ------
        StaleVersionError
            Another request replaced it at the same time.
        """
        now = self._clock.now()
        async with self._store.begin(write=True) as transaction:
            old = (await require_result_keys(transaction, now=now))[-1]
            key = make_result_key(old.number + 1, now, endorsed_by=old if endorse else None)
            if not await transaction.add(key):
                raise StaleVersionError(
                    "was replaced at the same time",
                    field="identity",
                    fix="look at it again, and repeat the request if it is still needed",
                )
            target = compute_key_id(key.public_key).hex()
            about: dict[str, Any] = {"old": compute_key_id(old.public_key).hex()}
            await write_entry(
                transaction, now, actor, "identity.rotate", target, **about, endorsed=endorse
            )
            return await transaction.list_all(ResultKeyRecord)

    async def publish(
        self,
        study_id: bytes,
        decode_id: bytes,
        *,
        name: str = "",
        allow_unusable: bool = False,
        actor: str = LOCAL_ACTOR,
    ) -> PublicationRecord:
        """Sign the result of a decode for the devices of its study.

        Raises
        ------
        NotFoundError
            There is no such study, or no such decode in it.
        StoreError
            The decode has no result.
        DecodingError
            The verdict on it is not to use it, and that is not allowed.
        """
        now = self._clock.now()
        async with self._store.begin(write=True) as transaction:
            key = (await require_result_keys(transaction, now=now))[-1]
            private = Ed25519PrivateKey.from_private_bytes(key.private_key)
            study = await require_study(transaction, study_id)
            decode = await _require_result(transaction, study_id, decode_id)
            assert decode.result is not None, "it was required"
            verdict = decode.result["verdict"]
            if verdict is not None and verdict["word"] == UNUSABLE and not allow_unusable:
                raise DecodingError(
                    f"has the verdict {UNUSABLE!r}: {verdict['sentence']}",
                    field="decode",
                    fix="publish another, or pass allow_unusable (--allow-unusable)",
                )
            last = await find_last_publication(transaction, study_id, lock=True)
            # At least the time: a number that a restored database gave before is not given again.
            sequence = max(int(now), 0 if last is None else last.sequence + 1)
            result = _to_result(
                decode, plan_digest=study.plan_digest, sequence=sequence, now=now, name=name
            )
            record = PublicationRecord(
                study_id=study_id,
                sequence=sequence,
                decode_id=decode_id,
                name=name,
                verdict=None if verdict is None else verdict["word"],
                created=now,
                key_id=compute_key_id(key.public_key),
                document=encode_published(result, key.public_key, private.sign),
            )
            await transaction.add(record)
            about: dict[str, Any] = {"decode": decode_id.hex(), "sequence": sequence, "name": name}
            await write_entry(
                transaction,
                now,
                actor,
                "result.publish",
                study_id.hex(),
                **about,
                verdict=record.verdict,
            )
        return record

    async def get_latest(self, study_id: bytes) -> PublicationRecord:
        """Return the latest published result of a study.

        Raises
        ------
        NotFoundError
            There is no such study, or nothing was published.
        """
        async with self._store.begin() as transaction:
            await require_study(transaction, study_id)
            found = await find_last_publication(transaction, study_id)
        if found is None:
            raise NotFoundError(
                "has no published result",
                field="study",
                fix="publish one: `sfumato decode publish DECODE`",
            )
        return found

    async def list_page(
        self, study_id: bytes, *, after: PageKey | None, limit: int
    ) -> Sequence[PublicationRecord]:
        """Return the published results of a study, the oldest first."""
        async with self._store.begin() as transaction:
            await require_study(transaction, study_id)
            return await transaction.list_page(
                PublicationRecord, study_id=study_id, after=after, limit=limit
            )


async def _require_result(
    transaction: Transaction, study_id: bytes, decode_id: bytes
) -> DecodeRecord:
    decode = await require_known(
        transaction, await transaction.get(DecodeRecord, decode_id), "decode"
    )
    if decode.study_id != study_id:
        raise NotFoundError(
            "must be a decode of this study", field="decode", fix="check its identity"
        )
    if decode.state != "succeeded":
        raise StoreError(
            f"has no result: it is {decode.state}",
            field="decode",
            fix="wait for it with `sfumato decode watch`, or start another",
        )
    return decode


def _to_result(
    decode: DecodeRecord, *, plan_digest: bytes, sequence: int, now: float, name: str
) -> PublishedResult:
    found = decode.result or {}
    verdict, spreads = found["verdict"], found["spreads"]
    return PublishedResult(
        study=decode.study_id,
        plan_digest=plan_digest,
        decode=decode.decode_id,
        sequence=sequence,
        created=int(now),
        name=name,
        verdict=None if verdict is None else (verdict["word"], verdict["sentence"]),
        dimensions=tuple((axis["name"], axis["unit"]) for axis in found["dimensions"]),
        centroids=_to_rows(found["centroids"]),
        weights=tuple(map(float, found["weights"])),
        spreads=None if spreads is None else _to_rows(spreads),
    )


def _to_rows(rows: Sequence[Sequence[float]]) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(map(float, row)) for row in rows)
