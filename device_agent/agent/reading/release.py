"""Release a window: the one place where noise is drawn."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import numpy as np

from device_agent.agent.device import Device
from device_agent.sources import Position
from device_agent.store.streams import NewRelease, StreamState, commit_release
from device_agent.windows import WindowState
from shared.core import SketchAccumulator
from shared.privacy import Origin, PrivacyEvent, RandomSource
from shared.system import SystemSource
from shared.wire import PayloadForm, SketchHeader, encode_message

_REPORT_ID_BYTES = 16


def release_window(
    device: Device,
    state: StreamState,
    accumulator: SketchAccumulator,
    *,
    closed: WindowState,
    following: WindowState,
    positions: tuple[Position, ...],
    origins: set[Origin],
    event: PrivacyEvent,
    now: float,
) -> NewRelease:
    """Release a closed window: reserve its cost, draw the noise, and store all of it at once.

    ``payload = clip(S + noise)``; clipping to what a sketch of n records can hold is
    post-processing, and spares an honest device the refusal of an improbable draw. Where n is
    secret, its scaled value is part of S, and neither bounds nor header nor what is kept know it.
    Where the unit is a device, S is the mean of the window's records, and n is 1. Phase reports
    draw the phases of one record's features, see
    :class:`~shared.privacy.mechanisms.phase.PhaseReports`.

    Guarantees
    ----------
    Every call is a new release and costs as much. After a crash at any point either nothing of it
    is stored, or all. The exact sum is gone afterwards.

    Raises
    ------
    BudgetExceededError, LedgerError, StoreError
        The owner's ledger or the state does not allow it; nothing was released.
    """
    device.shared.reserve(device.settings, event, origins, now=now)
    source = SystemSource()
    slots = None
    if closed.first_slot is not None and closed.last_slot is not None:
        slots = (closed.first_slot, closed.last_slot)
    n_records = _state_size(device, closed.n_records)
    payload = _draw_payload(device, accumulator, source)
    header = SketchHeader(
        study=device.identity.study,
        plan_digest=event.plan_digest,
        device=device.identity.device,
        stream=state.name,
        sequence=event.sequence,
        slots=slots,
        n_records=n_records,
        n_public=not device.plan.releases_count,
        report_id=source.draw_bytes(_REPORT_ID_BYTES),
        payload_length=len(payload),
        payload_digest=hashlib.sha256(payload).digest(),
        block=state.block if device.plan.is_split else None,
        kind=device.plan.release.kind,
    )
    release = NewRelease(
        sketch_id=header.sketch_id,
        message=encode_message(header, payload, device.key.sign),
        n_records=n_records,
        slots=slots,
        event=event,
        released_at=now,
        state=replace(
            state,
            next_sequence=event.sequence + 1,
            first_record=state.first_record + closed.n_records,
            window=following,
            n_unsketchable=0,
            block=0,
            sums=None,
        ),
        positions=positions,
        origins=tuple(sorted(origins)),
    )
    commit_release(device.connection, release)
    # It raises nothing: what follows belongs to the release.
    device.shared.confirm(event, origins, now=now)
    accumulator.sums.fill(0)
    return release


def _state_size(device: Device, n_records: int) -> int | None:
    """Return the number of records that a sketch states: 1 where the unit is a device."""
    if device.plan.releases_count:
        return None
    return 1 if device.plan.protects_devices else n_records


def _draw_payload(device: Device, accumulator: SketchAccumulator, source: RandomSource) -> bytes:
    plan, n_records = device.plan, accumulator.n_records
    low, high = plan.coordinate_limits(_state_size(device, n_records))
    noisy = plan.mechanism.add_noise(plan.finish_sum(accumulator.sums, n_records), source)
    return PayloadForm.of(plan).encode(np.clip(noisy, low, high))
