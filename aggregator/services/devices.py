"""Devices that sign their requests: what they ask about themselves, and what they say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aggregator.ports import Clock, DeviceRecord, Store, StreamRecord, Transaction
from aggregator.services.plans import require_present
from aggregator.services.rates import RateLimit
from shared.errors import AccessError, ConfigError
from shared.wire import parse_request_signature, verify_request


@dataclass(frozen=True, kw_only=True)
class SignedRequest:
    """A request as it arrived; ``headers`` is looked up by lower-case names."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, kw_only=True)
class DeviceStatus:
    """What a device learns about itself."""

    device: DeviceRecord
    streams: Sequence[StreamRecord]
    server_time: float
    generation: bytes


@dataclass(frozen=True, kw_only=True)
class Moment:
    """The server's time, and which life of its database answers."""

    server_time: float
    generation: bytes


class DeviceService:
    """Knows devices by their signatures, and answers them.

    Every method that takes a request raises

    SignatureError
        Its signature is missing, too old or does not verify.
    AccessError
        The device is not enrolled here.
    OverloadedError
        It asks too often.
    StudyWithdrawnError
        Its study was withdrawn.
    """

    def __init__(self, store: Store, clock: Clock, *, rate: RateLimit) -> None:
        self._store = store
        self._clock = clock
        self._rate = rate

    async def authenticate(self, request: SignedRequest) -> DeviceRecord:
        """Return the device that signed a request, without holding up any writer."""
        signature = parse_request_signature(request.headers)
        async with self._store.begin() as transaction:
            device = await require_device(transaction, signature.device)
            study = await transaction.get_study(device.study_id)
        verify_request(
            signature,
            method=request.method,
            path=request.path,
            body=request.body,
            public_key=device.public_key,
            now=self._clock.now(),
        )
        self._rate.spend(device.device_id)
        require_present(study)
        return device

    async def describe(self, request: SignedRequest) -> DeviceStatus:
        """Tell a device how far its streams have come."""
        device = await self.authenticate(request)
        now = self._clock.now()
        async with self._store.begin(write=True) as transaction:
            await transaction.touch_device(device.device_id, now=now)
            return DeviceStatus(
                device=device,
                streams=await transaction.list_streams(device.device_id),
                server_time=now,
                generation=await transaction.get_generation(),
            )

    async def note_heartbeat(
        self, device: DeviceRecord, heartbeat: Mapping[str, Any], *, studies: Sequence[bytes]
    ) -> Moment:
        """Keep what a device, authenticated, says of itself, in the place of what it said before.

        Parameters
        ----------
        heartbeat
            As it is stored and shown.
        studies
            Those that its refusals of plans are about.

        Raises
        ------
        ConfigError
            A refusal is about another study than the device's: it has no say there.
        """
        if any(study_id != device.study_id for study_id in studies):
            raise ConfigError(
                "is not the study that this device is enrolled in",
                field="plan_refusals.study",
                fix="send each study's refusals with the key that is enrolled there",
            )
        now = self._clock.now()
        async with self._store.begin(write=True) as transaction:
            await transaction.note_heartbeat(device.device_id, heartbeat, now=now)
            return Moment(server_time=now, generation=await transaction.get_generation())


async def require_device(
    transaction: Transaction, device_id: bytes, *, lock: bool = False
) -> DeviceRecord:
    """Return an enrolled device.

    Raises
    ------
    AccessError
        It is not enrolled here.
    """
    device = await transaction.get_device(device_id, lock=lock)
    if device is None:
        raise AccessError(
            "is not enrolled here", field="device", fix="enrol with a token of the study"
        )
    return device
