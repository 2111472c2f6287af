"""Calls about studies, their enrolment tokens and their sketches."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from datetime import datetime
from typing import Any

import httpx

from sfumato.analyst.client.calls import AsyncCalls
from sfumato.analyst.requests import SearchBox, list_bounds
from sfumato.shared.plan import SketchPlan, plan_from_json, plan_to_json
from sfumato.shared.wire.calls.sketches import Sketches
from sfumato.shared.wire.calls.studies import Studies
from sfumato.shared.wire.calls.tokens import Tokens
from sfumato.shared.wire.objects.studies import CreatedBody, StudyBody, WithdrawnBody


class AsyncStudies(AsyncCalls):
    """Calls about studies, their enrolment tokens and their sketches."""

    async def create_study(
        self,
        name: str,
        plan: SketchPlan,
        *,
        allow_same_plan: bool = False,
        search_box: SearchBox | None = None,
    ) -> CreatedBody:
        """Publish a study; the same name and plan again return the same study.

        Parameters
        ----------
        allow_same_plan
            Publish even if a study of another name has the plan. Records that are in both studies
            are released twice, and cost their budget twice.
        search_box
            Where decodes search for clusters: lower and upper bound by dimension, inside the
            plan's bounds. Devices never see it.

        Raises
        ------
        StoreError
            A study of another name has the plan, or the study exists with another search box.
        """
        body: dict[str, Any] = {
            "name": name,
            "plan": plan_to_json(plan),
            "allow_same_plan": allow_same_plan,
            "search_box": list_bounds(search_box),
        }
        return await self._call(Studies.create_study, body=body)

    def studies(self, beginning: str = "") -> AsyncIterator[StudyBody]:
        """Yield every study whose name begins with a text, the oldest first."""
        params = {"beginning": beginning} if beginning else None
        return self._list(Studies.list_studies, params=params)

    async def plan(self, study: str) -> SketchPlan:
        """Return the plan of a study, and verify it."""
        return plan_from_json((await self._call(Studies.get_plan, study)).plan)

    async def set_state(
        self, study: str, state: str, *, accept_until: datetime | None = None
    ) -> StudyBody:
        """Open or close a study: ``state`` is ``open`` or ``closed``.

        Parameters
        ----------
        accept_until
            Time, with a time zone, until which a closed study still accepts sketches.

        Raises
        ------
        StaleVersionError
            Another client changed the study at the same time.
        """
        body: dict[str, Any] = {"state": state}
        if accept_until is not None:
            body["accept_until"] = accept_until.isoformat()
        return await self._change_study(study, body)

    async def set_search_box(self, study: str, search_box: SearchBox) -> StudyBody:
        """Change where later decodes search for clusters; decodes that exist keep theirs.

        Parameters
        ----------
        search_box
            Lower and upper bound by dimension, in its unit. Dimensions without keep the plan's
            bounds; an empty one removes the search box.

        Raises
        ------
        ConfigError
            A dimension is unknown, or its bounds are not inside the plan's.
        StaleVersionError
            Another client changed the study at the same time.
        """
        return await self._change_study(study, {"search_box": list_bounds(search_box)})

    async def _change_study(self, study: str, body: Mapping[str, Any]) -> StudyBody:
        study_id = await self.find_study(study)
        answer = await self._send(Studies.get_study, study_id)
        headers = {"If-Match": answer.headers.get("ETag", "*")}
        return await self._call(Studies.change_study, study_id, body=body, headers=headers)

    async def withdraw_study(self, study: str, *, name: str) -> WithdrawnBody:
        """Delete a study and all its data for good; ``name`` must be its name, to confirm."""
        return await self._call(Studies.withdraw_study, study, params={"confirm": name})

    async def create_token(self, study: str, *, max_uses: int = 1) -> str:
        """Create an enrolment token and return it; it cannot be read again."""
        made = await self._call(Tokens.create_token, study, body={"max_uses": max_uses})
        return made.token

    async def upload(self, study: str, sketch_id: str, message: bytes) -> bool:
        """Upload a device's signed sketch; return whether it was new."""
        headers = {"Content-Type": Sketches.put_sketch.sends}
        answer = await self._send(
            Sketches.put_sketch, study, sketch_id, headers=headers, content=message
        )
        return answer.status_code == httpx.codes.CREATED
