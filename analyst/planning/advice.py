"""Advice in words and tables."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

from sfumato.analyst.planning.alternatives import (
    describe_grid,
    describe_method,
    describe_ways,
    fleets_to_json,
    grid_to_json,
    method_to_json,
    tabulate_fleets,
    tabulate_ways,
    ways_to_json,
)
from sfumato.analyst.planning.candidates import (
    UNIT_WORDS,
    candidate_to_json,
    describe_devices,
    describe_need,
    describe_phases,
    describe_promise,
    describe_selection,
    describe_split,
    phases_to_json,
    show_band,
    show_snr,
)
from sfumato.analyst.planning.spec import list_fields
from sfumato.learning.planning.alternatives import (
    Fleet,
    FleetForecast,
    Ways,
    find_ways,
    forecast_fleets,
)
from sfumato.learning.planning.candidates import Candidate
from sfumato.learning.planning.grids import GridCandidate, find_better_grid
from sfumato.learning.planning.laws import describe_law
from sfumato.learning.planning.looks import LOOK_SHARE, LookShare, compare_look
from sfumato.learning.planning.methods import MethodChoice, choose_method_of_study
from sfumato.learning.planning.outline import POSSIBLE_CLUSTERS, StudyOutline, guess_clusters
from sfumato.learning.planning.planner import Advice, advise, find_smallest_epsilon
from sfumato.learning.planning.quality import QualityBand
from sfumato.learning.planning.remedies import Doubt, describe_doubt, doubt_advice, doubt_to_json
from sfumato.shared.errors import PrivacyError
from sfumato.shared.plan.statement import show_exact

CAVEATS = (
    "The SNR follows from the mechanism and one assumption: that the signal energy |z|^2 is "
    "{signal:.2g}. It is that of round clusters of the stated scales, about as close as they can "
    "be told apart, under this law of frequencies; the SNR is nearly proportional to it.",
    "The band is a rule of thumb, measured with the mixture decoder on Gaussian clusters and on "
    "hourly weather. It assumes scales close to the true spread and clusters of comparable size; "
    "rare far clusters, and the paper's decoder cl-ompr, give worse results.",
)
PRESENCE = (
    "Under add-remove-one the presence of a record is hidden, so nobody learns how many there are: "
    "every device sends a sketch for every window since the start of the study, empty ones too, "
    "each with the same noise. Windows are by time, sketches are weighted by size only, and the "
    "SNR counts the noise of the number of records."
)


@dataclass(frozen=True, kw_only=True)
class AdviceReport:
    """Advice, with all that is shown beside it.

    Parameters
    ----------
    advice
        Advice for the study.
    n_devices
        The devices that send the outline's sketches.
    smallest
        The recommended candidate at the smallest epsilon that reaches the target; None if no
        epsilon does.
    fleets
        The expected quality of the same records in other numbers of sketches.
    reports_needed
        The least number of phase reports for a relative SSE of 1.2, where they are recommended and
        some number suffices.
    doubt
        Why not to run the study at all; None where there is hope.
    ways
        The ways of adding noise beside each other, where a secure sum is wanted, or would help.
    method
        The method for records in one place, sketches among them.
    """

    advice: Advice
    n_devices: int
    smallest: Candidate | None
    fleets: tuple[FleetForecast, ...]
    reports_needed: int | None = None
    doubt: Doubt | None = None
    ways: Ways | None = None
    method: MethodChoice | None = None

    @property
    def outline(self) -> StudyOutline:
        """The study."""
        return self.advice.outline

    @property
    def n_windows(self) -> int:
        """The sketches of one device."""
        return self.outline.n_sketches // self.n_devices

    @property
    def grid(self) -> GridCandidate | None:
        """A grid that would be better than any number of frequencies; None if there is none."""
        best = self.advice.recommended
        return find_better_grid(self.outline, epsilon=best.epsilon, delta=best.delta)

    @property
    def look(self) -> LookShare | None:
        """The effect of leaving epsilon for a second look; None where nobody can tell."""
        advice, best = self.advice, self.advice.recommended
        if best.band.is_hopeless or self.outline.protects_devices:
            return None
        try:
            rest = advise(
                self.outline,
                epsilon=best.epsilon * (1 - LOOK_SHARE),
                delta=best.delta / 2,
                target_sse=advice.target_sse,
            )
            return compare_look(self.outline, best, rest.recommended)
        except PrivacyError:
            # No noise gives so small an epsilon.
            return None

    @property
    def reason(self) -> str | None:
        """The reason for sketches of some frequencies, in words; None where they carry all."""
        return describe_reason(self.advice)

    @property
    def selection(self) -> str:
        """The shortest selection that can be decoded, in words."""
        if self.outline.is_summed:
            return "a batch, which holds the reports of one slot, label set and part"
        return describe_selection(
            self.advice.recommended.shortest_selection,
            n_devices=self.n_devices,
            n_windows=self.n_windows,
        )

    @property
    def assumptions(self) -> list[str]:
        """The assumptions of the prediction, a sentence or two each."""
        outline, best = self.outline, self.advice.recommended
        return [
            *describe_assumptions(self.advice.recommended.prediction.signal_energy),
            *([] if best.reports_phases else describe_devices(outline, is_split=best.is_split)),
        ]


def report_on(advice: Advice, *, n_devices: int, fleet: Fleet) -> AdviceReport:
    """Gather all that is shown beside advice.

    Parameters
    ----------
    advice, n_devices
        Advice for a study, and the number of devices that send its sketches.
    fleet
        The batches of a secure sum, wanted or possible.
    """
    outline, target_sse = advice.outline, advice.target_sse
    return AdviceReport(
        advice=advice,
        n_devices=n_devices,
        reports_needed=advice.reports_needed,
        smallest=find_smallest_epsilon(outline, delta=advice.delta, target_sse=target_sse),
        # Masked sums have the same noise, however many there are.
        fleets=() if outline.is_summed else forecast_fleets(advice),
        ways=find_ways(advice, fleet),
        method=choose_method_of_study(
            outline, epsilon=advice.recommended.epsilon, delta=advice.delta
        ),
        doubt=doubt_advice(advice),
    )


def advice_to_json(report: AdviceReport) -> dict[str, Any]:
    """Return advice as JSON values; rationals are exact text."""
    outline, advice, smallest = report.outline, report.advice, report.smallest
    look = report.look
    return {
        "records": outline.n_records,
        "sketches": outline.n_sketches,
        "dimensions": outline.n_dimensions,
        "clusters": outline.n_clusters,
        "neighbouring": outline.neighbouring,
        "unit": outline.unit,
        "devices_differ": outline.devices_differ,
        "smallest_selection": outline.selected_sketches,
        "target_sse": advice.target_sse,
        "meets_target": advice.meets_target,
        "do_not_run": None if report.doubt is None else doubt_to_json(report.doubt),
        "bytes_are_scarce": outline.bytes_are_scarce,
        "clusters_within_target": advice.cluster_range.within_target,
        "clusters_at_most": advice.cluster_range.at_most,
        "recommended": candidate_to_json(advice.recommended),
        "better_grid": (
            None if report.grid is None else grid_to_json(report.grid, advice.recommended.epsilon)
        ),
        "method": None if report.method is None else method_to_json(report.method),
        "reason_for_small_sketches": report.reason,
        "phase_reports": (
            phases_to_json(outline, report.reports_needed, n_windows=report.n_windows)
            if advice.recommended.reports_phases
            else None
        ),
        "shortest_selection": {
            "sketches": advice.recommended.shortest_selection,
            "statement": report.selection,
        },
        "surpassed_with_delta": (
            None if advice.surpassed is None else candidate_to_json(advice.surpassed)
        ),
        "second_look": None if look is None else asdict(look) | {"pays": look.pays},
        "smallest_epsilon": None if smallest is None else candidate_to_json(smallest),
        "candidates": [candidate_to_json(candidate) for candidate in advice.candidates],
        "refused": [
            {
                "mechanism": refusal.mechanism,
                "n_frequencies": refusal.n_frequencies,
                "reason": str(refusal.error),
            }
            for refusal in advice.refusals
        ],
        "fleets": fleets_to_json(report.fleets),
        "ways": None if report.ways is None else ways_to_json(report.ways),
        "assumptions": report.assumptions,
    }


def describe_assumptions(signal_energy: float) -> list[str]:
    """Describe the assumptions of a prediction, a sentence or two each."""
    return [text.format(signal=signal_energy) for text in CAVEATS]


def print_advice(console: Console, report: AdviceReport) -> None:
    """Print the doubt, the candidates, the recommendation, its assumptions and the next step."""
    doubt = _describe_doubt(report)
    if doubt is not None:
        console.print(doubt)
        console.print()
    console.print(_tabulate_candidates(report.advice))
    for refusal in report.advice.refusals:
        console.print(
            f"left out: {refusal.mechanism}, m = {refusal.n_frequencies}: {refusal.error}"
        )
    for paragraph in _describe(report):
        console.print()
        console.print(paragraph)
    if report.ways is not None:
        console.print()
        console.print(tabulate_ways(report.ways))
        for paragraph in describe_ways(report.ways):
            console.print(paragraph)
    if report.fleets:
        console.print()
        console.print(tabulate_fleets(report.outline, report.fleets))
    console.print()
    console.print(_describe_next(report))


def _describe_doubt(report: AdviceReport) -> str | None:
    """Describe the gravest doubt; None where the whole band lies within the target."""
    if report.doubt is not None:
        return describe_doubt(report.doubt)
    if report.advice.meets_target:
        return None
    band = report.advice.recommended.band
    return f"Doubt: relative SSE {report.advice.target_sse:g} is not assured. {_capital(band)}."


def _capital(band: QualityBand) -> str:
    words = band.describe()
    return words[0].upper() + words[1:]


def _tabulate_candidates(advice: Advice) -> Table:
    table = Table(
        "",
        "mechanism",
        title="Candidates (r: frequencies in one sketch; bytes: size of one sketch)",
        title_justify="left",
    )
    table.columns[1].no_wrap = True
    for heading in ("m", "r", "m/kd", "SNR", "relative SSE", "bytes"):
        table.add_column(heading, justify="right")
    for candidate in advice.candidates:
        table.add_row(
            "->" if candidate == advice.recommended else "",
            _name(candidate),
            str(candidate.n_frequencies),
            str(candidate.frequencies_per_sketch),
            f"{candidate.band.features_per_parameter:.3g}",
            show_snr(candidate.snr),
            show_band(candidate.band),
            f"{candidate.sketch_bytes:,}",
        )
    return table


def _describe(report: AdviceReport) -> Iterator[str]:
    outline, advice, best = report.outline, report.advice, report.advice.recommended
    yield _describe_choice(advice, bytes_are_scarce=outline.bytes_are_scarce)
    reason = f"{report.reason} " if report.reason else ""
    yield f"{reason}Shortest selection: {report.selection}."
    if report.grid is not None:
        yield describe_grid(report.grid, best.epsilon)
    # With many sketches no other method can be used.
    if report.method is not None and report.method.expected:
        yield describe_method(report.method, outline)
    if best.reports_phases:
        yield " ".join(describe_promise(outline, n_windows=report.n_windows))
        yield describe_need(report.reports_needed, n_windows=report.n_windows)
    if advice.surpassed is not None:
        yield _describe_surpassed(best, advice.surpassed)
    yield describe_law_choice(best)
    if (look := report.look) is not None:
        yield look.describe()
    yield _describe_target(report)
    yield from report.assumptions
    if outline.hides_presence:
        yield PRESENCE


def _name(candidate: Candidate) -> str:
    if not candidate.has_masks:
        return candidate.mechanism
    return f"{candidate.mechanism}, {candidate.measurements_per_record} a record"


def _describe_choice(advice: Advice, *, bytes_are_scarce: bool) -> str:
    best = advice.recommended
    level = f"epsilon {show_exact(best.epsilon)}"
    if best.delta:
        level += f" and delta {show_exact(best.delta)}"
    goal = "smallest" if bytes_are_scarce else "best"
    reason = (
        f"the {goal} of the candidates that reach the target, pure epsilon before a delta"
        if advice.meets_target
        else "the lowest band, though no candidate reaches the target"
    )
    return (
        f"Recommended: {best.mechanism} with {best.n_frequencies} frequencies at {level} for "
        f"{UNIT_WORDS[best.unit]}: {best.band.describe()}. It is {reason}. It supports "
        f"{advice.cluster_range.describe()}. It costs {best.sketch_bytes:,} bytes a sketch, "
        "whatever the number of records."
    )


def _describe_surpassed(best: Candidate, other: Candidate) -> str:
    return (
        f"{'Phase reports' if best.reports_phases else 'Small sketches'} under pure epsilon are "
        f"better here than {other.mechanism} noise with "
        f"delta {show_exact(other.delta)}, whose relative SSE would be {show_band(other.band)}. "
        f"Here it is {show_band(best.band)}. Leave the delta out."
    )


def describe_law_choice(best: Candidate) -> str:
    """Describe in a line the radius law that goes with a candidate, and why."""
    choice = best.law_choice
    return f"Radius law: {describe_law(choice.law)} (w is the scale), because {choice.reason}."


def describe_unknown_clusters(n_clusters: int) -> str:
    """Describe the number of clusters that is planned for where the wanted one is unknown."""
    *most, last = POSSIBLE_CLUSTERS
    tried = f"{', '.join(map(str, most))} and {last}"
    return (
        f"The number of clusters is unknown: this plans for up to {n_clusters}, the first of "
        f"{tried} that the target allows, or the last. Scales from usual spreads suit "
        f"{guess_clusters():.0f} clusters, the geometric mean of {last} and {most[0]}."
    )


def describe_reason(advice: Advice) -> str | None:
    """Describe why a sketch carries some frequencies; None where it carries all."""
    return describe_phases(advice) or describe_split(advice.recommended, advice.outline.n_sketches)


def _describe_target(report: AdviceReport) -> str:
    target, smallest = f"relative SSE {report.advice.target_sse:g}", report.smallest
    if smallest is None:
        more = (
            "or gather more sketches"
            if report.outline.protects_devices or report.outline.is_summed
            else "gather more records, or spread them over fewer devices and longer windows"
        )
        return f"No epsilon brings the whole band to {target}: allow more, {more}."
    return (
        f"The smallest epsilon whose whole band lies within {target} is "
        f"{show_exact(smallest.epsilon)}, with {smallest.mechanism} and "
        f"{smallest.n_frequencies} frequencies{_describe_carried(smallest)}."
    )


def _describe_carried(candidate: Candidate) -> str:
    return f", {candidate.frequencies_per_sketch} in each sketch" if candidate.is_split else ""


def _describe_next(report: AdviceReport) -> str:
    fields = list_fields(
        report.outline,
        report.advice.recommended,
        n_windows=report.n_windows,
        fleet=None if report.ways is None else report.ways.fleet,
    ).items()
    *most, last = (f"{name} = {value}" for name, value in fields)
    words = (
        "Next: make a plan with `sfumato plan new`, which asks for the rest, or put "
        f"{', '.join(most)} and {last} into a specification; then `sfumato plan show` explains it."
    )
    if not report.outline.is_summed:
        return words
    return f"{words} The helper's operator then accepts it with `sfumato helper accept`."
