"""Advice before a study exists: the best plan for some facts, and what to expect of it."""

from __future__ import annotations

import asyncio
import math
import secrets
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

from sfumato.aggregator.resources.parts import Service
from sfumato.learning.planning.outline import ROUGH_SSE, StudyOutline, guess_scale
from sfumato.learning.planning.planner import Advice, advise
from sfumato.learning.planning.plans import list_decided, list_sizes
from sfumato.learning.planning.remedies import Remedies, find_remedies
from sfumato.shared.core.seeds import SEED_BYTES
from sfumato.shared.errors import ConfigError
from sfumato.shared.plan import Dimension, SketchPlan, plan_from_spec
from sfumato.shared.structure import read_exact
from sfumato.shared.wire.objects.advice import AdviceRequest, PlannedDimension

_USUAL_SHARE = 1 / 6
"""Assumed standard deviation of all records, in the width of the bounds."""


@dataclass(frozen=True, kw_only=True)
class StudyAdvice:
    """Advice, its plan, and what would help where it does not reach the target."""

    advice: Advice
    plan: SketchPlan
    remedies: Remedies | None


class AdviceService(Service):
    """Advises on plans; nothing is stored."""

    async def advise(self, request: AdviceRequest) -> StudyAdvice:
        """Recommend a plan.

        Raises
        ------
        ConfigError, PlanError, PrivacyError
            A member breaks its rule, or no noise can be calibrated.
        """
        return await asyncio.to_thread(_advise, request, origin=int(self._clock.now()))


def _advise(request: AdviceRequest, *, origin: int) -> StudyAdvice:
    epsilon = read_epsilon(request.epsilon)
    n_sketches = request.n_devices * request.n_windows
    outline = StudyOutline(
        n_records=n_sketches * request.records_per_window,
        n_sketches=n_sketches,
        n_dimensions=len(request.dimensions),
        n_clusters=request.n_clusters,
        unit=request.unit,
    )
    advice = advise(outline, epsilon=epsilon, target_sse=ROUGH_SSE)
    best = advice.recommended
    # Windows begin at midnight of UTC, so that their dates read well.
    window = {"kind": "time", "origin": origin - origin % 86_400, "length_s": request.window_s}
    person = request.max_records_per_person
    spec = {
        "seed": secrets.token_hex(SEED_BYTES),
        **list_decided(outline, best, n_windows=request.n_windows),
        **list_sizes(outline, best),
        **({} if person is None else {"max_records_per_person": person}),
        "window": window,
        "dimensions": [_describe(each, request) for each in request.dimensions],
    }
    plan = plan_from_spec(spec)
    remedies = None
    if not advice.meets_target:
        remedies = find_remedies(outline, epsilon=epsilon, target_sse=ROUGH_SSE)
    return StudyAdvice(advice=advice, plan=plan, remedies=remedies)


def read_epsilon(text: str) -> Fraction:
    """Read an exact epsilon; raises `ConfigError`."""
    epsilon = read_number(text, "epsilon", "above 0")
    # A text of few characters may be a number of many digits.
    if not Fraction(1, 10**6) <= epsilon <= 10**6:
        raise ConfigError("must be from 0.000001 to 1000000", field="epsilon", fix="write 1")
    return epsilon


def read_number(text: str, field: str, range_: str) -> Fraction:
    """Read an exact number; raises `ConfigError`."""
    try:
        return read_exact(text)
    except (ValueError, ZeroDivisionError) as error:
        raise ConfigError(
            f"must be a number {range_}, and is {text!r}", field=field, fix="write 1, 0.5 or 1/2"
        ) from error


def _describe(dimension: PlannedDimension, request: AdviceRequest) -> dict[str, Any]:
    width = dimension.upper - dimension.lower
    if not 0.0 < width < math.inf:
        raise ConfigError(
            f"must be above the lower bound of {dimension.name}", field="upper", fix="exchange them"
        )
    transform = dimension.transform
    if transform is not None and not 0.0 < transform.resolution < math.inf:
        raise ConfigError(
            f"must be finite and above 0 in {dimension.name}",
            field="resolution",
            fix="use the smallest difference that matters, such as 1 for counts",
        )
    scale = dimension.spread
    if scale is None:
        low, high = Dimension(
            name=dimension.name,
            unit=dimension.unit,
            lower=dimension.lower,
            upper=dimension.upper,
            transform=transform,
        ).scaled_bounds.tolist()
        scale = guess_scale(
            _USUAL_SHARE * (high - low),
            n_clusters=request.n_clusters,
            n_dimensions=len(request.dimensions),
        )
    return {
        "name": dimension.name,
        "unit": dimension.unit,
        "lower": dimension.lower,
        "upper": dimension.upper,
        "scale": scale,
        **({} if transform is None else {"transform": asdict(transform)}),
    }
