import shutil
import subprocess
import sys
import zipfile
from importlib import metadata
from pathlib import Path, PurePosixPath

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("shared", "device_agent", "aggregator", "analyst")


@pytest.fixture(scope="module")
def wheel_files(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """Build the wheel from a copy, so that nothing is left in the tree and none of it is stale."""
    tree = tmp_path_factory.mktemp("tree")
    for path in ROOT.iterdir():
        if path.is_file() and not path.name.startswith("."):
            shutil.copy(path, tree)
    # What must not ship is there to be shipped by mistake.
    for package in (*PACKAGES, "benchmarks", "tests"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / package, tree / package, ignore=ignored)
    output = tree / "dist"
    options = ["--wheel", "--no-isolation", "--outdir", str(output)]
    command = [sys.executable, "-m", "build", *options, str(tree)]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    (wheel,) = output.glob("*.whl")
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
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert present - wheel_files == set()


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
