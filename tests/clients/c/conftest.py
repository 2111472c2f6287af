"""Programs of the device in C, compiled once for all tests."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from tests.clients.c.building import (
    ARM,
    EMULATOR,
    HAS_ARM,
    HAS_COMPILER,
    IN_CI,
    NO_ARM,
    NO_COMPILER,
    SANITIZERS,
    SOURCES,
    Driver,
    compile_c,
    render_plans,
)

HERE = Path(__file__).parent
NATIVE, SANITISED, ON_ARM = "this machine", "sanitizers", "ARM in an emulator"


def require(has_tool: bool, reason: str) -> None:
    if has_tool:
        return
    if IN_CI:
        pytest.fail(reason)
    pytest.skip(reason)


Build = Callable[[str], Driver]


@pytest.fixture(scope="session")
def build(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """Build the driver of a kind, once."""

    @cache
    def build_kind(kind: str) -> Driver:
        require(HAS_COMPILER, NO_COMPILER)
        folder = tmp_path_factory.mktemp("driver")
        is_sanitised = kind == SANITISED
        (folder / "plans.h").write_text(render_plans(from_seed=is_sanitised))
        compiler, runner = ["gcc", "-O1", *(SANITIZERS if is_sanitised else [])], []
        if kind == ON_ARM:
            require(HAS_ARM, NO_ARM)
            compiler, runner = [ARM, "-Os", "-mthumb", "-static"], [EMULATOR]
        program = compile_c(folder, compiler, [HERE / "driver.c", *SOURCES], "driver")
        return Driver((*runner, str(program)))

    return build_kind


@pytest.fixture(scope="session")
def native(build: Build) -> Driver:
    """The driver on this machine, with frequencies in flash."""
    return build(NATIVE)


@pytest.fixture(scope="session", params=[NATIVE, SANITISED, ON_ARM])
def driver(request: pytest.FixtureRequest, build: Build) -> Driver:
    """The driver: with frequencies in flash, sanitised and from the seed, and on ARM."""
    return build(request.param)
