"""Import every module of the project; print those that cannot be, such as for want of an extra."""

from __future__ import annotations

import argparse  # noqa: F401 - of the scripts beside the project
import importlib
import sysconfig
import urllib.request  # noqa: F401 - likewise
from pathlib import Path

FOLDER = Path(sysconfig.get_path("purelib"))
NAMES = ("aggregator", "analyst", "device_agent", "helper", "learning", "shared", "simulator")
UNLOADABLE = (".__main__", ".env")
"""Ends of names of modules that do their work when they are loaded."""

for path in sorted(path for name in NAMES for path in FOLDER.glob(f"{name}/**/*.py")):
    module = ".".join(path.relative_to(FOLDER).with_suffix("").parts).removesuffix(".__init__")
    if not module.endswith(UNLOADABLE):
        try:
            importlib.import_module(module)
        except Exception as error:
            print(f"{module}: {error}", flush=True)
