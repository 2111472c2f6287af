"""From a pilot on a real server to the answer of its main study, by the commands of an analyst."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from numpy.typing import NDArray

from deploy.demo.cluster import Aggregator
from sfumato.analyst import Client
from sfumato.analyst.estimators import MomentMixture
from sfumato.analyst.planning.campaigns import CampaignOutline, plan_campaign
from sfumato.analyst.planning.files import read_plan
from sfumato.analyst.planning.pilots import parse_columns
from sfumato.analyst.sketching.sources import find_snapshot
from sfumato.shared import command
from sfumato.shared.core import SketchAccumulator
from sfumato.shared.plan import SketchPlan, plan_from_spec
from sfumato.shared.privacy.testing import SeededSource
from tests.aggregator.fleet import Device
from tests.analyst.sketching.samples import seed_sketches

DAY = 86400
START = 1_767_225_600  # 2026-01-01 in UTC
FIRST, LAST = 0, 1
SITES = ("north", "south", "east")
CODES = tuple(f"c{i}" for i in range(17))
COLUMNS = f"load:kW,trips:1:count,site:levels={'|'.join(SITES)},code:levels={'|'.join(CODES)}"
N = 8000

Say = Callable[..., str]


def draw(seed: int, *, shift: float = 0.0) -> NDArray[np.float64]:
    """Two clusters with a site each; a tenth of the trips and of the sites are missing."""
    rng = np.random.default_rng(seed)
    is_left = rng.random(N) < 0.5
    load = np.where(is_left, 200.0, 350.0) + shift + rng.normal(0.0, 25.0, N)
    trips = np.where(is_left, 20.0, 60.0) + rng.normal(0.0, 8.0, N)
    site = np.where(is_left, 0.0, 1.0 + (rng.random(N) < 0.5))
    for column in (trips, site):
        column[rng.random(N) < 0.1] = np.nan
    return np.column_stack([load, trips, site, rng.integers(0, len(CODES), N)])


@dataclass
class Fleet:
    """Two devices that release what they are told to, with keys of their own."""

    client: Client

    def send(self, study: str, plan: SketchPlan, slot: int, records: NDArray[np.float64]) -> None:
        """Let each device upload a sketch of half of the records."""
        token = self.client.create_token(study, max_uses=2)
        study_id = bytes.fromhex(self.client.find_study(study))
        for i, own in enumerate(np.array_split(records, 2)):
            # A device has a key for each study.
            device = Device(seed=100 * len(study) + i, labels={})
            answer = httpx.post(
                f"{self.client.url}/v1/enrolments", json=device.enrolment(token, study_id)
            )
            assert answer.status_code in (200, 201), answer.text
            accumulator = SketchAccumulator(plan.statistic_of(b""))
            accumulator.add(own)
            sums = plan.mechanism.add_noise(accumulator.sums, SeededSource(1000 * slot + i))
            limit = plan.largest_coordinate(len(own))
            message = device.message(
                study_id,
                plan,
                np.clip(sums, -limit, limit),
                n_records=len(own),
                slots=(slot, slot),
                sequence=slot,
            )
            assert self.client.upload(study, *message)


@pytest.fixture(scope="module")
def client(server: Aggregator) -> Iterator[Client]:
    with Client(server.url, key=server.key) as connected, pytest.MonkeyPatch.context() as patch:
        patch.setenv("SFUMATO_URL", server.url)
        patch.setenv("SFUMATO_KEY", server.key)
        yield connected


@pytest.fixture(scope="module")
def pilot(client: Client, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A closed pilot named ``pilot``, and the folder of its specification."""
    folder = tmp_path_factory.mktemp("pilot")
    planned = folder / "pilot.toml"
    given = ["--dimensions", COLUMNS, "--records", str(2 * N), "--devices", "2", "--windows", "2"]
    choice = ["--epsilon", "4", "--window", "1d", "--start", "2026-01-01", "-o", str(planned)]
    assert command.main(["plan", "pilot", *given, *choice]) == 0
    # A person may state what stands for a missing value.
    ruled = planned.read_text(encoding="utf-8").replace(
        'levels = ["north"', 'missing = "east"\nlevels = ["north"'
    )
    planned.write_text(ruled, encoding="utf-8")
    assert command.main(["study", "create", "pilot", str(planned)]) == 0
    fleet, plan = Fleet(client), read_plan(planned)
    fleet.send("pilot", plan, FIRST, draw(1))
    fleet.send("pilot", plan, LAST, draw(2, shift=200.0))
    assert command.main(["study", "close", "pilot"]) == 0
    return folder


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str]) -> Say:
    """Run a command, and return what it prints."""

    def run(*arguments: str, status: int = 0) -> str:
        assert command.main(arguments) == status, capsys.readouterr().err
        captured = capsys.readouterr()
        return captured.err if status == 2 else captured.out

    return run


def test_the_histogram_of_a_study_of_some_slots_and_of_a_snapshot_is_shown(
    pilot: Path, say: Say
) -> None:
    whole: dict[str, Any] = json.loads(say("histogram", "pilot", "--json"))
    assert (whole["n_records"], whole["n_sketches"]) == (2 * N, 4)
    one = json.loads(say("histogram", f"pilot@{FIRST}:{FIRST}", "--json"))
    assert (one["n_records"], one["n_sketches"]) == (N, 2)
    assert json.loads(say("histogram", one["snapshot_id"], "--json")) == one
    assert "Doubt: trips: 10% of the records have no value." in say("histogram", f"pilot@{FIRST}")
    assert "contains no sketch" in say("histogram", "pilot@7:9", status=2)
    assert "neither a study's name" in say("histogram", "pilots", status=2)


def test_drift_between_windows_of_a_study_is_found_and_drawn(pilot: Path, say: Say) -> None:
    picture = pilot / "drift.svg"
    windows = [f"pilot@{FIRST}", f"pilot@{LAST}"]
    found = json.loads(say("plan", "compare", *windows, "-o", str(picture), "--json", status=1))
    moved = {column["name"] for column in found["columns"] if column["has_moved"]}
    assert moved == {"load"}
    assert picture.read_bytes().startswith(b"<?xml")
    same = say("plan", "compare", windows[0], windows[0])
    assert "no drift stands out" in same
    assert "any of these 4 with at most 0.004" in same


def test_a_pilot_is_refined_into_a_main_study_that_publishes_and_decodes(
    client: Client, pilot: Path, say: Say, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The noise of the fleet is seeded; with the frequencies too, every run is the same.
    seed_sketches(monkeypatch)
    main, picture = pilot / "main.toml", pilot / "main.png"
    choice = ["--clusters", "2", "--most-clusters", "6", "--epsilon", "4"]
    say("plan", "refine", "pilot", *choice, "-o", str(main), "--plot", str(picture))
    assert picture.read_bytes().startswith(b"\x89PNG")
    spec = tomllib.loads(main.read_text(encoding="utf-8"))
    load, trips, site = spec["dimensions"]
    assert [each["name"] for each in (load, trips, site)] == ["load", "trips", "site"]
    assert (site["levels"], site["missing"]) == ([*SITES], "east")
    assert all(len(f"{each[end]:g}") <= 5 for each in (load, trips) for end in ("lower", "upper"))
    # It begins where the last window of the pilot has ended.
    assert spec["window"]["origin"] == START + (LAST + 1) * DAY
    text = main.read_text(encoding="utf-8")
    assert "# left out: each level would be an axis, and 17 are more than 16" in text
    assert "uncomment `missing`" in text
    box = main.with_suffix(".box.toml")
    say("study", "create", "main", str(main), "--within", str(box))
    Fleet(client).send("main", client.plan("main"), 3, draw(3)[:, :3])
    found = json.loads(say("decode", "main", "-k", "2", "--json"))
    assert found["names"] == ["load", "trips", *(f"site={name}" for name in SITES)]
    centroids = np.array(sorted(found["centroids"]))
    np.testing.assert_allclose(centroids[:, :2], [[200, 20], [350, 60]], rtol=0.1)
    assert list(found["search_box"]) == ["load", "trips"]


def test_a_refined_campaign_is_followed_by_its_study_and_names_both_commands(
    client: Client, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    outline = CampaignOutline(
        dimensions=parse_columns(["load:kW,trips:1:count"]),
        n_records=N,
        n_devices=2,
        most_clusters=3,
        epsilon=Fraction(4),
        origin=START,
        length_s=DAY,
        n_windows=(1, 2, 2),
    )
    campaign = plan_campaign(outline)[1]
    study = client.create_study("warmth", campaign).study_id
    Fleet(client).send("warmth", client.plan(study), 0, draw(1)[:, :2])
    main = tmp_path / "main.toml"
    choice = ["--clusters", "2", "--epsilon", "4", "--windows", "30"]
    assert command.main(["plan", "refine", "warmth", *choice, "-o", str(main)]) == 0
    told = capsys.readouterr().err
    assert "read the records until 2026-01-06 00:00:00 UTC: this study begins then" in told
    assert "for the next phase of the campaign: sfumato campaign next warmth" in told
    assert f"next: sfumato study create NAME {main}" in told
    plan = plan_from_spec(tomllib.loads(main.read_text(encoding="utf-8")))
    assert campaign.campaign is not None
    for phase in campaign.campaign.phases:
        assert plan.window.is_apart(phase.window)


def test_moments_of_a_study_are_shown(client: Client, tmp_path: Path, say: Say) -> None:
    spec = tmp_path / "moments.toml"
    spec.write_text(
        'statistic = "moments"\nepsilon = "4"\nmost_records = 10000\n'
        f'[window]\nkind = "time"\nlength_s = {DAY}\n'
        '[[dimensions]]\nname = "load"\nunit = "kW"\nlower = 0.0\nupper = 550.0\n'
        '[[dimensions]]\nname = "trips"\nunit = "1"\nlower = -20.0\nupper = 100.0\n',
        encoding="utf-8",
    )
    say("study", "create", "moments", str(spec))
    records = draw(4)[:, :2]
    Fleet(client).send("moments", client.plan("moments"), 0, records)
    found = json.loads(say("moments", "moments", "--json"))
    complete = records[np.isfinite(records).all(axis=1)]
    truth = float(np.corrcoef(complete[:, 0], complete[:, 1])[0, 1])
    assert found["correlation"][0][1] == pytest.approx(truth, abs=0.05)
    assert "correlation" in say("moments", "moments@0")
    mixture = MomentMixture.from_snapshots({"all": find_snapshot(client, "moments@0")})
    spread = np.sqrt(np.diagonal(mixture.covariances_[0]))
    assert mixture.covariances_[0][0, 1] / np.prod(spread) == pytest.approx(truth, abs=0.05)
    assert "must be histogram" in say("histogram", "moments", status=2)
