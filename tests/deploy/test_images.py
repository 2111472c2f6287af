"""The rules of images and of the compose file, read from their text."""

from __future__ import annotations

import ast
import fnmatch
import os
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from sfumato.shared import __version__

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
DOCKERFILE = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
STAGES = dict(re.findall(r"^FROM \S+ AS (\S+)$(.*?)(?=^FROM |\Z)", DOCKERFILE, re.M | re.S))
FROM = {name: base for base, name in re.findall(r"^FROM (\S+) AS (\S+)$", DOCKERFILE, re.M)}
IMAGES = ("server", "helper", "agent", "analyst", "stations")
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]


def follow(stage: str) -> Iterator[str]:
    """Yield a stage and those that it begins from."""
    while stage in FROM:
        yield stage
        stage = FROM[stage]


def list_copied(stages: dict[str, str]) -> list[str]:
    """Return the files and folders that are copied from the tree."""
    text = "\n".join(stages.values()).replace("\\\n", " ")
    lines = re.findall(r"^COPY (?!--from)(.*)$", text, re.M)
    return [source for line in lines for source in line.split()[:-1]]


def is_in_context(path: str) -> bool:
    """Return whether `.dockerignore` lets a path through; the last line that fits decides."""
    decided = True
    for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines():
        pattern = line.removeprefix("!")
        if any(fnmatch.fnmatch(each, pattern) for each in (path, *map(str, Path(path).parents))):
            decided = line.startswith("!")
    return decided


def test_every_file_that_an_image_copies_is_there_and_in_the_context_of_the_build() -> None:
    copied = list_copied(STAGES)
    assert "helper" in copied
    assert [path for path in copied if not (ROOT / path).exists()] == []
    assert [path for path in copied if not is_in_context(path)] == []
    assert not is_in_context("tests")


def test_images_hold_every_package_that_ships() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    shipped = set(project["tool"]["setuptools"]["package-dir"].values()) - {"sfumato"}
    copied = set(list_copied({"build": STAGES["build"]}))
    assert shipped | {"sfumato/__init__.py", "sfumato/py.typed"} <= copied


@pytest.mark.parametrize("image", IMAGES)
def test_an_image_runs_without_rights_and_without_what_built_it(image: str) -> None:
    stages = list(follow(image))
    assert FROM[stages[-1]] == "scratch"
    users = re.findall(r"^USER (.*)$", "\n".join(STAGES[each] for each in stages), re.M)
    assert users == ["900:900"]
    assert not any("apt-get" in STAGES[each] for each in stages)
    has_health = any("HEALTHCHECK" in STAGES[each] for each in stages)
    assert has_health == (image != "analyst")


def test_all_images_begin_with_one_public_base_that_can_be_replaced() -> None:
    assert re.search(r"^ARG BASE_IMAGE=docker\.io/library/python:", DOCKERFILE, re.M)
    assert {base for base in FROM.values() if base not in FROM} == {"${BASE_IMAGE}", "scratch"}
    # A step that names an architecture would leave out the others.
    assert not re.search(r"x86_64|amd64|arm64|aarch64", DOCKERFILE)


def test_images_say_what_they_are_and_none_is_whatever_came_last() -> None:
    for image in IMAGES:
        text = "\n".join(STAGES[each] for each in follow(image))
        for label in ("title", "version", "revision", "licenses"):
            assert f"org.opencontainers.image.{label}=" in text, (image, label)
        assert f"image.version={__version__} " in text
    for name, service in SERVICES.items():
        named = re.sub(r"^\$\{\w+:-(.*)\}$", r"\1", service["image"])
        tag = named.rpartition("/")[2].partition(":")[2]
        assert tag not in ("", "latest"), name
        assert "build" not in service or tag == __version__, name


def test_no_code_needs_a_part_of_scipy_that_images_leave_out() -> None:
    script = (DEPLOY / "install.sh").read_text(encoding="utf-8")
    listed = re.search(r'^LEFT_OUT="(.*)"$', script, re.M)
    assert listed
    left_out = {f"scipy.{part}" for part in listed[1].split()}
    used = set()
    for package in ("shared", "learning", "helper", "aggregator", "device_agent"):
        for path in (ROOT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.ImportFrom) and node.module:
                    used |= {node.module, *(f"{node.module}.{each.name}" for each in node.names)}
                elif isinstance(node, ast.Import):
                    used |= {each.name for each in node.names}
    assert "scipy.optimize" in used
    assert {each for each in used if ".".join(each.split(".")[:2]) in left_out} == set()


def test_every_file_and_image_that_the_compose_file_names_is_there() -> None:
    for name, service in SERVICES.items():
        if "build" in service:
            assert service["build"]["target"] in STAGES, name
            assert "SFUMATO_BASE_IMAGE" in service["build"]["args"]["BASE_IMAGE"], name
        for mount in service.get("volumes", ()):
            source = mount.partition(":")[0]
            there = (DEPLOY / source).exists() if source[0] == "." else source in COMPOSE["volumes"]
            assert there, (name, mount)
        for network in service["networks"]:
            assert network in COMPOSE["networks"], name
        for other in service.get("depends_on", ()):
            assert other in SERVICES, name
        # Paths of commands and health checks, in the image that runs them.
        words = [*service.get("command", []), *service.get("entrypoint", [])]
        words += service.get("healthcheck", {}).get("test", [])
        for word in words:
            if word.startswith("/opt/cluster/"):
                file = f"deploy/cluster/{word.removeprefix('/opt/cluster/')}"
                stages = {each: STAGES[each] for each in follow(service["build"]["target"])}
                assert file in list_copied(stages), (name, word)
                assert os.access(ROOT / file, os.X_OK), name


@pytest.mark.parametrize("name", SERVICES)
def test_a_container_writes_to_its_volumes_alone_and_gains_no_rights(name: str) -> None:
    service = SERVICES[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert "/tmp" in service["tmpfs"]
    assert set(service.get("cap_add", ())) <= ({"NET_BIND_SERVICE"} if name == "proxy" else set())
    for port in service.get("ports", ()):
        assert port.startswith("127.0.0.1:"), port


def test_the_helper_reaches_no_database_but_its_own() -> None:
    together = {name for name, each in SERVICES.items() if "storage" in each["networks"]}
    assert together == {"database", "operator", "aggregator", "worker"}
    assert COMPOSE["networks"]["storage"] == {"internal": True}
    own = {each.partition(":")[0] for each in SERVICES["helper"]["volumes"]}
    for name, service in SERVICES.items():
        others = {each.partition(":")[0] for each in service.get("volumes", ())}
        assert name == "helper" or others & own <= {"door"}, name
        if name != "helper" and "door" in others & own:
            assert "door:/run/sfumato/helper:ro" in service["volumes"]


def test_grafana_finds_the_dashboard_and_prometheus_reads_both_servers() -> None:
    mounts = dict(each.split(":")[:2] for each in SERVICES["grafana"]["volumes"])
    provider = yaml.safe_load(
        (DEPLOY / "grafana/provisioning/dashboards/sfumato.yaml").read_text(encoding="utf-8")
    )
    folder = provider["providers"][0]["options"]["path"]
    assert mounts["./grafana/sfumato.json"] == f"{folder}/sfumato.json"
    home = SERVICES["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert home == f"{folder}/sfumato.json"
    source = yaml.safe_load(
        (DEPLOY / "grafana/provisioning/datasources/prometheus.yaml").read_text(encoding="utf-8")
    )
    assert source["datasources"][0]["url"] == "http://prometheus:9090"
    jobs = yaml.safe_load((DEPLOY / "prometheus/prometheus.yml").read_text(encoding="utf-8"))
    assert [each["job_name"] for each in jobs["scrape_configs"]] == [
        "sfumato-aggregator",
        "sfumato-helper",
    ]
    assert set(SERVICES["grafana"]["networks"]) <= set(SERVICES["prometheus"]["networks"])
