"""JSON bodies of analyses: comparisons, timelines, groups and the health of devices."""

from __future__ import annotations

from typing import Annotated, Literal

from sfumato.shared.structure import Rule, member
from sfumato.shared.wire.objects.answers import DimensionBody, VerdictBody
from sfumato.shared.wire.objects.declaration import (
    SAMPLE_ID,
    SAMPLE_TIME,
    Hex,
    Labels,
    SmallText,
    Time,
    body,
    request,
)
from sfumato.shared.wire.objects.results import N_WORKERS, Slot
from sfumato.shared.wire.problems import Problem

AnalysisKind = Literal["comparison", "timeline", "groups", "devices"]
Clusters = Annotated[int, Rule(lt=1 << 63)]
Seed = Annotated[int, Rule(ge=0, lt=1 << 63)]

_CLUSTERS = "Number of clusters of the common fit, whose changes are estimated."
_SEED = "Seed of the fit and of the draws."
_FIRST = "The first slot; null for no lower bound."
_LAST = "The last slot; null for no upper bound."
_LOOK = (
    "The study of a second look at a result of this one: where it has sketches of a selection, "
    "shares are measured. Null for none."
)
_MEASURED = "Whether a second look measured the share."


@request
class SelectionRequest:
    """The sketches with all slots in a range, of devices with some labels."""

    first_slot: Slot | None = member(_FIRST, 480, default=None)
    last_slot: Slot | None = member(_LAST, 491, default=None)
    labels: Labels = member(
        "Labels that a device must have.", {"site": "north"}, default_factory=dict
    )


@request
class ComparisonRequest:
    """A comparison of two selections that share no sketch."""

    kind: Literal["comparison"] = member("The kind of analysis.", "comparison")
    first: SelectionRequest = member("The selection before, or the one to compare with.")
    second: SelectionRequest = member(
        "The selection after; changes are from the first to the second.",
        {"first_slot": 492, "last_slot": 503, "labels": {"site": "north"}},
    )
    n_clusters: Clusters = member(_CLUSTERS, 5)
    seed: Seed = member(_SEED, 0, default=0)
    level: Annotated[
        float, Rule(lambda level: 1e-4 <= level <= 0.5, "must be from 0.0001 to 0.5")
    ] = member("Share of false alarms where nothing has changed.", 0.05, default=0.05)
    smallest_shift: Annotated[
        float, Rule(lambda shift: 0.0 <= shift <= 1e6, "must be 0 or more")
    ] = member("Smallest size of an alarm, in the plan's scales.", 0.1, default=0.1)
    look: Hex | None = member(_LOOK, None, default=None)


Reference = Literal["last-change", "last-accepted", "all-before"]


@request
class TimelineRequest:
    """Windows of a study in order, each compared with the windows of its reference."""

    kind: Literal["timeline"] = member("The kind of analysis.", "timeline")
    labels: Labels = member(
        "Labels that a device must have.", {"site": "north"}, default_factory=dict
    )
    n_clusters: Clusters = member(_CLUSTERS, 5)
    first_slot: Slot | None = member(
        "The first slot; null for the first that holds a sketch.", 480, default=None
    )
    last_slot: Slot | None = member(
        "The last slot; null for the last that holds a sketch.", 531, default=None
    )
    slots_per_window: Annotated[int, Rule(ge=1, lt=1 << 53)] = member(
        "Slots that make a window.", 1, default=1
    )
    seed: Seed = member(_SEED, 0, default=0)
    false_alarms_per_year: Annotated[
        float, Rule(lambda rate: 0.0 < rate <= 1e6, "must be above 0")
    ] = member("False alarms to accept in a year without a change.", 1.0, default=1.0)
    smallest_shift: (
        Annotated[float, Rule(lambda shift: 0.0 <= shift <= 1e6, "must be 0 or more")] | None
    ) = member(
        "Smallest size of an alarm and of a lasting change, in the plan's scales; null for 0.1, or "
        "for the median change from one window to the next, if that is larger.",
        0.1,
        default=None,
    )
    reference: Reference = member(
        "The windows that each window is compared with: all before it, from the last accepted or "
        "lasting change on (`last-change`), from the last accepted change on (`last-accepted`), or "
        "from the first window on (`all-before`).",
        "last-change",
        default="last-change",
    )
    accepted_slots: Annotated[list[Slot], Rule(max_length=400)] | None = member(
        "First slots of accepted changes; null for those of the study at the time of the request.",
        [492],
        default=None,
    )
    look: Hex | None = member(_LOOK, None, default=None)


@request
class GroupsRequest:
    """Comparisons of all pairs of values of one label."""

    kind: Literal["groups"] = member("The kind of analysis.", "groups")
    label: SmallText = member("The label, whose declared values are the groups.", "site")
    first_slot: Slot | None = member(_FIRST, None, default=None)
    last_slot: Slot | None = member(_LAST, None, default=None)
    n_clusters: Clusters = member(_CLUSTERS, 5)
    seed: Seed = member(_SEED, 0, default=0)


@request
class DevicesRequest:
    """Comparisons of each device with the rest; for operators."""

    kind: Literal["devices"] = member("The kind of analysis.", "devices")
    first_slot: Slot | None = member(_FIRST, None, default=None)
    last_slot: Slot | None = member(_LAST, None, default=None)
    n_clusters: Clusters = member(_CLUSTERS, 5)
    seed: Seed = member(_SEED, 0, default=0)


AnalysisRequest = ComparisonRequest | TimelineRequest | GroupsRequest | DevicesRequest


@body
class ClusterBody:
    """A cluster of the common fit."""

    words: str = member(
        "Where it lies, compared with the others; empty in results of earlier programs.",
        "high pressure",
        default="",
    )
    weight: float = member("Share of the records.", 0.3)
    centre: list[float] = member("Centre, by dimension.", [1.2])
    spread: list[float] | None = member(
        "Standard deviation of its records, by dimension.",
        [0.4],
        default=None,
    )


@body
class ChangeBody:
    """The estimated change of one quantity of one cluster."""

    cluster: int = member("Number of the cluster in `clusters`, from 0.", 2)
    quantity: Literal["centre", "variance", "weight"] = member(
        "The quantity: the centre along one dimension in standard deviations of the cluster, or "
        "the logarithm of the variance or of the weight.",
        "centre",
    )
    dimension: str | None = member("The dimension of a centre; null for the others.", "pressure")
    estimate: float = member("The change, shrunk towards 0 where noise hides it.", 0.31)
    error: float = member("Its standard error where nothing has changed.", 0.07)
    z: float = member("The estimate over its error.", 4.4)
    p: float = member("Probability of such a change by noise, adjusted for their number.", 0.004)
    is_named: bool = member("Whether noise explains it with probability below 5 %.", True)
    words: str = member(
        "The change in words.",
        "cluster 3 moved in pressure by +0.31 of its standard deviations (error 0.07)",
    )
    is_measured: bool = member(_MEASURED, False, default=False)


@body
class AnswerBody:
    """Common members of all results of analyses."""

    words: list[str] = member(
        "The answer in sentences, doubts first.",
        ["the difference is one that noise explains with p = 0.0012"],
    )
    assumptions: list[str] = member(
        "Assumptions of the probabilities.", ["assumes independent records"]
    )
    dimensions: list[DimensionBody] = member("Columns of the centres.")
    clusters: list[ClusterBody] = member("Clusters of the common fit.")
    snapshots: list[Hex] = member("Digests of the sums that the answer rests on.", ["44" * 32])


@body
class ComparisonBody(AnswerBody):
    """The difference of two selections."""

    kind: Literal["comparison"] = member("The kind of analysis.", "comparison")
    is_alarm: bool = member("Whether the difference is both certain and large enough.", True)
    size: float = member(
        "Equivalent common shift: as if every record had moved by so many of the plan's scales.",
        0.27,
    )
    size_error: float = member("Its standard error.", 0.05)
    p: float = member("Probability of a difference like this where nothing has changed.", 0.0012)
    p_all: float = member("P-value of the omnibus statistic.", 0.02)
    p_moved: float = member("P-value of the statistic of the clusters' changes.", 0.0008)
    p_single: float = member("P-value of the surest change of one quantity of a cluster.", 0.0009)
    n_records: list[int] = member("Records of both selections.", [120000, 118000])
    n_sketches: list[int] = member("Sketches of both selections.", [120, 118])
    snrs: list[float] = member("Signal-to-noise ratios of both selections.", [76.0, 75.0])
    changes: list[ChangeBody] = member("Changes of all quantities of all clusters.")


@body
class ColumnChangeBody:
    """The mean of a column before and after a change."""

    name: str = member("The column's name.", "room temperature")
    unit: str = member("Its unit.", "degC")
    before: float = member("Its mean in what the window or stretch is compared with.", 21.0)
    after: float = member("Its mean since.", 15.2)
    error: float = member("Standard error of the difference.", 0.2)
    is_named: bool = member("Whether noise explains it with probability below 5 %.", True)


@body
class WindowClusterBody:
    """A cluster in one window, decoded by descent from the common fit.

    Errors are null where the window's verdict forbids them.
    """

    weight: float = member("Share of the records.", 0.31)
    weight_error: float | None = member("Its standard error.", 0.02)
    centre: list[float] = member("Centre, by dimension.", [1.25])
    centre_error: list[float] | None = member("Standard errors.", [0.03])
    is_measured: bool = member(_MEASURED, False, default=False)


@body
class SpreadBody:
    """The numbers of devices that a change is seen in, is not in, or that cannot tell."""

    n_changed: int = member(
        "Devices whose own records changed the same way. Where the change is real, 1 % of those "
        "that did not are among them, and they are 5 % of these, at most.",
        5,
    )
    n_unchanged: int = member(
        "Devices in which a change as in the others would be seen with probability 99 %, and is "
        "not.",
        1,
    )
    n_unclear: int = member("Devices whose noise hides it.", 0)
    n_alone: int = member("Devices that sent records on one side of the change alone.", 0)
    words: str = member(
        "These numbers, to end a sentence about the change; empty where no device can tell.",
        "in 5 of 6 devices",
    )


@body
class WindowBody:
    """One window of a timeline."""

    first_slot: int = member("Its first slot.", 480)
    last_slot: int = member("Its last slot.", 480)
    start: Time = member("Begin of the first slot.", SAMPLE_TIME)
    end: Time = member("End of the last slot.", "2026-03-01T13:00:00.000000Z")
    n_records: int = member("Number of its records, or an estimate where it is secret.", 2000)
    n_sketches: int = member("Number of its sketches.", 4)
    snr: float | None = member("Signal-to-noise ratio.", 14.0)
    p: float | None = member(
        "Probability of a difference like this from its reference, where nothing has changed; "
        "null for the first window, and for one that cannot be compared.",
        0.4,
    )
    size: float | None = member("Equivalent common shift, in the plan's scales.", 0.05)
    size_error: float | None = member("Its standard error.", 0.06)
    is_alarm: bool = member(
        "Whether `p` is below `level`, the size large enough, and the change not accepted.", False
    )
    level: float | None = member("The limit of `p`.", 0.019)
    reference: int | None = member(
        "Number of the first window of its reference, from 0; the last one is the window before.",
        18,
        default=None,
    )
    is_accepted: bool = member(
        "Whether a change at this window was accepted: later windows are compared with it.",
        False,
        default=False,
    )
    finding: str | None = member(
        "What an alarm found: columns before and after, and when; null for no alarm.",
        "room temperature 21.0 -> 15.2 degC (error 0.2) since Tuesday 2026-03-03 03:00 UTC",
        default=None,
    )
    devices: SpreadBody | None = member(
        "In how many devices the change is, of an alarm in the last window.", default=None
    )
    columns: list[ColumnChangeBody] = member(
        "Changes of columns from its reference; none where the verdicts leave their means open.",
        default_factory=list,
    )
    verdict: VerdictBody | None = member(
        "How far to trust its clusters; null where there are none.", default=None
    )
    clusters: list[WindowClusterBody] | None = member(
        "The clusters in this window; null where they are not to be used or it cannot be compared.",
        default=None,
    )
    unknown: str | None = member(
        "Why nothing is known of its clusters, although it can be compared.", None, default=None
    )
    doubt: str | None = member("Why it cannot be compared; null if it can.", None, default=None)


@body
class ChangePointBody:
    """A window from which on the records differ from those before."""

    window: int = member("Number of the first window after the change, from 0.", 30)
    start: Time = member("Begin of that window.", SAMPLE_TIME)
    p: float = member(
        "Probability of a change this clear, anywhere in the stretch, where nothing has changed.",
        0.0005,
    )
    size: float = member("Equivalent common shift, in the plan's scales.", 0.3)
    size_error: float = member("Its standard error.", 0.04)
    words: str = member("The change in words.", "cluster 2 grew by 30 %")
    finding: str = member(
        "The change in columns and units, and since when.",
        "room temperature 21.0 -> 15.2 degC (error 0.2) since Tuesday 2026-03-03 03:00 UTC",
        default="",
    )
    devices: SpreadBody | None = member(
        "In how many devices the change is, of the newest one.", default=None
    )
    changes: list[ChangeBody] = member("Changes from the stretch before to the stretch after.")


@body
class TimelineBody(AnswerBody):
    """Windows in order, and the changes between them."""

    kind: Literal["timeline"] = member("The kind of analysis.", "timeline")
    windows: list[WindowBody] = member("The windows, in order.")
    change_points: list[ChangePointBody] = member("The changes, in order.")
    level: float = member("The limit of `p` of a window.", 0.019)
    smallest_shift: float = member(
        "The limit of the size of a window and of a change.", 0.1, default=0.1
    )
    usual: float = member(
        "Median change from one window to the next, in the plan's scales; 0 if windows are few.",
        0.02,
        default=0.0,
    )
    by_weekday: bool | None = member(
        "Whether windows are compared with those of the same place in the week, for which there "
        "must be five of each; null where windows do not divide a week.",
        True,
        default=None,
    )


@request
class AcceptRequest:
    """A change to accept: from its window on, later windows are compared with it."""

    first_slot: Slot = member("The first slot after the change.", 492)
    note: Annotated[str, Rule(max_length=500)] = member(
        "Why, for the list and the audit log.", "summer", default=""
    )


@body
class AcceptedChangeBody:
    """A change of a study's records that somebody accepted."""

    first_slot: int = member("The first slot after the change.", 492)
    start: Time = member("Begin of that slot.", SAMPLE_TIME)
    accepted: Time = member("When it was accepted.", SAMPLE_TIME)
    actor: str = member("The API key that accepted it.", "a1b2c3d4e5f60718")
    note: str = member("Why.", "summer")


@body
class PairBody:
    """The difference of two groups."""

    first: int = member("Number of the first group in `values`.", 0)
    second: int = member("Number of the second group in `values`.", 1)
    size: float = member("Equivalent common shift, in the plan's scales.", 0.27)
    size_error: float = member("Its standard error.", 0.05)
    p: float = member("P-value, adjusted for the number of pairs.", 0.003)
    words: str = member(
        "Whether they differ, and by how much.",
        "differ as if every record had moved by 0.27 scales (error 0.05)",
        default="",
    )
    changes: list[ChangeBody] = member("The surest named changes, at most three.")


@body
class PlaceBody:
    """The place of a group on a map; near groups are alike."""

    value: str = member("The label's value.", "north")
    x: float = member("To the right, in the plan's scales.", 0.2)
    y: float = member("Up, in the plan's scales.", -0.1)


@body
class JoinBody:
    """Two groups, or joins of groups, that a tree joins."""

    left: int = member("A group, or the number of groups plus that of an earlier join.", 0)
    right: int = member("The other.", 1)
    height: float = member("Mean difference of the groups on both sides.", 0.27)
    p: float = member("The smallest adjusted p-value between the two sides.", 0.003)


@body
class GroupsBody(AnswerBody):
    """Differences of all pairs of groups."""

    kind: Literal["groups"] = member("The kind of analysis.", "groups")
    values: list[str] = member("The label's values that can be compared.", ["north", "south"])
    n_records: list[int] = member("Records of each group.", [120000, 118000])
    sizes: list[list[float]] = member(
        "Equivalent common shifts of all pairs.", [[0.0, 0.27], [0.27, 0.0]]
    )
    errors: list[list[float]] = member("Their standard errors.", [[0.0, 0.05], [0.05, 0.0]])
    p: list[list[float]] = member(
        "P-values, adjusted for the number of pairs.", [[1.0, 0.003], [0.003, 1.0]]
    )
    pairs: list[PairBody] = member("All pairs, the surest first.")
    map: list[PlaceBody] = member("A map of the groups.")
    tree: list[JoinBody] = member("A tree of the groups, the most alike joined first.")


@body
class LampsBody:
    """Warnings about a device."""

    content: bool = member("Its records differ from the rest.", False)
    silence: bool = member("It carries less noise than the plan demands.", False)
    unusual: bool = member("It differs more than its peers do.", False)


@body
class DeviceHealthBody:
    """A device, compared with the rest."""

    device_id: Hex = member("The device's identity.", SAMPLE_ID)
    labels: dict[str, str] = member("Its labels.", {"site": "north"})
    name: str | None = member("Its owner's name of it.", "hall", default=None)
    n_sketches: int = member("Number of its sketches whose payload is kept.", 12)
    n_records: int = member("Number of their records, or an estimate where it is secret.", 12000)
    share: float = member("Share of all records.", 0.01)
    p_content: float | None = member(
        "Probability of such a difference where its records are like the rest.", 0.4
    )
    p_silence: float | None = member("Probability of so little noise.", 0.5)
    z: float | None = member("Place among its peers, in their standard deviations.", 0.2)
    lamps: LampsBody = member("Warnings.")
    size: float | None = member("Equivalent common shift from the rest.", 0.1)
    size_error: float | None = member("Its standard error.", 0.1)
    words: str = member(
        "Whether it differs, and by how much.",
        "no difference that is certain: 0.10 scales (error 0.10), which noise alone may make",
        default="",
    )
    changes: list[ChangeBody] = member(
        "Where it differs for certain: the surest changes from the rest to it, at most three.",
        default_factory=list,
    )
    least_lie: float | None = member(
        "Share of its records that would be seen half of the time if they were one point; 1 where "
        "none would.",
        0.4,
    )
    snr: float | None = member("Signal-to-noise ratio of its sketches.", 0.9)
    last_seen: Time | None = member("When it was last seen.", SAMPLE_TIME)


@body
class DevicesBody(AnswerBody):
    """The health of the devices of a selection."""

    kind: Literal["devices"] = member("The kind of analysis.", "devices")
    devices: list[DeviceHealthBody] = member("The devices, the most unlike first.")
    n_dropped: int = member("Sketches whose payload is no longer kept; they are not tested.", 0)
    level: float = member("Limit of a p-value, for one device of all.", 0.0001)


AnalysisResult = ComparisonBody | TimelineBody | GroupsBody | DevicesBody


@body
class AnalysisEntryBody:
    """An analysis in the history of a study."""

    analysis_id: Hex = member("The analysis's identity.", "64" * 32)
    study_id: Hex = member("The study.", SAMPLE_ID)
    kind: AnalysisKind = member("The kind of analysis.", "comparison")
    state: Literal["queued", "running", "succeeded", "failed", "cancelled"] = member(
        "Its state; the last three are final.", "succeeded"
    )
    progress: float = member("Share of the work that is done, 0 to 1.", 1.0)
    n_workers: int | None = member(N_WORKERS, None, default=None)
    created: Time = member("When it was queued.", SAMPLE_TIME)
    started: Time | None = member("When it began.", SAMPLE_TIME)
    finished: Time | None = member("When it ended.", SAMPLE_TIME)
    request: AnalysisRequest = member("The request, with its defaults.")
    words: list[str] | None = member(
        "The answer in sentences, if it succeeded.",
        ["the difference is one that noise explains with p = 0.0012"],
    )
    problem: Problem | None = member("The problem, if it failed.", None)


@body
class AnalysisBody(AnalysisEntryBody):
    """An analysis: its request, state, progress, and result or problem."""

    snapshots: list[Hex] = member(
        "Snapshots that it rests on, each with its exact sums.", ["21" * 32]
    )
    result: AnalysisResult | None = member("The result, if it succeeded.")
