"""Release a window: the one place where noise is drawn."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace

from sfumato.device_agent.agent.device import Device
from sfumato.device_agent.sources import Position
from sfumato.device_agent.store.streams import NewRelease, StreamState, commit_release
from sfumato.device_agent.windows import WindowState
from sfumato.shared.core import SketchAccumulator
from sfumato.shared.plan import SketchPlan
from sfumato.shared.privacy import Origin, PrivacyEvent, RandomSource
from sfumato.shared.sharing.masks import BLIND_BYTES, SEED_BYTES, mask_sum
from sfumato.shared.sharing.seals import seal_seed
from sfumato.shared.system import SystemSource
from sfumato.shared.wire import PayloadForm, SketchHeader, encode_message

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

    What is drawn is :meth:`~sfumato.shared.plan.SketchPlan.draw_release` of the sum. Where n is
    secret, its scaled value is part of S, and neither bounds nor header nor what is kept know it.
    Where the unit is a device, S is the mean of the window's records, and n is 1. Phase reports
    draw the phases of one record's features, see
    :class:`~sfumato.shared.privacy.mechanisms.phase.PhaseReports`.

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
    slots = None
    if closed.first_slot is not None and closed.last_slot is not None:
        slots = (closed.first_slot, closed.last_slot)
    header, message = make_message(
        device.plan,
        accumulator,
        study=device.identity.study,
        plan_digest=event.plan_digest,
        device=device.identity.device,
        stream=state.name,
        sequence=event.sequence,
        slots=slots,
        block=state.block,
        sign=device.key.sign,
        source=SystemSource(),
    )
    release = NewRelease(
        sketch_id=header.sketch_id,
        message=message,
        n_records=header.n_records,
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


def make_message(
    plan: SketchPlan,
    accumulator: SketchAccumulator,
    *,
    study: bytes,
    plan_digest: bytes,
    device: bytes,
    stream: str,
    sequence: int,
    slots: tuple[int, int] | None,
    block: int,
    sign: Callable[[bytes], bytes],
    source: RandomSource,
) -> tuple[SketchHeader, bytes]:
    """Draw the noise of a window's sum, and sign what is sent of it.

    Every call is a new release; the caller counts it, and keeps its bytes before they are sent.

    Parameters
    ----------
    plan, accumulator
        The plan, and the exact sum of the window.
    study, plan_digest, device, stream, sequence, slots
        As in :class:`sfumato.shared.wire.SketchHeader`.
    block
        The block of features of the sum, which the header names if there are several.
    sign, source
        The device's signature of given bytes, and where randomness comes from.

    Returns
    -------
    tuple
        The header, and the whole message.
    """
    report_id = source.draw_bytes(_REPORT_ID_BYTES)
    stated = SketchHeader(
        study=study,
        plan_digest=plan_digest,
        device=device,
        stream=stream,
        sequence=sequence,
        slots=slots,
        n_records=plan.state_size(accumulator.n_records),
        n_public=not plan.releases_count,
        report_id=report_id,
        payload_length=0,
        payload_digest=b"",
        block=block if plan.is_split else None,
        kind=plan.release.kind,
    )
    if plan.sum_release is None:
        sums = plan.draw_release(accumulator.sums, accumulator.n_records, source)
        header, payload = _describe(stated, PayloadForm.of(plan).encode(sums))
    else:
        header, payload = _draw_report(plan, stated, accumulator, source)
    return header, encode_message(header, payload, sign)


def _describe(header: SketchHeader, payload: bytes) -> tuple[SketchHeader, bytes]:
    digest = hashlib.sha256(payload).digest()
    return replace(header, payload_length=len(payload), payload_digest=digest), payload


def _draw_report(
    plan: SketchPlan, header: SketchHeader, accumulator: SketchAccumulator, source: RandomSource
) -> tuple[SketchHeader, bytes]:
    """Mask the exact sum, and seal the mask's seed to the helper; neither is stored anywhere."""
    helper = plan.helper
    finished = plan.finish_sum(accumulator.sums, accumulator.n_records)
    seed, blind = source.draw_bytes(SEED_BYTES), source.draw_bytes(BLIND_BYTES)
    payload = mask_sum(
        plan.saturate_sum(finished), seed, blind, header.mask_context, ring=plan.ring
    )
    header, payload = _describe(header, payload)
    return replace(header, sealed=seal_seed(seed, helper.key, header.seal_context)), payload
