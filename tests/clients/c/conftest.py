"""Programs of the device in C, compiled once for all tests."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from tests.clients.c.building import (
    CORTEX_M4,
    EMULATOR,
    HAS_ARM,
    HAS_COMPILER,
    IN_CI,
    LOOKS,
    NO_ARM,
    NO_COMPILER,
    ON_ARM,
    ON_MACHINE,
    SANITISED,
    SOURCES,
    Driver,
    compile_c,
    compile_objects,
    render_plans,
)

HERE = Path(__file__).parent
COMPILERS = {
    "this machine": ON_MACHINE,
    "sanitizers": SANITISED,
    "a Cortex-M4 in an emulator": ON_ARM,
}


def require(has_tool: bool, reason: str) -> None:
    if has_tool:
        return
    if IN_CI:
        pytest.fail(reason)
    pytest.skip(reason)


Compile = Callable[[tuple[str, ...]], list[Path]]
Build = Callable[[tuple[str, ...]], Driver]


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Compile:
    """Compile all sources by a compiler with its options, once; return the objects."""

    @cache
    def compile_all(compiler: tuple[str, ...]) -> list[Path]:
        require(HAS_COMPILER, NO_COMPILER)
        require(compiler != ON_ARM or HAS_ARM, NO_ARM)
        options = (*CORTEX_M4, LOOKS) if compiler == ON_ARM else compiler
        return compile_objects(tmp_path_factory.mktemp("library"), options, SOURCES)

    return compile_all


@pytest.fixture(scope="session")
def build(tmp_path_factory: pytest.TempPathFactory, library: Compile) -> Build:
    """Build the driver by a compiler, once; sanitised it draws frequencies from the seed."""

    @cache
    def build_driver(compiler: tuple[str, ...]) -> Driver:
        objects = library(compiler)
        folder = tmp_path_factory.mktemp("driver")
        (folder / "plans.h").write_text(render_plans(from_seed=compiler == SANITISED))
        program = compile_c(folder, compiler, [HERE / "driver.c", *objects], "driver")
        return Driver((*([EMULATOR] if compiler == ON_ARM else []), str(program)))

    return build_driver


@pytest.fixture(scope="session")
def native(build: Build) -> Driver:
    """The driver on this machine, with frequencies in flash."""
    return build(ON_MACHINE)


@pytest.fixture(scope="session", params=[*COMPILERS.values()], ids=[*COMPILERS])
def driver(request: pytest.FixtureRequest, build: Build) -> Driver:
    """The driver: with frequencies in flash, sanitised and from the seed, and for a Cortex-M4."""
    return build(request.param)
