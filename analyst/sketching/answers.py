"""Answers from sketch files, without a server: as a server gives them for a snapshot."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

import numpy as np

from sfumato.analyst.results import DecodeResult
from sfumato.analyst.results.promises import describe_exact
from sfumato.analyst.sketching.sketch_file import SketchFile
from sfumato.analyst.sketching.solution import solve_totals, sum_parts
from sfumato.learning.answers.clusters import describe_clusters
from sfumato.learning.answers.histograms import describe_calibration, describe_histogram
from sfumato.learning.answers.looks import TakenLook, require_looks, take_looks
from sfumato.learning.answers.moments import describe_moments
from sfumato.learning.answers.questions import Inquiry
from sfumato.learning.decoding.solution import Solution
from sfumato.learning.decoding.verdict import describe_doubt
from sfumato.learning.estimate.counts import count_records
from sfumato.learning.estimate.totals import Totals
from sfumato.learning.insight.influence import add_influence
from sfumato.shared.errors import ConfigError
from sfumato.shared.plan import SketchPlan
from sfumato.shared.wire.objects.answers import PromiseBody, describe_promise
from sfumato.shared.wire.objects.looks import MeasuredClustersBody
from sfumato.shared.wire.objects.statistics import CalibrationBody, HistogramBody, MomentsAnswerBody

_SETTINGS: Mapping[str, Any] = {}


@dataclass(frozen=True, kw_only=True, eq=False)
class LocalSketches:
    """Sketch files of different records with their plan, as a global sketch.

    Parameters
    ----------
    sketches, plan
        The content of the files, and the plan that they belong to.

    Raises
    ------
    PlanMismatchError
        A sketch is of another plan.
    PlanError
        The plan has a secure sum, which no file holds.
    ConfigError
        There is none, or one is there twice, or some are exact and others private.
    """

    sketches: Sequence[SketchFile]
    plan: SketchPlan

    def __post_init__(self) -> None:
        self.plan.require_single_sketches()
        if not self.sketches:
            raise ConfigError("has no sketch", field="source", fix="name at least one file")
        for sketch in self.sketches:
            sketch.require_plan(self.plan)
        if len({sketch.payload_digest for sketch in self.sketches}) < len(self.sketches):
            raise ConfigError("has a sketch twice", field="source", fix="name each file once")
        if len({sketch.is_private for sketch in self.sketches}) > 1:
            raise ConfigError(
                "has exact and private sketches", field="source", fix="name files of one kind"
            )

    @property
    def is_private(self) -> bool:
        """True if noise was added."""
        return self.sketches[0].is_private

    @property
    def n_records(self) -> int:
        """The records of all sketches."""
        return sum(sketch.n_records for sketch in self.sketches)

    @property
    def identity(self) -> str:
        """Digest of the sums, in place of a snapshot's identity, which no server has given."""
        digests = [sketch.payload_digest for sketch in self.sketches]
        joined = digests[0] if len(digests) == 1 else sha256(b"".join(digests)).digest()
        return joined.hex()

    @property
    def totals(self) -> Totals:
        """The sums of all sketches; their plan is not split, see ``require_suitable``."""
        return sum_parts([(sketch.sums, sketch.n_records) for sketch in self.sketches])

    @property
    def promise(self) -> PromiseBody:
        """The promise of privacy; of exact sums, that there is none."""
        return self._correct(describe_promise(self.plan))

    def shares_with(self, other: object) -> bool:
        """Return whether another source holds a sketch of these."""
        if not isinstance(other, LocalSketches):
            return True
        digests = ({each.payload_digest for each in one.sketches} for one in (self, other))
        return bool(set.intersection(*digests))

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

    def clusters(self) -> MeasuredClustersBody:
        """Return what a second look measures, as ``Client.clusters`` does.

        Raises
        ------
        WrongStatisticError
            The plan is not that of a look.
        """
        found = describe_clusters(
            self.plan, self.totals, snapshot_id=self.identity, is_exact=not self.is_private
        )
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
        return promise if self.is_private else describe_exact(self.plan)

    def decode(
        self,
        *,
        n_clusters: int,
        seed: int = 0,
        settings: Mapping[str, Any] = _SETTINGS,
        search_box: Mapping[str, Sequence[float]] | None = None,
        looks: Sequence[LocalSketches] = (),
        progress: Callable[[float], None] | None = None,
    ) -> DecodeResult:
        """Recover centroids, by the same solver as the server; raises ``SketchError`` as it does.

        Parameters
        ----------
        search_box
            Where to search for clusters: lower and upper bound by dimension.
        looks
            Second looks at earlier results, in their order: what they measured is taken over.
        progress
            Called with the completed share, 0 to 1.
        """
        started = time.monotonic()
        taken = [
            TakenLook(plan=each.plan, totals=each.totals, snapshot_id=each.identity)
            for each in looks
        ]
        if taken and not all(each.is_private for each in (self, *looks)):
            raise ConfigError(
                "has exact sums, which say nothing of what noise allows",
                field="looks",
                fix="use private sketches, or leave the looks out",
            )
        require_looks(self.plan, taken, n_clusters)
        solved = solve_totals(
            self.plan,
            self.totals,
            n_clusters=n_clusters,
            rng=np.random.default_rng(seed),
            settings=settings,
            search_box=search_box,
            is_exact=not self.is_private,
            progress=progress,
        )
        solution = solved.solution
        if self.is_private:
            each = [sum_parts([(sketch.sums, sketch.n_records)]) for sketch in self.sketches]
            solution = add_influence(
                self.plan, solution, each, whole=self.totals, kind="file", seed=seed
            )
        result = DecodeResult.of_solution(
            self.plan,
            solution,
            snr=solved.utility.snr,
            seconds=time.monotonic() - started,
            promise=None if self.is_private else describe_exact(self.plan),
            search_box=solved.search_box,
            seed=seed,
            sums_digest=self.identity,
            posterior=self._find_posterior(solution),
        )
        return replace(result, body=take_looks(self.plan, result.body, solution, taken))

    def _find_posterior(self, solution: Solution) -> Inquiry | None:
        if solution.posterior is None:
            return None
        verdict = solution.verdict
        return Inquiry(
            plan=self.plan,
            posterior=solution.posterior,
            n_records=count_records(self.plan, self.totals).n_records,
            doubt=describe_doubt(verdict.word, verdict.sentence) if verdict else "",
        )
