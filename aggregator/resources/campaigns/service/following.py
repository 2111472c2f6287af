"""The plan of the next phase of a campaign, from the answers of the phases before."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace

from sfumato.aggregator.base.sums.selection import Selection
from sfumato.aggregator.resources.campaigns.record import PhaseRecord
from sfumato.aggregator.resources.jobs.record import DecodeRecord
from sfumato.aggregator.resources.jobs.service.decodes import DecodeService
from sfumato.aggregator.resources.parts import Parts, Service
from sfumato.aggregator.resources.plans import require_study
from sfumato.aggregator.resources.snapshots.record import SnapshotRecord
from sfumato.aggregator.resources.snapshots.service.snapshots import SnapshotService
from sfumato.aggregator.resources.snapshots.service.statistics import StatisticService
from sfumato.aggregator.resources.studies.record import StudyRecord
from sfumato.learning.answers.histograms import MOST_BARS
from sfumato.learning.decoding.verdict import UNUSABLE
from sfumato.learning.estimate.search_box import Stated
from sfumato.learning.planning.looks import LookOutline
from sfumato.learning.planning.main_columns import MainColumn
from sfumato.learning.planning.refinement import MainOutline, Refinement, refine
from sfumato.shared.core.seeds import SEED_BYTES
from sfumato.shared.errors import ConfigError, NotFoundError, PlanError
from sfumato.shared.plan import Campaign, SketchPlan, require_follows
from sfumato.shared.plan.derivation import verify


@dataclass(frozen=True, kw_only=True)
class Following:
    """The next study: its plan, and where its decodes search."""

    plan: SketchPlan
    search_box: Stated | None = None


class WaitError(ConfigError):
    """The next phase cannot be published yet."""


def find_terms(plan: SketchPlan) -> Campaign:
    """Return the campaign of a plan, or refuse a study by itself with a ``ConfigError``."""
    if plan.campaign is None:
        raise ConfigError(
            "is a study by itself, and of no campaign",
            field="study",
            fix="publish one with `sfumato campaign create`",
        )
    return plan.campaign


class FollowingPlans(Service):
    """Makes the plans of later phases; they cost no privacy, for they rest on released answers."""

    def __init__(
        self,
        parts: Parts,
        snapshots: SnapshotService,
        statistics: StatisticService,
        decodes: DecodeService,
    ) -> None:
        super().__init__(parts)
        self._snapshots = snapshots
        self._statistics = statistics
        self._decodes = decodes

    async def plan(
        self, records: Sequence[PhaseRecord], study: StudyRecord, *, anyway: bool
    ) -> Following | None:
        """Return the study of the next phase; None after the last one, whose answer is stored.

        Parameters
        ----------
        records
            The phases so far; the last is that of the study.
        anyway
            Whether to go on from an answer that nobody should use.

        Raises
        ------
        WaitError
            The answer is still being computed.
        ConfigError, PlanError, PrivacyError
            No plan follows from it.
        """
        plan = await self._plans.get(study)
        terms = find_terms(plan)
        if plan.kind == "histogram":
            made = await self._refine(study, plan, anyway=anyway)
        else:
            decode = await self._find_answer(records, terms)
            if terms.is_last:
                return None
            made = Following(plan=await self._plan_look(decode, terms, anyway=anyway))
        following = replace(made, plan=replace(made.plan, campaign=terms.next))
        await asyncio.to_thread(verify, following.plan)
        # Every device checks the same, and would take no part otherwise.
        require_follows(plan, following.plan)
        return following

    async def _refine(self, study: StudyRecord, pilot: SketchPlan, *, anyway: bool) -> Following:
        terms = find_terms(pilot)
        phase, k = terms.next.phase, terms.most_clusters
        snapshot, _ = await self._snapshots.create(study.study_id, Selection())
        key = snapshot.snapshot_id
        calibration = await self._statistics.describe_calibration(key, n_clusters=(k, k))
        histogram = await self._statistics.describe_histogram(key, most_bars=MOST_BARS)
        longer = _length(terms.next) / _length(terms)
        main = MainOutline(
            epsilon=phase.epsilon,
            delta=phase.delta,
            n_records=max(1, round(calibration.n_records * longer)),
            n_sketches=max(1, round(histogram.n_sketches * longer)),
            window=phase.window,
        )
        found = await asyncio.to_thread(refine, calibration, histogram, pilot, main)
        found.require_hope(anyway=anyway)
        # What lies beyond the bounds that the campaign was published with is clipped in all phases.
        columns = tuple(_clip(each, terms) for each in found.columns)
        found = replace(found, columns=columns)
        return Following(
            plan=await asyncio.to_thread(_make_main, found, pilot), search_box=found.search_box
        )

    async def _find_answer(self, records: Sequence[PhaseRecord], terms: Campaign) -> DecodeRecord:
        """Return the decode of the sketches with all looks so far, or queue it and wait."""
        record, n_clusters = records[-1], terms.most_clusters
        sketched = next(
            each for each in records if terms.phases[each.number].statistic == "fourier"
        )
        looks = [
            (await self._snapshots.create(each.study_id, Selection()))[0].snapshot_id
            for each in records
            if each.number > sketched.number
        ]
        chooses = record.chooses and not looks
        shown = record.decode_id or sketched.decode_id
        if shown is not None:
            decode = await self._decodes.get(shown)
            if decode.state in ("queued", "running"):
                raise _wait_for_decode()
            if decode.state == "succeeded":
                if record.decode_id and not (decode.settings.get("choose") and chooses):
                    return decode
                # A look is at as many clusters as its decode is asked for: the chosen number.
                n_clusters, chooses = len((decode.result or {})["weights"]), False
        decode, _ = await self._decodes.create(
            sketched.study_id,
            snapshot_id=None,
            n_clusters=n_clusters,
            decoder=None,
            settings={"choose": True} if chooses else {},
            seed=0,
            looks=looks,
        )
        async with self._store.begin(write=True) as transaction:
            await transaction.change(PhaseRecord, record.study_id, decode_id=decode.decode_id)
        if decode.state == "succeeded" and not chooses:
            return decode
        raise _wait_for_decode()

    async def _plan_look(
        self, decode: DecodeRecord, terms: Campaign, *, anyway: bool
    ) -> SketchPlan:
        verdict = (decode.result or {}).get("verdict") or {}
        if verdict.get("word") == UNUSABLE and not anyway:
            raise PlanError(
                f"Do not go on: the answer's verdict is {UNUSABLE!r}, and a look finds no clusters "
                f"that a sketch has missed ({verdict.get('reason')})",
                field="campaign",
                fix="plan a campaign with more records, a larger epsilon or fewer clusters, or add "
                "--anyway to go on all the same",
            )
        phase = terms.next.phase
        async with self._store.begin() as transaction:
            study = await require_study(transaction, decode.study_id)
            snapshot = await transaction.get(SnapshotRecord, decode.snapshot_id)
        if snapshot is None:
            raise NotFoundError("is gone", field="snapshot", fix="decode the study again")
        sketch = await self._plans.get(study)
        longer = _length(terms.next) / _length(find_terms(sketch))
        outline = LookOutline(
            aim="refine",
            epsilon=phase.epsilon,
            delta=phase.delta,
            n_records=max(1, round(snapshot.n_records * longer)),
            n_sketches=max(1, round(snapshot.n_sketches * longer)),
            window=phase.window,
        )
        planned = await self._decodes.plan_look(decode.decode_id, outline)
        return planned.plan


def _wait_for_decode() -> WaitError:
    return WaitError(
        "waits for its decode", field="campaign", fix="try again later", retry_after_s=2.0
    )


def _make_main(found: Refinement, pilot: SketchPlan) -> SketchPlan:
    terms = find_terms(pilot)
    most = min(int(found.sizes.get("most_records", 1)), terms.most_records)
    return found.make_plan(
        seed=secrets.token_hex(SEED_BYTES), least_records=pilot.least_records, most_records=most
    )


def _clip(column: MainColumn, terms: Campaign) -> MainColumn:
    """Return a column with bounds inside those of the campaign."""
    if column.search is None:
        return column
    known = {each.name: each for each in terms.columns}[column.dimension.name]
    least, most = known.bounds
    low, high = (min(max(bound, least), most) for bound in column.dimension.bounds)
    search = tuple(min(max(bound, low), high) for bound in column.search)
    return replace(
        column,
        dimension=replace(column.dimension, lower=low, upper=high),
        search=(search[0], search[1]),
    )


def _length(terms: Campaign) -> int:
    window = terms.phase.window
    return (window.end or window.origin) - window.origin
