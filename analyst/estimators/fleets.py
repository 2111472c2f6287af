"""Parts of a fleet's records: the moments that snapshots of studies hold, and what they promise."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from sfumato.analyst.estimators.labels import read_parts
from sfumato.analyst.sketching.sources import Snapshot, Source
from sfumato.learning.answers.moments import describe_finding
from sfumato.learning.estimate.moments import PrincipalComponents
from sfumato.learning.estimate.studies import estimate_study_components
from sfumato.learning.generative.moment_mixture import MomentMixtureModel, fit_parts
from sfumato.shared.errors import ConfigError, DecodingError
from sfumato.shared.plan import SketchPlan
from sfumato.shared.privacy import PrivacyGuarantee
from sfumato.shared.wire.objects.answers import describe_promise


@dataclass(frozen=True, kw_only=True, eq=False)
class FleetParts:
    """Gaussians of the parts of a fleet's records.

    Parameters
    ----------
    parts, names
        Labels, and names of the columns.
    model
        A Gaussian for each part.
    guarantee
        Guarantee to a record that is in one part.
    promise
        What the studies protect together, in words.
    warnings
        What should be known about the moments of each part.
    """

    parts: list[Any]
    names: list[str]
    model: MomentMixtureModel
    guarantee: PrivacyGuarantee
    promise: str
    warnings: tuple[str, ...]

    @property
    def is_replaced(self) -> bool:
        """True if the number of records is public."""
        return self.guarantee.neighbouring == "replace-one"


def read_fleet(snapshots: Mapping[Any, Source]) -> FleetParts:
    """Read the moments of each part; raises as ``MomentMixture.from_snapshots``."""
    parts, sources = read_parts(snapshots), list(snapshots.values())
    plans = [source.plan for source in sources]
    for plan in plans:
        _require_alike(plan, plans[0])
    for one, other in combinations(sources, 2):
        if _may_share(one, other):
            raise ConfigError(
                "must share no sketch: records of both would count twice",
                field="snapshots",
                fix="choose the parts by different studies, by the values of one label, or by "
                "slots, such as study@site=north",
            )
    answers = [estimate_study_components(source.plan, source.totals) for source in sources]
    lower, upper = (
        np.array([getattr(each, end) for each in plans[0].dimensions], dtype=np.float64)
        for end in ("lower", "upper")
    )
    model = fit_parts(answers, lower=lower, upper=upper)
    if not model.sizes.any():
        raise DecodingError(
            "hold no part that their noise does not hide",
            field="snapshots",
            fix="collect more records or fewer sketches for each part, or raise epsilon",
        )
    return FleetParts(
        parts=parts,
        names=[dimension.name for dimension in plans[0].dimensions],
        model=model,
        guarantee=PrivacyGuarantee(
            epsilon=max(plan.release.epsilon for plan in plans),
            delta=max(plan.release.delta for plan in plans),
            neighbouring=plans[0].release.neighbouring,
        ),
        promise=_promise(plans),
        warnings=_warn(parts, answers),
    )


def _warn(parts: Sequence[Any], answers: Sequence[PrincipalComponents]) -> tuple[str, ...]:
    """Describe the findings of each part, and warn of shortened records, which move the means."""
    told = []
    for part, answer in zip(parts, answers, strict=True):
        for finding in answer.findings:
            told.append(f"part {part!r}: {describe_finding(finding)}")
            if finding.code == "norm-tight":
                warnings.warn(told[-1], UserWarning, stacklevel=4)
    return tuple(told)


def _require_alike(plan: SketchPlan, first: SketchPlan) -> None:
    if any(each.is_categorical or each.transform is not None for each in plan.dimensions):
        raise ConfigError(
            "must have plain numbers alone: a Gaussian has no levels, and no logarithm",
            field="snapshots",
            fix="publish studies of the moments of plain numbers",
        )
    columns, known = (
        [(each.name, each.unit, each.lower, each.upper) for each in one.dimensions]
        for one in (plan, first)
    )
    promised, stated = ((one.release.neighbouring, one.protects_devices) for one in (plan, first))
    if columns != known or promised != stated:
        raise ConfigError(
            "must have the same columns, bounds, relation and unit in every part",
            field="snapshots",
            fix="publish the studies of all parts with one plan",
        )


def _may_share(one: Source, other: Source) -> bool:
    is_apart = (
        isinstance(one, Snapshot)
        and isinstance(other, Snapshot)
        and one.body.study_id != other.body.study_id
    )
    return not is_apart and one.shares_with(other)


def _promise(plans: Sequence[SketchPlan]) -> str:
    """Compose the promises of the parts' studies.

    Where the number of records is public, so is the size of each part, and no relation hides that a
    record moves from one to another. Otherwise it leaves one part and joins another: both lose.
    """
    strongest = max(plans, key=lambda plan: plan.release.epsilon)
    levels = sorted((plan.release.epsilon for plan in plans), reverse=True)
    if plans[0].release.neighbouring == "replace-one":
        moves = (
            "The number of records of each part is public, so a record's part is not hidden: what "
            "is hidden are its values within its part."
        )
    elif len(levels) == 1:
        moves = ""
    else:
        moves = (
            "That hides whether a record is there, and its part with it. To compare data in which "
            f"a record is in one part with data in which it is in another costs epsilon "
            f"{levels[0] + levels[1]}: it leaves one sum and joins another."
        )
    return (
        f"{describe_promise(strongest).statement} Each part is a study or a selection of its own, "
        "and a record costs that once, provided that its device puts it in one part, by its own "
        f"values or by a public rule. {moves}".rstrip()
    )
