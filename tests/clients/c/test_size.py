"""The device in C fits a small microcontroller: code, constants, and RAM at 200 features."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from clients.c.make_plan import compile_plan
from tests.clients.c.building import (
    ARM,
    CORTEX_M4,
    HAS_ARM,
    NO_ARM,
    SOURCES,
    compile_objects,
    list_plans,
)
from tests.clients.c.conftest import require

MOST_CODE = 32 * 1024
MOST_RAM = 8 * 1024


def measure_sections(objects: list[Path]) -> tuple[int, int]:
    """Return the bytes of code with constants, and of variables."""
    done = subprocess.run(
        [ARM.replace("gcc", "size"), *objects], capture_output=True, text=True, check=True
    )
    rows = [[*map(int, line.split()[:3])] for line in done.stdout.splitlines()[1:]]
    return sum(text + data for text, data, _ in rows), sum(data + bss for _, data, bss in rows)


def read_calls(folder: Path) -> tuple[dict[str, int], dict[str, set[str]]]:
    """Return the stack of each function in bytes, and what it calls."""
    stacks: dict[str, int] = {}
    calls: dict[str, set[str]] = {}
    for path in folder.glob("*.ci"):
        for line in path.read_text("utf-8").splitlines():
            if found := re.search(r'title: "([^"]+)" label: "[^"]*?(\d+) bytes \((\w+)', line):
                name, size, kind = found.groups()
                assert kind == "static", f"{name} has no bound on its stack"
                stacks[name] = int(size)
            elif found := re.search(r'sourcename: "([^"]+)" targetname: "([^"]+)"', line):
                calls.setdefault(found[1], set()).add(found[2])
    return stacks, calls


def find_deepest(stacks: dict[str, int], calls: dict[str, set[str]], start: str) -> int:
    """Return the deepest stack below a function; callbacks count nothing, recursion one decade."""

    @cache
    def measure(name: str) -> int:
        own = stacks.get(name, 0)
        if name in calls.get(name, ()):
            # Only the writers of decimal numbers call themselves, once for each of 20 digits.
            assert "decimal" in name, name
            own *= 20
        return own + max((measure(each) for each in calls.get(name, ()) if each != name), default=0)

    return measure(start)


def list_public(stacks: dict[str, int]) -> Iterator[str]:
    return (name for name in stacks if name.startswith("sfumato_"))


BUFFERS = """\
#include "plan.h"
int64_t sums[PLAN_COORDINATES];
uint8_t message[PLAN_MESSAGE_MOST];
struct sfumato_device device = {.plan = &PLAN};
"""


# Without the soft-float routines of the C library, some 4 KB of code.
def test_code_and_ram_at_200_features_fit(tmp_path: Path) -> None:
    require(HAS_ARM, NO_ARM)
    # With the calls and the stack of each function.
    compiler = [*CORTEX_M4, "-fcallgraph-info=su"]
    code, variables = measure_sections(compile_objects(tmp_path, compiler, SOURCES))
    stacks, calls = read_calls(tmp_path)
    stack = max(find_deepest(stacks, calls, name) for name in list_public(stacks))
    folder = tmp_path / "buffers"
    folder.mkdir()
    (folder / "plan.h").write_text(compile_plan(list_plans()["m 200"], bytes(32)))
    (folder / "buffers.c").write_text(BUFFERS)
    _, buffers = measure_sections(compile_objects(folder, compiler, [folder / "buffers.c"]))
    ram = variables + buffers + stack
    assert buffers > 2 * 200 * 8
    assert 8 * 1024 < code < MOST_CODE
    assert 4 * 1024 < ram < MOST_RAM, (variables, buffers, stack)
