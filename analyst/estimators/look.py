"""A second look at records: what lies around released centroids, measured at a cost of its own."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sfumato.analyst.estimators.compressive import CompressiveEstimator
from sfumato.analyst.estimators.contract import describe_level
from sfumato.analyst.estimators.declaration import estimator, result
from sfumato.analyst.estimators.held import make_release
from sfumato.analyst.estimators.inputs import Exact, list_names, read_number
from sfumato.analyst.estimators.lock import holding
from sfumato.analyst.estimators.planning import Choices, predict_quality
from sfumato.analyst.estimators.release import LOOK
from sfumato.analyst.sketching.release import draw_sums
from sfumato.analyst.sketching.solution import sum_parts
from sfumato.learning.answers.looks import TakenLook, take_looks
from sfumato.learning.decoding.solution import Solution
from sfumato.learning.planning.looks import (
    LOOK_SHARE,
    MOST_EXPECTED,
    LookOutline,
    plan_look,
)
from sfumato.shared.arrays import Floats
from sfumato.shared.cbor import encode_deterministic
from sfumato.shared.errors import ConfigError
from sfumato.shared.plan import SketchPlan, compute_plan_digest, make_event
from sfumato.shared.privacy import PrivacyGuarantee
from sfumato.shared.spending import Turn
from sfumato.shared.wire.objects.looks import MeasuredClustersBody
from sfumato.shared.wire.objects.results import ResultBody


@dataclass(frozen=True, kw_only=True, eq=False)
class Look:
    """The measurements of a second look; printed, doubts come first.

    Parameters
    ----------
    verdict
        The worse of the look's and the fit's: a look does not see other optima.
    body
        Numbers, shares, means and spreads of the clusters, each with its error; the gain of one
        more step of k-means; verdict and doubts.
    centers
        Shape ``(k, d')``, data units: the centroids after one step of k-means on the records,
        combined by precision with the sketch's and, to refine, with those of the looks before.
    centers_std, weights_std
        Shapes ``(k, d')`` and ``(k,)``: standard deviations of the noise of means and shares.
    plan
        The plan of the look.
    guarantee
        What it cost by itself.
    """

    verdict: str
    body: MeasuredClustersBody
    centers: Floats
    centers_std: Floats
    weights_std: Floats
    plan: SketchPlan
    guarantee: PrivacyGuarantee

    def __str__(self) -> str:
        doubts = [f"Doubt: {doubt}." for doubt in self.body.doubts]
        level = f"{describe_level(self.guarantee)} under {self.guarantee.neighbouring}"
        return "\n".join([*doubts, f"{self.verdict}: {self.body.statement}; {level}"])


@estimator
class LookedEstimator(CompressiveEstimator):
    """A compressive estimator whose centroids can be shown to records again."""

    look_share: Exact | Literal["auto"] = 0
    cluster_centers_: Floats = result()
    weights_: Floats = result()
    look_: Look = result()
    _looked: tuple[tuple[ResultBody, Solution], tuple[TakenLook, ...]] = result()
    """The sketch's own result, and the looks that have refined it since."""

    def _add(self, X: Any) -> None:  # noqa: N803
        if "_held" not in vars(self) and self.look_share and self._is_private:
            raise ConfigError(
                "has no records to look at again when the sum is released",
                field="look_share",
                fix="leave it out, and call look(X) with all records",
            )
        super()._add(X)

    def look(
        self,
        X: Any,  # noqa: N803 - scikit-learn's name
        *,
        epsilon: Exact,
        delta: Exact = "0",
        refine: bool = False,
    ) -> Look:
        """Release what records add up to around the centroids, with exact noise: one more release.

        ``events_``, ``guarantee_`` and the owner's ledger count it, under ``relation``. A look
        measures what a decode can only predict. It does not see other optima: the verdict on the
        fit counts as well.

        Parameters
        ----------
        X
            Shape ``(n, d)``, data units: the records of the fit, whose epsilon adds up, or others.
        epsilon, delta
            What this release may cost.
        refine
            Whether ``cluster_centers_`` and ``weights_`` become those that were measured; the next
            look is at these.

        Raises
        ------
        ConfigError, PrivacyError, TableError
            A parameter, or the shape of ``X``, is refused; nothing was spent.
        BudgetExceededError
            The ledger does not allow it; nothing was released.
        """
        with holding(self):
            return self._look(X, epsilon, delta, refine=refine)

    def _look(
        self,
        X: Any,  # noqa: N803
        epsilon: Exact,
        delta: Exact,
        *,
        refine: bool,
    ) -> Look:
        self._require_fitted()
        if self._held.is_exact:
            raise ConfigError(
                "has no guarantee to add to: the fit was exact",
                field="look",
                fix="call score, which is exact as well",
            )
        rows = self._read_columns(X)
        self._require_readable(rows, list_names(None, rows.shape[1]), X)
        level = self._read_epsilon(epsilon), read_number(delta, "delta")
        return self._release_look(rows, level, refine=refine)[0]

    def _release_look(
        self,
        rows: NDArray[np.floating],
        level: tuple[Fraction, Fraction],
        *,
        refine: bool,
        named: bytes = b"",
        turns: ExitStack | None = None,
    ) -> tuple[Look, Turn]:
        """Release a look, in a turn of its own.

        Parameters
        ----------
        named
            The digest of its event where a fit's choices decide it.
        turns
            Ends its turn, which is shown later; None to end it here.
        """
        is_secret = self.plan_.releases_count
        planned = plan_look(
            self.result_.shown,
            LookOutline(
                aim="refine",
                epsilon=level[0],
                delta=level[1],
                # Of predictions alone; and where it is secret, not even of those.
                n_records=max(1, self.plan_.most_records if is_secret else len(rows)),
                n_sketches=1,
                shares_records=True,
            ),
        )
        plan, before = planned.plan, tuple(self._list_spent())
        self._require_room(len(rows), plan.most_records)
        # A second look under one plan is of the same records, and costs on its own: its event has
        # a digest of its own, for another sequence number would stand for other records.
        design = {"look": len(before), "plan": compute_plan_digest(plan)}
        event = replace(
            make_event(plan, stream=before[-1].stream),
            plan_digest=named or hashlib.sha256(encode_deterministic(design)).digest(),
        )
        with ExitStack() as own:
            turn = (turns or own).enter_context(self._take_turn(design))
            summed = self._sum(rows, plan)
            sums = self._draw_once(
                turn, lambda: draw_sums(plan, summed), event, shows=turns is None
            )
        self.guarantee_ = self._state_spent(self._list_spent())
        n_records = 0 if plan.releases_count else summed.n_records
        taken = TakenLook(
            plan=plan,
            totals=sum_parts([(sums, n_records)]),
            snapshot_id=make_release(plan, sums, n_records or None).digest.hex(),
        )
        first, earlier = (self.result_.body, self.solution_), ()
        if refine:
            first, earlier = vars(self).get("_looked", (first, ()))
            self._looked = first, (*earlier, taken)
        body = take_looks(self.plan_, *first, (*earlier, taken))
        assert body.looks is not None
        assert body.verdict is not None
        found = Look(
            verdict=body.verdict.word,
            body=body.looks.looks[-1],
            centers=np.array(body.centroids),
            centers_std=np.array(body.centroid_errors),
            weights_std=np.array(body.weight_errors),
            plan=plan,
            guarantee=replace(plan.mechanism.guarantee, epsilon=plan.release.epsilon),
        )
        if refine:
            self._show_refined(body, found)
        return found, turn

    def _show_refined(self, body: ResultBody, found: Look) -> None:
        self.cluster_centers_, self.weights_, self.look_ = (
            found.centers,
            np.array(body.weights),
            found,
        )
        points = self.plan_.space.encoder.encode_answers(found.centers)
        self.solution_ = replace(self.solution_, centroids=points, weights=self.weights_)
        body = replace(body, privacy=self._describe_promise())
        self.result_ = replace(self.result_, body=body)

    def _choose(
        self,
        rows: NDArray[np.floating],
        names: Sequence[str],
        *,
        margin: float,
        weights: Floats | None = None,
    ) -> Choices:
        """Leave epsilon for a look, where one is wanted."""
        choices = super()._choose(rows, names, margin=margin, weights=weights)
        is_auto = self.look_share == "auto"
        share = LOOK_SHARE if is_auto else read_number(self.look_share, "look_share")
        if choices.epsilon is None or share == 0:
            return choices
        if not 0 < share < 1:
            raise ConfigError(
                "must be a share of epsilon from 0 to below 1",
                field="look_share",
                fix="use 0.3, or 'auto'",
            )
        left = choices.epsilon * share, choices.delta / 2
        rest = replace(choices, epsilon=choices.epsilon - left[0], delta=left[1], look=left)
        if is_auto and predict_quality(self._leave_sketch(rest)).high > MOST_EXPECTED:
            return choices
        return rest

    def _make_rng(self) -> np.random.Generator:
        """Return randomness that a fit which was cut off has again: its look must be the same."""
        if isinstance(self.random_state, int) or self.look_share == 0:
            return super()._make_rng()
        digest = hashlib.sha256(self._held.totals.sums.tobytes()).digest()
        return np.random.default_rng(np.frombuffer(digest, dtype=np.uint32))

    def _follow(
        self, rows: NDArray[np.floating], choices: Choices, turns: ExitStack
    ) -> Sequence[Turn]:
        if choices.look is None:
            return ()
        named = choices.name_design(LOOK)
        _, turn = self._release_look(rows, choices.look, refine=True, named=named, turns=turns)
        return (turn,)

    def _forget_results(self) -> None:
        super()._forget_results()
        for name in ("look_", "_looked"):
            self.__dict__.pop(name, None)
