"""Answers of moments: mean, correlations and principal directions."""

from __future__ import annotations

from sfumato.learning.estimate.counts import count_records
from sfumato.learning.estimate.moments import Finding, PrincipalComponents
from sfumato.learning.estimate.studies import estimate_study_components
from sfumato.learning.estimate.totals import Totals
from sfumato.shared.plan import SketchPlan
from sfumato.shared.wire.objects.answers import DimensionBody, describe_promise
from sfumato.shared.wire.objects.declaration import make_body
from sfumato.shared.wire.objects.statistics import ComponentBody, MomentsAnswerBody

_FINDINGS = {
    "records-hidden": "the number of records is not distinct from noise, whose deviation is "
    "{:.0%} of it: nothing here can be relied on",
    "records-missing": "{:.0%} of the records seem to have a missing value: they add nothing",
    "norm-tight": "the mean squared length of a record is {:.0%} of the largest, so that many "
    "records were shortened: use a larger norm_steps, or wider bounds",
    "norm-wide": "the mean squared length of a record is {:.0%} of the largest: a smaller "
    "norm_steps, or narrower bounds, would have less noise",
    "no-direction": "no direction stands out from noise and from the others; one with {:.0%} of "
    "the variance would",
}


def describe_moments(plan: SketchPlan, totals: Totals, *, snapshot_id: str) -> MomentsAnswerBody:
    """Return mean, correlations and principal directions of the records of some sketches.

    Parameters
    ----------
    plan, totals
        The plan, and the exact sums over the sketches.
    snapshot_id
        64 hexadecimal digits that name these sums.

    Raises
    ------
    WrongStatisticError
        The plan has no moments.
    DecodingError
        There are too few records.
    """
    found = estimate_study_components(plan, totals)
    return make_body(
        MomentsAnswerBody,
        found,
        snapshot_id=snapshot_id,
        n_sketches=totals.n_sketches,
        n_records=count_records(plan, totals).n_records,
        axes=[DimensionBody(name=axis.name, unit=axis.unit) for axis in plan.axes],
        components=describe_components(found),
        warnings=[describe_finding(finding) for finding in found.findings],
        privacy=describe_promise(plan),
    )


def describe_components(found: PrincipalComponents) -> list[ComponentBody]:
    """Return the principal directions, by falling variance."""
    return [
        ComponentBody(
            direction=found.directions[i].tolist(),
            loadings=found.loadings[i].tolist(),
            loadings_error=found.loadings_error[i].tolist() if found.is_told_apart[i] else None,
            eigenvalue=float(found.eigenvalues[i]),
            share=float(found.share[i]),
            share_low=float(found.share_low[i]),
            share_high=float(found.share_high[i]),
            is_told_apart=bool(found.is_told_apart[i]),
            expected_sin_squared=float(found.expected_sin_squared[i]),
        )
        for i in range(len(found.eigenvalues))
    ]


def describe_finding(finding: Finding) -> str:
    """Describe in words what a person should know about an answer of moments."""
    return _FINDINGS[finding.code].format(finding.value)
