"""JSON bodies about advice before a study exists."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from sfumato.shared.plan import LogTransform
from sfumato.shared.structure import Rule, member
from sfumato.shared.wire.objects.declaration import SmallText, body, request
from sfumato.shared.wire.objects.results import BandBody

Count = Annotated[int, Rule(ge=1, le=1 << 40)]
_NUMBER = Annotated[
    float, Rule(lambda value: abs(value) < 1e300, "must be finite", "write a number")
]


@request
class PlannedDimension:
    """A column of the records, with public bounds; never read them off the data."""

    name: SmallText = member("The column's name.", "temperature")
    unit: SmallText = member('Its unit; "1" for a pure number.', "degC", default="1")
    lower: _NUMBER = member("Lower bound: smaller values are clipped.", -20.0)
    upper: _NUMBER = member("Upper bound: larger values are clipped.", 45.0)
    spread: _NUMBER | None = member(
        "Standard deviation within a cluster; null for what is usual for so many clusters between "
        "these bounds. With a transform in doublings: 1 means a factor of 2.",
        2.5,
        default=None,
    )
    transform: LogTransform | None = member(
        "The scale on which the dimension is sketched; null for linear. Choose a logarithmic one "
        "for values over powers of ten.",
        None,
        default=None,
    )


@request
class AdviceRequest:
    """A study that does not exist yet."""

    dimensions: Annotated[list[PlannedDimension], Rule(min_length=1, max_length=64)] = member(
        "The columns of a record."
    )
    n_clusters: Annotated[int, Rule(ge=1, le=200)] = member(
        "The largest number of clusters that may be wanted.", 5
    )
    n_devices: Count = member("Devices.", 100)
    n_windows: Count = member("Windows that are decoded together.", 12, default=1)
    records_per_window: Count = member("Records of a device in a window.", 1000)
    window_s: Annotated[int, Rule(ge=1, le=1 << 40)] = member(
        "Length of a window in seconds.", 86400, default=86400
    )
    unit: Literal["record", "device"] = member(
        "What epsilon protects: a record, or a device's window.", "record", default="record"
    )
    max_records_per_person: Count | None = member(
        "Most records of one person in a window; null if unknown, or for a device.", 3, default=None
    )
    epsilon: Annotated[str, Rule(min_length=1, max_length=50)] = member(
        "The epsilon of each sketch, exact: `1`, `0.5` or `1/2`.", "1", default="1"
    )


@body
class RemediesBody:
    """Changes, each of which alone would reach the target; null where none does."""

    epsilon: str | None = member("The smallest epsilon.", "4")
    records_per_window: int | None = member("Records of a device in a window.", 20000)
    n_sketches: int | None = member("Devices times windows.", 5000)
    n_clusters: int | None = member("The most clusters.", 3)


@body
class AdviceBody:
    """The best plan for a study, and what to expect of it."""

    outlook: Literal["good", "weak", "hopeless"] = member(
        "`good`: within the target; `weak`: not; `hopeless`: no answer could be used.", "good"
    )
    target: float = member("The wanted SSE relative to k-means on the records.", 1.2)
    band: BandBody = member("The expected relative SSE.")
    snr: float = member("Signal-to-noise ratio of all sketches together.", 40.0)
    clusters: str = member("Numbers of clusters that the plan supports, in words.", "k up to 12")
    sketch_bytes: int = member("Size of a sketch.", 400)
    remedies: RemediesBody | None = member("What would help; null where nothing need.", None)
    statement: str = member("The promise of privacy in words.", "A record is protected ...")
    plan: dict[str, Any] = member("The plan, with a fresh seed.", {"see": "`POST /v1/studies`"})
