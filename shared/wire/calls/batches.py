"""Calls about batches."""

from __future__ import annotations

from sfumato.shared.wire.calls.call import Bare, Call, Pages
from sfumato.shared.wire.objects.batches import (
    BatchBody,
    BatchDetailsBody,
    BatchRequest,
    SuspectsBody,
)


class Batches:
    """Batches of masked sums: list, show, open early, admit, set aside, give up, and suspects.

    Attributes
    ----------
    list_batches
        List the batches of a study with a secure sum, the newest first.
    find_suspects
        List the devices that were in a flagged part each time that parts were compared.

        Parts are drawn anew for every slot, so an innocent device leaves the list after a few.
    get_batch
        Show a batch, with the numbers of its reports by state.
    open_batch
        Close a batch before its time, so that a worker opens its total with the helper.

        Later reports of its slot form the next batch, with a noise of its own.
    admit_batch
        Count the total of a batch that was flagged or set aside.
    set_batch_aside
        Take the total of a batch out of every sum, exactly; snapshots with it say so.
    give_batch_up
        Drop the reports of a batch that will not be opened, for a helper that is gone for good.

        Later reports of its slot form the next batch. A total that the helper has cannot be given
        up.
    """

    list_batches = Pages("viewer", "GET /v1/studies/{study}/batches", BatchBody)
    find_suspects = Bare("analyst", "GET /v1/studies/{study}/batches/suspects", SuspectsBody)
    get_batch = Bare("viewer", "GET /v1/studies/{study}/batches/{batch}", BatchDetailsBody)
    open_batch = Bare(
        "operator",
        "POST /v1/studies/{study}/batches/{batch}/open",
        BatchDetailsBody,
        problems="batch-too-small",
    )
    admit_batch = Call(
        "operator",
        "POST /v1/studies/{study}/batches/{batch}/admit",
        BatchRequest,
        BatchDetailsBody,
        problems="store-conflict",
    )
    set_batch_aside = Call(
        "operator",
        "POST /v1/studies/{study}/batches/{batch}/set-aside",
        BatchRequest,
        BatchDetailsBody,
        problems="store-conflict",
    )
    give_batch_up = Call(
        "operator",
        "POST /v1/studies/{study}/batches/{batch}/give-up",
        BatchRequest,
        BatchDetailsBody,
        problems="store-conflict",
    )
