"""Steps of building any package: commands, the files of a commit, the description of a file."""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, kw_only=True)
class Built:
    """A file that was built and checked."""

    name: str
    platform: str
    n_bytes: int
    sha256: str
    checked: str


class BuildError(Exception):
    """A step failed; its message is that of the step."""


def run(
    command: Sequence[str | Path], *, folder: Path = ROOT, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run a step."""
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise BuildError(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done


def find_commit(commit: str, *, repository: Path = ROOT) -> tuple[str, int]:
    """Return the whole name of a commit, and its time in seconds since 1970.

    Raises
    ------
    BuildError
        There is none of this name.
    """
    if not (repository / ".git").exists():
        raise BuildError(
            f"{repository} is no git repository, and packages are built from a commit. Clone the "
            "repository, and build there"
        )
    command = [
        "git",
        "rev-parse",
        "--verify",
        "--quiet",
        "--end-of-options",
        f"{commit}^{{commit}}",
    ]
    found = subprocess.run(command, cwd=repository, capture_output=True, text=True, check=False)
    if found.returncode:
        raise BuildError(
            f"--commit: {commit!r} is not a commit here. Name one that `git log --all --oneline` "
            "shows, or run `git fetch` first"
        )
    name = found.stdout.strip()
    shown = run(["git", "show", "--no-patch", "--format=%ct", name], folder=repository)
    return name, int(shown.stdout)


def export(folder: Path, commit: str, *, repository: Path = ROOT) -> int:
    """Write the files of a commit; return its time, seconds since 1970.

    Raises
    ------
    BuildError
        There is no such commit.
    """
    name, epoch = find_commit(commit, repository=repository)
    archive = folder.with_suffix(".tar")
    run(["git", "archive", "--output", archive, name], folder=repository)
    folder.mkdir()
    run(["tar", "--extract", "--file", archive, "--directory", folder])
    archive.unlink()
    return epoch


def describe(path: Path, kind: str, checks: Sequence[str]) -> Built:
    """Return what is told about a file."""
    data = path.read_bytes()
    return Built(
        name=path.name,
        platform=kind,
        n_bytes=len(data),
        sha256=hashlib.sha256(data).hexdigest(),
        checked="; ".join(checks),
    )
