"""k-variates++: k-means++ whose picks are noisy; for comparison.

Nock, Canyasse, Boreli and Nielsen, "k-variates++: more pluses in the k-means++" (2016). A record is
picked with probability proportional to its squared distance to the nearest noisy pick so far, and
released with local noise. The mixture over records protects each of them, if the squared distances
sum to much more than one record can have: that is a condition on the data and on all neighbours,
after every pick, which nobody may check on the data. So it must be stated, or the method refuses.
Useless in practice, because the noise on one record does not fall with n.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from sfumato.lab.clustering.local_search import require_exact_costs
from sfumato.learning.clustering.methods.contract import (
    Answer,
    Clusters,
    Curator,
    Integers,
    QuantisedRecords,
    Round,
    Task,
    divide_pure,
)
from sfumato.shared.core.quantise import STEPS
from sfumato.shared.errors import ConfigError, PrivacyError
from sfumato.shared.privacy.mechanism import PrivacyGuarantee
from sfumato.shared.privacy.mechanisms.cube import DiscreteCube
from sfumato.shared.privacy.samplers import RandomSource, draw_below_wide


@dataclass(frozen=True, kw_only=True)
class KVariatesMethod:
    """Picks by squared distance with the noise of one record.

    Parameters
    ----------
    spread
        tau: public knowledge that on the records and on every neighbour of theirs, after each pick,
        the mean squared distance to the nearest pick is at least tau times its largest possible
        value, ``d (2 U)^2``. 0: not stated, and the method refuses.

    Guarantees
    ----------
    With e0 the loss of the noise on one record, a pick loses at most ``ln(1 + (exp(e0) - 1) / (n
    tau))`` (``proofs.md``, section 18), provided that the stated condition holds.
    """

    name: ClassVar[str] = "k-variates"

    spread: Fraction = Fraction(0)

    @property
    def condition(self) -> str:
        """Condition on the records under which the guarantee holds, in words."""
        return (
            "This holds only if, on these records and on every neighbour of theirs, the mean "
            "squared distance to the nearest pick is, after each pick, at least "
            f"{float(self.spread):.3g} of its largest possible value, as `spread` states. Nobody "
            "has checked that"
        )

    def describe(self) -> dict[str, Any]:
        """See ``Method``."""
        return asdict(self)

    def plan_rounds(self, task: Task) -> tuple[Round, ...]:
        """See ``Method``."""
        if not 0 < self.spread <= 1:
            raise PrivacyError(
                "is missing: the guarantee holds only if the mean squared distance to the picks is "
                "known to be at least this share of its largest value",
                field="spread",
                fix="state it from public knowledge, or use another method",
            )
        if task.relation != "replace-one":
            raise PrivacyError(
                "must be replace-one here: the condition is on a public number of records",
                field="relation",
                fix="use replace-one, or another method",
            )
        # Weights are squared distances, and their sum has to be exact too.
        require_exact_costs(
            task.n_records, task.n_dimensions, STEPS, fix="use another method for so many"
        )
        self._make_noise(task)
        k = task.n_clusters
        return divide_pure(task, ["pick"] * k, [Fraction(1, k)] * k)

    def find_local(self, task: Task) -> Fraction:
        """Return e0, rounded down: ``ln(1 + n tau (exp(epsilon / k) - 1))``."""
        pick = float(task.epsilon) / task.n_clusters
        share = task.n_records * float(self.spread)
        # Beyond a loss of 100 the missing 1 is less than the rounding down.
        local = math.log1p(share * math.expm1(pick)) if pick < 100 else pick + math.log(share)
        return Fraction(local * (1 - 1e-12))

    def _make_noise(self, task: Task) -> DiscreteCube:
        return DiscreteCube.calibrate(
            n_coordinates=task.n_dimensions,
            norm_sensitivity=2 * STEPS,
            epsilon=self.find_local(task),
            neighbouring=task.relation,
        )

    def release(self, records: QuantisedRecords, task: Task, curator: Curator) -> None:
        """See ``Method``."""
        noise = self._make_noise(task)
        # A record with a missing value counts as the centre of the box.
        missing = np.zeros((records.n_missing, task.n_dimensions), dtype=np.int64)
        steps = np.concatenate([records.steps.astype(np.int64), missing])
        weights = np.ones(len(steps), dtype=np.int64)
        for planned in self.plan_rounds(task):
            guarantee = PrivacyGuarantee(
                epsilon=planned.epsilon, delta=Fraction(0), neighbouring=task.relation
            )
            # Sorted, so that the order of the records changes nothing.
            order = np.lexsort(steps.T)
            picked = weights[order]

            def draw(
                source: RandomSource, order: Integers = order, picked: Integers = picked
            ) -> Integers:
                record = steps[order[draw_weighted(picked, source)]]
                return noise.add_noise(record[None, :], source)

            answer = curator.draw(guarantee, draw)
            place = np.clip(answer.values[0], -STEPS, STEPS)
            moves = steps - place
            squares = np.einsum("ij,ij->i", moves, moves)
            weights = squares if len(curator.answers) == 1 else np.minimum(weights, squares)

    def recover(
        self, task: Task, answers: Sequence[Answer], *, n_clusters: int, rng: np.random.Generator
    ) -> Clusters:
        """See ``Method``: the first picks, for any k up to the task's; no shares."""
        del rng
        if not 1 <= n_clusters <= task.n_clusters:
            raise ConfigError(
                f"must be from 1 to {task.n_clusters}", field="n_clusters", fix="ask for fewer"
            )
        picks = np.array([answer.values[0] for answer in answers[:n_clusters]], dtype=np.float64)
        return Clusters.of(picks, np.ones(n_clusters))


def draw_weighted(weights: Integers, source: RandomSource) -> int:
    """Draw an index with probability proportional to its whole weight, exactly.

    Uniform where all weights are 0.
    """
    totals = np.cumsum(weights)
    if not totals.size or not int(totals[-1]):
        return draw_below_wide(source, max(1, totals.size))
    return int(np.searchsorted(totals, draw_below_wide(source, int(totals[-1])), side="right"))
