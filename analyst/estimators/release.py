"""Releases of the compressive estimators: drawn once, decoded at the first look at a result."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from hashlib import sha256
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.analyst.estimators.contract import (
    Release,
    compose_guarantee,
    describe_level,
    select_costly,
)
from sfumato.analyst.estimators.declaration import estimator, result
from sfumato.analyst.estimators.held import Held, make_release, name_event
from sfumato.analyst.estimators.inputs import read_rng, read_threads
from sfumato.analyst.estimators.lock import holding
from sfumato.analyst.estimators.parameters import SketchingEstimator
from sfumato.analyst.estimators.pilots import (
    PilotFindings,
    leave_rest,
    list_numbers,
    plan_pilot,
    read_pilot,
)
from sfumato.analyst.estimators.planning import Choices, make_plan
from sfumato.analyst.estimators.weights import sum_weighted
from sfumato.analyst.results import UNUSABLE, DecodeResult
from sfumato.analyst.results.promises import describe_exact, describe_spending
from sfumato.analyst.sketching.release import draw_sums
from sfumato.analyst.sketching.solution import solve_totals, sum_parts
from sfumato.learning.answers.questions import Inquiry
from sfumato.learning.decoding.density import GaussianMixture
from sfumato.learning.decoding.solution import Solution
from sfumato.learning.decoding.verdict import Verdict, describe_doubt
from sfumato.learning.generative.columns import Column, list_histograms, read_columns
from sfumato.shared.arrays import Floats
from sfumato.shared.core import Columns, SketchAccumulator
from sfumato.shared.core.parallel import sketch_batches
from sfumato.shared.errors import PrivacyError
from sfumato.shared.plan import (
    SketchPlan,
    compute_plan_digest,
    decode_plan,
    encode_plan,
    make_statement,
)
from sfumato.shared.privacy import PrivacyEvent
from sfumato.shared.reading.unreadable import require_few_lost
from sfumato.shared.spending import Turn
from sfumato.shared.wire.objects.answers import PromiseBody

_BATCH = 1 << 16
PILOT, SKETCH, LOOK = "pilot", "sketch", "look"
"""The parts of a fit that spend, by the names in their events."""


def list_following(choices: Choices, stream: str) -> tuple[PrivacyEvent, ...]:
    """Return what a fit with these choices spends after its sketch."""
    if choices.look is None:
        return ()
    event = PrivacyEvent(
        stream=stream,
        plan_digest=choices.name_design(LOOK),
        sequence=0,
        neighbouring=choices.relation,
        epsilon=choices.look[0],
        delta=choices.look[1],
    )
    return (event,)


@estimator
class ReleasingEstimator(SketchingEstimator):
    """An estimator that holds a sum, releases it if it is private, and decodes it.

    Attributes
    ----------
    weights_
        Shape ``(k,)``: shares of the records.
    mixture_
        The density that explains the sketch.
    centers_std_, weights_std_
        Standard errors of centroids and shares; an error that says why, where none may be shown.
    solution_, result_, verdict_, warnings_, snr_
        All that the decoder found, also as a result that can be saved, drawn and put in a table;
        how far to trust it, doubts, and the signal-to-noise ratio.
    plan_, n_records_seen_, n_features_in_, feature_names_in_, privacy_
        Plan of the sketch; number of records; columns; and the promise in words.
    release_, releases_, events_, guarantee_
        With epsilon: what was released last and in all, what was spent, and what each guarantees.
    axes_, metric_, search_box_
        Names of the axes; lengths that count as one along them; and where clusters were searched.
    pilot_, pilot_doubts_
        What a pilot released, at a cost that ``guarantee_`` includes, and what it could not see.
    """

    solution_: Solution = result()
    result_: DecodeResult = result()
    mixture_: GaussianMixture = result()
    plan_: SketchPlan = result()
    _ABSENT: ClassVar[Mapping[str, str]] = MappingProxyType(
        {
            "feature_names_in_": "the records had no names of columns",
            "release_": "nothing was released; call release() for the sum",
            "releases_": "nothing was released",
            "events_": "nothing was released, so nothing was spent",
            "guarantee_": "nothing was released with noise, so nothing is promised",
            "pilot_": "there was none: bounds and scale were stated",
            "pilot_doubts_": "there was no pilot: bounds and scale were stated",
        }
    )
    _PRIVATE_ABSENT: ClassVar[Mapping[str, str]]
    """Attributes that there are only without epsilon, and why."""
    _DECODED: ClassVar[frozenset[str]] = frozenset(
        {"solution_", "result_", "mixture_", "verdict_", "warnings_", "snr_", "weights_"}
    )
    """Attributes that follow from the sums; the first look at one releases and decodes."""

    def __getattr__(self, name: str) -> Any:
        held: Held | None = vars(self).get("_held")
        if held is not None and (
            name in self._DECODED or (name in ("release_", "releases_") and not held.is_exact)
        ):
            with holding(self):
                # Another thread may have merged it away meanwhile.
                if "_held" in vars(self):
                    self._finish(decode=name in self._DECODED)
                    return vars(self)[name]
        if self._is_private and name in self._PRIVATE_ABSENT:
            described = f"{type(self).__name__!r} with epsilon has no attribute {name!r}"
            raise AttributeError(f"{described}: {self._PRIVATE_ABSENT[name]}")
        return super().__getattr__(name)

    def __sklearn_is_fitted__(self) -> bool:
        return "_held" in vars(self)

    def __getstate__(self) -> dict[str, Any]:
        held: Held | None = vars(self).get("_held")
        if held is not None and not held.is_exact and held.unreleased is not None:
            raise PrivacyError(
                "holds an exact sum that was not released, and cannot be stored or copied",
                field=type(self).__name__,
                fix="call release() first, or store it without the records",
            )
        return dict(vars(self))

    def _begin(self, held: Held, names: NDArray[np.object_] | None) -> None:
        """Drop what was fitted before, and begin a sum."""
        for name in [name for name in vars(self) if name.endswith("_")]:
            # What was spent stays spent, also where what follows is exact, or another's release.
            if name != "events_":
                del self.__dict__[name]
        self._held = held
        self.plan_ = held.plan
        self.n_features_in_ = held.plan.n_dimensions
        if names is not None:
            self.feature_names_in_ = names
        if not held.is_exact:
            self.events_ = vars(self).get("events_", ())
            self.guarantee_ = compose_guarantee(held.list_costs())
        self.search_box_: Mapping[str, Sequence[float]] = {}
        if held.pilot is not None:
            self.search_box_ = held.pilot.search_box
            self.pilot_doubts_ = held.pilot.doubts

    def _release_of(
        self, rows: NDArray[np.floating], choices: Choices, names: NDArray[np.object_] | None
    ) -> None:
        """Release the sum of some records once, under a plan of these choices, and decode."""
        stream = self._name_fit()
        # What follows the sketch is kept until the sketch's own turn is over.
        with (
            ExitStack() as later,
            self._find_columns(rows, choices, stream) as (settled, findings, pilot),
        ):
            named = {"choices": settled.digest, "stream": stream}
            with self._take_turn(named) as turn:
                # A fit that was cut off may have drawn other frequencies.
                plan = decode_plan(turn.keep(encode_plan(make_plan(settled))))
                summed = self._sum(rows, plan)
                held = Held(
                    plan=plan,
                    is_exact=False,
                    pilot=findings,
                    design=choices.name_design(SKETCH),
                )
                event = held.make_event(stream=stream)
                turn.require_affordable(event, *list_following(choices, stream))
                shows = choices.look is None
                sums = self._draw_once(turn, lambda: draw_sums(plan, summed), event, shows=shows)
                self._begin(held, names)
                held.put(sums, None if plan.releases_count else summed.n_records)
                if pilot is not None:
                    self.pilot_ = pilot
                self._show_releases()
                self._decode()
                # Shown together: a fit that is cut off in between has both again.
                for each in (*self._follow(rows, choices, later), turn):
                    each.show()

    @contextmanager
    def _find_columns(
        self, rows: NDArray[np.floating], choices: Choices, stream: str
    ) -> Iterator[tuple[Choices, PilotFindings | None, Release | None]]:
        """Find scales, and what else was not stated, by a pilot, and give its release too.

        The pilot's turn lasts as long as the block, so that a fit that is cut off keeps its pilot.
        """
        numbers = list_numbers(choices)
        if not self._wants_pilot or not numbers:
            yield choices, None, None
            return
        plan = plan_pilot(choices)
        rest = leave_rest(choices, plan)
        # Refused now, before the pilot spends anything: what follows it must be possible.
        following = name_event(make_plan(rest), choices.name_design(SKETCH), stream=stream)
        with self._take_turn({"pilot": choices.digest, "stream": stream}) as turn:
            event = name_event(plan, choices.name_design(PILOT), stream=stream)
            turn.require_affordable(event, following, *list_following(choices, stream))
            summed = self._sum(rows[:, numbers], plan)
            sums = self._draw_once(turn, lambda: draw_sums(plan, summed), event)
            n_records = None if plan.releases_count else summed.n_records
            settled, findings = read_pilot(
                plan, sums, n_records, choices=rest, units=self._list_units(choices)
            )
            yield settled, findings, make_release(plan, sums, n_records)

    def _follow(
        self, rows: NDArray[np.floating], choices: Choices, turns: ExitStack
    ) -> Sequence[Turn]:
        """Release what follows the sketch of a fit; return its turns, which the stack ends."""
        return ()

    def _release_pending(self, held: Held, summed: SketchAccumulator, *, decode: bool) -> None:
        """Release the sum of the records since the last release."""
        held.require_here()
        require_few_lost(
            summed.n_unsketchable, summed.n_records, most=self.max_unreadable, field="X"
        )
        plan, sequence = held.plan, len(held.releases)
        digest = compute_plan_digest(plan)
        design = held.make_event().plan_digest
        # Releases before this one may be another's, and earlier events of another fit.
        before = [event.stream for event in self.events_ if event.plan_digest == design]
        stream = before[-1] if sequence and before else self._name_fit()
        named = {"plan": digest, "stream": stream, "sequence": sequence}
        with self._take_turn(named) as turn:
            event = held.make_event(stream=stream, sequence=sequence)
            sums = self._draw_once(turn, lambda: draw_sums(plan, summed), event)
            held.put(sums, None if plan.releases_count else summed.n_records)
            self._show_releases()
            if decode:
                self._decode()

    def _show_releases(self) -> None:
        releases = self._held.releases
        if releases:
            self.releases_: tuple[Release, ...] = releases
            self.release_ = releases[-1]
        if self.events_:
            self.guarantee_ = self._state_spent(self._list_spent())

    def _finish(self, *, decode: bool = True) -> None:
        """Release what was not released yet, and decode."""
        with holding(self):
            held = self._held
            summed = None if held.is_exact else held.unreleased
            if summed is not None:
                self._release_pending(held, summed, decode=decode)
            elif decode:
                self._decode()

    def _decode(self) -> None:
        if "solution_" in vars(self):
            return
        held, started = self._held, time.monotonic()
        solved = solve_totals(
            held.plan,
            held.totals,
            n_clusters=self._read_count(),
            rng=self._make_rng(),
            search_box=self.search_box_,
            is_exact=held.is_exact,
            progress=self._follow_step(f"decoding {self._read_count()} clusters"),
        )
        self.snr_ = solved.utility.snr
        guessed = () if held.pilot is None else held.pilot.guessed
        self.verdict_ = verdict = _doubt(solved.solution.verdict, guessed)
        doubts = vars(self).get("pilot_doubts_", ())
        self.warnings_ = (*solved.solution.warnings, *doubts)
        solution = replace(solved.solution, warnings=self.warnings_, verdict=self.verdict_)
        margins = _read_margins(vars(self).get("pilot_"))
        self._answer(solution)
        self.result_ = DecodeResult.of_solution(
            held.plan,
            solution,
            snr=solved.utility.snr,
            seconds=time.monotonic() - started,
            promise=self._describe_promise(),
            search_box=solved.search_box,
            sums_digest=_identify(held),
            posterior=None
            if solution.posterior is None
            else Inquiry(
                plan=held.plan,
                posterior=solution.posterior,
                n_records=max(1.0, float(held.count_records())),
                histograms=list_histograms(margins),
                steps=vars(self).get("_own_steps", {}),
                doubt=describe_doubt(verdict.word, verdict.sentence) if verdict else "",
            ),
            margins=margins,
        )
        self.solution_ = solution

    def _make_rng(self) -> np.random.Generator:
        """Return the randomness of the decoder's starts."""
        return read_rng(self.random_state)

    def describe(self) -> str:
        """Describe in words what was spent, and what it protects.

        Where others made the sketches, describe what their plan promises.
        """
        held: Held | None = vars(self).get("_held")
        is_alone = held is not None and held.pilot is None
        has_spent = bool(vars(self).get("events_"))
        if held is not None and is_alone and held.is_foreign and not (held.is_exact or has_spent):
            return make_statement(held.plan).describe()
        return super().describe()

    def _describe_promise(self) -> PromiseBody:
        """Return the promise of everything that these results follow from."""
        if self._held.is_exact:
            return describe_exact(self._held.plan)
        return describe_spending(self._held.plan, self._list_costs(), statement=self.describe())

    def _list_costs(self) -> Sequence[PrivacyEvent]:
        """Return what one record loses by, in all fits; of sketches of others, by what they say."""
        return select_costly(self._list_spent())

    def _list_spent(self) -> Sequence[PrivacyEvent]:
        events: tuple[PrivacyEvent, ...] = vars(self).get("events_", ())
        if events and not self._held.is_foreign:
            return events
        return (*self._held.list_costs(), *events)

    def _describe_repetition(self) -> str:
        pilot = None if "_held" not in vars(self) else self._held.pilot
        parts = ""
        if pilot is not None:
            spent = describe_level(pilot.plan.mechanism.guarantee)
            parts = f" A pilot of the columns took {spent} of it."
        if len(vars(self).get("releases_", ())) > 1:
            parts += (
                f" There are {len(self.releases_)} releases. If they are of different records, "
                "each has that cost once; a record that was added to several has it in each."
            )
        return parts + super()._describe_repetition()

    def _list_results(self) -> dict[str, Any]:
        names = self._DECODED | {"labels_", "inertia_"}
        return {name: value for name, value in vars(self).items() if name in names}

    def _forget_results(self) -> None:
        for name in self._list_results():
            del self.__dict__[name]

    def _answer(self, solution: Solution) -> None:
        """Set the attributes that follow from a solution."""
        raise NotImplementedError

    def _describe_records(self, rows: NDArray[np.floating], weights: Floats | None) -> None:
        """Set what describes the records themselves: without epsilon only."""

    def _place(self, rows: NDArray[np.floating]) -> NDArray[np.floating]:
        """Return rows as they were read on the axes of the sketch: shape ``(n, d')``."""
        encoded = self.plan_.space.encoder.encode(rows)
        return encoded.to_array() if isinstance(encoded, Columns) else encoded

    def _read_points(self, X: Any) -> Floats:  # noqa: N803
        """Read records, and place them on the axes: NaN where they miss a value."""
        return self._place(self._read_columns(X)).astype(np.float64, copy=False)

    def _sum(
        self, rows: NDArray[np.floating], plan: SketchPlan, weights: Floats | None = None
    ) -> SketchAccumulator:
        if weights is not None:
            return sum_weighted(rows, weights, lambda part: self._sum(part, plan))
        batches = (rows[first : first + _BATCH] for first in range(0, len(rows), _BATCH))
        show = self._follow_step(f"summing {len(rows):,} records")
        return sketch_batches(
            plan.statistic_of(b"file/main"),
            batches,
            n_threads=read_threads(self.n_jobs),
            on_progress=lambda n_done: show(n_done / len(rows)),
        )


def _identify(held: Held) -> str:
    """Return a digest of the sums that are decoded, in place of a snapshot's identity."""
    if held.releases:
        digests = [release.digest for release in held.releases]
        joined = digests[0] if len(digests) == 1 else sha256(b"".join(digests)).digest()
        return joined.hex()
    return sha256(held.totals.sums.astype("<i8").tobytes()).hexdigest()


def _read_margins(pilot: Release | None) -> tuple[Column, ...]:
    """Return the distributions of single columns that a pilot released."""
    if pilot is None:
        return ()
    totals = sum_parts([(pilot.sums, pilot.n_records or 0)])
    return read_columns(decode_plan(pilot.design["plan"]), totals)


def _doubt(verdict: Verdict | None, guessed: Sequence[str]) -> Verdict | None:
    """Return the verdict on a fit whose columns were partly guessed: at best doubtful.

    A decoder knows the sketch, and nothing of values that a plan clips or blurs.
    """
    if verdict is None or not guessed:
        return verdict
    sentence = (
        f"bounds and scale of {', '.join(guessed)} are a guess, because the pilot could not see "
        "the values: state them, or give more records or epsilon"
    )
    word = verdict.word if verdict.word == UNUSABLE else "doubtful"
    return replace(verdict, word=word, sentence=sentence, high=math.inf)
