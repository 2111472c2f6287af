"""The health of devices: each compared with the rest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from sfumato.aggregator.answers.kind import Inputs, Slots, name_selection
from sfumato.aggregator.base.sums.selection import Selection
from sfumato.aggregator.resources.keys.record import KeyScope
from sfumato.aggregator.resources.sketches.record import DeviceSums
from sfumato.learning.answers.comparisons import describe_change, describe_common
from sfumato.learning.insight.devices import DeviceExamination, DeviceReport, examine_devices
from sfumato.learning.insight.model import StudyModel
from sfumato.learning.insight.selection import Selection as Sketches
from sfumato.shared.errors import DecodingError
from sfumato.shared.plan import SketchPlan
from sfumato.shared.wire.objects.analyses import (
    DeviceHealthBody,
    DevicesBody,
    DevicesRequest,
    LampsBody,
)
from sfumato.shared.wire.objects.declaration import make_body, maybe_rfc3339

_MOST_DEVICES = 5000
"""The worker holds the sums of all of them."""
_LEAST_DEVICES = 2
_UNEXAMINED = "cannot be compared: its records are too few, or there are no others"


class DevicesKind:
    """Which devices differ from the rest, or send less noise than they should."""

    request = DevicesRequest
    result = DevicesBody
    version = 1
    scope: KeyScope = "operator"
    needs_devices = True

    def select(
        self, plan: SketchPlan, request: DevicesRequest, slots: Slots | None
    ) -> Sequence[Selection]:
        """Return the sketches of all devices."""
        return [Selection(first_slot=request.first_slot, last_slot=request.last_slot)]

    def find_shared(self, request: DevicesRequest) -> Selection | None:
        """Return None: there is one selection."""
        return None

    def name_parts(
        self, plan: SketchPlan, request: DevicesRequest, selections: Sequence[Selection]
    ) -> list[str]:
        """Name the selection."""
        return [name_selection(selection) for selection in selections]

    def require(self, inputs: Inputs, request: DevicesRequest) -> None:
        """Refuse too few or too many devices, and sums that k clusters cannot be fitted to."""
        (part,) = inputs.parts
        part.require()
        inputs.require_clusters(request.n_clusters)
        n_devices = 0 if part.snapshot is None else part.snapshot.n_devices
        if not _LEAST_DEVICES <= n_devices <= _MOST_DEVICES:
            raise DecodingError(
                f"must be from {_LEAST_DEVICES} to {_MOST_DEVICES} and are {n_devices}",
                field="devices",
                fix="wait for another device"
                if n_devices < _LEAST_DEVICES
                else "choose fewer slots, or compare groups by label",
            )

    def compute(
        self,
        inputs: Inputs,
        request: DevicesRequest,
        *,
        progress: Callable[[float], None],
        cancelled: Callable[[], bool],
    ) -> tuple[DeviceReport, StudyModel]:
        """Compare each device with the rest."""
        (part,) = inputs.parts
        named = _name(inputs.devices)
        held = {name: each for name, each in named.items() if each.totals.n_sketches}
        devices = [
            Sketches(
                name=name,
                totals=each.totals,
                members=frozenset({each.device.device_id}),
            )
            for name, each in held.items()
        ]
        return examine_devices(
            inputs.plan,
            devices,
            n_clusters=request.n_clusters,
            whole=part.require().totals,
            seed=request.seed,
            cancelled=cancelled,
        )

    def describe(
        self,
        inputs: Inputs,
        request: DevicesRequest,
        answer: tuple[DeviceReport, StudyModel],
    ) -> DevicesBody:
        """Return the devices as a body."""
        report, model = answer
        n_dropped = sum(each.n_dropped for each in inputs.devices)
        doubts = []
        if n_dropped:
            doubts.append(f"{n_dropped} sketches are not tested: their payloads are no longer kept")
        found = {each.device: each for each in report.devices}
        order = [*found, *report.unexamined]
        known = _name(inputs.devices)
        # Devices of which nothing is kept stand last.
        order += [name for name in known if name not in order]
        return DevicesBody(
            kind="devices",
            **describe_common(
                inputs.plan,
                model,
                [*doubts, *report.describe()],
                report.assumptions,
                digests=inputs.digests,
            ),
            devices=[_describe(known[name], found.get(name)) for name in order],
            n_dropped=n_dropped,
            level=report.level / max(1, len(report.devices)),
        )


def _name(devices: Sequence[DeviceSums]) -> dict[str, DeviceSums]:
    """Return the devices by what a sentence calls each: its own name, or the id."""
    counts = Counter(each.device.name for each in devices)
    names = []
    for each in devices:
        name, identity = each.device.name, each.device.device_id.hex()
        names.append(f"{name} ({identity[:8]})" if name and counts[name] > 1 else name or identity)
    # A device may be named like another's id.
    if len(set(names)) < len(names):
        names = [each.device.device_id.hex() for each in devices]
    return dict(zip(names, devices, strict=True))


def _describe(held: DeviceSums, found: DeviceExamination | None) -> DeviceHealthBody:
    lamps = LampsBody(
        content=found is not None and found.differs,
        silence=found is not None and found.is_silent,
        unusual=found is not None and found.is_unusual,
    )
    unknown = dict.fromkeys(
        ("p_content", "p_silence", "z", "size", "size_error", "least_lie", "snr")
    )
    figures = unknown | {"n_records": held.totals.n_records, "share": 0.0, "words": _UNEXAMINED}
    if found is not None:
        figures = {"changes": [describe_change(change) for change in found.changes]}
    return make_body(
        DeviceHealthBody,
        found,
        device_id=held.device.device_id.hex(),
        labels=dict(held.device.labels),
        name=held.device.name,
        n_sketches=held.totals.n_sketches,
        lamps=lamps,
        last_seen=maybe_rfc3339(held.device.last_seen),
        **figures,
    )
