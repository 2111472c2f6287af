"""Whether the compiled kernel is used, and what is said where it is not."""

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from sfumato.shared.core.engines import describe_engine, list_engines
from sfumato.shared.core.engines.numpy_engine import NumpyEngine
from sfumato.shared.core.engines.source_digest import compute_source_digest

ROOT = Path(__file__).parents[4]
PROGRAM = """
from sfumato.shared.core.engines import choose_engine, default_engine, describe_engine
from sfumato.shared.errors import ConfigError
print(describe_engine(default_engine()))
try:
    print(choose_engine("native").name)
except ConfigError as error:
    print(error)
"""
needs_kernel = pytest.mark.skipif(len(list_engines()) == 1, reason="the kernel was not compiled")


@pytest.fixture
def engines(tmp_path: Path) -> Path:
    """A copy of the package, to be changed; return the folder of its engines."""
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "sfumato/shared", tmp_path / "sfumato/shared", ignore=ignored)
    shutil.copy(ROOT / "sfumato/__init__.py", tmp_path / "sfumato")
    return tmp_path / "sfumato/shared/core/engines"


def load(engines: Path) -> list[str]:
    """Start a process on that copy; return the name of its engine, and what `native` gives."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=engines.parents[3],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()


def change_header(engines: Path) -> None:
    header = engines / "native" / "kernel.h"
    header.write_text(header.read_text().replace("REPEAT_16(-1871)", "REPEAT_16(-1870)"))


def add_header(engines: Path) -> None:
    (engines / "native" / "more.h").write_text("")


def remove_source(engines: Path) -> None:
    (engines / "native" / "level_portable.c").unlink()


@needs_kernel
@pytest.mark.parametrize("change", [change_header, add_header, remove_source])
def test_a_kernel_of_other_sources_than_lie_beside_it_is_not_used(
    change: Callable[[Path], None], engines: Path
) -> None:
    assert load(engines)[0].startswith("native:")
    change(engines)
    engine, error = load(engines)
    assert engine.startswith("numpy: the kernel was compiled from other sources")
    assert "make setup" in engine
    assert error.startswith("engine: the kernel was compiled from other sources")


@needs_kernel
def test_without_sources_beside_it_as_in_a_wheel_the_kernel_is_used(engines: Path) -> None:
    shutil.rmtree(engines / "native")
    assert [line.partition(" ")[0] for line in load(engines)] == [list_engines()[0]] * 2


def test_where_nothing_was_compiled_the_reason_and_the_fix_are_said(engines: Path) -> None:
    for path in engines.glob("_native*"):
        path.unlink()
    engine, error = load(engines)
    assert engine.startswith("numpy: the kernel was not compiled when Sfumato was installed")
    assert "Debian: gcc, python3-dev" in engine
    assert "not compiled" in error


def test_the_digest_depends_on_names_and_contents_of_c_files_alone(tmp_path: Path) -> None:
    assert compute_source_digest(tmp_path) is None
    (tmp_path / "a.c").write_text("1")
    (tmp_path / "b.h").write_text("2")
    first = compute_source_digest(tmp_path)
    (tmp_path / "note.txt").write_text("3")
    assert compute_source_digest(tmp_path) == first
    (tmp_path / "b.h").write_text("")
    (tmp_path / "a.c").write_text("12")
    assert compute_source_digest(tmp_path) != first


def test_a_kernel_that_cannot_be_loaded_is_said_to_be_so(engines: Path) -> None:
    (engines / "_native.abi3.so").write_bytes(b"no library")
    engine, _ = load(engines)
    assert engine.startswith("numpy: the kernel cannot be loaded")


def test_the_engine_is_described_with_all_levels_of_the_machine() -> None:
    said = describe_engine(NumpyEngine())
    assert said.startswith("numpy")
    for name in list_engines():
        assert name.removeprefix("native:") in said
