"""Build the wheels and the source distribution of a commit: ``make wheels``.

One wheel without the kernel serves macOS and Windows, with NumPy. One for each kind of Linux serves
every Python from 3.11 on. The kernel is compiled by zig, which brings the C libraries of all of
them, so that any machine builds all wheels, and the same bytes each time: the sources are those of
the commit, and every time in the files is the commit's. Each wheel is checked: auditwheel must find
nothing in it that its platform may lack, and the one for this machine is installed, where no
compiler is, and must run the kernel.
"""

from __future__ import annotations

import argparse
import json
import platform
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from deploy.packages.steps import ROOT, BuildError, Built, describe, export, find_commit, run
from sfumato.shared.core.engines import list_engines

FLAGS = "-std=gnu11 -O3 -g0 -ffp-contract=off -fvisibility=hidden"


@dataclass(frozen=True, kw_only=True)
class Target:
    """A kind of Linux.

    Parameters
    ----------
    machine
        As ``platform.machine`` has it.
    tag
        The platform tag of the wheel.
    zig
        zig's name of it, with the oldest C library that is allowed.
    """

    machine: str
    tag: str
    zig: str


TARGETS = tuple(
    Target(machine=machine, tag=f"{tag}_{machine}", zig=f"{machine}-linux-{library}")
    for machine in ("x86_64", "aarch64")
    for tag, library in (("manylinux_2_17", "gnu.2.17"), ("musllinux_1_2", "musl"))
)


ANY = Target(machine="any", tag="any", zig="")
"""Every system: without the kernel."""


def write_compiler(folder: Path, target: Target) -> Path:
    """Write a compiler for a target, a program of this name alone."""
    compiler = folder / f"cc-{target.tag}"
    compiler.write_text(
        f'#!/bin/sh\nexec "{sys.executable}" -m ziglang cc -target {target.zig} "$@"\n'
    )
    compiler.chmod(0o755)
    return compiler


def build_wheel(source: Path, output: Path, compiler: Path, target: Target, epoch: int) -> Path:
    """Build the wheel of a target from exported sources."""
    tag = f"--config-setting=--build-option=--plat-name={target.tag}"
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation"]
    if target is ANY:
        run(
            [*command, "--outdir", output, source],
            SOURCE_DATE_EPOCH=str(epoch),
            SFUMATO_WITHOUT_KERNEL="1",
            PYTHONDONTWRITEBYTECODE="1",
        )
        (wheel,) = output.glob("*-py3-none-any.whl")
        return wheel
    run(
        [*command, tag, "--outdir", output, source],
        SOURCE_DATE_EPOCH=str(epoch),
        CC=str(compiler),
        LDSHARED=f"{compiler} -shared",
        CFLAGS=FLAGS,
        _PYTHON_HOST_PLATFORM=f"linux-{target.machine}",
        PYTHONDONTWRITEBYTECODE="1",
    )
    (wheel,) = output.glob(f"*-{target.tag}.whl")
    return wheel


def require_portable(wheel: Path, target: Target) -> str:
    """Refuse a wheel that has no kernel where it has to, or needs what its platform may lack."""
    names = run([sys.executable, "-m", "zipfile", "--list", wheel]).stdout
    if target is ANY:
        if "_native." in names:
            raise BuildError(f"{wheel.name}: holds a kernel, which is for one system")
        return "holds no kernel"
    if "_native.abi3.so" not in names:
        raise BuildError(f"{wheel.name}: the kernel was not compiled")
    if target.machine != platform.machine() or "musl" in target.tag:
        return "holds a kernel"
    said = run([sys.executable, "-m", "auditwheel", "show", wheel]).stdout
    if target.tag not in " ".join(said.split()):
        raise BuildError(f"{wheel.name}: {said}")
    return "holds a kernel; auditwheel agrees with its platform"


def require_running(wheel: Path, folder: Path) -> str:
    """Install a wheel where no compiler is found, and run its kernel."""
    place = folder / "installed"
    run([sys.executable, "-m", "venv", place])
    python = place / "bin/python"
    nowhere = folder / "nowhere"
    nowhere.mkdir()
    path = f"{place / 'bin'}:{nowhere}"
    install: list[str | Path] = [
        python,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--only-binary",
        ":all:",
        wheel,
    ]
    run(install, PATH=path, CC="false")
    told = run([place / "bin/sfumato-agent", "--version"], folder=folder, PATH=path).stdout
    engine = told.strip().splitlines()[-1]
    # Another compiler must find the same instructions of this processor.
    wanted = [name.removeprefix("native:") for name in list_engines() if name != "numpy"]
    if not wanted or f"levels of this machine: {', '.join(wanted)})" not in engine:
        raise BuildError(f"{wheel.name}: its levels must be {', '.join(wanted)}; {engine}")
    return f"installed without a compiler; {engine}"


def build_source(source: Path, output: Path, epoch: int) -> Path:
    """Build the source distribution."""
    run(
        [sys.executable, "-m", "build", "--sdist", "--no-isolation", "--outdir", output, source],
        SOURCE_DATE_EPOCH=str(epoch),
    )
    (archive,) = output.glob("*.tar.gz")
    return archive


def build_all(commit: str, output: Path, targets: Sequence[Target]) -> list[Built]:
    """Build and check everything into a folder, with a bill of materials.

    Raises
    ------
    BuildError
        A step failed, or a wheel does not do what its name says.
    """
    from deploy.packages.bom import describe_wheels, read_metadata, write_bom

    # By its whole name: a branch may move while this builds.
    commit, _ = find_commit(commit)
    found: list[Built] = []
    output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="sfumato-wheels-") as name:
        folder = Path(name)
        for target in targets:
            wheels = []
            for attempt in ("first", "second"):
                # The path of the sources must not be in the files either.
                source, place = folder / attempt, folder / f"{attempt}-{target.tag}"
                shutil.rmtree(source, ignore_errors=True)
                epoch = export(source, commit)
                compiler = write_compiler(folder, target)
                wheels.append(build_wheel(source, place, compiler, target, epoch))
            first, second = (wheel.read_bytes() for wheel in wheels)
            if first != second:
                raise BuildError(f"{wheels[0].name}: two builds differ")
            checks = ["built twice, equal", require_portable(wheels[0], target)]
            if target.machine == platform.machine() and "gnu" in target.zig:
                checks.append(require_running(wheels[0], folder))
            shutil.copy(wheels[0], output)
            found.append(describe(output / wheels[0].name, target.tag, checks))
        source = folder / "source"
        epoch = export(source, commit)
        archive = build_source(source, folder / "sdist", epoch)
        shutil.copy(archive, output)
        found.append(describe(output / archive.name, "any", []))
        files = [output / each.name for each in found]
        bom = describe_wheels(files, read_metadata(files[0]), epoch=epoch)
        write_bom(bom, output / f"{archive.name.removesuffix('.tar.gz')}.cdx.json")
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Build everything; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="make wheels", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--commit", default="HEAD", help="what is built (default: %(default)s)")
    parser.add_argument("--output", type=Path, default=ROOT / "dist", help="default: dist/")
    parser.add_argument("--only", metavar="WORD", default="", help="platforms that hold a word")
    parser.add_argument("--json", action="store_true", help="one JSON line")
    options = parser.parse_args(arguments)
    targets = [target for target in (*TARGETS, ANY) if options.only in target.tag]
    try:
        built = build_all(options.commit, options.output, targets)
    except BuildError as error:
        print(f"wheels: {error}", file=sys.stderr)
        return 1
    if options.json:
        print(json.dumps([asdict(each) for each in built]))
    else:
        for each in built:
            print(f"{each.name}\n  {each.n_bytes:,} bytes, sha256 {each.sha256}\n  {each.checked}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
