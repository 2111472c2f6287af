import os
import shutil
import subprocess
import sys
import zipfile
from importlib import metadata
from pathlib import Path, PurePosixPath

import pytest

from shared.core.engines import list_engines

ROOT = Path(__file__).parents[2]
PACKAGES = ("shared", "device_agent", "aggregator", "analyst")


SOURCES = (".c", ".h")
"""What a compiler turns into the kernel; it does not ship in a wheel."""
MAX_KERNEL_BYTES = 150_000


def build_wheel(tree: Path, **environment: str) -> Path:
    """Build the wheel from a copy, so that nothing is left in the tree and none of it is stale."""
    for path in ROOT.iterdir():
        if path.is_file() and not path.name.startswith("."):
            shutil.copy(path, tree)
    # What must not ship is there to be shipped by mistake.
    for package in (*PACKAGES, "benchmarks", "tests"):
        ignored = shutil.ignore_patterns("__pycache__", "*.so")
        shutil.copytree(ROOT / package, tree / package, ignore=ignored)
    output = tree / "dist"
    options = ["--wheel", "--no-isolation", "--outdir", str(output)]
    command = [sys.executable, "-m", "build", *options, str(tree)]
    built = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, **environment}
    )
    assert built.returncode == 0, built.stdout + built.stderr
    (wheel,) = output.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("tree"))


@pytest.fixture(scope="module")
def wheel_files(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if not name.endswith("/")}


def test_each_file_of_the_wheel_is_ours(wheel_files: set[str]) -> None:
    version = metadata.version("sfumato")
    allowed = {*PACKAGES, f"sfumato-{version}.dist-info"}
    assert {name for name in wheel_files if PurePosixPath(name).parts[0] not in allowed} == set()


def test_each_file_of_the_packages_is_in_the_wheel(wheel_files: set[str]) -> None:
    present = {
        path.relative_to(ROOT).as_posix()
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and path.suffix not in SOURCES
    }
    assert present - wheel_files == set()


@pytest.mark.skipif(len(list_engines()) == 1, reason="the kernel cannot be compiled here")
def test_the_compiled_kernel_is_in_the_wheel_for_all_later_pythons(wheel: Path) -> None:
    tag = wheel.stem.split("-", 2)[2]
    assert tag.startswith("cp311-abi3-")
    with zipfile.ZipFile(wheel) as archive:
        assert "shared/core/engines/_native.abi3.so" in archive.namelist()


def test_without_a_compiler_the_wheel_is_built_all_the_same(tmp_path: Path) -> None:
    wheel = build_wheel(tmp_path, CC=str(tmp_path / "no-compiler"))
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert "shared/core/engines/numpy_engine.py" in names
    assert not [name for name in names if name.endswith(".so")]


def test_the_kernel_is_small(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        compiled = [entry for entry in archive.infolist() if entry.filename.endswith(".so")]
    assert sum(entry.file_size for entry in compiled) < MAX_KERNEL_BYTES


@pytest.mark.parametrize("package", PACKAGES)
def test_each_package_says_that_it_is_typed(package: str, wheel_files: set[str]) -> None:
    assert f"{package}/py.typed" in wheel_files


def test_the_licence_is_in_the_wheel(wheel_files: set[str]) -> None:
    assert any(PurePosixPath(name).name == "LICENSE" for name in wheel_files)


def find_foreign_providers() -> dict[str, set[str]]:
    """Find installed distributions, other than ours, that take one of our import names."""
    providers = metadata.packages_distributions()
    return {
        package: foreign
        for package in PACKAGES
        if (foreign := set(providers.get(package, ())) - {"sfumato"})
    }


def test_no_other_installed_distribution_takes_our_names() -> None:
    assert find_foreign_providers() == {}


def test_a_distribution_that_takes_one_of_our_names_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    information = tmp_path / "intruder-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: intruder\nVersion: 1.0\n")
    (information / "top_level.txt").write_text("shared\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert find_foreign_providers() == {"shared": {"intruder"}}
