"""Decodes: request, read, cancel."""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, cast

import numpy as np

from sfumato.aggregator.answers.clusters import build_problem, describe_solution
from sfumato.aggregator.base.store import Store
from sfumato.aggregator.base.sums.selection import Selection
from sfumato.aggregator.base.transaction import Transaction
from sfumato.aggregator.resources.jobs.record import DecodeRecord, PosteriorRecord
from sfumato.aggregator.resources.jobs.service.requests import RequestService, require_one_cluster
from sfumato.aggregator.resources.jobs.service.sources import Sources, load_sources
from sfumato.aggregator.resources.parts import Parts
from sfumato.aggregator.resources.plans import require_study
from sfumato.aggregator.resources.snapshots.record import SnapshotRecord
from sfumato.aggregator.resources.snapshots.service.snapshots import (
    DEFAULT_WEIGHTING,
    SnapshotService,
)
from sfumato.aggregator.resources.studies.record import StudyRecord
from sfumato.aggregator.resources.studies.service.advice import read_epsilon, read_number
from sfumato.learning.answers.looks import TakenLook, require_looks, take_looks
from sfumato.learning.answers.posterior_bytes import pack_posterior, unpack_posterior
from sfumato.learning.answers.questions import Inquiry
from sfumato.learning.clustering.registry import choose_solver, create_any_solver
from sfumato.learning.decoding.solution import Solution
from sfumato.learning.decoding.solver import Solver
from sfumato.learning.decoding.verdict import describe_doubt
from sfumato.learning.estimate.search_box import Stated, check_search_box
from sfumato.learning.generative.columns import Column, list_histograms, read_columns
from sfumato.learning.generative.synthesis import Origin, Synthesiser, require_same_columns
from sfumato.learning.planning.looks import LookOutline, LookPlan, ShownResult, plan_look
from sfumato.shared.cbor import encode_deterministic
from sfumato.shared.errors import ConfigError, DecodingError, NotFoundError
from sfumato.shared.plan import SketchPlan
from sfumato.shared.structure import structure
from sfumato.shared.wire.objects.answers import describe_promise
from sfumato.shared.wire.objects.looks import PlanLookRequest
from sfumato.shared.wire.objects.questions import AnswersBody, QuestionsRequest
from sfumato.shared.wire.objects.results import ResultBody
from sfumato.shared.wire.objects.synthesis import SynthesisRequest, SyntheticBody

_DOMAIN = "sfumato/v1/decode"
_MOST_INQUIRIES = 32
"""Densities of recent questions that are kept in memory, about a megabyte each at most."""
_MOST_FOLLOWED = 4
"""Densities with a histogram that are kept, a megabyte for each column that was asked for."""

Setting = int | float | bool | str


@dataclass(frozen=True, kw_only=True, eq=False)
class DecodeWork:
    """The inputs of a decode, and its solution."""

    decode: DecodeRecord
    plan: SketchPlan
    snapshot: SnapshotRecord
    problem: Any
    solver: Solver
    sources: Sources | None = None
    looks: Sequence[TakenLook] = ()

    def solve(
        self, *, progress: Callable[[float], None], cancelled: Callable[[], bool]
    ) -> Solution:
        """Solve it; the same decode gives the same answer on every machine.

        Raises
        ------
        DecodingError
            No usable centroids were found.
        DecodingCancelledError
            ``cancelled`` returned true.
        """
        solution = self.solver.solve(
            self.problem,
            rng=np.random.default_rng(self.decode.seed),
            progress=progress,
            cancelled=cancelled,
        )
        if not solution.succeeded:
            raise DecodingError(
                "no usable centroids were found: " + "; ".join(solution.warnings),
                field="n_clusters",
                fix="try fewer clusters or more replicates",
            )
        if self.sources is None:
            return solution
        return self.sources.measure_influence(
            self.plan,
            solution,
            whole=self.snapshot.totals,
            seed=self.decode.seed,
            cancelled=cancelled,
        )

    async def complete(self, store: Store, answer: Solution) -> Solution:
        """Return the answer as it is."""
        return answer

    def describe(self, answer: Solution, *, seconds: float) -> dict[str, Any]:
        """Return the solution, with what looks have measured, as a document.

        Raises
        ------
        DecodingError
            A look was at other clusters.
        """
        found = describe_solution(
            self.plan,
            self.snapshot,
            answer,
            search_box=self.decode.search_box,
            seconds=seconds,
        )
        return asdict(take_looks(self.plan, found, answer, self.looks))

    async def store(self, transaction: Transaction, answer: Solution) -> None:
        """Store the densities behind the solution, which answer questions."""
        if answer.posterior is None:
            return
        await transaction.add(
            PosteriorRecord(
                decode_id=self.decode.decode_id,
                study_id=self.decode.study_id,
                n_records=self.snapshot.n_records,
                content=pack_posterior(answer.posterior),
            )
        )


class DecodeService(RequestService[DecodeRecord]):
    """Requests for decodes, and answers to questions on them."""

    def __init__(self, parts: Parts, snapshots: SnapshotService) -> None:
        super().__init__(parts, snapshots, DecodeRecord)
        self._inquiries: OrderedDict[bytes, Inquiry] = OrderedDict()
        self._followed: OrderedDict[tuple[bytes, bytes], Inquiry] = OrderedDict()

    async def create(
        self,
        study_id: bytes,
        *,
        snapshot_id: bytes | None,
        selection: Selection | None = None,
        weighting: str | None = None,
        n_clusters: int,
        decoder: str | None,
        settings: Mapping[str, Setting],
        seed: int,
        search_box: Stated | None = None,
        looks: Sequence[bytes] = (),
    ) -> tuple[DecodeRecord, bool]:
        """Queue a decode; return it, and whether it was queued now.

        The same request returns the same decode; a failed or cancelled one is queued again. Without
        a snapshot, the selection is frozen first; without a selection, the whole study. Without a
        search box, the study's is used; an empty one stands for the plan's box.

        Raises
        ------
        NotFoundError
            There is no such study, or no such snapshot in it, or none of a look.
        ConfigError
            Both a snapshot and a selection are given, the selection cannot be frozen, or the search
            box or a look does not suit the plan.
        WrongStatisticError
            A look is none.
        DecodingError
            The decoder, a setting or the number of clusters does not suit.
        """
        require_one_cluster(n_clusters)
        async with self._store.begin() as transaction:
            study = await require_study(transaction, study_id)
        plan = await self._plans.get(study)
        name = decoder or choose_solver(plan.kind)
        solver = require_solver(name, settings, plan)
        taken = await self._load_looks(looks)
        await asyncio.to_thread(require_looks, plan, taken, n_clusters)
        snapshot = await self._find_snapshot(study_id, snapshot_id, selection, weighting)
        # Resolved here and stored: the study's may be another when a worker takes the decode.
        box = check_search_box(plan, study.search_box if search_box is None else search_box)
        # Refuse an impossible decode before it is queued. The problem itself checks its sketch and
        # noise, so it is built. In a thread: frequencies of a plan are many.
        await asyncio.to_thread(build_problem, plan, snapshot, n_clusters, box)
        record = DecodeRecord(
            decode_id=compute_decode_id(snapshot, n_clusters, solver, seed, box, looks),
            study_id=study_id,
            snapshot_id=snapshot.snapshot_id,
            n_clusters=n_clusters,
            decoder=name,
            solver=solver.name,
            settings=settings_of(solver),
            search_box=box,
            looks=[each.hex() for each in looks],
            seed=seed,
            created=self._clock.now(),
        )
        return await self._queue(record)

    async def _find_snapshot(
        self,
        study_id: bytes,
        snapshot_id: bytes | None,
        selection: Selection | None,
        weighting: str | None,
    ) -> SnapshotRecord:
        if snapshot_id is None:
            with self._store.apart():
                snapshot, _ = await self._snapshots.create(
                    study_id, selection or Selection(), weighting=weighting or DEFAULT_WEIGHTING
                )
            return snapshot
        if selection is not None:
            raise ConfigError(
                "cannot be combined with snapshot_id", field="selection", fix="give one of them"
            )
        async with self._store.begin() as transaction:
            await require_study(transaction, study_id)
        snapshot = await self._snapshots.get(snapshot_id)
        if snapshot.study_id != study_id:
            raise NotFoundError(
                "must be a snapshot of this study", field="snapshot", fix="check its identity"
            )
        return snapshot

    async def _load_looks(self, looks: Sequence[bytes]) -> list[TakenLook]:
        """Load what looks have summed, each of its own study: else they would share noise."""
        found, studies = [], set()
        for i, look in enumerate(looks):
            snapshot = await self._snapshots.get(look)
            if snapshot.study_id in studies:
                raise ConfigError(
                    "must be of another study than the looks before it: they share sketches",
                    field=f"looks.{i}",
                    fix="name one snapshot of each study of a look",
                )
            studies.add(snapshot.study_id)
            async with self._store.begin() as transaction:
                study = await require_study(transaction, snapshot.study_id)
            plan = await self._plans.get(study)
            found.append(TakenLook(plan=plan, totals=snapshot.totals, snapshot_id=look.hex()))
        return found

    async def ask(self, decode_id: bytes, questions: QuestionsRequest) -> AnswersBody:
        """Answer questions on the density behind a decode; costs no privacy.

        Raises
        ------
        NotFoundError
            There is no such decode or snapshot.
        WrongStatisticError
            The snapshot is of a study without a histogram.
        DecodingError
            It has not succeeded, its decoder keeps no density, or a question is refused.
        """
        _, _, inquiry = await self._find_inquiry(decode_id)
        if questions.histogram is not None:
            inquiry = await self._follow(decode_id, inquiry, questions.histogram)
        return await asyncio.to_thread(inquiry.answer, questions)

    async def synthesise(self, decode_id: bytes, asked: SynthesisRequest) -> SyntheticBody:
        """Draw synthetic records from the densities behind a decode; costs no privacy.

        Raises
        ------
        NotFoundError
            There is no such decode, or no such snapshot of a histogram.
        WrongStatisticError
            That snapshot is of a study without a histogram.
        DecodingError
            The decode has not succeeded, keeps no density or is not to be used, or the histogram
            has none of its columns.
        """
        decode, decoded, inquiry = await self._find_inquiry(decode_id)
        columns: Sequence[Column] = ()
        promises = [describe_promise(inquiry.plan)]
        if asked.histogram is not None:
            plan, columns = await self._read_histogram(asked.histogram)
            promises.append(describe_promise(plan))
        verdict = (decode.result or {}).get("verdict") or {}
        synthesiser = Synthesiser(
            plan=inquiry.plan,
            posterior=inquiry.posterior,
            verdict=verdict.get("word", "doubtful"),
            columns=columns,
            allow_unusable=asked.allow_unusable,
        )

        def draw() -> SyntheticBody:
            return synthesiser.answer(
                asked,
                origin=Origin(
                    decode_id=decode_id.hex(),
                    snapshot_id=decode.snapshot_id.hex(),
                    study=decoded.name,
                    study_id=decoded.study_id.hex(),
                    decoder=decode.solver,
                ),
                privacy=promises,
            )

        return await asyncio.to_thread(draw)

    async def _follow(self, decode_id: bytes, inquiry: Inquiry, histogram: str) -> Inquiry:
        """Let answers follow a histogram; from memory if possible, for pages ask again and again.

        Its study is looked at each time: it may have been withdrawn.
        """
        _, columns = await self._read_histogram(histogram)
        require_same_columns(inquiry.plan, columns)
        own = {each.name for each in inquiry.plan.dimensions}
        found = [each for each in list_histograms(columns) if each.name in own]
        if not found:
            raise DecodingError(
                "has no number of the study whose noise is known",
                field="histogram",
                fix=f"name a histogram of {', '.join(own)}, of devices that release counts",
            )
        key = decode_id, bytes.fromhex(histogram)
        known = self._followed.get(key)
        if known is None:
            known = replace(inquiry, histograms=found)
            self._followed[key] = known
        self._followed.move_to_end(key)
        while len(self._followed) > _MOST_FOLLOWED:
            self._followed.popitem(last=False)
        return known

    async def _read_histogram(self, snapshot_id: str) -> tuple[SketchPlan, Sequence[Column]]:
        """Read the columns of a snapshot of a histogram, and the plan of its study."""
        snapshot = await self._snapshots.get(bytes.fromhex(snapshot_id))
        async with self._store.begin() as transaction:
            study = await require_study(transaction, snapshot.study_id)
        plan = await self._plans.get(study)
        return plan, await asyncio.to_thread(read_columns, plan, snapshot.totals)

    async def _find_inquiry(self, decode_id: bytes) -> tuple[DecodeRecord, StudyRecord, Inquiry]:
        """Return a decode that has succeeded, its study, and densities, from memory if possible."""
        async with self._store.begin() as transaction:
            decode = await self._require(transaction, decode_id)
            study = await require_study(transaction, decode.study_id)
            inquiry = self._inquiries.get(decode_id)
            found = None if inquiry else await transaction.get(PosteriorRecord, decode_id)
        if inquiry is None:
            if found is None:
                raise _refuse_question(decode)
            verdict = (decode.result or {}).get("verdict") or {}
            inquiry = Inquiry(
                plan=await self._plans.get(study),
                posterior=unpack_posterior(found.content),
                n_records=found.n_records,
                doubt=describe_doubt(verdict["word"], verdict["sentence"]) if verdict else "",
            )
            self._inquiries[decode_id] = inquiry
        self._inquiries.move_to_end(decode_id)
        while len(self._inquiries) > _MOST_INQUIRIES:
            self._inquiries.popitem(last=False)
        return decode, study, inquiry

    async def plan_look(self, decode_id: bytes, outline: LookOutline) -> LookPlan:
        """Plan a second look at a result; nothing is stored.

        Raises
        ------
        NotFoundError
            There is no such decode, or its snapshot is gone.
        DecodingError
            It has not succeeded.
        ConfigError, PlanError, PrivacyError
            A member breaks its rule, or the result cannot be looked at.
        """
        async with self._store.begin() as transaction:
            decode = await self._require(transaction, decode_id)
            study = await require_study(transaction, decode.study_id)
            snapshot = await _require_snapshot(transaction, decode)
        if decode.result is None:
            raise _refuse_unfinished(decode)
        first = ShownResult(
            plan=await self._plans.get(study),
            body=structure(ResultBody, decode.result, strict=False),
            digest=snapshot.digest.hex(),
            n_records=snapshot.n_records,
            n_sketches=snapshot.n_sketches,
        )
        return await asyncio.to_thread(plan_look, first, outline)

    async def prepare(self, decode: DecodeRecord) -> DecodeWork:
        """Load the inputs of a decode, for a worker.

        Raises
        ------
        NotFoundError, StudyWithdrawnError
            Its study, its snapshot or a look is gone.
        DecodingError
            Its solver has another version here.
        """
        async with self._store.begin() as transaction:
            study = await require_study(transaction, decode.study_id)
            snapshot = await _require_snapshot(transaction, decode)
        plan = await self._plans.get(study)
        solver = create_any_solver(plan.kind, decode.decoder, decode.settings)
        if solver.name != decode.solver:
            raise DecodingError(
                f"must be {decode.solver}, and this worker has {solver.name}",
                field="decoder",
                fix="request the decode again",
            )
        problem = build_problem(plan, snapshot, decode.n_clusters, decode.search_box)
        async with self._store.begin() as transaction:
            sources = await load_sources(transaction, study, plan, snapshot)
        return DecodeWork(
            decode=decode,
            plan=plan,
            snapshot=snapshot,
            problem=problem,
            solver=solver,
            sources=sources,
            looks=await self._load_looks([bytes.fromhex(each) for each in decode.looks]),
        )


def read_look(asked: PlanLookRequest) -> LookOutline:
    """Read the facts of a look; raises ``ConfigError`` where a member breaks its rule."""
    return LookOutline(
        aim=asked.aim,
        epsilon=read_epsilon(asked.epsilon),
        delta=read_number(asked.delta, "delta", "from 0 to below 1"),
        n_records=asked.n_records,
        n_sketches=asked.n_sketches,
        shares_records=asked.same_records,
        columns=tuple(asked.columns),
        clusters_per_sketch=asked.clusters_per_sketch,
    )


async def _require_snapshot(transaction: Transaction, decode: DecodeRecord) -> SnapshotRecord:
    snapshot = await transaction.get(SnapshotRecord, decode.snapshot_id)
    if snapshot is None:
        raise NotFoundError("is gone", field="snapshot", fix="make it again")
    return snapshot


def _refuse_question(decode: DecodeRecord) -> DecodingError:
    if decode.state == "succeeded":
        return DecodingError(
            f"keeps no density: {decode.decoder} finds none, or it was too large",
            field="decode",
            fix="decode with the mixture decoder, or with fewer clusters",
        )
    return _refuse_unfinished(decode)


def _refuse_unfinished(decode: DecodeRecord) -> DecodingError:
    return DecodingError(
        f"must have succeeded, and is {decode.state}",
        field="decode",
        fix="wait for it, or request it again",
    )


def require_solver(name: str, settings: Mapping[str, Setting], plan: SketchPlan) -> Solver:
    """Make the solver that a request names.

    Raises
    ------
    DecodingError
        The decoder or a setting is unknown, or a setting is out of range.
    WrongStatisticError
        Centroids cannot be decoded from the plan's statistic.
    """
    solver: Solver = create_any_solver(plan.kind, name, settings)
    return solver


def settings_of(solver: Solver) -> dict[str, Any]:
    """Return every setting of a solver, including defaults, which may change later."""
    return asdict(cast("Any", solver))


def compute_decode_id(
    snapshot: SnapshotRecord,
    n_clusters: int,
    solver: Solver,
    seed: int,
    search_box: Mapping[str, list[float]],
    looks: Sequence[bytes] = (),
) -> bytes:
    """Return the identity of a decode: the SHA-256 of all inputs of its result."""
    content = [
        *(_DOMAIN, snapshot.digest, n_clusters, solver.name, settings_of(solver), seed),
        dict(search_box),
        *([list(looks)] if looks else []),
    ]
    return hashlib.sha256(encode_deterministic(content)).digest()
