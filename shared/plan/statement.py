"""Privacy statement of a plan: promise, exclusions and public facts.

The server, the commands, the dashboard and the documents render it and add nothing. A test compares
the public facts with every field that a device sends.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

from sfumato.shared.plan.catalogue import find_unit_doubt
from sfumato.shared.plan.dimensions import Dimension
from sfumato.shared.plan.model import SketchPlan
from sfumato.shared.plan.parts import SumRelease
from sfumato.shared.plan.people import describe_odds, describe_person, show_level
from sfumato.shared.privacy.group import USUAL_GROUPS, GroupLoss, compute_group_loss, format_upper
from sfumato.shared.privacy.limits import find_level_cautions

SEVERAL_WINDOWS = 10
"""Windows of one person, shown next to one window."""
EXACTLY = "In exact terms:"
"""Divides a statement: plain words before it, the exact promise after it."""
_NARROWEST = 1000


_DECISION = (
    "the owner's decision to join, and with which settings: a dry run has looked at the records "
    "before, so a device that stays away, or joins later, may tell something of them; once it has "
    "joined, nothing that is held back or stopped depends on values"
)


@dataclass(frozen=True, kw_only=True)
class PublicFact:
    """A fact that a sketch or a device reveals and no noise hides.

    Parameters
    ----------
    what, detail
        Name, and a sentence.
    seen_by
        Who sees it, besides the server.
    fields
        The message fields that reveal it.
    """

    what: str
    detail: str
    seen_by: str
    fields: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class PrivacyStatement:
    """Everything stated about the privacy of a study.

    Parameters
    ----------
    plain
        The promise in plain words: see :func:`~sfumato.shared.plan.people.describe_odds` and
        :func:`~sfumato.shared.plan.people.describe_person`.
    guarantee
        The promise of one sketch for one record, or for all records of a device in a window; and
        its assumptions.
    times
        See :func:`describe_times`.
    campaign
        The phases of its campaign; None of a study by itself.
    unit
        ``record`` or ``device``, see :class:`~sfumato.shared.plan.parts.LocalRelease`.
    people
        Losses of people with several records; the first has one record in one window.
    max_records_per_person
        As the plan states it; None if unknown.
    public, unprotected
        What everybody may see, and what the guarantee does not cover.
    influence
        The most that one lying sketch can move the sum, in equal records, when it claims the least
        and the most records.
    cautions
        Warnings about the plan.
    """

    plain: str
    guarantee: str
    times: str | None
    campaign: str | None
    unit: str
    people: tuple[GroupLoss, ...]
    max_records_per_person: int | None
    public: tuple[PublicFact, ...]
    unprotected: tuple[str, ...]
    influence: tuple[float, float]
    cautions: tuple[str, ...]

    def describe(self) -> str:
        """Describe the promise: for people first, then exactly, with times and further losses."""
        exact = self.guarantee, self.times, self.campaign, self.describe_people()
        return " ".join(filter(None, (self.plain, EXACTLY, *exact)))

    def describe_people(self) -> str:
        """Describe the loss of people with several records: epsilon at delta, delta at epsilon.

        Nothing where the unit is a device: all its records of a window are protected together.
        """
        if self.unit == "device":
            return ""
        if self.people[0].delta:
            return _describe_gaussian(self.people)
        largest = self.people[-1]
        return (
            "Someone with q records in each of w windows is protected at q w times "
            f"epsilon: {largest.n_records} in each of {largest.n_windows} windows at "
            f"{format_upper(largest.epsilon)}."
        )

    def people_to_json(self) -> list[dict[str, Any]]:
        """Return the losses of people as JSON values; decimals are text, rounded up."""
        return [
            {
                "n_records": loss.n_records,
                "n_windows": loss.n_windows,
                "epsilon": format_upper(loss.epsilon),
                "delta": format_upper(loss.delta),
                "multiple_epsilon": format_upper(loss.multiple_epsilon),
                "multiple_delta": format_upper(loss.multiple_delta),
            }
            for loss in self.people
        ]


def make_statement(plan: SketchPlan, *, records_a_day: int | None = None) -> PrivacyStatement:
    """Return the privacy statement of a plan.

    Parameters
    ----------
    records_a_day
        Records that a device makes a day, where they are known: for a person who is in all of them.
    """
    known = plan.max_records_per_person
    groups = USUAL_GROUPS if known is None else tuple(sorted({1, known}))
    if plan.protects_devices:
        groups = (1,)
    return PrivacyStatement(
        plain=f"{describe_odds(plan)} {describe_person(plan, records_a_day=records_a_day)}",
        guarantee=_describe_guarantee(plan),
        times=describe_times(plan),
        campaign=None if plan.campaign is None else plan.campaign.describe(),
        unit=plan.release.unit,
        people=tuple(
            compute_group_loss(plan.mechanism, n_records=q, n_windows=w)
            for w in (1, SEVERAL_WINDOWS)
            for q in groups
        ),
        max_records_per_person=known,
        public=list_public_facts(
            hides_presence=plan.releases_count,
            by_time=plan.window.kind == "time",
            protects_devices=plan.protects_devices,
        ),
        unprotected=_list_unprotected(plan),
        influence=compute_largest_influence(plan),
        cautions=find_cautions(plan),
    )


def _describe_guarantee(plan: SketchPlan) -> str:
    guarantee = plan.mechanism.guarantee
    if plan.sum_release is None:
        return guarantee.describe(unit=plan.release.unit)
    return f"{describe_trust(plan)} {guarantee.describe_batch(unit=plan.release.unit)}"


def describe_trust(plan: SketchPlan, *, helper: str | None = None) -> str:
    """Describe whom the promise of a plan rests on; only a secure sum rests on servers.

    Parameters
    ----------
    helper
        The name of the helper of a draft, where it is known.
    """
    release = plan.sum_release
    if release is None:
        return "Each sketch is private by itself, whoever sees it."
    name = helper or _name_helper(release)
    exact = "your sums exactly"
    if plan.most_records == 1:
        exact += ", and with one record in each, the record"
    counts = "" if plan.releases_count else ", and how many records it has"
    return (
        f"Your sums leave this device masked. The server holds them; {name} holds what unmasks "
        "them. Each of the two adds noise, so what comes out, and all that either of them sees, is "
        f"private at {show_level(release.epsilon, release.delta)} for one {release.unit}. This "
        "holds as long as the two do not work together, and are not both broken into: if they do, "
        f"they can read {exact}. The promise against each of them also rests on encryption that "
        f"stays unbroken. Both see that and when this device takes part{counts}. No promise rests "
        "on how many others take part."
    )


def _name_helper(release: SumRelease) -> str:
    return "the helper" if release.helper is None else release.helper.name


def describe_helper(release: SumRelease) -> str:
    """Describe the second server of a secure sum: its operator, and how owners allow it."""
    if release.helper is None:
        return (
            "none yet: this is a draft. Let the helper's operator accept it with `sfumato helper "
            "accept`, and publish what comes back"
        )
    return (
        f"{release.helper.name}, with the identity {release.helper.fingerprint.hex()}. A device "
        "takes part only if its owner allows this identity: policy.helpers"
    )


def describe_times(plan: SketchPlan) -> str | None:
    """Describe which records a bounded plan leaves out by their times; None if it leaves none."""
    if not plan.is_bounded:
        return None
    since, until = plan.window.origin, plan.window.end
    span = f"from {show_time(since)} on"
    if until is not None:
        span = f"from {show_time(since)} until before {show_time(until)}"
    return (
        f"Only records with a time {span} count; all others, and those without a readable time, "
        "are left out. So none of them is in a study of other times too: two such studies of one "
        "source cost a record the larger of their epsilons, not the sum, where both read times in "
        "the same way."
    )


def show_time(seconds: int) -> str:
    """Return a time in UTC for people."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def find_cautions(plan: SketchPlan) -> tuple[str, ...]:
    """Return warnings about a plan: its level, a scale out of the sensible range, or a unit."""
    level = find_level_cautions(
        epsilon=plan.release.epsilon, delta=plan.release.delta, n_records=plan.most_records
    )
    dimensions = [each for each in plan.dimensions if not each.is_categorical]
    scales = (_find_scale_caution(dimension) for dimension in dimensions)
    units = (
        f"dimensions.{each.name}: {doubt}"
        for each in dimensions
        if (doubt := find_unit_doubt(each.unit))
    )
    return (*level, *(caution for caution in scales if caution), *units)


def list_public_facts(
    *, hides_presence: bool, by_time: bool, protects_devices: bool = False
) -> tuple[PublicFact, ...]:
    """List the public facts of a device."""
    everyone = "analysts, and whoever is given a sketch"
    return (
        PublicFact(
            what="study, plan and format",
            detail="The study of a sketch, the digest of its plan, its kind and length.",
            seen_by=everyone,
            fields=("study", "plan_digest", "version", "kind", "payload_length"),
        ),
        PublicFact(
            what="device",
            detail="The identity of the device, its public keys, and when they changed.",
            seen_by=everyone,
            fields=("device", "public_key", "last_sequences"),
        ),
        PublicFact(
            what="device's name",
            detail="The name that the owner gives the device, if any: choose one that says nothing "
            "of a person.",
            seen_by="analysts",
            fields=("name",),
        ),
        PublicFact(
            what="labels",
            detail="The values of the labels that the device enrolled with.",
            seen_by="analysts",
            fields=("labels",),
        ),
        PublicFact(
            what="a device that was replaced",
            detail="The device whose place another one takes, where the owner says so: that what "
            "both have sent comes from one place.",
            seen_by="analysts",
            fields=("replaces",),
        ),
        PublicFact(
            what="the phase before",
            detail="In a campaign, the identity of the same device in the phase before.",
            seen_by="analysts",
            fields=("continues",),
        ),
        PublicFact(
            what="stream names",
            detail="The names that the owner gave the streams: choose names that say nothing.",
            seen_by=everyone,
            fields=("stream",),
        ),
        PublicFact(
            what="sequence numbers",
            detail="The number of sketches that each stream has released, and their order.",
            seen_by=everyone,
            fields=("sequence",),
        ),
        PublicFact(
            what="features",
            detail="Which features a sketch carries, where the plan lets it carry only some: they "
            "follow from the plan, the order of enrolment, the stream's name, and the sketch's "
            "first slot or number.",
            seen_by=everyone,
            fields=("block",),
        ),
        _describe_windows(hides_presence, by_time),
        _describe_count(hides_presence, protects_devices),
        _describe_times(hides_presence, protects_devices),
        PublicFact(
            what="software",
            detail="The versions of the agent, and the engine that computes its sketches.",
            seen_by="analysts",
            fields=("agent", "engine"),
        ),
        PublicFact(
            what="waiting sketches",
            detail="The number of released sketches that wait on the device, and the last number "
            "of each stream that the server has acknowledged.",
            seen_by="analysts",
            fields=("waiting_sketches", "acknowledged"),
        ),
        PublicFact(
            what="refusals",
            detail="The owner's rule that refuses the plan, with the limit that the owner set.",
            seen_by="analysts",
            fields=("plan_refusals", "rule", "detail"),
        ),
        PublicFact(
            what="random and derived bytes",
            detail="A random number, digests of what is sent, signatures, an enrolment token, and "
            "for a secure sum a seed that only the helper can open: they reveal nothing about "
            "records.",
            seen_by=everyone,
            fields=("report_id", "payload_digest", "signature", "proof", "token", "sealed"),
        ),
    )


def _describe_windows(hides_presence: bool, by_time: bool) -> PublicFact:
    if hides_presence:
        detail = "The slot that a sketch covers: every slot has a sketch, empty or not."
    elif by_time:
        detail = "The slots that a sketch covers, and so when there were enough records for one."
    else:
        detail = "Not the times of records, but when a sketch comes shows when its window was full."
    return PublicFact(
        what="windows",
        detail=detail,
        seen_by="analysts, and whoever is given a sketch",
        fields=("slots",),
    )


def _describe_times(hides_presence: bool, protects_devices: bool) -> PublicFact:
    detail = (
        "The times of a device's requests, by its own clock and the server's, its address, and the "
        "sizes of its messages; "
    )
    if hides_presence:
        detail += "a run sends what the previous one released, so these are the times of runs."
    else:
        detail += "a sketch is sent when its window is released, which shows when there were "
        detail += "records, and how long it took to read them." if protects_devices else "records."
    if hides_presence or protects_devices:
        detail += " Reading a source over a network (HTTP, MQTT) shows its size on that network."
    return PublicFact(
        what="times and addresses",
        detail=detail,
        seen_by="whoever watches the network; analysts see when sketches came",
        fields=("created",),
    )


def _describe_count(hides_presence: bool, protects_devices: bool) -> PublicFact:
    detail = "The exact number of records in every sketch, those that could not be read included."
    if hides_presence:
        detail = "Only with noise: the exact number is not sent."
    if protects_devices:
        detail = "Only that there was one at least: every sketch says 1."
    return PublicFact(
        what="number of records",
        detail=detail,
        seen_by="analysts, and whoever is given a sketch",
        fields=("n_records", "n_public"),
    )


def _list_unprotected(plan: SketchPlan) -> tuple[str, ...]:
    presence = "that and when a device takes part"
    stolen = (
        "a stolen device, which holds the exact sum of its open window, and how many records it "
        "has and has read"
    )
    people = (
        "someone with several records as well as one record: their losses are stated separately",
        "someone with records on several devices: the losses add up",
    )
    if plan.releases_count:
        stolen = (
            "a stolen device, which holds the exact sums and numbers of records of all slots that "
            "it has not released yet, the open one and those since its last run, and the number "
            "of records read in all"
        )
    elif plan.protects_devices:
        presence += ", and in which slots it has records"
        people = (
            "someone with records in several windows as well as in one: the losses add up",
            "someone with records on several devices: the losses add up",
        )
    else:
        presence += ", and how many records it has"
    both: tuple[str, ...] = ()
    if plan.sum_release is not None:
        both = (
            "anything against the server and the helper together, or whoever steals the sums of "
            "the one and the key of the other",
        )
    return presence, *both, _DECISION, *people, stolen, _describe_liar(plan)


def compute_largest_influence(plan: SketchPlan) -> tuple[float, float]:
    """Return the influence of a lying sketch, in equal records, at the least and most records."""
    least, most = plan.size_limits
    return plan.compute_influence(least), plan.compute_influence(most)


def _describe_liar(plan: SketchPlan) -> str:
    if plan.sum_release is not None:
        n_parts = plan.sum_release.parts
        return (
            "the result against a device that lies: nobody can look at a masked sum, so one report "
            f"can move the total of its batch by any amount; there are {n_parts} batch(es) for "
            "each slot and label set, and a total that no honest devices can have is set aside"
        )
    least, most = compute_largest_influence(plan)
    reach = (
        f"{most:.3g} equal devices"
        if plan.protects_devices
        else f"{least:,.0f} equal records, or {most:,.0f} if it claims {plan.most_records:,}"
    )
    return (
        "the result against a device that lies: nobody can distinguish a lie from noise, so one "
        f"sketch can move the sum as far as {reach}. A device may send "
        f"{plan.most_sketches_per_device:,} sketch(es), in {plan.most_streams_per_device} stream(s)"
        + _describe_concentration(plan)
    )


def _describe_concentration(plan: SketchPlan) -> str:
    if not plan.is_split:
        return ""
    n_blocks = plan.blocks.n_blocks
    return (
        f". It moves only what it carries, one part in {n_blocks:,} of what is summed, but about "
        f"one sketch in {n_blocks:,} carries it, so that it weighs {n_blocks:,} times as much "
        "there; a device that lies can choose which part it is"
    )


def _find_scale_caution(dimension: Dimension) -> str | None:
    if dimension.scale is None or dimension.transform is not None:
        return None
    width = (dimension.upper or 0.0) - (dimension.lower or 0.0)
    if dimension.scale > width / 2:
        return (
            f"dimensions.{dimension.name}: the scale {dimension.scale:g} is above half of the "
            f"width of the bounds, {width:g}: values within the bounds cannot spread so far. Give "
            "the standard deviation inside one cluster"
        )
    if dimension.scale * _NARROWEST < width:
        return (
            f"dimensions.{dimension.name}: the scale {dimension.scale:g} is below a thousandth of "
            f"the width of the bounds, {width:g}: such narrow clusters are hard to find. Narrow "
            "the bounds, or widen the scale"
        )
    return None


def _describe_gaussian(people: tuple[GroupLoss, ...]) -> str:
    several = [loss for loss in people if loss.n_windows == 1][1:]
    if not several:
        return ""
    at = ", ".join(f"{format_upper(loss.epsilon)} for {loss.n_records}" for loss in several)
    there = ", ".join(
        f"{format_upper(loss.multiple_delta)} for {loss.n_records}" for loss in several
    )
    return (
        "Gaussian noise does not protect q records of one window at q times epsilon: at the same "
        f"delta, {format_upper(people[0].delta)}, epsilon is {at}; at q times epsilon delta is "
        f"{there}."
    )


def show_exact(value: Fraction) -> str:
    """Write a rational for people: a decimal where that is short and exact, else a fraction."""
    decimal = f"{float(value):.6g}"
    return decimal if Fraction(decimal) == value else str(value)


def describe_release(plan: SketchPlan) -> str:
    """Describe in words what a device sends of a window, and for which epsilon."""
    epsilon, statistic = plan.release.epsilon, plan.statistic.describe(plan.space)
    what = f"{statistic}, summed, with noise"
    if plan.kind in ("histogram", "grid"):
        what = f"{statistic}, with noise"
    if plan.protects_devices:
        what = f"{statistic}, with noise: the mean of the first records of each slot"
        if plan.most_records == 1:
            what = f"{statistic}, with noise, of the first record of each slot alone"
    if plan.reports_phases:
        kind = "phase" if plan.kind == "fourier" else "bin"
        what = f"a noisy {kind} of the first record of each slot"
    carried = ""
    if plan.sum_release is not None:
        what = what.replace(", with noise", ", masked", 1)
        what += f"; the server and {_name_helper(plan.sum_release)} each add noise to the total"
    if plan.is_split:
        part = {"histogram": "dimensions", "clusters": "clusters"}.get(plan.kind, "frequencies")
        n_parts = plan.blocks.frequencies_per_sketch, plan.blocks.n_frequencies
        carried = f"; of {n_parts[0]} of {n_parts[1]} {part} in each sketch"
    whom = "all records of a window together" if plan.protects_devices else "each record"
    return f"{what}{carried}; epsilon {epsilon} for {whom}"
