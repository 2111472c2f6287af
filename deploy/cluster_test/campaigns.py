"""A campaign over the cluster: agents that enrol once, with records of days that are past."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path

import numpy as np

from deploy.cluster_test.devices import Agent, Study
from deploy.cluster_test.engine import ClusterError
from sfumato.analyst import Client
from sfumato.analyst.planning.campaigns import CampaignOutline, plan_campaign
from sfumato.analyst.planning.pilots import parse_columns
from sfumato.shared.wire.objects.campaigns import CampaignBody

_DAY_S = 86_400
_DAYS = (1, 2, 2)
_PER_DAY = 2880
_CENTRES = np.array([[-5.0, -5.0], [0.0, 5.0], [5.0, -2.0]])
_NEAR = 0.3
_PHASE_S = 300.0
_LONGEST_LIFE_S = 3.0


@dataclass(kw_only=True)
class CampaignTrial:
    """Agents that have joined a campaign once, with all its records.

    Parameters
    ----------
    kill
        Kills an aggregator, and waits until it has recovered.
    """

    client: Client
    agents: Sequence[Agent]
    study: str
    rng: np.random.Generator
    kill: Callable[[], None]

    @classmethod
    def begin(
        cls,
        client: Client,
        url: str,
        folders: Sequence[Path],
        rng: np.random.Generator,
        kill: Callable[[], None],
    ) -> CampaignTrial:
        """Publish the pilot, and let an agent in each folder enrol."""
        today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        origin = int(today.timestamp()) - (sum(_DAYS) + 1) * _DAY_S
        outline = CampaignOutline(
            dimensions=parse_columns(["x:m:-10..10,y:m:-10..10"]),
            n_records=len(folders) * _PER_DAY,
            n_devices=len(folders),
            most_clusters=len(_CENTRES),
            epsilon=Fraction(4),
            origin=origin,
            length_s=_DAY_S,
            n_windows=_DAYS,
        )
        study = client.create_study("cluster test, campaign", plan_campaign(outline)[1]).study_id
        client.begin_campaign(study, n_devices=len(folders))
        token = client.create_token(study, max_uses=len(folders))
        agents = []
        for folder in folders:
            agent = Agent(folder=folder, study=Study(url=url, study_id=study, token=token))
            times = origin + np.arange(sum(_DAYS) * _PER_DAY) * (_DAY_S // _PER_DAY)
            which = rng.integers(len(_CENTRES), size=len(times))
            records = _CENTRES[which] + rng.normal(0.0, 0.5, (len(times), 2))
            agent.append((times.tolist(), records))
            agents.append(agent)
        return cls(client=client, agents=agents, study=study, rng=rng, kill=kill)

    def lead(self) -> dict[str, bool]:
        """Run the agents until there is a measured answer; return the checks."""
        for agent in self.agents:
            agent.enrol()
        for number in range(len(_DAYS)):
            # The first two die while they work or send, and an aggregator while they go on.
            for agent in self.agents[:2]:
                agent.run_once(dies_after_s=self.rng.uniform(0.0, _LONGEST_LIFE_S))
            with ThreadPoolExecutor(1) as pool:
                killed = pool.submit(self.kill)
                self._send(number)
                killed.result()
        found = self._wait(lambda campaign: campaign.phases[-1].waits is None)
        return self._check(found)

    def _send(self, number: int) -> None:
        """Run the agents until each has sent the last window of a phase."""
        end = time.monotonic() + _PHASE_S
        while self.client.campaign(self.study).phases[number].n_finished < len(self.agents):
            if time.monotonic() > end:
                raise ClusterError(
                    f"phase {number} is not sent: {self.client.campaign(self.study)}"
                )
            for agent in self.agents:
                agent.run_once()
        if number + 1 < len(_DAYS):
            self._wait(lambda campaign: campaign.phases[number + 1].study_id is not None)

    def _wait(self, holds: Callable[[CampaignBody], bool]) -> CampaignBody:
        end = time.monotonic() + _PHASE_S
        while not holds(found := self.client.campaign(self.study)):
            if time.monotonic() > end:
                raise ClusterError(f"the campaign does not go on: {found}")
            time.sleep(1.0)
        return found

    def _check(self, found: CampaignBody) -> dict[str, bool]:
        assert found.answer is not None, "its last phase is over"
        given = len(self.agents) * _PER_DAY
        counts = [
            sum(each.n_records or 0 for each in self.client.sketches(phase.study_id or ""))
            for phase in found.phases
        ]
        answer = self.client.find_result(found.answer)
        distances = np.linalg.norm(answer.centroids[:, None] - _CENTRES, axis=2)
        return {
            "campaign: every record is in the one phase of its time": counts
            == [given * days for days in _DAYS],
            "campaign: each agent enrolled once, and is in all phases": all(
                phase.n_devices == len(self.agents) for phase in found.phases
            ),
            "campaign: the answer is measured, and every cluster is found": answer.looks is not None
            and bool((distances.min(axis=0) < _NEAR).all()),
        }
