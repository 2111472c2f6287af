"""Examination of devices: each against all others, with lamps for content, silence and peers.

A device's mean features are compared with those of the rest of the sketches by the tests of
:mod:`sfumato.learning.insight.comparison`. The null law depends on numbers of records and sketches
alone, so that thousands of devices share the draws of few laws. A lamp is a reason to look, never a
verdict: honest devices hold different records.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from sfumato.learning.estimate.totals import Totals
from sfumato.learning.insight.comparison import Change, choose_named, list_changes, measure_size
from sfumato.learning.insight.covariance import Floats
from sfumato.learning.insight.model import StudyModel
from sfumato.learning.insight.pairs import fit_model
from sfumato.learning.insight.selection import (
    Errors,
    Selection,
    SelectionMean,
    average,
    require_supported,
)
from sfumato.learning.insight.shared_law import PairLaw, SharedDraws
from sfumato.learning.insight.sizes import SATURATED, describe_size, is_hidden, show_size
from sfumato.learning.insight.statistics import describe_doubt
from sfumato.shared.errors import DecodingCancelledError, DecodingError
from sfumato.shared.plan import SketchPlan

__all__ = [
    "DEVICE_LEVEL",
    "N_DEVICE_DRAWS",
    "DeviceExamination",
    "DeviceReport",
    "examine_devices",
    "examine_means",
]

DEVICE_LEVEL: Final = 0.01
"""Probability that any lamp of one kind is lit where all devices hold alike records."""
N_DEVICE_DRAWS: Final = 4999
_PRIOR: Final = 3.0
"""A device that lies moves far: ten times as far as clusters drift."""
_MOST_SILENT: Final = 0.0005
_UNUSUAL: Final = 4.0
_LEAST_FLEET: Final = 20
_TO_DEVIATION: Final = 1.4826
"""From the median absolute deviation of a normal variate to its standard deviation."""
_MOST_TOLD: Final = 5
_MOST_CHANGES: Final = 3


@dataclass(frozen=True, kw_only=True)
class DeviceExamination:
    """One device against the rest.

    Parameters
    ----------
    device
        Its name.
    n_sketches, n_records, share
        Its sketches and records, and its share of the records.
    p_content
        Probability of a difference from the rest like this where all hold alike records: of the
        smallest p-value of three statistics, by the same draws, or that of the omnibus one where
        the others cannot be trusted.
    p_silence
        Probability of as little energy as this from honest noise alone.
    z
        Place of ``p_content`` among the fleet's, in robust standard deviations above the median;
        None for fleets below 20.
    size, size_error
        Equivalent common shift from the rest, in the plan's scales, and its standard error.
    snr
        Signal-to-noise ratio of its sum.
    least_lie
        Share of its records at one point that is found half of the time; 1 where none is.
    differs, is_silent, is_unusual
        The lamps: content, silence, unusual.
    changes
        Where it differs: the surest named changes of clusters from the rest to it, at most three.
    """

    device: str
    n_sketches: int
    n_records: int
    share: float
    p_content: float
    p_silence: float
    z: float | None
    size: float
    size_error: float
    snr: float
    least_lie: float
    differs: bool
    is_silent: bool
    is_unusual: bool
    changes: tuple[Change, ...] = ()

    @property
    def is_hidden(self) -> bool:
        """Whether noise hides the size."""
        return is_hidden(self.size, self.size_error)

    @property
    def words(self) -> str:
        """Whether it differs from the rest, by how much, and in what."""
        size = describe_size(self.size, self.size_error, is_certain=self.differs)
        if not self.differs:
            return f"no difference that is certain: {size}"
        return "; ".join([f"differs {size}", *(each.describe() for each in self.changes)])


@dataclass(frozen=True, kw_only=True)
class DeviceReport:
    """All devices of a selection, each against the rest.

    Parameters
    ----------
    devices
        By rising ``p_content``.
    unexamined
        Names of devices whose records cannot be told from noise, or with none to compare with.
    level
        Probability that any content lamp is lit where all devices hold alike records.
    n_draws
        B; p-values below 1 / B are extrapolated.
    assumptions
        Assumptions of the p-values in words.
    """

    devices: tuple[DeviceExamination, ...]
    unexamined: tuple[str, ...]
    level: float
    n_draws: int
    assumptions: tuple[str, ...]

    def describe(self) -> tuple[str, ...]:
        """Describe the report in words, what is doubtful first."""
        return (*self._describe_limits(), *self._describe_lamps(), *self.assumptions)

    def _describe_limits(self) -> list[str]:
        least = float(np.median([each.least_lie for each in self.devices]))
        snr = float(np.median([each.snr for each in self.devices]))
        seen = (
            f"a lie about less than about {least:.0%} of a device's records does not show"
            if least < 1.0
            else "no lie shows, not even one about all records of a device"
        )
        told = [
            f"the sum of a typical device has a signal-to-noise ratio of {snr:.2g}: {seen}",
            "a lit lamp is a reason to look, not a proof: honest devices hold different records",
        ]
        if len(self.devices) < _LEAST_FLEET:
            told.append(f"with fewer than {_LEAST_FLEET} devices none can be unusual among them")
        if self.unexamined:
            told.append(
                f"{len(self.unexamined)} devices have too few records for this, or none to be "
                "compared with"
            )
        if any(each.differs and each.size > SATURATED for each in self.devices):
            told.append("sizes of more than 1 scale are an order of magnitude, no more")
        hidden = [each.device for each in self.devices if each.differs and each.is_hidden]
        if hidden:
            told.append(
                f"{len(hidden)} devices differ although noise hides by how much: their clusters "
                f"move, grow or spread: {_list_names(hidden)}"
            )
        return told

    def _describe_lamps(self) -> list[str]:
        n = len(self.devices)
        told = []
        for names, words in (
            (
                [each.device for each in self.devices if each.is_silent],
                "sent too little noise: check the agent before anything else",
            ),
            (
                [each.device for each in self.devices if each.is_unusual],
                "unusual among their peers",
            ),
        ):
            if names:
                told.append(f"{len(names)} of {n} devices are {words}: {_list_names(names)}")
        return [*told, *self._describe_different()] or [f"none of {n} devices stands out"]

    def _describe_different(self) -> list[str]:
        n, different = len(self.devices), [each for each in self.devices if each.differs]
        if not different:
            return []
        if 2 * len(different) <= n:
            names = _list_names([each.device for each in different])
            return [f"{len(different)} of {n} devices are different from the rest: {names}"]
        # One that lies moves the sum that all others are compared with.
        furthest = max(different, key=lambda each: each.size)
        why = f"is furthest from it ({show_size(furthest.size, furthest.size_error)})"
        if furthest.is_hidden:
            furthest = min(different, key=lambda each: each.p_content)
            why = "differs most certainly"
        return [
            f"{len(different)} of {n} devices are different from the rest, so that no rest is "
            "alike: devices hold records of several kinds, or a few move the sum that all are "
            f"compared with. Look first at {furthest.device}, which {why}"
        ]


def _list_names(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_TOLD} more" if len(names) > _MOST_TOLD else ""
    return f"{', '.join(names[:_MOST_TOLD])}{more}"


def examine_devices(
    plan: SketchPlan,
    devices: Sequence[Selection],
    *,
    n_clusters: int,
    whole: Totals | None = None,
    seed: int = 0,
    level: float = DEVICE_LEVEL,
    n_draws: int = N_DEVICE_DRAWS,
    cancelled: Callable[[], bool] = lambda: False,
) -> tuple[DeviceReport, StudyModel]:
    """Examine each device against all other sketches, under the clusters of all together.

    Parameters
    ----------
    plan, devices
        The plan of the sketches, and a selection for each device, named by it: disjoint.
    n_clusters
        Clusters of the fit in whose directions devices may differ.
    whole
        Sums of all sketches, where there are others than those of ``devices``.
    seed
        Seed of the fit and the draws; the same sums and seed give the same answer.
    level
        Probability that any content lamp is lit where all devices hold alike records.
    n_draws
        B; p-values below 1 / B are extrapolated.
    cancelled
        Polled between steps.

    Raises
    ------
    WrongStatisticError, DecodingError
        The plan is not supported; there are no two devices to compare; some share sketches or a
        name; all together are nothing but noise; or k does not suit them.
    """
    require_supported(plan)
    _require_devices(devices)
    for_fit, for_draws = np.random.default_rng(seed).spawn(2)
    total = whole
    if total is None:
        total = devices[0].totals
        for device in devices[1:]:
            total = total + device.totals
    model = fit_model(plan, total, n_clusters=n_clusters, rng=for_fit, cancelled=cancelled)
    report = examine_means(
        model,
        devices,
        whole=total,
        rng=for_draws,
        level=level,
        n_draws=n_draws,
        cancelled=cancelled,
    )
    return report, model


def examine_means(
    model: StudyModel,
    devices: Sequence[Selection],
    *,
    whole: Totals,
    rng: np.random.Generator,
    level: float = DEVICE_LEVEL,
    n_draws: int = N_DEVICE_DRAWS,
    cancelled: Callable[[], bool] = lambda: False,
) -> DeviceReport:
    """Examine each device against all other sketches under a model.

    See :func:`examine_devices`; ``whole`` are the sums of all sketches.
    """
    pairs, unexamined = _average_pairs(model.plan, devices, whole)
    if not pairs:
        raise DecodingError(
            "must hold a device with enough sketches and records, and others to compare it with",
            field="devices",
            fix="widen the slots, or wait for more sketches",
        )
    draws = SharedDraws(model, rng=rng, n_draws=n_draws, prior=_PRIOR)
    n_all = pairs[0][0].n_records + pairs[0][1].n_records
    order = sorted(range(len(pairs)), key=lambda i: draws.describe_key(pairs[i][0].errors))
    found: dict[int, tuple[DeviceExamination, float]] = {}
    laws: dict[object, PairLaw] = {}
    are_directed = True
    for i in order:
        if cancelled():
            raise DecodingCancelledError("was cancelled")
        own, rest = pairs[i]
        key = _identify(own.errors, rest.errors)
        if key not in laws:
            laws = {key: draws.find_law(own.errors, rest.errors)}
            are_directed = are_directed and laws[key].is_directed
        found[i] = _examine(
            model,
            laws[key],
            own,
            draws.rotate(own) - draws.rotate(rest),
            level=level / len(pairs),
            n_all=n_all,
        )
    examined = _compare_peers([found[i] for i in range(len(pairs))], n_draws)
    assumptions = ["assumes independent records"]
    if not are_directed:
        assumptions.append(describe_doubt(model.n_clusters))
    if model.plan.is_split:
        assumptions.append("assumes that the blocks of frequencies went to devices at random")
    return DeviceReport(
        devices=tuple(sorted(examined, key=lambda each: (each.p_content, -each.size))),
        unexamined=tuple(unexamined),
        level=level,
        n_draws=n_draws,
        assumptions=tuple(assumptions),
    )


def _require_devices(devices: Sequence[Selection]) -> None:
    if len(devices) < 2:
        raise DecodingError(
            f"must be at least 2 and are {len(devices)}",
            field="devices",
            fix="wait for another device",
        )
    names = [device.name for device in devices]
    if len(set(names)) < len(names):
        raise DecodingError("must not repeat a name", field="devices", fix="give each device once")
    members = [member for device in devices for member in device.members]
    if len(set(members)) < len(members):
        raise DecodingError(
            "must not share sketches, and so noise",
            field="devices",
            fix="give each sketch to one device",
        )


def _average_pairs(
    plan: SketchPlan, devices: Sequence[Selection], whole: Totals
) -> tuple[list[tuple[SelectionMean, SelectionMean]], list[str]]:
    """Average each device, and the rest; and list those for which that is impossible."""
    pairs, unexamined = [], []
    for device in devices:
        rest = Selection(name="the rest", totals=whole - device.totals, members=frozenset())
        try:
            own = average(plan, device, may_lack_blocks=True)
            others = average(plan, rest, may_lack_blocks=True)
        except DecodingError:
            unexamined.append(device.name)
            continue
        # A device is compared in the blocks of frequencies that it sent and others did too.
        common = own.is_known & others.is_known
        if np.any(common):
            block_of = plan.blocks.block_of
            pairs.append((own.restrict(common, block_of), others.restrict(common, block_of)))
        else:
            unexamined.append(device.name)
    return pairs, unexamined


def _identify(own: Errors, rest: Errors) -> object:
    return tuple(
        (
            each.noise.tobytes(),
            each.sampling.tobytes(),
            each.counting.tobytes(),
            tuple(factors.size for factors in each.factors),
        )
        for each in (own, rest)
    )


def _examine(
    model: StudyModel,
    law: PairLaw,
    own: SelectionMean,
    difference: Floats,
    *,
    level: float,
    n_all: int,
) -> tuple[DeviceExamination, float]:
    """Examine one device, and return the logarithm of its p-value, which floats may not hold."""
    row = difference[None]
    statistics = law.statistics
    log_p = law.all.estimate_log_p(float(statistics.measure_all(row)[0]))
    if law.is_directed:
        log_p = min(
            log_p,
            law.moved.estimate_log_p(float(statistics.measure_moved(row)[0])),
            law.single.estimate_log_p(float(statistics.measure_single(row)[0])),
        )
    log_p = law.smallest.estimate_log_p(log_p)
    p = math.exp(log_p)
    p_silence = law.quiet.estimate_lower_p(float(statistics.measure_quiet(row)[0]))
    size, size_error = measure_size(statistics, difference, law.all)
    examined = DeviceExamination(
        device=own.name,
        n_sketches=own.n_sketches,
        n_records=own.n_records,
        share=own.n_records / n_all,
        p_content=p,
        p_silence=p_silence,
        z=None,
        size=size,
        size_error=size_error,
        snr=_measure_snr(model, own.errors),
        least_lie=_find_least_lie(law, model.features, level),
        differs=p < level,
        is_silent=p_silence < min(_MOST_SILENT, level),
        is_unusual=False,
        changes=choose_named(list_changes(model, law, row))[:_MOST_CHANGES] if p < level else (),
    )
    return examined, log_p


def _measure_snr(model: StudyModel, errors: Errors) -> float:
    """Return the signal-to-noise ratio of a mean, features averaged."""
    m, block_of = model.plan.n_frequencies, model.plan.blocks.block_of
    signal = model.features[:m] ** 2 + model.features[m:] ** 2
    noise = 2.0 * errors.noise[block_of] + errors.sampling[block_of] * (1.0 - signal)
    noise += errors.counting[block_of] * signal
    is_known = errors.noise[block_of] > 0.0
    return float(np.sum(signal[is_known]) / np.sum(noise[is_known]))


def _find_least_lie(law: PairLaw, features: Floats, level: float) -> float:
    """Return the share of a device's records at one point whose omnibus p-value is the level.

    A share f of records at a point that is far from the others moves the mean features by
    ``f (exp(i w.x) - phi)``, of energy ``f^2 sum_j (1 + |phi_j|^2)`` on average over places.
    """
    places = law.statistics.places
    energy = places.size / 2.0 + float(np.sum(features[places] ** 2))
    needed = law.all.find_value(level) - law.all.mean
    return float(np.clip(np.sqrt(max(0.0, needed) / energy), 0.0, 1.0))


def _compare_peers(
    found: Sequence[tuple[DeviceExamination, float]], n_draws: int
) -> list[DeviceExamination]:
    """Place each device among its peers by an empirical null, of the logarithms of p-values."""
    examined = [each for each, _ in found]
    if len(found) < _LEAST_FLEET:
        return examined
    from scipy.special import ndtri_exp  # noqa: PLC0415 - a server never needs it

    highest = math.log1p(-0.5 / n_draws)
    scores = -ndtri_exp(np.array([min(log_p, highest) for _, log_p in found]))
    middle = float(np.median(scores))
    # Never narrower than where all hold alike records.
    spread = max(1.0, _TO_DEVIATION * float(np.median(np.abs(scores - middle))))
    return [
        replace(each, z=float(z), is_unusual=bool(z > _UNUSUAL))
        for each, z in zip(examined, (scores - middle) / spread, strict=True)
    ]
