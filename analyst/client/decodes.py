"""Calls about decodes, and a decode that is followed until it ends."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, asdict, dataclass
from typing import Any

from sfumato.analyst.client.jobs import AsyncJob
from sfumato.analyst.client.snapshots import AsyncSnapshots
from sfumato.analyst.periods import When
from sfumato.analyst.questions import Box, make_questions
from sfumato.analyst.requests import AsyncStream, SearchBox, list_bounds
from sfumato.analyst.results import DecodeResult, require_success, require_usable
from sfumato.analyst.results.synthetic import SyntheticRecords, split_parts
from sfumato.shared.errors import ConfigError, DecodingError, NotFoundError
from sfumato.shared.wire.calls.decodes import Decodes
from sfumato.shared.wire.objects.questions import AnswersBody, QuestionsRequest
from sfumato.shared.wire.objects.results import DecodeBody, ProgressBody
from sfumato.shared.wire.objects.synthesis import SynthesisRequest
from sfumato.shared.wire.references import is_identity, require_identity


class AsyncDecodes(AsyncSnapshots):
    """Calls about decodes."""

    @property
    def _served(self) -> type[AsyncServedResult]:
        return AsyncServedResult

    async def decode(
        self,
        study: str,
        *,
        n_clusters: int,
        start: When | None = None,
        end: When | None = None,
        first_slot: int | None = None,
        last_slot: int | None = None,
        labels: Mapping[str, str] | None = None,
        snapshot_id: str | None = None,
        decoder: str | None = None,
        settings: Mapping[str, Any] | None = None,
        seed: int = 0,
        search_box: SearchBox | None = None,
        looks: Sequence[str] = (),
    ) -> AsyncDecode:
        """Start to decode k centroids, by default of all sketches; see :class:`AsyncDecode`.

        Parameters
        ----------
        start, end, first_slot, last_slot, labels
            The selection to decode, as for ``snapshot``.
        snapshot_id
            In place of a selection, a snapshot.
        search_box
            Where to search for clusters: lower and upper bound by dimension. None stands for the
            study's search box, an empty one for the plan's bounds.
        looks
            Second looks at earlier results, in their order: studies, for all their sketches, or ids
            of snapshots. What they measured is taken over.

        Raises
        ------
        ConfigError
            ``n_clusters`` is less than 1, or a look does not suit the study.
        WrongStatisticError
            A look is none.
        """
        if n_clusters < 1:
            raise ConfigError("must be at least 1", field="n_clusters", fix="ask for at least one")
        study_id = await self.find_study(study)
        selection = await self._select(
            study_id,
            start=start,
            end=end,
            first_slot=first_slot,
            last_slot=last_slot,
            labels=labels,
        )
        has_selection = selection != {"first_slot": None, "last_slot": None, "labels": {}}
        if has_selection and snapshot_id is not None:
            raise ConfigError(
                "cannot be combined with a selection: it has one",
                field="snapshot_id",
                fix="leave out times, slots and labels, or the snapshot",
            )
        request = {
            "selection": selection if has_selection else None,
            "snapshot_id": snapshot_id and require_identity(snapshot_id, "snapshot_id"),
            "n_clusters": n_clusters,
            "decoder": decoder,
            "settings": dict(settings or {}),
            "seed": seed,
            "search_box": list_bounds(search_box),
            "looks": [await self._freeze(each) for each in looks],
        }
        answer = await self._call(Decodes.create_decode, study_id, body=request)
        return AsyncDecode(self, answer.decode_id)

    async def _freeze(self, reference: str) -> str:
        """Return the id of a snapshot: its own, or of all sketches of a study."""
        try:
            return (await self.snapshot(reference)).snapshot_id
        except NotFoundError:
            if not is_identity(reference):
                raise
        return (await self.frozen(reference)).snapshot_id

    def decode_events(
        self, decode_id: str, *, seconds: int | None = None
    ) -> AsyncStream[DecodeBody | ProgressBody]:
        """Yield the state and progress of a decode as they change, then the ended decode.

        Parameters
        ----------
        seconds
            The stream ends after so many, at most 600.

        Raises
        ------
        TransportError
            The server does not send events, or stopped.
        """
        return self._events(Decodes.stream_events, decode_id, seconds)

    async def read_result(self, decode: DecodeBody) -> AsyncServedResult:
        """Return the result of a decode that has ended, with its plan and its snapshot.

        Raises
        ------
        DecodingError
            The decode failed, was cancelled, or has not ended.
        """
        body = require_success(decode)
        snapshot = await self.frozen(decode.snapshot_id)
        plan = await self.plan(snapshot.study_id)
        return self._served(
            body, plan, snapshot=snapshot, decode_id=decode.decode_id, seed=decode.seed, client=self
        )

    async def ask(self, decode_id: str, questions: QuestionsRequest) -> AnswersBody:
        """Answer questions on the records behind a decode; costs no privacy.

        Parameters
        ----------
        questions
            From :func:`sfumato.analyst.questions.make_questions`; :meth:`AsyncDecode.ask` makes
            them.

        Raises
        ------
        DecodingError
            The decode has not succeeded or keeps no density, or a question is refused.
        """
        return await self._call(Decodes.ask_questions, decode_id, body=asdict(questions))

    async def synthesise(
        self,
        decode_id: str,
        n_records: int = 1000,
        *,
        histogram: str | None = None,
        seed: int = 0,
        allow_unusable: bool = False,
    ) -> SyntheticRecords:
        """Draw synthetic records from the densities behind a decode; costs no privacy.

        Parameters
        ----------
        histogram
            A study with a histogram of the same records: columns follow it.
        seed
            The same one gives the same records.
        allow_unusable
            Draw also where the verdict on the decode is "do not use".

        Raises
        ------
        ConfigError
            ``n_records`` is less than 1.
        WrongStatisticError
            The study has no histogram.
        DecodingError
            The decode has not succeeded, keeps no density or is not to be used, or the histogram
            has none of its columns.
        """
        sizes = split_parts(n_records)
        decode_id = await self.find_decode(decode_id)
        snapshot = None if histogram is None else (await self.snapshot(histogram)).snapshot_id
        parts = []
        for part, size in enumerate(sizes):
            asked = SynthesisRequest(
                n_records=size,
                histogram=snapshot,
                seed=seed,
                part=part,
                allow_unusable=allow_unusable,
            )
            parts.append(
                await self._call(Decodes.draw_synthetic_records, decode_id, body=asdict(asked))
            )
        return SyntheticRecords(parts)


@dataclass(frozen=True, eq=False, repr=False)
class AsyncServedResult(DecodeResult):
    """The result of a decode on a server, which keeps its densities.

    Parameters
    ----------
    client
        Client of the server; None for a copy from another process.
    """

    _: KW_ONLY
    client: AsyncDecodes | None = None

    async def synthesise(  # type: ignore[override]  # by the server
        self,
        n_records: int = 1000,
        *,
        histogram: str | None = None,
        seed: int = 0,
        allow_unusable: bool = False,
    ) -> SyntheticRecords:
        """Draw synthetic records from the densities of this result; costs no privacy.

        Parameters
        ----------
        histogram, seed, allow_unusable
            As in :meth:`AsyncDecodes.synthesise`, which names the errors.

        Raises
        ------
        DecodingError
            This is a copy from another process, which has no client.
        """
        if self.client is None:
            raise DecodingError(
                "are on the server, and a copy of a result has no client",
                field="densities",
                fix="call `synthesise` of a client, with `decode_id`",
            )
        return await self.client.synthesise(
            self.decode_id, n_records, histogram=histogram, seed=seed, allow_unusable=allow_unusable
        )

    def __getstate__(self) -> dict[str, Any]:
        # Connections cannot be copied.
        return {**vars(self), "client": None}


class AsyncDecode(AsyncJob[DecodeBody]):
    """A decode on the server."""

    kind = "decode"
    watch = "sfumato decode watch"

    def __init__(self, client: AsyncDecodes, decode_id: str) -> None:
        super().__init__(
            client,
            decode_id,
            read=Decodes.get_decode,
            stop=Decodes.cancel_decode,
            follow=Decodes.stream_events,
        )
        self.decode_id = decode_id
        self._client = client

    async def ask(
        self,
        *,
        ranges: Iterable[Box] = (),
        quantiles: Iterable[tuple[str, float]] = (),
        marginals: Iterable[str] = (),
        means: Iterable[str | tuple[str, Box]] = (),
        n_points: int = 64,
        allow_narrow: bool = False,
        histogram: str | None = None,
    ) -> AnswersBody:
        """Answer questions on the records behind a decode; costs no privacy.

        Parameters
        ----------
        ranges, quantiles, marginals, means, n_points, allow_narrow, histogram
            As in :func:`sfumato.analyst.questions.make_questions`.

        Raises
        ------
        ConfigError
            Nothing is asked.
        DecodingError
            The decode has not succeeded or keeps no density, or a question is refused.
        """
        asked = make_questions(
            ranges=ranges,
            quantiles=quantiles,
            marginals=marginals,
            means=means,
            n_points=n_points,
            allow_narrow=allow_narrow,
            histogram=histogram,
        )
        return await self._client.ask(self.decode_id, asked)

    async def synthesise(
        self,
        n_records: int = 1000,
        *,
        histogram: str | None = None,
        seed: int = 0,
        allow_unusable: bool = False,
        progress: Callable[[float], None] | None = None,
        timeout: float | None = None,
        note: Callable[[str], object] = warnings.warn,
    ) -> SyntheticRecords:
        """Wait for the decode, and draw synthetic records from its densities; costs no privacy.

        Parameters
        ----------
        histogram, seed, allow_unusable
            As in :meth:`AsyncDecodes.synthesise`, which names the errors.
        progress, timeout, note
            As in :meth:`wait`.

        Raises
        ------
        DecodingError
            The decode failed or was cancelled.
        TransportError
            It has not ended in time.
        """
        require_success(await self.end(progress=progress, timeout=timeout, note=note))
        return await self._client.synthesise(
            self.decode_id, n_records, histogram=histogram, seed=seed, allow_unusable=allow_unusable
        )

    async def wait(
        self,
        *,
        progress: Callable[[float], None] | None = None,
        allow_unusable: bool = False,
        timeout: float | None = None,
        note: Callable[[str], object] = warnings.warn,
    ) -> AsyncServedResult:
        """Wait for the result.

        Parameters
        ----------
        progress
            Function that is called with the completed share, 0 to 1.
        allow_unusable
            Return the result even if its verdict is "do not use".
        timeout
            Seconds after which to stop waiting; the decode goes on.
        note
            Function that is told, once, that no worker is there to solve it.

        Raises
        ------
        DecodingError
            The decode failed or was cancelled, or the verdict on its result is "do not use".
        TransportError
            It has not ended in time.
        """
        ended = await self.end(progress=progress, timeout=timeout, note=note)
        result = await self._client.read_result(ended)
        return require_usable(result, allow_unusable=allow_unusable)
