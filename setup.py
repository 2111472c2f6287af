"""How the sketching kernel is compiled; all else about the distribution is in pyproject.toml.

An earlier build must not decide what is installed. Setuptools takes what it finds in ``build/``
where the sources are not newer by their times, which a copy or an unpacked archive need not be, and
where compiling fails, which it may do here because the kernel is optional.
"""

from __future__ import annotations

import os
import runpy
import shutil
import tomllib
from pathlib import Path

from setuptools import Distribution, Extension, find_packages, setup
from setuptools.command.build import build
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).parent
ENGINES = ROOT / "shared" / "core" / "engines"
DIGEST = runpy.run_path(str(ENGINES / "source_digest.py"))["compute_source_digest"]


def list_packages() -> list[str]:
    """List every package of the rooms; a source distribution has no links to search through."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    rooms: dict[str, str] = project["tool"]["setuptools"]["package-dir"]
    found = list(rooms)
    for package, folder in rooms.items():
        if package != "sfumato":
            found += [f"{package}.{name}" for name in find_packages(str(ROOT / folder))]
    return found


class AnySystem(Distribution):
    """The distribution; with ``SFUMATO_WITHOUT_KERNEL`` set its wheel serves every system."""

    def has_ext_modules(self) -> bool:
        """Return whether the kernel is compiled; without it the wheel is ``py3-none-any``."""
        return not os.environ.get("SFUMATO_WITHOUT_KERNEL") and super().has_ext_modules()


class CleanBuild(build):
    """Build from nothing: no module that was removed, and no old kernel, goes into a wheel."""

    def run(self) -> None:
        """Remove what an earlier build left, and build."""
        for folder in (self.build_lib, self.build_temp):
            shutil.rmtree(folder, ignore_errors=True)
        super().run()


class BuildKernel(build_ext):
    """Compile the kernel anew each time, with the digest of its sources in it."""

    def finalize_options(self) -> None:
        """Compile whatever the times of files say."""
        super().finalize_options()
        self.force = True

    def run(self) -> None:
        """Remove the kernel in the tree if it is to be replaced, and build."""
        if self.inplace or getattr(self, "editable_mode", False):
            for path in ENGINES.glob("_native*"):
                path.unlink()
        super().run()

    def build_extension(self, ext: Extension) -> None:
        """Compile one extension."""
        digest = DIGEST(ENGINES / "native")
        ext.define_macros = [*ext.define_macros, ("SFUMATO_SOURCE_DIGEST", f'"{digest}"')]
        super().build_extension(ext)


setup(
    packages=list_packages(),
    distclass=AnySystem,
    cmdclass={"build": CleanBuild, "build_ext": BuildKernel},
)
