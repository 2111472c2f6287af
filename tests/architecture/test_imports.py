"""The contracts of imports hold, and each of them finds what is planted against it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bare_names import ROOMS

ROOT = Path(__file__).parents[2]
MATHEMATICS = ("shared/core", "shared/privacy", "learning")
OUTSIDE = ("json", "logging", "os", "random", "time", "fastapi")
WITHOUT_SQL = (
    "api",
    "ui",
    "services",
    "answers",
    "resources/devices/service",
    "resources/devices/record",
    "settings",
    "base/sums",
)


def lint_imports(tree: Path) -> subprocess.CompletedProcess[str]:
    program = Path(sys.executable).parent / "lint-imports"
    return subprocess.run(
        # No cache: tests run at the same time, and a verdict must come from the tree itself.
        [program, "--no-cache"],
        cwd=tree,
        # Wide enough that each contract and each import stands on one line.
        env=os.environ | {"PYTHONPATH": str(tree), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def copied_tree(tmp_path: Path) -> Path:
    shutil.copy(ROOT / ".importlinter", tmp_path)
    for folder in ("sfumato", *ROOMS, "deploy", "benchmarks"):
        ignored = shutil.ignore_patterns("__pycache__", "data", "results")
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=ignored, symlinks=True)
    return tmp_path


def test_imports_go_one_way() -> None:
    verdict = lint_imports(ROOT)
    assert verdict.returncode == 0, verdict.stdout + verdict.stderr


def test_packages_that_import_their_siblings_are_caught(copied_tree: Path) -> None:
    plants = {
        "device_agent/settings/agent_settings.py": "sfumato.aggregator",
        "analyst/client/client.py": "benchmarks",
        "deploy/demo/cluster.py": "benchmarks",
        "learning/__init__.py": "sfumato.analyst",
        "shared/errors.py": "sfumato.device_agent",
    }
    for module, package in plants.items():
        plant(copied_tree / module, f"import {package}")
    told = assert_broken(copied_tree, "never import each other", "Benchmarks lie over the demo")
    for module, package in plants.items():
        assert f"{name(module)} -> {package} " in told


def test_modules_in_no_layer_are_caught(copied_tree: Path) -> None:
    resources = "aggregator/resources"
    for room in ("sfumato", *ROOMS, resources, f"{resources}/keys"):
        plant(copied_tree / room / "astray.py", "")
    told = assert_broken(
        copied_tree,
        "never import each other",
        *(f"Inside {room}" for room in ROOMS),
        "Each resource stands",
        "Inside each resource",
    )
    assert "sfumato.aggregator.resources.astray" in told
    assert "sfumato.aggregator.resources.keys.astray" in told
    for room in ROOMS:
        assert f"{room}.astray" in told
    assert "sfumato.astray" in told


def test_what_a_module_may_not_import_is_caught(copied_tree: Path) -> None:
    of_resources = {
        "keys/service/keys.py": "alarms.service.alarms",
        "studies/store.py": "devices.store",
        "devices/record.py": "sketches.record",
        "batches/store/reports.py": "keys.service.audit",
        "jobs/record.py": "keys.store",
    }
    resources, passed = "aggregator/resources", "device_agent/sources/passed.py"
    plants = [
        *((f"{module}.py", library) for module in MATHEMATICS for library in OUTSIDE),
        *((f"aggregator/{part}.py", "sqlalchemy.orm") for part in WITHOUT_SQL),
        *((f"{resources}/{own}", name(f"{resources}/{o}")) for own, o in of_resources.items()),
        ("shared/errors.py", "typer"),
        (passed, "sfumato.learning"),
        (passed, "sfumato.shared.privacy.testing"),
    ]
    for module, imported in plants:
        plant(copied_tree / module, f"import {imported}")
    told = assert_broken(
        copied_tree,
        "services over stores over records",
        "The mathematics knows",
        "no large one",
        "know the database library",
        "noise from a seed",
    )
    lacking = [
        (module, imported)
        for module, imported in plants
        if f"{name(module)} -> {imported.removesuffix('.orm')} " not in told
    ]
    assert lacking == []


def plant(module: Path, line: str) -> None:
    if module.with_suffix("").is_dir():  # what was one module has grown into a package
        module = module.with_suffix("") / "__init__.py"
    with module.open("a") as file:
        file.write(f"\n{line}\n")


def name(module: str) -> str:
    """Name a module as Python does."""
    named = module.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    return f"sfumato.{named}" if named.startswith(ROOMS) else named


def assert_broken(tree: Path, *contracts: str) -> str:
    """Check that contracts are broken; return what was printed."""
    verdict = lint_imports(tree)
    assert verdict.returncode != 0, verdict.stdout
    # Behind it may stand how many imports are excepted.
    broken = [row for row in verdict.stdout.splitlines() if " BROKEN" in row]
    for contract in contracts:
        assert any(contract in row for row in broken), verdict.stdout + verdict.stderr
    return verdict.stdout
