import os
import re
import shutil
import subprocess
import sys
import zipfile
from importlib import metadata
from pathlib import Path, PurePosixPath

import pytest

from shared.core.engines import list_engines
from shared.core.engines.source_digest import compute_source_digest

ROOT = Path(__file__).parents[2]
PACKAGES = ("shared", "device_agent", "aggregator", "analyst", "simulator")


SOURCES = (".c", ".h")
"""What a compiler turns into the kernel; it does not ship in a wheel."""
KERNEL = "shared/core/engines/_native.abi3.so"
MAX_KERNEL_BYTES = 150_000


def copy_tree(tree: Path) -> Path:
    """Copy what the wheel is built from, so that nothing is left in the tree itself."""
    for path in ROOT.iterdir():
        if path.is_file() and not path.name.startswith("."):
            shutil.copy(path, tree)
    # What must not ship is there to be shipped by mistake.
    for package in (*PACKAGES, "benchmarks", "tests"):
        ignored = shutil.ignore_patterns("__pycache__", "*.so")
        shutil.copytree(ROOT / package, tree / package, ignore=ignored)
    return tree


def build_wheel(tree: Path, **environment: str) -> Path:
    """Build the wheel of a copy."""
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
    return build_wheel(copy_tree(tmp_path_factory.mktemp("tree")))


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
        assert KERNEL in archive.namelist()


def read_digest(wheel: Path) -> str | None:
    """Return the digest of its sources that the kernel in a wheel states; None without kernel."""
    with zipfile.ZipFile(wheel) as archive:
        if KERNEL not in archive.namelist():
            return None
        (digest,) = re.findall(rb"(?<![0-9a-f])([0-9a-f]{64})\0", archive.read(KERNEL))
    return str(digest.decode("ascii"))


def test_nothing_of_an_earlier_build_gets_into_a_wheel(tmp_path: Path) -> None:
    tree = copy_tree(tmp_path)
    native = tree / "shared/core/engines/native"
    removed = tree / "shared/core/removed_later.py"
    removed.write_text("")
    first = build_wheel(tree)
    removed.unlink()
    if len(list_engines()) > 1:
        assert read_digest(first) == compute_source_digest(native)
    # Older than what was compiled: so are files from an archive.
    header = native / "kernel.h"
    header.write_text(header.read_text() + "/* changed */\n")
    os.utime(header, (0, 1_500_000_000))
    second = build_wheel(tree)
    with zipfile.ZipFile(second) as archive:
        assert "shared/core/removed_later.py" not in archive.namelist()
    if len(list_engines()) > 1:
        assert read_digest(second) == compute_source_digest(native)
    # Without a compiler it is built all the same, and the kernel from before is not in it.
    for wheel in (first, second):
        wheel.unlink(missing_ok=True)
    third = build_wheel(tree, CC=str(tmp_path / "no-compiler"))
    assert read_digest(third) is None
    with zipfile.ZipFile(third) as archive:
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
