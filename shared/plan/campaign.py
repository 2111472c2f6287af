"""Campaigns: studies that follow each other, on terms that a device pins when it joins the first.

Each phase is a study of its own, with windows of its own time, so that each record is in one phase.
Its plan depends on earlier answers, and is made by the server: what a later plan may be is stated
in the first one, and every device checks it before any noise is drawn. No signature of the server
protects a device from the server.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

from sfumato.shared.errors import PlanMismatchError
from sfumato.shared.plan.dimensions import Dimension, require, require_plain
from sfumato.shared.plan.parts import WindowRule
from sfumato.shared.plan.statistics import ClustersPart
from sfumato.shared.structure import declared, member

if TYPE_CHECKING:
    from sfumato.shared.plan.model import SketchPlan

MOST_PHASES = 8
PhaseKind = Literal["histogram", "fourier", "clusters"]
PHASE_NAMES: dict[str, str] = {"histogram": "pilot", "fourier": "sketch", "clusters": "look"}
_DRAW_DOMAIN = b"sfumato/v1/campaign/phase"
_KEPT = (
    "least_records",
    "max_records_per_person",
    "most_streams_per_device",
    "labels",
    "late_rule",
)


@declared
class Phase:
    """One phase: what is asked of each record, at what cost, and of which time."""

    statistic: PhaseKind = member("`histogram`, `fourier` or `clusters`: pilot, sketch or look.")
    epsilon: Fraction = member("The most that a record loses in it; exact.", Fraction(1))
    delta: Fraction = member("The largest delta of its noise.", default=Fraction(0))
    window: WindowRule = member("Its windows, by time and with an end.")


@declared
class Campaign:
    """The terms of a campaign: they are the same in the plan of every phase."""

    number: int = member("The phase of this plan: 0, 1, 2, ...")
    phases: tuple[Phase, ...] = member("All phases, in their order.")
    columns: tuple[Dimension, ...] = member(
        "All columns that any phase may read, with bounds that hold those of every phase."
    )
    most_clusters: int = member("The largest number of clusters.")
    most_records: int = member("The most records of one sketch in any phase.")
    most_payload_bytes: int = member("The most bytes of one sketch in any phase.")
    devices: Literal["all", "drawn"] = member(
        "`all`: every device takes part in each phase. `drawn`: in one, which a public hash draws; "
        "for devices with one record.",
        default="all",
    )

    @property
    def phase(self) -> Phase:
        """The phase of this plan."""
        return self.phases[self.number]

    @property
    def is_last(self) -> bool:
        """True in the last phase."""
        return self.number == len(self.phases) - 1

    @property
    def next(self) -> Campaign:
        """The same terms in the phase that follows."""
        return replace(self, number=self.number + 1)

    def draw(self, device: bytes) -> int:
        """Return the phase that a device takes part in, where devices are drawn.

        Parameters
        ----------
        device
            Its identity in the campaign: that in the study it joined first, 32 bytes.
        """
        digest = hashlib.sha256(_DRAW_DOMAIN + device).digest()
        return int.from_bytes(digest, "big") % len(self.phases)

    def describe(self) -> str:
        """State the phases, and what someone in all of them loses."""
        number, n = self.number + 1, len(self.phases)
        listed = ", ".join(
            f"{PHASE_NAMES[each.statistic]} at {_show_level(each.epsilon, each.delta)}"
            for each in self.phases
        )
        deltas = [each.delta for each in self.phases]
        epsilons = [each.epsilon for each in self.phases]
        total = _show_level(sum(epsilons, Fraction(0)), sum(deltas, Fraction(0)))
        largest = _show_level(max(epsilons), max(deltas))
        if self.devices == "drawn":
            who = (
                "A device takes part in one of them, which a public hash of its identity draws: it "
                f"loses at most {largest} in each window"
            )
        else:
            who = (
                "Each has records of its own time, so that a record is in one of them and loses at "
                f"most {largest}, where its time is read in one way in all; a person with "
                f"a record in every phase loses {total}"
            )
        return (
            f"This is phase {number} of {n} of a campaign: {listed}. {who}. Later plans are made "
            "from earlier answers; a device takes part in those that keep these terms, without its "
            "owner being asked again, unless [policy] phases leaves one out."
        )


def _show_level(epsilon: Fraction, delta: Fraction) -> str:
    return f"epsilon {epsilon}" + (f" and delta {delta}" if delta else "")


def require_phase(plan: SketchPlan, campaign: Campaign) -> None:
    """Check the terms of a campaign, and that a plan keeps them.

    Raises
    ------
    PlanError
        A term breaks its rule, or the plan is not of its phase.
    """
    _require_terms(plan, campaign)
    phase, release = campaign.phase, plan.release
    require(plan.kind == phase.statistic, "statistic.kind", f"must be {phase.statistic} here")
    for name in ("epsilon", "delta"):
        most = getattr(phase, name)
        require(
            getattr(release, name) <= most,
            f"release.{name}",
            f"must be at most {most} in phase {campaign.number}",
        )
    require(plan.window == phase.window, "window", "must be that of its phase")
    require(
        plan.most_records <= campaign.most_records,
        "most_records",
        f"must be at most {campaign.most_records} in this campaign",
    )
    for each in plan.dimensions:
        _require_column(each, campaign)
    k = plan.most_clusters or 0
    if isinstance(plan.statistic, ClustersPart):
        k = len(plan.statistic.centres)
        require(
            not plan.statistic.candidates,
            "statistic.candidates",
            "must be left out in a campaign: a look shows one answer",
        )
    require(
        k <= campaign.most_clusters,
        "most_clusters",
        f"must be at most {campaign.most_clusters} in this campaign",
    )


def _require_terms(plan: SketchPlan, campaign: Campaign) -> None:
    phases, where = campaign.phases, "campaign.phases"
    require(2 <= len(phases) <= MOST_PHASES, where, f"must be 2 to {MOST_PHASES}")
    require(0 <= campaign.number < len(phases), "campaign.number", "must be one of the phases")
    kinds = [each.statistic for each in phases]
    looks = kinds[kinds.count("histogram") + 1 :]
    require(
        kinds == ["histogram"] * (kinds[0] == "histogram") + ["fourier"] + looks
        and set(looks) <= {"clusters"},
        where,
        "must be a pilot or none, then one sketch, then looks",
    )
    for name in ("most_clusters", "most_records", "most_payload_bytes"):
        require(getattr(campaign, name) >= 1, f"campaign.{name}", "must be at least 1")
    names = [each.name for each in campaign.columns]
    require(bool(names) and len(set(names)) == len(names), "campaign.columns", "must have names")
    for column in campaign.columns:
        require_plain("campaign.columns", column.name, column.unit, *column.levels)
        require(all(map(math.isfinite, column.bounds)), "campaign.columns", "must have bounds")
    require(
        campaign.devices == "all" or plan.protects_devices or campaign.most_records == 1,
        "campaign.devices",
        "cannot be drawn where a device has several records in a window",
        "leave out --drawn, or plan for one record of each device",
    )
    require(
        plan.sum_release is None,
        "release",
        "cannot be sum.v1 in a campaign: its helper accepts the plan of each phase by itself",
        "publish a study for each phase",
    )
    require(
        plan.is_bounded,
        "late_rule",
        'must be "leave-out-outside" in a campaign: else a late record would be in two phases',
    )
    for phase in phases:
        require(phase.epsilon > 0, f"{where}.epsilon", "must be above 0 in every phase")
        require(0 <= phase.delta < 1, f"{where}.delta", "must be from 0 to below 1")
    windows = [each.window for each in phases]
    require(
        all(_is_whole(window) for window in windows),
        where,
        "must have windows by time, and an end a whole number of windows after the origin",
    )
    require(
        all(a.end is not None and a.end <= b.origin for a, b in pairwise(windows)),
        where,
        "must follow each other: each ends before the next begins",
    )


def _is_whole(window: WindowRule) -> bool:
    span = (window.end or 0) - window.origin
    is_whole = window.length_s >= 1 and span >= window.length_s and span % window.length_s == 0
    return window.kind == "time" and window.length == 0 and window.origin > 0 and is_whole


def _require_column(dimension: Dimension, campaign: Campaign) -> None:
    where = f"dimensions.{dimension.name}"
    known = {each.name: each for each in campaign.columns}.get(dimension.name)
    require(known is not None, where, "must be a column of the campaign")
    assert known is not None
    for name in ("unit", "levels"):
        require(
            getattr(dimension, name) == getattr(known, name),
            f"{where}.{name}",
            "must be that of the campaign",
        )
    (low, high), (least, most) = dimension.bounds, known.bounds
    require(
        least <= low and high <= most,
        where,
        f"must have bounds inside those of the campaign, {least:g} to {most:g}",
    )


def require_follows(before: SketchPlan, after: SketchPlan) -> None:
    """Check that a plan is that of the next phase, on the terms of the one before.

    Together with :func:`require_phase`, which every plan of a campaign has passed, this pins what a
    device decided when it joined: statistics, release, relation, unit, epsilon and delta of each
    phase, times, records, columns with units and bounds, clusters and bytes.

    Raises
    ------
    PlanMismatchError
        It is not, and the field says why.
    """
    terms = before.campaign
    if terms is None or terms.is_last:
        raise _mismatch("campaign", "must have a further phase: this study is the last")
    if after.campaign != terms.next:
        raise _mismatch("campaign", "must be the terms that this device joined, one phase on")
    for name in ("kind", "neighbouring", "unit"):
        if getattr(after.release, name) != getattr(before.release, name):
            raise _mismatch(f"release.{name}", f"must stay {getattr(before.release, name)}")
    for name in _KEPT:
        if getattr(after, name) != getattr(before, name):
            raise _mismatch(name, f"must stay {getattr(before, name)}")
    if after.payload_bytes > terms.most_payload_bytes:
        raise _mismatch("payload_width", f"must make at most {terms.most_payload_bytes} bytes")


def _mismatch(field: str, rule: str) -> PlanMismatchError:
    return PlanMismatchError(
        rule, field=field, fix="ask the study's operator; this device takes no part in it"
    )
