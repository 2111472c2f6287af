"""Answers from one sketch file, without a server: as a server gives them for a snapshot."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from analyst.results import DecodeResult
from analyst.sketching.report import NOT_PRIVATE
from analyst.sketching.sketch_file import SketchFile
from learning.answers.histograms import describe_calibration, describe_histogram
from learning.answers.moments import describe_moments
from learning.clustering.posing import pose_grid
from learning.clustering.registry import choose_solver, create_any_solver
from learning.decoding.solution import Solution
from learning.estimate.counts import count_records
from learning.estimate.limbs import split_limbs
from learning.estimate.posing import pose_problem
from learning.estimate.search_box import check_search_box
from learning.estimate.sizes import SizeMoments
from learning.estimate.totals import Totals
from learning.estimate.utility import Utility, estimate_utility
from learning.estimate.weighting import SIZE_WEIGHTS
from shared.errors import DecodingError
from shared.plan import SketchPlan, make_statement
from shared.wire.bodies.results import PromiseBody
from shared.wire.bodies.statistics import CalibrationBody, HistogramBody, MomentsAnswerBody

_SETTINGS: Mapping[str, Any] = {}


@dataclass(frozen=True, kw_only=True, eq=False)
class LocalSketch:
    """A sketch file with its plan, as a global sketch of one sketch.

    Parameters
    ----------
    sketch, plan
        The file's content, and the plan that it belongs to.

    Raises
    ------
    PlanMismatchError
        The plan is another.
    """

    sketch: SketchFile
    plan: SketchPlan

    def __post_init__(self) -> None:
        self.sketch.require_plan(self.plan)

    @property
    def totals(self) -> Totals:
        """The sums of the one sketch; its plan is not split, see ``require_suitable``."""
        sums, n = self.sketch.sums, self.sketch.n_records
        return Totals(
            sums=sums,
            size_sums=split_limbs([n * value for value in sums.tolist()]),
            moments=SizeMoments.of_sizes([n]),
        )

    @property
    def identity(self) -> str:
        """The digest of the sums, in the place of the id that a server gives a snapshot."""
        return self.sketch.payload_digest.hex()

    def histogram(self, *, bars: int) -> HistogramBody:
        """Return the marginals, as ``Client.histogram`` does.

        Raises
        ------
        WrongStatisticError, DecodingError
            The plan has no histogram, or the number of bars is out of range.
        """
        found = describe_histogram(
            self.plan, self.totals, snapshot_id=self.identity, most_bars=bars
        )
        return replace(found, privacy=self._correct(found.privacy))

    def moments(self) -> MomentsAnswerBody:
        """Return mean, correlations and principal directions, as ``Client.moments`` does.

        Raises
        ------
        WrongStatisticError
            The plan has no moments.
        """
        found = describe_moments(self.plan, self.totals, snapshot_id=self.identity)
        return replace(found, privacy=self._correct(found.privacy))

    def calibrate(self, *, n_clusters: tuple[int, int]) -> CalibrationBody:
        """Return what a pilot says about a main study, as ``Client.calibration`` does.

        Raises
        ------
        WrongStatisticError, DecodingError
            The plan has no histogram, or it has no number.
        """
        found = describe_calibration(
            self.plan, self.totals, snapshot_id=self.identity, n_clusters=n_clusters
        )
        return replace(found, privacy=self._correct(found.privacy))

    def _correct(self, promise: PromiseBody) -> PromiseBody:
        """Return a promise that is true of the file: an exact sum protects nobody."""
        return promise if self.sketch.is_private else replace(promise, statement=NOT_PRIVATE)

    def decode(
        self,
        *,
        n_clusters: int,
        seed: int = 0,
        settings: Mapping[str, Any] = _SETTINGS,
        search_box: Mapping[str, Sequence[float]] | None = None,
        progress: Callable[[float], None] | None = None,
    ) -> DecodeResult:
        """Recover centroids, by the same solver as the server; raises ``SketchError`` as it does.

        Parameters
        ----------
        search_box
            Where to search for clusters: lower and upper bound by dimension.
        progress
            Called with the completed share, 0 to 1.
        """
        started = time.monotonic()
        plan, totals = self.plan, self.totals
        stated = check_search_box(plan, search_box or {})
        utility = estimate_utility(plan, totals, count_records(plan, totals), SIZE_WEIGHTS)
        solver = create_any_solver(plan.kind, choose_solver(plan.kind), dict(settings))
        problem: Any
        if plan.kind == "grid":
            problem = pose_grid(plan, totals, n_clusters=n_clusters)
        else:
            problem = pose_problem(
                plan,
                totals,
                SIZE_WEIGHTS,
                signal_energy=utility.signal_energy,
                n_clusters=n_clusters,
                search_box=stated,
            )
        solution = solver.solve(
            problem,
            rng=np.random.default_rng(seed),
            progress=progress or (lambda share: None),
            cancelled=lambda: False,
        )
        if not solution.succeeded:
            raise DecodingError(
                "no usable centroids were found: " + "; ".join(solution.warnings),
                field="n_clusters",
                fix="try fewer clusters",
            )
        return _to_result(self, solution, utility, stated, time.monotonic() - started)


def _to_result(
    local: LocalSketch,
    solution: Solution,
    utility: Utility,
    search_box: Mapping[str, Sequence[float]],
    seconds: float,
) -> DecodeResult:
    plan, verdict, evidence = local.plan, solution.verdict, solution.evidence
    name, _, version = solution.solver.partition("/")
    return DecodeResult(
        decode_id="",
        snapshot_id=local.identity,
        names=tuple(axis.name for axis in plan.axes),
        units=tuple(axis.unit for axis in plan.axes),
        centroids=plan.space.encoder.decode(solution.centroids),
        weights=np.asarray(solution.weights),
        snr=utility.snr,
        quality="" if verdict is None else verdict.describe_band(),
        privacy=make_statement(plan).describe() if local.sketch.is_private else NOT_PRIVATE,
        residual=float(solution.residual),
        noise_floor=float(solution.noise_floor),
        warnings=tuple(solution.warnings),
        decoder=name,
        decoder_version=int(version),
        seconds=seconds,
        spreads=solution.spreads,
        choice=None if solution.choice is None else asdict(solution.choice),
        verdict=DecodeResult.verdict if verdict is None else verdict.word,
        reason=DecodeResult.reason if verdict is None else verdict.sentence,
        resolved=None if evidence is None else np.asarray(evidence.resolved),
        search_box=dict(search_box),
    )
