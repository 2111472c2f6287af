"""The Helm chart, rendered by Helm itself and held to the schemas of Kubernetes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from sfumato.aggregator.app import create_app
from sfumato.aggregator.settings import Settings
from sfumato.shared import __version__

helm = pytest.importorskip("helm_python", reason="Helm has no package for this platform")

CHART = Path(__file__).parents[2] / "deploy/helm/sfumato"
LEADER: dict[str, Any] = {"leader": {"databaseSecret": "database"}}
HELPER: dict[str, Any] = {"helper": {"enabled": True, "tlsSecret": "certificate"}}
SECURE: dict[str, Any] = {
    "leader": {
        "databaseSecret": "database",
        "secureSum": {"url": "https://helper:8760", "secret": "helper", "hasAuthority": True},
    }
}
ALL: dict[str, Any] = {
    "leader": SECURE["leader"]
    | {
        "oidc": {
            "issuer": "https://login.example.org",
            "clientId": "sfumato",
            "secret": "login",
            "hasAuthority": True,
            "analysts": "research",
        },
        "metrics": {"secret": "monitor", "serviceMonitor": True, "rules": True},
    },
    **{part: {"autoscaling": {"enabled": True}} for part in ("aggregator", "worker")},
}
INGRESS: dict[str, Any] = {"ingress": {"enabled": True, "host": "a.example", "tlsSecret": "tls"}}
CASES = {
    "leader": (LEADER, {"Deployment": 2, "Job": 1, "Service": 1}),
    "helper": ({"leader": {"enabled": False}} | HELPER, {"StatefulSet": 1, "Service": 1}),
    "all": (
        ALL | HELPER | INGRESS,
        {
            "Deployment": 2,
            "StatefulSet": 1,
            "Ingress": 1,
            "HorizontalPodAutoscaler": 2,
            "PodDisruptionBudget": 1,
        },
    ),
}


def render(values: dict[str, Any]) -> list[dict[str, Any]]:
    with helm.Chart.load(CHART) as chart:
        texts = chart.render(values=values, name="demo", namespace="here")
    documents = []
    for name, text in texts.items():
        if name.endswith(".yaml"):
            documents += [each for each in yaml.safe_load_all(text) if each]
    return documents


def list_pods(documents: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [each["spec"]["template"]["spec"] for each in documents if "template" in each["spec"]]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("version", ["1.27", "1.31", "1.34"])
def test_what_helm_renders_is_what_kubernetes_accepts(case: str, version: str) -> None:
    # It compiles grammars for a second, which every worker would wait for that collects this.
    kubernetes = pytest.importorskip("kubernetes_validate")
    values, least = CASES[case]
    documents = render(values)
    kinds = [each["kind"] for each in documents]
    for kind, count in least.items():
        assert kinds.count(kind) == count, kind
    names = [(each["kind"], each["metadata"]["name"]) for each in documents]
    assert len(set(names)) == len(names)
    for document in documents:
        # The Prometheus operator's own kinds are not Kubernetes'.
        if not document["apiVersion"].startswith("monitoring.coreos.com/"):
            kubernetes.validate(document, version, strict=True)


def test_helm_finds_no_fault() -> None:
    found = helm.lint(CHART, values=LEADER)
    assert found["errors"] == []


def test_every_pod_runs_without_rights() -> None:
    pods = list_pods(render(SECURE | HELPER))
    assert len(pods) == 4
    for pod in pods:
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["automountServiceAccountToken"] is False
        for container in [*pod["containers"], *pod.get("initContainers", [])]:
            confined = container["securityContext"]
            assert confined["readOnlyRootFilesystem"] is True
            assert confined["allowPrivilegeEscalation"] is False
            assert confined["capabilities"] == {"drop": ["ALL"]}


def test_the_ingress_leads_to_every_page_and_call_but_metrics() -> None:
    (ingress,) = (each for each in render(LEADER | INGRESS) if each["kind"] == "Ingress")
    paths = ingress["spec"]["rules"][0]["http"]["paths"]
    exact = {each["path"] for each in paths if each["pathType"] == "Exact"}
    prefixes = {each["path"] for each in paths if each["pathType"] == "Prefix"}
    called = {"/", "/try/", "/ui/", "/docs", "/openapi.json", *create_app().openapi()["paths"]}
    left = {path for path in called if f"/{path.split('/')[1]}" not in prefixes} - exact
    assert left == {"/metrics"}


def test_prometheus_reads_metrics_with_the_key_of_the_servers() -> None:
    leader = LEADER["leader"] | {"metrics": {"secret": "monitor", "serviceMonitor": True}}
    documents = render({"leader": leader})
    (monitor,) = (each for each in documents if each["kind"] == "ServiceMonitor")
    (endpoint,) = monitor["spec"]["endpoints"]
    (service,) = (each for each in documents if each["kind"] == "Service")
    assert endpoint["port"] in [each["name"] for each in service["spec"]["ports"]]
    wanted = monitor["spec"]["selector"]["matchLabels"].items()
    assert wanted <= service["metadata"]["labels"].items()
    (variable,) = (
        each
        for pod in list_pods(documents)
        for each in pod["containers"][0]["env"]
        if each["name"] == "SFUMATO_METRICS_KEY" and "serve" in pod["containers"][0]["args"]
    )
    assert variable["valueFrom"]["secretKeyRef"] == endpoint["authorization"]["credentials"]


def test_secrets_are_named_and_never_written() -> None:
    for pod in list_pods(render(SECURE)):
        (container,) = pod["containers"]
        variables = {each["name"]: each for each in container["env"]}
        for name in ("SFUMATO_DATABASE_URL", "SFUMATO_HELPER_API_KEY"):
            assert "secretKeyRef" in variables[name]["valueFrom"]
        assert variables["SFUMATO_HELPER_CA"]["value"] == "/run/sfumato/helper/ca.pem"
        assert {each["name"] for each in container["volumeMounts"]} == {"scratch", "authority"}


def test_images_are_of_the_release_or_of_a_pinned_version() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    assert chart["appVersion"] == __version__
    pinned = {"leader": LEADER["leader"] | {"image": {"tag": "0.0.9"}}}
    for values, tag in ((ALL | HELPER, __version__), (pinned, "0.0.9")):
        pods = list_pods(render(values))
        used = [each for pod in pods for each in pod["containers"] + pod.get("initContainers", [])]
        assert {each["image"].rpartition(":")[2] for each in used} == {tag}


def test_pods_are_as_many_as_values_say_or_as_their_processors_are_busy() -> None:
    counts = {
        each["metadata"]["name"]: each for each in render(LEADER) if each["kind"] == "Deployment"
    }
    assert {name: each["spec"]["replicas"] for name, each in counts.items()} == {
        "demo-aggregator": 2,
        "demo-worker": 1,
    }
    documents = render(ALL)
    deployed = [each for each in documents if each["kind"] == "Deployment"]
    assert not any("replicas" in each["spec"] for each in deployed)
    scaled = [each for each in documents if each["kind"] == "HorizontalPodAutoscaler"]
    assert {each["spec"]["scaleTargetRef"]["name"] for each in scaled} == set(counts)


def test_sign_in_is_set_up_by_settings_that_the_server_knows() -> None:
    pods = list_pods(render(ALL | INGRESS))
    (server,) = (pod for pod in pods if "serve" in pod["containers"][0]["args"])
    (container,) = server["containers"]
    variables = {each["name"]: each for each in container["env"]}
    oidc = {name for name in variables if "OIDC" in name or "PAGE" in name}
    assert {name.removeprefix("SFUMATO_").lower() for name in oidc} < set(Settings.model_fields)
    assert variables["SFUMATO_OIDC_ANALYSTS"]["value"] == "research"
    assert variables["SFUMATO_PAGE_URL"]["value"] == "https://a.example"
    source = variables["SFUMATO_OIDC_CLIENT_SECRET"]["valueFrom"]["secretKeyRef"]
    assert source == {"name": "login", "key": "secret"}
    mounts = {each["name"]: each["mountPath"] for each in container["volumeMounts"]}
    assert variables["SFUMATO_OIDC_CA"]["value"] == f"{mounts['provider']}/ca.pem"
    (volume,) = (each for each in server["volumes"] if each["name"] == "provider")
    item = {"key": "ca.pem", "path": "ca.pem"}
    assert volume["secret"] == {"secretName": "login", "items": [item]}
    # Workers and the migration sign nobody in.
    others = [pod for pod in pods if pod is not server]
    assert len(others) == 2
    assert not any(word in str(others) for word in ("OIDC", "login", "provider"))
    assert "OIDC" not in str(render(LEADER))


def test_the_rules_of_the_chart_are_the_file_that_prometheus_reads() -> None:
    (rule,) = (each for each in render(ALL) if each["kind"] == "PrometheusRule")
    plain = yaml.safe_load((CHART / "alerts.yaml").read_text(encoding="utf-8"))
    assert rule["spec"] == plain
    compose = yaml.safe_load((CHART.parents[1] / "compose.yaml").read_text(encoding="utf-8"))
    assert (
        "./helm/sfumato/alerts.yaml:/etc/prometheus/alerts.yaml:ro"
        in (compose["services"]["prometheus"]["volumes"])
    )


def test_the_alert_of_servers_watches_their_jobs_and_no_others() -> None:
    plain = yaml.safe_load((CHART / "alerts.yaml").read_text(encoding="utf-8"))
    rules = {each["alert"]: each["expr"] for each in plain["groups"][0]["rules"]}
    prometheus = CHART.parents[1] / "prometheus" / "prometheus.yml"
    scraped = yaml.safe_load(prometheus.read_text(encoding="utf-8"))["scrape_configs"]
    leader, helper = (each["job_name"] for each in scraped)
    documents = render(ALL)
    (monitor,) = (each for each in documents if each["kind"] == "ServiceMonitor")
    (service,) = (each for each in documents if each["kind"] == "Service")
    in_cluster = service["metadata"]["labels"][monitor["spec"]["jobLabel"]]
    for name, watched in (
        ("SfumatoServerDown", {leader, helper, in_cluster}),
        # A helper that is up hides no leader that is gone.
        ("SfumatoNoServer", {leader, in_cluster}),
    ):
        (pattern,) = re.findall(r'job=~"(.*?)"', rules[name])
        jobs = (leader, helper, in_cluster, "log-aggregator", "sfumato-database")
        assert {job for job in jobs if re.fullmatch(pattern, job)} == watched


def test_database_and_journal_of_the_helper_are_two_volumes_of_one_pod() -> None:
    (helper,) = (each for each in render(HELPER | LEADER) if each["kind"] == "StatefulSet")
    claims = [each["metadata"]["name"] for each in helper["spec"]["volumeClaimTemplates"]]
    assert (claims, helper["spec"]["replicas"]) == (["database", "journal"], 1)


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({}, "/leader/databaseSecret"),
        (LEADER | {"ingress": {"enabled": True}}, "/ingress/host"),
        (LEADER | {"helper": {"enabled": True}}, "/helper/tlsSecret"),
        (LEADER | {"aggregator": {"replica": 3}}, "replica"),
        ({"leader": LEADER["leader"] | {"settings": {"PORT": "1"}}}, "PORT"),
        ({"leader": LEADER["leader"] | {"secureSum": {"url": "https://h"}}}, "secret"),
        ({"leader": LEADER["leader"] | {"metrics": {"serviceMonitor": True}}}, "secret"),
        ({"leader": LEADER["leader"] | {"oidc": {"issuer": "https://l"}}}, "clientId"),
        ({"leader": LEADER["leader"] | {"oidc": {"issuer": "http://l"}}}, "issuer"),
        ({"leader": LEADER["leader"] | {"image": {"tag": "latest"}}}, "tag"),
    ],
)
def test_values_that_are_missing_or_misspelt_are_refused_by_name(
    values: dict[str, Any], field: str
) -> None:
    with pytest.raises(helm.HelmValuesError, match=field):
        render(values)
