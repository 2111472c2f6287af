import json
import re
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from sfumato.aggregator.metrics import JOB_STATES, Metrics
from sfumato.aggregator.resources.batches.record import BATCH_STATES
from sfumato.aggregator.resources.jobs.record import JobState
from sfumato.shared.wire import problem_types
from tests.aggregator.fleet import Desk, Device, make_plan
from tests.aggregator.serving import Server, open_server
from tests.certificates import Authority

pytestmark = pytest.mark.anyio

DEPLOY = Path(__file__).parents[2] / "deploy"
DASHBOARD = DEPLOY / "grafana" / "sfumato.json"
ALERTS = DEPLOY / "helm" / "sfumato" / "alerts.yaml"


async def read_metrics(desk: Desk) -> dict[str, float]:
    """Return each sample by its name and labels, as Prometheus writes them."""
    answer = await desk.operate("GET", "/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    samples = {}
    for family in text_string_to_metric_families(answer.text):
        for sample in family.samples:
            labels = ",".join(f'{name}="{value}"' for name, value in sample.labels.items())
            samples[f"{sample.name}{{{labels}}}" if labels else sample.name] = sample.value
    return samples


async def use(server: Server) -> bytes:
    """Store a sketch, send it twice, and one that is refused; ask for a decode."""
    desk, plan = server.desk, make_plan()
    study = await desk.open(Device(1), plan=plan)
    message = Device(1).message(study, plan)
    for _ in range(2):
        await desk.put(study, *message)
    await desk.put(study, *Device(2).message(study, plan))
    await desk.put(study, "00" * 32, bytes(plan.payload_bytes + 4096))
    await desk.post(f"/v1/studies/{study.hex()}/decodes", {"n_clusters": 3})
    return study


async def test_metrics_count_uploads_by_outcome_and_refusals_by_reason(server: Server) -> None:
    await use(server)
    samples = await read_metrics(server.desk)
    assert samples['sfumato_uploads_total{outcome="stored"}'] == 1
    assert samples['sfumato_uploads_total{outcome="repeated"}'] == 1
    assert samples['sfumato_uploads_total{outcome="refused"}'] == 2
    assert samples['sfumato_uploads_total{outcome="failed"}'] == 0
    assert samples['sfumato_problems_total{problem="access-denied"}'] == 1
    assert samples['sfumato_problems_total{problem="too-large"}'] == 1


async def test_metrics_show_durations_queue_decodes_devices_and_build(server: Server) -> None:
    await use(server)
    samples = await read_metrics(server.desk)
    upload = 'method="PUT",route="/v1/studies/{study}/sketches/{sketch}",status="201"'
    assert samples[f"sfumato_request_duration_seconds_count{{{upload}}}"] == 1
    assert samples["sfumato_requests_running"] == samples["sfumato_requests_waiting"] == 0
    assert samples["sfumato_requests_limit"] == 1015
    assert samples["sfumato_database_up"] == samples["sfumato_studies"] == 1
    assert samples["sfumato_devices"] == 1
    assert samples['sfumato_decodes{state="queued"}'] == 1
    assert samples['sfumato_decodes{state="failed"}'] == 0
    assert any(name.startswith("sfumato_build_info{") for name in samples)


async def test_metrics_hold_no_identity_and_no_secret(server: Server) -> None:
    study = await use(server)
    desk = server.desk
    for path in ("/nowhere/" + "ab" * 32, f"/v1/studies/{study.hex()}", "/v1/keys/" + "cd" * 8):
        await desk.operate("GET", path)
    await desk.http.request("BREW", "/v1/studies")
    text = (await desk.operate("GET", "/metrics")).text
    for secret in (study.hex(), Device(1).device_id.hex(), desk.operator_key[4:20], "sfk_"):
        assert secret not in text
    assert not re.search(r"[0-9a-f]{16}", re.sub(r" [0-9.e-]+$", "", text, flags=re.MULTILINE))
    assert "BREW" not in text


async def test_labels_have_values_that_are_known_beforehand(server: Server) -> None:
    await use(server)
    for i in range(50):
        await server.desk.http.get(f"/nowhere/{i}")
        await server.desk.http.request(f"M{i}", "/v1/studies")
    text = (await server.desk.operate("GET", "/metrics")).text
    described = (await server.desk.http.get("/openapi.json")).json()["paths"]
    known = {"none", *described}
    assert set(re.findall(r'route="([^"]*)"', text)) <= known
    slugs = {problem.slug for problem in problem_types()}
    assert set(re.findall(r'problem="([^"]*)"', text)) <= slugs
    assert set(re.findall(r'state="([^"]*)"', text)) == {*JOB_STATES, *BATCH_STATES}


async def test_metrics_need_the_key_of_the_settings_or_an_operators() -> None:
    async with open_server(metrics_key="k" * 16) as server:
        own = {"Authorization": f"Bearer {'k' * 16}"}
        keys: list[dict[str, str]] = [
            {},
            {"Authorization": f"Bearer {'k' * 15}"},
            server.desk.operator,
            own,
        ]
        answers = [await server.desk.http.get("/metrics", headers=key) for key in keys]
    assert [answer.status_code for answer in answers] == [401, 401, 200, 200]


def test_every_state_of_a_decode_has_a_metric() -> None:
    assert set(JobState.__args__) == set(JOB_STATES)  # type: ignore[attr-defined]


def find_expressions(part: Any) -> list[str]:
    if isinstance(part, dict):
        own = [str(part[name]) for name in ("expr", "definition") if name in part]
        return own + [found for value in part.values() for found in find_expressions(value)]
    if isinstance(part, list):
        return [found for value in part for found in find_expressions(value)]
    return []


async def test_the_dashboard_uses_the_metrics_that_there_are_and_all_of_them() -> None:
    dashboard = json.loads(DASHBOARD.read_text())
    used = {
        name
        for expression in find_expressions(dashboard)
        for name in re.findall(r"sfumato_[a-z_]+", expression)
    }
    async with open_server() as server:
        await use(server)
        there = {name.partition("{")[0] for name in await read_metrics(server.desk)}
    assert used <= there, used - there
    families = {family.name for family in Metrics().registry.collect()}
    used |= {name for each in list_alerts() for name in re.findall(r"sfumato_[a-z_]+", each)}
    unused = {name for name in families if not any(n.startswith(name) for n in used)}
    assert not unused


def test_before_the_database_has_answered_no_helper_is_missed() -> None:
    assert b"sfumato_helper_up 1.0" in Metrics().render()


def list_alerts() -> list[str]:
    """Return the expressions of the alerts."""
    (group,) = yaml.safe_load(ALERTS.read_text(encoding="utf-8"))["groups"]
    return [rule["expr"] for rule in group["rules"]]


async def test_alerts_watch_metrics_labels_and_states_that_there_are(tmp_path: Path) -> None:
    certificate, _ = Authority(tmp_path).issue("server", days=(-1, 30))
    async with open_server(tls_cert=certificate, database_url=str(tmp_path / "a.db")) as server:
        await use(server)
        samples = await read_metrics(server.desk)
    there = {name.partition("{")[0] for name in samples}
    pairs = {pair for name in samples for pair in re.findall(r'([a-z]+="[^"]*")', name)}
    alerts = list_alerts()
    assert len(alerts) > 8
    for alert in alerts:
        assert set(re.findall(r"sfumato_[a-z_]+", alert)) <= there, alert
        assert set(re.findall(r'([a-z]+="[^"]*")', alert)) <= pairs, alert
    ends = samples['sfumato_certificate_expiry_timestamp_seconds{setting="tls_cert"}']
    assert 29 < (ends - time.time()) / 86400 < 31
    assert 0 < samples['sfumato_database_disk_free_ratio{setting="database_url"}'] < 1


async def test_a_server_without_certificate_and_sqlite_warns_of_neither() -> None:
    async with open_server(database_url="postgresql://db/sfumato") as server:
        samples = await read_metrics(server.desk)
    assert not [name for name in samples if "certificate" in name or "disk" in name]


async def test_labels_in_the_dashboard_are_those_of_the_metrics() -> None:
    dashboard = json.loads(DASHBOARD.read_text())
    expressions = find_expressions(dashboard)
    labels = {name for e in expressions for name in re.findall(r"[{,]([a-z]+)=~?\"", e)}
    groups = [group for e in expressions for group in re.findall(r"by \(([^)]*)\)", e)]
    labels |= {name.strip() for group in groups for name in group.split(",")}
    async with open_server() as server:
        await use(server)
        text = (await server.desk.operate("GET", "/metrics")).text
    there = set(re.findall(r'[{,]([a-z]+)="', text)) | {"instance"}
    assert labels <= there
