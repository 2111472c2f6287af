"""Import every module of the project and all that it imports; print what cannot be imported.

What is missing in an installation is of extras that nobody asked for. An image is compared with the
installation that it was made from: nothing may be missing in the image alone.
"""

from __future__ import annotations

import argparse  # noqa: F401 - of the scripts beside the project
import ast
import importlib
import sysconfig
import urllib.request  # noqa: F401 - likewise
from collections.abc import Iterator
from pathlib import Path

FOLDER = Path(sysconfig.get_path("purelib"))
NAME = "sfumato"
UNLOADABLE = (".__main__", ".env")
"""Ends of names of modules that do their work when they are loaded."""


def list_imports(path: Path) -> Iterator[str]:
    """Yield what a module imports, also inside functions: itself first."""
    name = ".".join(path.relative_to(FOLDER).with_suffix("").parts).removesuffix(".__init__")
    if not name.endswith(UNLOADABLE):
        yield name
    if name == NAME:
        # The public face names modules of rooms that an image may lack; those that are there are
        # files of the project themselves.
        return
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module


def list_missing() -> Iterator[str]:
    """Yield the names of modules that cannot be imported, after importing all that can be."""
    paths = sorted(FOLDER.glob(f"{NAME}/**/*.py"))
    for module in dict.fromkeys(module for path in paths for module in list_imports(path)):
        try:
            importlib.import_module(module)
        except Exception:
            yield module


if __name__ == "__main__":
    for missing in list_missing():
        print(missing, flush=True)
