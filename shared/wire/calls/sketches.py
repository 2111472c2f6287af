"""Calls about sketches."""

from __future__ import annotations

from sfumato.shared.wire import SKETCH_MEDIA_TYPE
from sfumato.shared.wire.calls.call import Bare, Pages
from sfumato.shared.wire.objects.devices import StoredBody
from sfumato.shared.wire.objects.studies import SketchBody


class Sketches:
    """Sketches: the upload, and the list.

    Attributes
    ----------
    put_sketch
        Store a sketch; 200 if the same sketch is stored already.

        The message carries its own signature, so no key is needed.
    list_sketches
        List the sketches of a study in the order of arrival.
    """

    put_sketch = Bare(
        "public",
        "PUT /v1/studies/{study}/sketches/{sketch}",
        StoredBody,
        sends=SKETCH_MEDIA_TYPE,
        status=201,
        may_exist=True,
        problems="access-denied duplicate-upload implausible-sketch malformed-message "
        "plan-mismatch signature-invalid store-conflict study-closed too-early "
        "unsupported-version window-expired",
    )
    list_sketches = Pages("analyst", "GET /v1/studies/{study}/sketches", SketchBody)
