"""Signed requests of devices: authenticate, describe, change key, heartbeat."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from sfumato.aggregator.base.generation import get_generation
from sfumato.aggregator.base.transaction import Transaction
from sfumato.aggregator.resources.devices.record import DeviceRecord, RetiredKeyRecord
from sfumato.aggregator.resources.devices.service.keys import repeat_change, require_valid, take_key
from sfumato.aggregator.resources.devices.store import note_heartbeat, touch_devices
from sfumato.aggregator.resources.parts import Service
from sfumato.aggregator.resources.plans import require_present
from sfumato.aggregator.resources.sketches.record import StreamRecord
from sfumato.aggregator.resources.sketches.store.streams import list_streams
from sfumato.aggregator.resources.studies.record import StudyRecord
from sfumato.shared.errors import AccessError, ConfigError, SignatureError, StoreError
from sfumato.shared.wire import (
    RequestSignature,
    encode_rotation_input,
    parse_request_signature,
    verify_proof,
    verify_request,
)


@dataclass(frozen=True, kw_only=True)
class SignedRequest:
    """A request as it arrived; the names in ``headers`` are lower-case."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, kw_only=True)
class DeviceStatus:
    """The status that a device receives."""

    device: DeviceRecord
    streams: Sequence[StreamRecord]
    server_time: float
    generation: bytes


class DeviceService(Service):
    """Authenticates devices by their signatures, and answers them.

    Every method that takes a request raises

    SignatureError
        Its signature is missing, too old or does not verify.
    AccessError
        The device is not enrolled here, or revoked.
    OverloadedError
        It asks too often.
    StudyWithdrawnError
        Its study was withdrawn.
    """

    async def authenticate(self, request: SignedRequest) -> DeviceRecord:
        """Return the device that signed a request, in a read transaction."""
        device, _ = await self._identify(request, retired_too=False)
        return device

    async def _identify(
        self, request: SignedRequest, *, retired_too: bool
    ) -> tuple[DeviceRecord, RetiredKeyRecord | None]:
        """Return a device and, if a retired key signed, that key."""
        signature = parse_request_signature(request.headers)
        async with self._store.begin() as transaction:
            device = await require_device(transaction, signature.device)
            study = await transaction.get(StudyRecord, device.study_id)
            retired = (
                await transaction.list_all(RetiredKeyRecord, device_id=device.device_id)
                if retired_too
                else ()
            )
        signer = None
        try:
            self._verify(signature, request, device.public_key)
        except SignatureError:
            signer = self._find_retired(signature, request, retired)
            if signer is None:
                raise
        self._device_rate.spend(device.device_id)
        require_present(study)
        require_valid(device, signer)
        return device, signer

    def _find_retired(
        self,
        signature: RequestSignature,
        request: SignedRequest,
        retired: Sequence[RetiredKeyRecord],
    ) -> RetiredKeyRecord | None:
        for key in retired:
            with suppress(SignatureError):
                self._verify(signature, request, key.public_key)
                return key
        return None

    def _verify(
        self, signature: RequestSignature, request: SignedRequest, public_key: bytes
    ) -> None:
        verify_request(
            signature,
            method=request.method,
            path=request.path,
            body=request.body,
            public_key=public_key,
            now=self._clock.now(),
        )

    async def change_key(
        self,
        request: SignedRequest,
        *,
        public_key: bytes,
        last_sequences: Mapping[str, int],
        proof: bytes,
    ) -> tuple[DeviceRecord, bool]:
        """Change the key of a device; a repeated request, signed by the old key, is idempotent.

        Parameters
        ----------
        last_sequences
            The last sketch of each stream that the old key signed: it verifies no later one.
        proof
            Proof of possession, by the new key.

        Returns
        -------
        device, is_new
            The device, and whether this call changed its key.

        Raises
        ------
        SignatureError
            The proof does not verify, or another key replaced the key that signed.
        ConfigError
            The key is or was in use.
        StoreError
            The device has retired too many keys, or another change runs.
        """
        found, signer = await self._identify(request, retired_too=True)
        device_id = found.device_id
        change = encode_rotation_input(
            device=device_id, public_key=public_key, last_sequences=last_sequences
        )
        verify_proof(change, public_key=public_key, proof=proof)
        async with self._store.begin(write=True) as transaction:
            # Locked: no upload of the device runs meanwhile.
            device = await require_device(transaction, device_id, lock=True)
            if signer is not None:
                for retired in await transaction.list_all(RetiredKeyRecord, device_id=device_id):
                    signer = retired if retired.key_id == signer.key_id else signer
                require_valid(device, signer)
                await repeat_change(
                    transaction, signer, public_key=public_key, last_sequences=last_sequences
                )
                return device, False
            require_valid(device, None)
            if device.public_key != found.public_key:
                raise StoreError(
                    "is being replaced by another request",
                    field="public_key",
                    fix="send the same again",
                )
            await take_key(
                transaction,
                device,
                public_key=public_key,
                last_sequences=last_sequences,
                now=self._clock.now(),
            )
            return await require_device(transaction, device_id), True

    async def describe(self, request: SignedRequest) -> DeviceStatus:
        """Return the status of the device that signed a request."""
        device = await self.authenticate(request)
        now = self._clock.now()
        async with self._store.begin(write=True) as transaction:
            await touch_devices(transaction, [device.device_id], now=now)
            return DeviceStatus(
                device=device,
                streams=await list_streams(transaction, device.device_id),
                server_time=now,
                generation=await get_generation(transaction),
            )

    async def note_heartbeat(
        self, device: DeviceRecord, heartbeat: Mapping[str, Any], *, studies: Sequence[bytes]
    ) -> tuple[float, bytes]:
        """Store the latest heartbeat of a device; return the time and the database's generation.

        Parameters
        ----------
        studies
            The studies whose plans it refuses.

        Raises
        ------
        ConfigError
            A refusal is about another study than the device's.
        """
        if any(study_id != device.study_id for study_id in studies):
            raise ConfigError(
                "must be the study that this device is enrolled in",
                field="plan_refusals.study",
                fix="send each study's refusals with the key that is enrolled there",
            )
        now = self._clock.now()
        async with self._store.begin(write=True) as transaction:
            await note_heartbeat(transaction, device.device_id, heartbeat, now=now)
            return now, await get_generation(transaction)


async def require_device(
    transaction: Transaction, device_id: bytes, *, lock: bool = False
) -> DeviceRecord:
    """Return an enrolled device.

    Raises
    ------
    AccessError
        It is not enrolled here.
    """
    device = await transaction.get(DeviceRecord, device_id, lock=lock)
    if device is None:
        raise not_enrolled()
    return device


def not_enrolled() -> AccessError:
    """Return the error for an unknown device."""
    return AccessError(
        "is not enrolled here", field="device", fix="enrol with a token of the study"
    )
