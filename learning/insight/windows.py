"""Windows of a study in order: each against those before, its clusters, and the changes.

A window that cannot be read, because it is empty or its records cannot be told from noise, gets a
doubt and no answer; the answers of the others do not depend on it.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from functools import reduce
from operator import add
from typing import Final

import numpy as np

from sfumato.learning.decoding.mixture.decoder import MixtureDecoder
from sfumato.learning.estimate.counts import count_records
from sfumato.learning.estimate.totals import Totals
from sfumato.learning.estimate.utility import estimate_utility
from sfumato.learning.estimate.weights import SIZE_WEIGHTS
from sfumato.learning.insight.changes import (
    ChangePoint,
    compute_levels,
    find_begins,
    find_change_points,
    join_stretches,
    measure_usual_change,
    watch,
)
from sfumato.learning.insight.columns import Means, measure_columns, measure_steps
from sfumato.learning.insight.comparison import SMALLEST_SHIFT, Comparison, compare
from sfumato.learning.insight.covariance import Floats
from sfumato.learning.insight.history import Change, Estimate, History, Stretches, Window
from sfumato.learning.insight.model import StudyModel
from sfumato.learning.insight.null_law import draw_unit_noise
from sfumato.learning.insight.pairs import fit_model, pose_pooled
from sfumato.learning.insight.selection import Errors, Selection, SelectionMean, average
from sfumato.learning.insight.statistics import compute_sigma, describe_doubt
from sfumato.learning.insight.timeline import Contrasts, Timeline
from sfumato.learning.insight.weeks import choose_alike, has_weeks, share_places
from sfumato.shared.errors import DecodingCancelledError, DecodingError
from sfumato.shared.plan import SketchPlan

__all__ = ["MOST_WINDOWS", "follow_windows", "require_windows"]

MOST_WINDOWS: Final = 400
"""Simulated years cost the square of the number of windows."""
_LEAST_WINDOWS: Final = 2
_MOST_DECODED: Final = 100
"""The last windows, each decoded in about a second."""
_ENERGY_DRAWS: Final = 2000


def require_windows(
    plan: SketchPlan,
    selections: Sequence[Selection | str],
    *,
    windows_per_year: float,
    alarms_per_year: float,
) -> None:
    """Refuse windows that cannot be followed.

    Parameters
    ----------
    plan, selections, windows_per_year, alarms_per_year
        As in :func:`follow_windows`.

    Raises
    ------
    WrongStatisticError, DecodingError
        The plan is not supported, too few or too many windows can be read, or so many false alarms
        are accepted that every window is one.
    """
    if len(selections) > MOST_WINDOWS:
        raise DecodingError(
            f"must be at most {MOST_WINDOWS} and are {len(selections)}",
            field="windows",
            fix="make windows longer, or choose a shorter stretch",
        )
    compute_levels(1, windows_per_year=windows_per_year, alarms_per_year=alarms_per_year)
    n_readable = sum(not isinstance(_read(plan, each), str) for each in selections)
    if n_readable < _LEAST_WINDOWS:
        raise DecodingError(
            f"must be at least {_LEAST_WINDOWS} that can be read, and {n_readable} of "
            f"{len(selections)} can",
            field="windows",
            fix="make windows shorter, choose a longer stretch, or wait for another window",
        )


def follow_windows(
    plan: SketchPlan,
    selections: Sequence[Selection | str],
    *,
    n_clusters: int,
    windows_per_year: float,
    alarms_per_year: float = 1.0,
    smallest_shift: float | None = None,
    seed: int = 0,
    names: Sequence[str] | None = None,
    accepted: Sequence[int] = (),
    follows_changes: bool = True,
    phases: Sequence[int] | None = None,
    progress: Callable[[float], None] = lambda _: None,
    cancelled: Callable[[], bool] = lambda: False,
) -> History:
    """Follow windows: compare each with its reference, estimate its clusters, find the changes.

    The reference of a window is all readable windows before it, from the last one on that began a
    reference.

    Parameters
    ----------
    plan, selections
        The plan of the sketches, and the windows in order: disjoint selections, or why there is
        none.
    n_clusters
        Clusters of the fit of all readable windows together.
    windows_per_year, alarms_per_year
        Windows of a year, and the false alarms in it to accept where nothing changes.
    smallest_shift
        Size above which a difference is worth an alarm, and a change is lasting. By default that of
        a comparison, or the usual change of neighbouring windows if it is larger.
    seed
        Seed of the fit and of simulated years; the same sums and seed give the same answer.
    names
        Names of the windows; by default those of the selections.
    accepted
        Numbers of windows at which a change was accepted, from 0, unreadable ones counted; each
        begins a reference.
    follows_changes
        Whether a change that is found begins a reference too.
    phases
        The place of each window in the week, of
        :func:`sfumato.learning.insight.weeks.find_phases`. Windows are then compared by weekday
        where there are enough of them.
    progress
        Called with the completed share, 0 to 1.
    cancelled
        Polled between steps.

    Raises
    ------
    WrongStatisticError, DecodingError
        As :func:`require_windows`; all windows together are nothing but noise; or k does not suit
        them.
    DecodingCancelledError
        ``cancelled`` returned true.
    """
    require_windows(
        plan,
        selections,
        windows_per_year=windows_per_year,
        alarms_per_year=alarms_per_year,
    )
    for_fit, for_watch, for_scan, for_energy, for_changes = np.random.default_rng(seed).spawn(5)
    means = [_read(plan, each) for each in selections]
    places = [i for i, mean in enumerate(means) if not isinstance(mean, str)]
    chosen = [each for i in places if not isinstance(each := selections[i], str)]
    model = fit_model(plan, _total(chosen), n_clusters=n_clusters, rng=for_fit, cancelled=cancelled)
    progress(0.3)
    read = tuple(mean for mean in means if not isinstance(mean, str))
    week = tuple(phases[i] for i in places) if phases is not None else ()
    timeline = Timeline(model=model, windows=read, phases=week if has_weeks(week) else None)
    levels = compute_levels(
        len(read) - 1, windows_per_year=windows_per_year, alarms_per_year=alarms_per_year
    )
    _require_wanted(cancelled)
    usual = measure_usual_change(timeline)
    if smallest_shift is None:
        smallest_shift = max(SMALLEST_SHIFT, usual)
    points = join_stretches(
        timeline, find_change_points(timeline, rng=for_scan), smallest_shift=smallest_shift
    )
    progress(0.5)
    _require_wanted(cancelled)
    begun = [bisect_left(places, number) for number in accepted]
    references = begun + [point.place for point in points if follows_changes]
    stretches = sorted({*begun, *(point.place for point in points)})
    readings = watch(
        timeline,
        levels,
        rng=for_watch,
        references=references,
        stretches=stretches,
        smallest_shift=smallest_shift,
    )
    begins = find_begins(len(read), references)
    progress(0.7)
    changes = _compare_stretches(timeline, chosen, points, for_changes, cancelled)
    progress(0.8)
    excess = _measure_excess(plan, for_energy)
    contrasts = timeline.contrast(begins, stretches)
    size_errors = [
        _measure_size_error(timeline, contrasts, i, readings[i].size, excess)
        for i in range(len(readings))
    ]
    _require_wanted(cancelled)
    estimates = _estimate_all(
        model, chosen, read, seed=seed, progress=progress, cancelled=cancelled
    )
    borrowed = timeline.find_borrowed(begins, stretches)
    told = {
        place: each.means
        for place, each in enumerate(estimates)
        if not isinstance(each, str) and each.means is not None
    }
    columns = measure_columns(timeline, told, begins, stretches)
    steps = measure_steps(timeline, told, [point.place for point in points])
    windows: list[Window] = []
    for i, mean in enumerate(means):
        name = names[i] if names is not None else _name(selections[i], i)
        if isinstance(mean, str):
            held = selections[i]
            n_sketches = 0 if isinstance(held, str) else held.totals.n_sketches
            windows.append(Window(name=name, n_records=0, n_sketches=n_sketches, doubt=mean))
            continue
        place = places.index(i)
        estimate = estimates[place]
        windows.append(
            Window(
                name=name,
                n_records=mean.n_records,
                n_sketches=mean.n_sketches,
                snr=_measure_snr(plan, chosen[place].totals),
                reading=readings[place - 1] if place else None,
                size_error=size_errors[place - 1] if place else None,
                reference=places[begins[place - 1]] if place else None,
                is_accepted=place in begun,
                columns=columns.get(place, ()),
                is_first_of_weekday=place > 0 and borrowed[place - 1],
                estimate=None if isinstance(estimate, str) else estimate,
                unknown=estimate if isinstance(estimate, str) else None,
            )
        )
    progress(1.0)
    return History(
        model=model,
        windows=tuple(windows),
        changes=tuple(
            Change(
                window=places[point.place],
                p=point.p,
                comparison=comparison,
                columns=steps.get(point.place, ()),
            )
            for point, comparison in zip(points, changes, strict=True)
        ),
        level=float(levels[0]),
        smallest_shift=smallest_shift,
        usual=usual,
        by_weekday=None if phases is None else timeline.phases is not None,
        newest={
            places[place]: ([places[t] for t in earlier], [places[t] for t in later])
            for place, (earlier, later) in _list_newest(
                timeline,
                points,
                begin=begins[-1] if windows[places[-1]].is_alarm else None,
            ).items()
        },
        assumptions=_list_assumptions(timeline, follows_changes=follows_changes and bool(points)),
    )


def _estimate_all(
    model: StudyModel,
    windows: Sequence[Selection],
    means: Sequence[SelectionMean],
    *,
    seed: int,
    progress: Callable[[float], None],
    cancelled: Callable[[], bool],
) -> list[Estimate | str]:
    """Decode the last windows; the draws of each depend on its numbers alone."""
    found: list[Estimate | str] = []
    for place, (window, mean) in enumerate(zip(windows, means, strict=True)):
        if place < len(windows) - _MOST_DECODED:
            found.append(f"only the last {_MOST_DECODED} windows are decoded")
            continue
        rng = np.random.default_rng((seed, mean.n_records, mean.n_sketches))
        found.append(_estimate(model, window.totals, mean.n_records, rng, cancelled))
        progress(0.8 + 0.2 * (place + 1) / len(windows))
        _require_wanted(cancelled)
    return found


def _read(plan: SketchPlan, selection: Selection | str) -> SelectionMean | str:
    """Average a window, or return why that is impossible."""
    if isinstance(selection, str):
        return selection
    try:
        return average(plan, selection)
    except DecodingError as error:
        # Of this window alone, unless of the plan.
        if error.field != "selection":
            raise
        return error.rule


def _name(selection: Selection | str, number: int) -> str:
    return f"window {number + 1}" if isinstance(selection, str) else selection.name


def _total(selections: Sequence[Selection]) -> Totals:
    return reduce(add, [each.totals for each in selections])


def _join(selections: Sequence[Selection], name: str) -> Selection:
    members = frozenset[object]().union(*(each.members for each in selections))
    return Selection(name=name, totals=_total(selections), members=members)


def _measure_snr(plan: SketchPlan, totals: Totals) -> float:
    return estimate_utility(plan, totals, count_records(plan, totals), SIZE_WEIGHTS).snr


def _require_wanted(cancelled: Callable[[], bool]) -> None:
    if cancelled():
        raise DecodingCancelledError("was cancelled")


def _compare_stretches(
    timeline: Timeline,
    windows: Sequence[Selection],
    points: Sequence[ChangePoint],
    rng: np.random.Generator,
    cancelled: Callable[[], bool],
) -> list[Comparison]:
    """Compare the stretches on both sides of each change, by weekday if the week is known."""
    ends = [0, *(point.place for point in points), len(windows)]
    found = []
    for i in range(1, len(ends) - 1):
        _require_wanted(cancelled)
        before_it, later = range(ends[i - 1], ends[i]), range(ends[i], ends[i + 1])
        phases = timeline.phases
        earlier = choose_alike(phases, before_it, later)
        earlier = earlier or share_places(phases, before_it, later) or before_it
        before = _join([windows[t] for t in earlier], "before")
        after = _join([windows[t] for t in later], "after")
        found.append(compare(timeline.model, before, after, rng=rng))
    return found


def _list_newest(
    timeline: Timeline, points: Sequence[ChangePoint], *, begin: int | None
) -> dict[int, Stretches]:
    """List the windows on both sides of the last change, and of an alarm in the last window.

    ``begin`` is the first window that the last one is compared with, if it is an alarm.
    """
    n, found = len(timeline.windows), dict[int, Stretches]()
    if begin is not None:
        found[n - 1] = (range(begin, n - 1), [n - 1])
    if points:
        *_, start, last = [0, *(point.place for point in points)]
        found[last] = (range(start, last), range(last, n))
    return {
        place: (choose_alike(timeline.phases, earlier, later), later)
        for place, (earlier, later) in found.items()
    }


def _measure_excess(plan: SketchPlan, rng: np.random.Generator) -> float:
    """Return the variance of the energy of one sketch's noise beyond that of Gaussian noise.

    At variance 1 of a coordinate. All features of a sketch share the radius of K-norm noise.
    """
    drawn = draw_unit_noise(plan, _ENERGY_DRAWS, rng)
    gaussian = 2.0 * float(drawn.shape[1])
    return max(0.0, float(np.var(np.sum(drawn**2, axis=1))) - gaussian)


def _measure_size_error(
    timeline: Timeline, contrasts: Contrasts, row: int, size: float, excess: float
) -> float:
    """Measure the standard error of the size of a contrast, in the plan's scales.

    The variance of ``|D|^2`` is ``2 tr Sigma^2`` plus the excess of noise with a radius, and
    ``4 D' Sigma D`` for a true difference D, without what errors add to it.
    """
    model, squares = timeline.model, contrasts.weights[row] ** 2
    errors = _weigh([window.errors for window in timeline.windows], squares)
    sigma = compute_sigma(model, errors)
    features = np.array([window.features for window in timeline.windows])
    difference = contrasts.weights[row] @ features
    chance = float(np.sum(sigma**2))
    crossed = max(0.0, float(difference @ sigma @ difference) - chance)
    deviation = model.plan.released_variance
    fourth: float = sum(
        (square * deviation) ** 2 * float(np.sum(np.concatenate(window.errors.factors) ** 4))
        for square, window in zip(squares.tolist(), timeline.windows, strict=True)
    )
    spread = math.sqrt(2.0 * chance + excess * fourth + 4.0 * crossed)
    energy = max(model.energy_per_shift, float(np.finfo(float).tiny))
    return math.sqrt(size**2 + spread / energy) - size


def _weigh(every: Sequence[Errors], squares: Floats) -> Errors:
    """Return the variances of a weighted sum of independent means."""
    return Errors(
        noise=squares @ np.array([errors.noise for errors in every]),
        sampling=squares @ np.array([errors.sampling for errors in every]),
        counting=squares @ np.array([errors.counting for errors in every]),
        factors=(),
        gaussian=np.zeros(every[0].noise.size),
    )


def _estimate(
    model: StudyModel,
    totals: Totals,
    n_records: int,
    rng: np.random.Generator,
    cancelled: Callable[[], bool],
) -> Estimate | str:
    """Decode a window from the common fit; return why where that is impossible."""
    fit = model.fit
    try:
        problem = pose_pooled(model.plan, totals, n_clusters=model.n_clusters)
    except DecodingError as error:
        return error.rule
    found = MixtureDecoder().follow(problem, fit, rng=rng, cancelled=cancelled)
    verdict, bars = found.verdict, found.bars
    assert verdict is not None
    assert bars is not None
    if not verdict.is_usable:
        return verdict.sentence
    from scipy.optimize import linear_sum_assignment  # noqa: PLC0415 - a server never needs it

    # Clusters keep their names: each is that of the common fit to which it is nearest.
    moves = (fit.means[:, None] - found.centroids) / model.plan.scale
    order = linear_sum_assignment(np.sum(moves**2, axis=2))[1]
    weight_errors, centre_errors = bars.weight_errors, bars.centroid_errors
    if weight_errors is None or centre_errors is None or found.spreads is None:
        weight_errors = np.full(len(order), np.nan)
        centre_errors = np.full(found.centroids.shape, np.nan)
    else:
        # A decode's bars are about its records; windows are compared as samples of their source.
        shares, n = found.weights, max(1, n_records)
        weight_errors = np.hypot(weight_errors, np.sqrt(shares * (1.0 - shares) / n))
        deviations = found.spreads / np.sqrt(np.maximum(1.0, n * shares))[:, None]
        centre_errors = np.hypot(centre_errors, deviations)
    return Estimate(
        verdict=verdict,
        weights=found.weights[order],
        weight_errors=weight_errors[order],
        centres=found.centroids[order],
        centre_errors=centre_errors[order],
        means=None
        if found.posterior is None or bars.word == "none"
        else Means.of(found.posterior, n_records),
    )


def _list_assumptions(timeline: Timeline, *, follows_changes: bool) -> tuple[str, ...]:
    assumptions = [
        "assumes independent records",
        "clusters of a window keep the numbers of those of all windows that they are nearest to",
        "the place of a change is chosen by looking, so the probabilities of its single changes "
        "are somewhat too small",
    ]
    if follows_changes:
        assumptions.append(
            "each window is compared with those since the last change before it; changes are found "
            "by looking at all windows"
        )
    if not timeline.is_directed:
        assumptions.append(describe_doubt(timeline.model.n_clusters))
    if timeline.model.plan.is_split:
        assumptions.append("assumes that the blocks of frequencies went to devices at random")
    return tuple(assumptions)
