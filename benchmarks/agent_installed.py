"""Size of the device agent on disk, package by package, as pip records its files."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
_OURS = "sfumato"
_ROOMS = ("shared", "device_agent", "aggregator", "analyst")


def measure_packages(extra: str = "agent") -> Iterator[tuple[str, int]]:
    """Yield each package that the agent needs, with its bytes; the largest first."""
    sizes = {name: _measure(distribution(name)) for name in _find_needed(extra)}
    # Installed here as a link to this tree, so its files are counted in place.
    sizes[_OURS] = sum(
        path.stat().st_size
        for room in _ROOMS
        for path in (ROOT / room).rglob("*")
        if path.is_file() and path.suffix not in (".pyc", ".c", ".h")
    )
    yield from sorted(sizes.items(), key=lambda item: -item[1])


def _find_needed(extra: str) -> set[str]:
    found: set[str] = set()
    waiting = [(_OURS, extra)]
    while waiting:
        name, wanted = waiting.pop()
        for text in distribution(name).requires or ():
            requirement = Requirement(text)
            marker = requirement.marker
            if marker is not None and not marker.evaluate({"extra": wanted}):
                continue
            if requirement.name not in found:
                found.add(requirement.name)
                waiting.append((requirement.name, ""))
    return found


def _measure(package: Distribution) -> int:
    """Return the bytes of a package's files, without compiled modules."""
    paths = [Path(str(package.locate_file(file))) for file in package.files or ()]
    return sum(p.stat().st_size for p in paths if p.suffix != ".pyc" and p.is_file())
