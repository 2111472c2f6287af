"""Calls for second looks: the result that is looked at, and the plan of a look."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

from sfumato.analyst.client.decodes import AsyncDecodes
from sfumato.analyst.levels import parse_delta, parse_epsilon
from sfumato.analyst.results import DecodeResult
from sfumato.learning.looks.design import Aim
from sfumato.learning.planning.looks import LookOutline, LookPlan, plan_look
from sfumato.shared.errors import NotFoundError
from sfumato.shared.plan import Dimension
from sfumato.shared.wire.references import is_beginning


class AsyncLooks(AsyncDecodes):
    """Calls for second looks: the result that is looked at, and the plan of a look."""

    async def find_result(self, reference: str) -> DecodeResult:
        """Return the result that a reference means.

        Parameters
        ----------
        reference
            A file of ``DecodeResult.save``; a decode by its id or 6 or more first digits of it; or
            a study, for its last decode.

        Raises
        ------
        NotFoundError, ConfigError
            It means none, or several; or the study has no result yet.
        """
        if Path(reference).is_file():
            return DecodeResult.load(reference)
        if is_beginning(reference):
            try:
                return await self.read_result(await self.decode_state(reference))
            except NotFoundError:
                # Digits of a study, then.
                pass
        study = await self.find_study(reference)
        async for each in self.decodes(study):
            if each.state == "succeeded":
                return await self.read_result(await self.decode_state(each.decode_id))
        raise NotFoundError(
            f"{reference!r} has no decode that succeeded",
            field="result",
            fix=f"start one: `sfumato decode {reference} -k 5`",
        )

    async def plan_look(
        self,
        result: DecodeResult | str,
        *,
        epsilon: Fraction | float | str,
        delta: Fraction | float | str = "0",
        aim: Aim = "refine",
        columns: Sequence[Dimension] = (),
        candidates: Sequence[DecodeResult | str] = (),
        same_records: bool = False,
        n_records: int | None = None,
        n_sketches: int | None = None,
        clusters_per_sketch: int | None = None,
    ) -> LookPlan:
        """Plan a second look at a result, and say how accurate it will be; spends nothing.

        ``create_study(name, planned.plan)`` shows the centroids to the devices.

        Parameters
        ----------
        result
            A result, or what :meth:`find_result` takes.
        epsilon, delta
            Privacy of the look for each record: ``"0.1"``, ``"1/10"``, fractions, or floats by
            their text.
        aim, columns, candidates, n_records, n_sketches, clusters_per_sketch
            As of :class:`sfumato.learning.planning.looks.LookOutline`; a ``profile`` has columns.
        same_records
            Whether the look reads the records that the result is of: its epsilon is added.

        Raises
        ------
        ConfigError, PlanError, PrivacyError
            As :func:`sfumato.learning.planning.looks.plan_look`.
        """
        outline = LookOutline(
            aim=aim,
            epsilon=parse_epsilon(str(epsilon), "epsilon"),
            delta=parse_delta(str(delta), "delta"),
            n_records=n_records,
            n_sketches=n_sketches,
            shares_records=same_records,
            columns=tuple(columns),
            clusters_per_sketch=clusters_per_sketch,
            candidates=tuple([(await self._open_result(each)).shown for each in candidates]),
        )
        return plan_look((await self._open_result(result)).shown, outline)

    async def _open_result(self, result: DecodeResult | str) -> DecodeResult:
        return await self.find_result(result) if isinstance(result, str) else result
