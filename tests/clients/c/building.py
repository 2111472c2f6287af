"""Build the device in C for this machine and for ARM, and talk to its driver."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from clients.c.make_plan import compile_plan
from sfumato.shared.core import RadiusLaw
from sfumato.shared.plan import SketchPlan, plan_from_spec
from tests.clients.c.looks import list_looks
from tests.vectors.wire_plans import BOUNDED, BY_COUNT, MASKED

ROOT = Path(__file__).parents[3]
DEVICE = ROOT / "clients/c"
EXAMPLES = DEVICE / "examples"
SOURCES = sorted((DEVICE / "src").glob("*.c"))
VECTORS = ROOT / "tests/vectors"
STRICT = ["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]
INCLUDES = [f"-I{DEVICE / name}" for name in ("include", "src", "examples")]
ARM = "arm-linux-gnueabihf-gcc"
LOOKS = "-DSFUMATO_CLUSTERS"
"""Tests compile features and clusters together; the size and the pages show features alone."""
ON_MACHINE = ("gcc", "-O1", LOOKS)
SANITISED = (*ON_MACHINE, "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
CORTEX_M4 = (ARM, "-Os", "-mcpu=cortex-m4", "-mthumb", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16")
"""Doubles are computed by routines of the compiler's library, as on most small processors."""
ON_ARM = (ARM, "-Os", LOOKS, "-mthumb", "-static", "-Wl,--no-warn-mismatch")
"""A program for Linux, which code for a Cortex-M4 is linked into: an emulator runs both."""
EMULATOR = "qemu-arm"
HAS_ARM = all(map(shutil.which, (ARM, EMULATOR)))
HAS_COMPILER = shutil.which("gcc") is not None
NO_COMPILER = "no gcc here"
HAS_OPENSSL = any(
    Path(each, "openssl/evp.h").exists() for each in ("/usr/include", "/usr/local/include")
)
NO_OPENSSL = "no headers of OpenSSL here (Debian: libssl-dev)"
NO_ARM = f"no {ARM} or no {EMULATOR} here"
IN_CI = bool(os.environ.get("CI"))
"""Where a compiler that is missing is a failure."""

Sign = Callable[[bytes], bytes]


def read_vectors(name: str) -> Any:
    return json.loads((VECTORS / f"{name}.json").read_text("utf-8"))


def make_fourier_plan(vector: Any, **changes: Any) -> SketchPlan:
    """Return a plan of the frequencies of a vector."""
    places = zip(vector["lower"], vector["upper"], vector["scale"], strict=True)
    spec = {
        "dimensions": [
            {"name": f"x{i}", "unit": "1", "lower": low, "upper": high, "scale": scale}
            for i, (low, high, scale) in enumerate(places)
        ],
        "n_frequencies": vector["n_frequencies"],
        "measurements_per_record": vector.get("measurements_per_record"),
        "seed": "replaced",
        "epsilon": "1",
        "window": {"kind": "count", "length": 8},
        "most_records": 100,
        "most_sketches": 1000,
    }
    plan = plan_from_spec({k: v for k, v in (spec | changes).items() if v is not None})
    statistic = dataclasses.replace(
        plan.fourier,
        seed=bytes.fromhex(vector["seed"]),
        radius_law=RadiusLaw(**vector["radius_law"]),
    )
    return dataclasses.replace(plan, statistic=statistic)


@cache
def list_plans() -> dict[str, SketchPlan]:
    """Return the plans that the driver knows, by name."""
    frequencies = read_vectors("frequencies")
    sketches = {each["name"]: each for each in read_vectors("sketches")}
    shared = {f"frequencies {i}": make_fourier_plan(each) for i, each in enumerate(frequencies)}
    first = frequencies[0]
    return shared | {
        "every feature": make_fourier_plan(sketches["every feature"]),
        "masked": make_fourier_plan(sketches["masked"]),
        "wire masked": MASKED,
        "wire by count": BY_COUNT,
        "wire bounded": BOUNDED,
        "knorm": make_fourier_plan(first, mechanism="discrete-knorm"),
        "laplace": make_fourier_plan(first, mechanism="discrete-laplace", epsilon="50000"),
        "m 200": make_fourier_plan(first | {"n_frequencies": 200}),
        **list_looks(),
    }


def render_plans(*, from_seed: bool) -> str:
    """Return one header with all plans."""
    texts, names = [], []
    for i, plan in enumerate(list_plans().values()):
        text = compile_plan(plan, bytes(range(32)), from_seed=from_seed)
        texts.append(text.replace("PLAN", f"PLAN_{i}"))
        names.append(f"&PLAN_{i}")
    table = f"static const struct sfumato_plan *const PLANS[] = {{{', '.join(names)}}};\n"
    return "\n".join(texts) + table


def number_of(plan: str) -> int:
    return list(list_plans()).index(plan)


def compile_c(folder: Path, compiler: Sequence[str], sources: Iterable[Path], name: str) -> Path:
    """Compile a program; what the compiler says is the error."""
    program = folder / name
    done = subprocess.run(
        [
            compiler[0],
            *STRICT,
            *compiler[1:],
            *INCLUDES,
            f"-I{folder}",
            *map(str, sources),
            "-lm",
            "-o",
            program,
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return program


def compile_objects(folder: Path, compiler: Sequence[str], sources: Iterable[Path]) -> list[Path]:
    """Compile sources into objects of a folder."""
    command = [compiler[0], *STRICT, *compiler[1:], *INCLUDES, f"-I{folder}", "-c"]
    done = subprocess.run(
        [*command, *map(str, sources)], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return sorted(folder.glob("*.o"))


@dataclasses.dataclass(frozen=True)
class Driver:
    """A program that runs commands, directly or in an emulator."""

    command: tuple[str, ...]

    def run(self, *commands: str, sign: Sign = lambda data: bytes(64)) -> list[str]:
        """Run commands; return a line for each."""
        answers = []
        with subprocess.Popen(
            self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            for command in commands:
                process.stdin.write(command + "\n")
                process.stdin.flush()
                answer = process.stdout.readline()
                while answer.startswith("sign "):
                    process.stdin.write(sign(bytes.fromhex(answer.split()[1])).hex() + "\n")
                    process.stdin.flush()
                    answer = process.stdout.readline()
                answers.append(answer.rstrip("\n"))
            process.stdin.close()
        assert process.returncode == 0, (process.returncode, answers)
        return answers
