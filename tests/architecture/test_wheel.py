import ast
import os
import re
import shutil
import signal
import subprocess
import sys
import zipfile
from importlib import metadata
from pathlib import Path, PurePosixPath

import httpx
import pytest

import sfumato
from sfumato.shared.core.engines import list_engines
from sfumato.shared.core.engines.source_digest import compute_source_digest
from tests.aggregator.processes import read_announcement
from tests.bare_names import ROOMS

ROOT = Path(__file__).parents[2]

SOURCES = (".c", ".h")
"""What a compiler turns into the kernel; it does not ship in a wheel."""
KERNEL = "sfumato/shared/core/engines/_native.abi3.so"
MAX_KERNEL_BYTES = 150_000
REMOVED = "shared/core/removed_later.py"


def copy_tree(tree: Path) -> Path:
    """Copy what the wheel is built from, so that nothing is left in the tree itself."""
    for path in ROOT.iterdir():
        if path.is_file() and not path.name.startswith("."):
            shutil.copy(path, tree)
    for folder in ("sfumato", *ROOMS):
        ignored = shutil.ignore_patterns("__pycache__", "*.so")
        shutil.copytree(ROOT / folder, tree / folder, ignore=ignored, symlinks=True)
    # What must not ship is there to be shipped by mistake.
    for folder in ("benchmarks", "tests"):
        (tree / folder).symlink_to(ROOT / folder)
    return tree


def build_wheel(tree: Path, output: Path, **environment: str) -> Path:
    """Build the wheel of a copy."""
    options = ["--wheel", "--no-isolation", "--outdir", str(output)]
    command = [sys.executable, "-m", "build", *options, str(tree)]
    built = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, **environment}
    )
    assert built.returncode == 0, built.stdout + built.stderr
    (wheel,) = output.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, set[str]]:
    """A wheel whose tree was built before, and the files of one that was built without compiler."""
    tree = copy_tree(tmp_path_factory.mktemp("tree"))
    (tree / REMOVED).write_text("")
    quick = tree / "quick-cc"  # nobody runs that kernel
    quick.write_text('#!/bin/sh\nexec cc "$@" -O0\n')
    quick.chmod(0o755)
    environment = {**os.environ, "CC": str(quick)}
    command = [sys.executable, "setup.py", "--quiet", "build"]
    subprocess.run(command, cwd=tree, check=True, env=environment)
    (tree / REMOVED).unlink()
    # Older than what was compiled: so are files from an archive.
    header = tree / "shared/core/engines/native/kernel.h"
    header.write_text(header.read_text() + "/* changed */\n")
    os.utime(header, (0, 1_500_000_000))
    wheel = build_wheel(tree, tree / "dist")
    bare = build_wheel(tree, tree / "bare", CC=str(tree / "no-compiler"))
    with zipfile.ZipFile(bare) as archive:
        return wheel, set(archive.namelist())


@pytest.fixture(scope="module")
def wheel(built: tuple[Path, set[str]]) -> Path:
    return built[0]


@pytest.fixture(scope="module")
def wheel_files(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if not name.endswith("/")}


def test_the_wheel_takes_one_name(wheel_files: set[str]) -> None:
    version = metadata.version("sfumato")
    taken = {PurePosixPath(name).parts[0] for name in wheel_files}
    assert taken == {"sfumato", f"sfumato-{version}.dist-info"}


def test_each_file_of_the_rooms_is_in_the_wheel(wheel_files: set[str]) -> None:
    present = {
        f"sfumato/{path.relative_to(ROOT).as_posix()}"
        for room in ROOMS
        for path in (ROOT / room).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and path.suffix not in SOURCES
    }
    present |= {"sfumato/__init__.py", "sfumato/py.typed"}
    assert {name for name in wheel_files if name.startswith("sfumato/")} >= present


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


def test_nothing_of_an_earlier_build_gets_into_a_wheel(
    built: tuple[Path, set[str]], wheel_files: set[str]
) -> None:
    wheel, without_kernel = built
    if len(list_engines()) > 1:
        assert read_digest(wheel) == compute_source_digest(
            wheel.parents[1] / "shared/core/engines/native"
        )
    assert f"sfumato/{REMOVED}" not in wheel_files | without_kernel
    # Without a compiler it is built all the same, and the kernel from before is not in it.
    assert "sfumato/shared/core/engines/numpy_engine.py" in without_kernel
    assert not [name for name in without_kernel if name.endswith(".so")]


def test_the_kernel_is_small(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        compiled = [entry for entry in archive.infolist() if entry.filename.endswith(".so")]
    assert sum(entry.file_size for entry in compiled) < MAX_KERNEL_BYTES


def test_the_licence_is_in_the_wheel(wheel_files: set[str]) -> None:
    assert any(PurePosixPath(name).name == "LICENSE" for name in wheel_files)


# ---- an installed wheel ----


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment of the wheel and the libraries, where others have taken our rooms' names."""
    place = tmp_path_factory.mktemp("installed")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", place], check=True)
    python = place / "bin/python"
    command = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet"]
    subprocess.run([*command, "--no-deps", "--no-index", str(wheel)], check=True)
    (site,) = place.glob("lib/python*/site-packages")
    # A folder named in a .pth gives its modules, not what its own .pth files name: this checkout.
    libraries = Path(str(metadata.distribution("numpy").locate_file(""))).resolve()
    (site / "libraries.pth").write_text(f"{libraries}\n")
    # As the distribution `shared` of the public index does.
    plant_rooms(site)
    return place


def plant_rooms(folder: Path) -> None:
    """Write packages of our rooms' names that fail where they are imported."""
    for room in ROOMS:
        (folder / room).mkdir()
        (folder / room / "__init__.py").write_text(f"raise ImportError('the {room} of another')\n")


def test_an_installed_wheel_loads_each_module_and_serves_beside_a_folder_named_shared(
    installed: Path, tmp_path: Path
) -> None:
    plant_rooms(tmp_path)
    environment = os.environ | {"SFUMATO_PORT": "0"}
    environment.pop("PYTHONPATH", None)

    def run(*arguments: str | Path) -> str:
        done = subprocess.run(
            [installed / "bin" / arguments[0], *arguments[1:]],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    assert run("python", "-c", LOADING).endswith("(3, 2)\n")
    assert "sfumato-agent" in run("sfumato-agent", "--version")
    with subprocess.Popen(
        [installed / "bin/sfumato", "serve", "--database", "sfumato.db", "--no-worker"],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    ) as server:
        try:
            address, _ = read_announcement(server)
            assert "<title>" in httpx.get(address).text
        finally:
            server.send_signal(signal.SIGINT)
    assert server.returncode == 0


LOADING = """\
import importlib
import pkgutil
import sys
from importlib import metadata
import numpy as np
import sfumato
assert "site-packages" in sfumato.__file__
X = np.random.default_rng(0).normal(size=(2000, 2))
fitted = sfumato.GridKMeans(3, epsilon="1", bounds=(-5, 5)).fit(X)
for module in pkgutil.walk_packages(sfumato.__path__, "sfumato."):
    # Alembic runs its own by path, with what they need.
    if module.name.endswith(".__main__") or ".migrations." in module.name:
        continue
    try:
        importlib.import_module(module.name)
    except ModuleNotFoundError as error:
        assert error.name == "pyspark"  # too large to be here everywhere
for command in metadata.distribution("sfumato").entry_points:
    command.load()
assert not {"shared", "learning", "analyst", "simulator", "lab"} & sys.modules.keys()
print(fitted.cluster_centers_.shape)
"""


def test_every_documented_import_passes_a_strict_check_against_the_installed_wheel(
    installed: Path, tmp_path: Path
) -> None:
    bare = shutil.copytree(installed, tmp_path / "bare", symlinks=True)
    (libraries,) = bare.glob("lib/python*/site-packages/libraries.pth")
    libraries.unlink()
    lines = set()
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *ROOT.glob("analyst/**/*.py")]:
        for line in page.read_text(encoding="utf-8").splitlines():
            if found := re.match(r"\s*(?:>>> )?(from sfumato(?:\.errors)? import [\w, ]+)$", line):
                lines.add(found[1])
    assert len(lines) > 15
    names = sorted(sfumato.__all__)
    lines |= {f"from sfumato import {name} as {name}" for name in names}
    used = "".join(f"reveal_type(sfumato.{name})\n" for name in names)
    script = tmp_path / "documented.py"
    script.write_text("import sfumato\n" + "\n".join(sorted(lines)) + "\n" + used)
    done = subprocess.run(
        [
            *(sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent"),
            # The libraries' own types would take most of the time, and tell nothing of ours.
            *("--ignore-missing-imports", "--cache-dir", os.devnull),
            *("--python-executable", bare / "bin/python"),
            script,
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("Revealed type is") == len(names)
    assert 'Revealed type is "Any"' not in done.stdout


# ---- the public face ----


def test_the_public_names_are_the_same_to_interpreter_and_checker() -> None:
    tree = ast.parse((ROOT / "sfumato/__init__.py").read_text(encoding="utf-8"))
    (checked,) = (node for node in tree.body if isinstance(node, ast.If) and len(node.body) > 1)
    imports = [node for node in checked.body if isinstance(node, ast.ImportFrom)]
    homes = {
        str(node.module).removeprefix("sfumato."): " ".join(each.name for each in node.names)
        for node in imports
    }
    assert homes == sfumato._HOMES
    assert all(each.asname == each.name for node in imports for each in node.names)


def test_importing_sfumato_loads_no_room_and_no_library() -> None:
    program = (
        "import sys; before = {*sys.modules}; import sfumato; print(*{*sys.modules} - before);"
        "sfumato.Client; assert 'Client' in dir(sfumato);"
        "print(getattr(sfumato, 'Clients', 'none such'))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    loaded, missing = done.stdout.splitlines()
    rooms = {
        name for name in loaded.split() if name.partition(".")[0] not in sys.stdlib_module_names
    }
    assert rooms == {"sfumato"}
    assert "asyncio" not in loaded
    assert missing == "none such"
