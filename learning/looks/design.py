"""Design of a second look: what to sum around given centres, from what a first result knows.

Radii and the cap follow from the spreads of the first result, so that under one record in a hundred
of Gaussian clusters is clipped; the units from the norm of the noise. Both are choices for
accuracy: the sensitivity holds for any.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sfumato.shared.core.quantise import STEPS
from sfumato.shared.core.statistics.clusters import Norm, Units
from sfumato.shared.errors import PlanError
from sfumato.shared.plan import ClustersPart, RecordSpace

Floats = NDArray[np.float64]
Aim = Literal["measure", "refine", "profile"]

_WEIGHTS = 1 << 30
_LENGTH = 1 << 14
_BOX_SPREADS = 3.0
"""Bounds are taken for so many standard deviations where nothing else is known."""
_CAP_DEVIATIONS = 5.0
_LEAST_SPREAD = 0.05
"""The least spread of a cluster, as a part of the scale: a first look resolves no less."""


@dataclass(frozen=True, kw_only=True, eq=False)
class FirstLook:
    """Clusters as a first result knows them, in coordinates of the axes.

    Parameters
    ----------
    centres, spreads
        Shape ``(k, d)``: centroids, and standard deviations inside each cluster.
    scale
        Shape ``(d,)``: lengths that count as one along each axis.
    candidates
        Other sets of k centres to be compared: each of shape ``(k, d)``.
    result
        SHA-256 of the result as it was published; empty for none.
    """

    centres: Floats
    spreads: Floats
    scale: Floats
    candidates: Sequence[Floats] = ()
    result: bytes = b""


def design_look(
    space: RecordSpace,
    first: FirstLook,
    *,
    assigned: Sequence[str],
    aim: Aim,
    norm: Norm,
    neighbouring: str,
    clusters_per_sketch: int | None = None,
) -> ClustersPart:
    """Design the statistic of a look.

    Parameters
    ----------
    space
        The columns that devices read: those of the first look, and for a profile others.
    first
        In the axes of the assigned columns.
    assigned
        The names of the first look's columns.
    aim
        ``measure``: numbers, squares and records at the cap, with the least noise. ``refine``: the
        means of the assigned columns besides. ``profile``: the means of all columns.
    norm
        The norm that the noise is shaped to.
    clusters_per_sketch
        r, a divisor of k; None for all clusters in every sketch.

    Raises
    ------
    PlanError
        The first look has another number of axes.
    """
    owners = [space.dimensions[axis.dimension] for axis in space.axes]
    at = [i for i, each in enumerate(owners) if each.name in assigned]
    k, d = first.centres.shape
    if d != len(at):
        raise PlanError(
            f"has {len(at)} assigned axes, and the result has {d}",
            field="dimensions",
            fix="use the columns of the result's plan, with their bounds and levels",
        )
    half_width = space.quantiser.half_width[at]
    centre = space.quantiser.centre[at]
    unit = STEPS / half_width
    spreads = np.maximum(first.spreads, _LEAST_SPREAD * first.scale) * unit
    names = {"measure": (), "refine": tuple(assigned)}.get(
        aim, tuple(d.name for d in space.dimensions)
    )
    summed = [i for i, each in enumerate(owners) if each.name in names]
    origins = np.zeros((k, len(summed)))
    widths = np.full((k, len(summed)), STEPS / _BOX_SPREADS)
    centres = _to_steps(first.centres, centre, unit)
    for place, axis in enumerate(summed):
        if axis in at:
            origins[:, place] = centres[:, at.index(axis)]
            widths[:, place] = spreads[:, at.index(axis)]
    optional = any(owners[i].name not in assigned and owners[i].missing is None for i in summed)
    units = choose_units(
        norm=norm,
        neighbouring=neighbouring,
        n_summed=len(summed),
        is_optional=optional,
        has_totals=bool(first.candidates),
    )
    weights, cap = _choose_weights(first.scale * unit, spreads, units)
    return ClustersPart(
        assigned=tuple(assigned),
        summed=names,
        centres=_to_rows(centres),
        weights=tuple(weights),
        cap=cap,
        origins=_to_rows(origins) if summed else (),
        radii=_to_rows(np.clip(widths * _reach(len(summed), norm), 1, 2 * STEPS)) if summed else (),
        units=units,
        candidates=tuple(_to_rows(_to_steps(each, centre, unit)) for each in first.candidates),
        clusters_per_sketch=k if clusters_per_sketch is None else clusters_per_sketch,
        result=first.result,
    )


def choose_units(
    *, norm: Norm, neighbouring: str, n_summed: int, is_optional: bool, has_totals: bool
) -> Units:
    """Choose what each kind of sum weighs: sensitivities add in L1, and in squares in L2.

    Under replace-one in L2 a count of up to 0.7 of the residual costs nothing, because a record
    that moves from one cluster to another cannot also turn its residual round.
    """
    a = _LENGTH
    if n_summed == 0:
        return Units(
            residual=0, count=a, square=a, beyond=a // 2, total=a // 2 if has_totals else 0
        )
    if norm == "l1":
        count, square, beyond = a // 8, a // 8, a // 16
    elif neighbouring == "replace-one":
        count, square, beyond = 7 * a // 10, a // 2, a // 4
    else:
        count, square, beyond = a // 3, a // 3, a // 6
    return Units(
        residual=a,
        count=count,
        square=square,
        beyond=beyond,
        presence=count // 4 if is_optional else 0,
        total=square if has_totals else 0,
    )


def _reach(n_summed: int, norm: Norm) -> float:
    """Return the length of a Gaussian residual in spreads, which few exceed."""
    root = math.sqrt(max(1, n_summed))
    return 0.8 * n_summed + 2.2 * root if norm == "l1" else root + 2.0


def _choose_weights(scale: Floats, spreads: Floats, units: Units) -> tuple[list[int], int]:
    """Choose weights by the scale, and Q five deviations above the widest cluster's mean square.

    The weights are as large as the products in 64 bits allow, so that rounding them matters least.
    """
    each = (spreads / scale) ** 2
    reach = each.sum(axis=1) + _CAP_DEVIATIONS * np.sqrt(2.0 * (each**2).sum(axis=1))
    most = float(1 << 62) / max(units.square, units.total, 1)
    squares = scale**-2.0
    unit = min(_WEIGHTS / float(squares.sum()), most / float(reach.max()))
    weights = [max(1, int(each)) for each in unit * squares]
    return weights, max(1, int(unit * reach.max()))


def _to_steps(points: Floats, centre: Floats, unit: Floats) -> Floats:
    """Place points on the axes among the quantiser's steps, inside the box."""
    steps: Floats = np.rint(np.clip((points - centre) * unit, -STEPS, STEPS))
    return steps


def _to_rows(values: Floats) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(int(each) for each in row) for row in np.rint(values).tolist())
