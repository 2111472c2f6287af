"""The C kernel under sanitizers, and on ARM, against the definition written out in C."""

import functools
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sfumato.shared.core.engines import list_engines
from sfumato.shared.core.engines.source_digest import compute_source_digest
from tests.soak import small_and_soak

ROOT = Path(__file__).parents[4]
NATIVE = ROOT / "shared/core/engines/native"
FUZZ = Path(__file__).parent / "fuzz.c"
KERNEL = [
    *(NATIVE / name for name in ("sketch.c", "statistics.c", "clusters.c")),
    *sorted(NATIVE.glob("level_*.c")),
]
SANITIZERS = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
COMMON = ["-std=gnu11", "-ffp-contract=off", "-Wall", "-Wextra", "-Werror", f"-I{NATIVE}"]

COMPILERS = [name for name in ("gcc", "clang") if shutil.which(name)]
needs_compiler = pytest.mark.skipif(not COMPILERS, reason="there is no C compiler")
ARM_TOOLS = ("aarch64-linux-gnu-gcc", "qemu-aarch64")
needs_arm = pytest.mark.skipif(
    not all(map(shutil.which, ARM_TOOLS)), reason=f"needs {' and '.join(ARM_TOOLS)}"
)


def run(*command: object, **environment: str) -> str:
    done = subprocess.run(
        [str(part) for part in command],
        capture_output=True,
        text=True,
        env={**os.environ, "SFUMATO_ENGINE": "", **environment},
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout


@functools.cache
def compile_kernel(compiler: str, folder: Path) -> list[Path]:
    """Compile the kernel for a program and for the module of Python, which share it."""
    objects = [folder / f"{compiler}-{source.stem}.o" for source in KERNEL]
    for source, target in zip(KERNEL, objects, strict=True):
        run(compiler, "-O1", "-fPIC", *COMMON, *SANITIZERS, "-c", source, "-o", target)
    return objects


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kernel")


@needs_compiler
@pytest.mark.parametrize("compiler", COMPILERS)
@small_and_soak("n_runs", 30, 300)
def test_each_level_agrees_with_the_definition_under_sanitizers(
    compiler: str, n_runs: int, folder: Path, tmp_path: Path
) -> None:
    program = tmp_path / "fuzz"
    objects = compile_kernel(compiler, folder)
    run(compiler, "-O1", *COMMON, *SANITIZERS, FUZZ, *objects, "-lm", "-o", program)
    levels = run(program, n_runs).split()
    assert levels[-1] == "portable"
    # What was installed has the same levels, unless it was installed without a compiler.
    assert list_engines() in ([*(f"native:{level}" for level in levels), "numpy"], ["numpy"])


@needs_compiler
@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    [
        ("kernel.h", "REPEAT_16(-1871)", "REPEAT_16(-1870)"),
        ("statistics.c", "p = p * w + 1.0 / 3.0", "p = p * w + 1.0 / 4.0"),
    ],
)
def test_a_wrong_kernel_is_noticed(
    folder: Path, tmp_path: Path, name: str, right: str, wrong: str
) -> None:
    copy = tmp_path / "native"
    shutil.copytree(NATIVE, copy)
    kernel = copy / name
    text = kernel.read_text()
    assert right in text
    kernel.write_text(text.replace(right, wrong))
    program = tmp_path / "fuzz"
    sources, options = [copy / source.name for source in KERNEL], ["-O0"]
    if name.endswith(".c"):  # a header is of all sources
        options = SANITIZERS
        right_ones = compile_kernel(COMPILERS[0], folder)
        sources = [
            source if source.name == name else compiled
            for source, compiled in zip(sources, right_ones, strict=True)
        ]
    command = [COMPILERS[0], *options, *COMMON[:2], f"-I{copy}", FUZZ, *sources]
    run(*command, "-lm", "-o", program)
    with pytest.raises(AssertionError, match="differs"):
        run(program, 20)


@needs_arm
def test_the_portable_level_agrees_with_the_definition_on_arm(tmp_path: Path) -> None:
    program = tmp_path / "fuzz"
    run("aarch64-linux-gnu-gcc", "-O2", "-static", *COMMON, FUZZ, *KERNEL, "-lm", "-o", program)
    assert run("qemu-aarch64", program, 100).split() == ["portable"]


SANITIZED = """
import importlib.util, sys
name = "sfumato.shared.core.engines._native"
specification = importlib.util.spec_from_file_location(name, sys.argv[1])
module = importlib.util.module_from_spec(specification)
specification.loader.exec_module(module)
sys.modules[name] = module
import pytest
from sfumato.shared.core.engines import list_engines
assert len(list_engines()) > 1
sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", *sys.argv[2:]]))
"""


@pytest.mark.skipif("gcc" not in COMPILERS, reason="needs gcc and its sanitizers")
@small_and_soak(
    "names", ("test_module.py",), ("test_engines.py", "test_statistics.py", "test_module.py")
)
def test_the_python_module_passes_the_same_tests_under_sanitizers(
    names: tuple[str, ...], folder: Path, tmp_path: Path
) -> None:
    include = run(sys.executable, "-c", "import sysconfig; print(sysconfig.get_path('include'))")
    if not (Path(include.strip()) / "Python.h").exists():
        pytest.skip("needs the header files of Python")
    module = tmp_path / "_native.abi3.so"
    # Without it the module would be taken for one of other sources, and NumPy tested in its place.
    digest = f'-DSFUMATO_SOURCE_DIGEST="{compute_source_digest(NATIVE)}"'
    options = ["-O1", "-shared", "-fPIC", f"-I{include.strip()}", digest, *COMMON, *SANITIZERS]
    run("gcc", *options, NATIVE / "module.c", *compile_kernel("gcc", folder), "-o", module)
    library = run("gcc", "-print-file-name=libasan.so").strip()
    tests = [Path(__file__).parent / name for name in names]
    output = run(
        sys.executable,
        "-c",
        SANITIZED,
        module,
        *tests,
        LD_PRELOAD=library,
        ASAN_OPTIONS="detect_leaks=0",
        # Python's own allocator would hide what lies past the end of a buffer.
        PYTHONMALLOC="malloc",
    )
    assert "passed" in output
