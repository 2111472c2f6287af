import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("shared", "device_agent", "aggregator", "analyst", "deploy", "benchmarks")
MATHEMATICS = ("shared/core", "shared/privacy", "aggregator/decoding")
BEFORE_THE_PORTS = tuple(
    f"aggregator/{name}" for name in ("api", "services", "decoding", "ports", "settings")
)


def existing(modules: tuple[str, ...]) -> list[str]:
    """Choose the modules that are there: once one is, its contract has to name it."""
    return [name for name in modules if (ROOT / name).is_dir() or (ROOT / f"{name}.py").exists()]


def lint_imports(tree: Path) -> subprocess.CompletedProcess[str]:
    program = Path(sys.executable).parent / "lint-imports"
    return subprocess.run(
        # No cache: tests run at the same time, and a verdict must come from the tree itself.
        [program, "--no-cache"],
        cwd=tree,
        # Wide enough that each contract and its verdict stand on one line.
        env=os.environ | {"PYTHONPATH": str(tree), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def copied_tree(tmp_path: Path) -> Path:
    shutil.copy(ROOT / ".importlinter", tmp_path)
    for package in PACKAGES:
        ignored = shutil.ignore_patterns("__pycache__", "data", "results")
        shutil.copytree(ROOT / package, tmp_path / package, ignore=ignored)
    return tmp_path


def test_imports_go_one_way() -> None:
    verdict = lint_imports(ROOT)
    assert verdict.returncode == 0, verdict.stdout + verdict.stderr


@pytest.mark.parametrize(
    ("module", "line", "contract"),
    [
        ("device_agent/settings.py", "import aggregator", "never import each other"),
        ("analyst/client.py", "import benchmarks", "never import each other"),
        ("deploy/demo/cluster.py", "import benchmarks", "never import each other"),
        ("shared/errors.py", "import shared.command", "Inside shared"),
        ("shared/errors.py", "import typer", "no large one"),
        ("shared/astray.py", "", "Inside shared"),
        ("device_agent/astray.py", "", "Inside device_agent"),
        ("aggregator/astray.py", "", "Inside aggregator"),
        ("analyst/astray.py", "", "Inside analyst"),
    ],
)
def test_a_planted_import_or_a_module_in_no_layer_is_caught(
    module: str, line: str, contract: str, copied_tree: Path
) -> None:
    plant(copied_tree / module, line)
    assert_broken(copied_tree, contract)


@pytest.mark.parametrize("module", existing(MATHEMATICS))
@pytest.mark.parametrize("library", ["json", "logging", "os", "random", "time", "fastapi"])
def test_the_mathematics_cannot_reach_the_outside(
    module: str, library: str, copied_tree: Path
) -> None:
    plant(copied_tree / f"{module}.py", f"import {library}")
    assert_broken(copied_tree, "The mathematics knows")


@pytest.mark.parametrize("module", existing(BEFORE_THE_PORTS))
def test_only_storage_and_the_wiring_reach_the_database(module: str, copied_tree: Path) -> None:
    plant(copied_tree / f"{module}.py", "import sqlalchemy.orm")
    assert_broken(copied_tree, "know the database library")


def plant(module: Path, line: str) -> None:
    if module.with_suffix("").is_dir():  # what was one module has grown into a package
        module = module.with_suffix("") / "__init__.py"
    module.parent.mkdir(exist_ok=True)
    with module.open("a") as file:
        file.write(f"\n{line}\n")


def assert_broken(tree: Path, contract: str) -> None:
    verdict = lint_imports(tree)
    assert verdict.returncode != 0, verdict.stdout
    broken = [row for row in verdict.stdout.splitlines() if row.endswith("BROKEN")]
    assert any(contract in row for row in broken), verdict.stdout + verdict.stderr
