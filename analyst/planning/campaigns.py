"""The first plan of a campaign: a pilot that states what the later phases may be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal

from sfumato.learning.planning.pilots import Pilot, PilotOutline, plan_pilot
from sfumato.shared.errors import ConfigError
from sfumato.shared.plan import Campaign, Dimension, Label, Phase, SketchPlan, WindowRule
from sfumato.shared.plan.derivation import verify

_MOST_PAYLOAD_BYTES = 1 << 20


@dataclass(frozen=True, kw_only=True)
class CampaignOutline:
    """The facts of a campaign that are known before it begins.

    Parameters
    ----------
    dimensions
        The columns, as a pilot takes them.
    n_records, n_devices
        Records of all devices in one window together, and the devices.
    most_clusters
        The largest number of clusters.
    epsilon, delta
        Budget of a record, in the one phase that it is in.
    origin, length_s
        When the first phase begins, and the length of a window.
    n_windows
        The windows of each phase: pilot, sketch, and each look.
    gap
        Windows between two phases, in which nothing is read.
    devices
        Whether all take part in each phase, or each in a drawn one.
    neighbouring, labels, max_records_per_person
        As in a plan.
    """

    dimensions: tuple[Dimension, ...]
    n_records: int
    n_devices: int
    most_clusters: int
    epsilon: Fraction
    delta: Fraction = Fraction(0)
    origin: int
    length_s: int
    n_windows: Sequence[int]
    gap: int = 0
    devices: Literal["all", "drawn"] = "all"
    neighbouring: str = "replace-one"
    labels: tuple[Label, ...] = ()
    max_records_per_person: int | None = None


def plan_campaign(outline: CampaignOutline) -> tuple[Pilot, SketchPlan]:
    """Plan the first phase of a campaign; return the pilot, and its plan with the terms.

    Raises
    ------
    ConfigError, PlanError, PrivacyError
        A fact breaks its rule.
    """
    if len(outline.n_windows) < 2 or min(outline.n_windows) < 1:
        raise ConfigError(
            "must be the windows of pilot, sketch and looks, each at least 1",
            field="--windows",
            fix="write 1,7,7 for a day of pilot, and a week each of sketch and look",
        )
    windows = _lay_out(outline)
    # Where devices are drawn, each phase has its share of them.
    n_drawn = 1 if outline.devices == "all" else len(windows)
    n_windows = outline.n_windows[0]
    n_sketches = max(1, outline.n_devices // n_drawn) * n_windows
    pilot = plan_pilot(
        PilotOutline(
            dimensions=outline.dimensions,
            n_records=max(n_sketches, outline.n_records // n_drawn * n_windows),
            n_sketches=n_sketches,
            n_windows=n_windows,
            epsilon=outline.epsilon,
            delta=outline.delta,
            shares_records=False,
            window=windows[0],
            neighbouring=outline.neighbouring,
            labels=outline.labels,
            max_records_per_person=outline.max_records_per_person,
        )
    )
    if pilot.are_reports and len(windows) > 2:
        raise ConfigError(
            "gives so many devices with so few records that each reports one noisy value, and "
            "nobody can look at clusters by such reports",
            field="--windows",
            fix="leave out the looks, or plan with more records",
        )
    kinds: list[Literal["histogram", "fourier", "clusters"]] = ["histogram", "fourier"]
    kinds += ["clusters"] * (len(windows) - 2)
    plan = pilot.plan
    terms = Campaign(
        number=0,
        phases=tuple(
            Phase(statistic=kind, epsilon=outline.epsilon, delta=outline.delta, window=window)
            for kind, window in zip(kinds, windows, strict=True)
        ),
        columns=plan.dimensions,
        most_clusters=outline.most_clusters,
        most_records=plan.most_records,
        most_payload_bytes=_MOST_PAYLOAD_BYTES,
        devices=outline.devices,
    )
    plan = replace(plan, campaign=terms)
    verify(plan)
    return pilot, plan


def _lay_out(outline: CampaignOutline) -> list[WindowRule]:
    origin, rules = outline.origin, []
    for n in outline.n_windows:
        end = origin + n * outline.length_s
        rules.append(WindowRule(kind="time", origin=origin, length_s=outline.length_s, end=end))
        origin = end + outline.gap * outline.length_s
    return rules
