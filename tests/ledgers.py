"""Owner's ledgers of tests: what they release is counted beside no release of real records."""

import itertools
import os
import tempfile
from pathlib import Path

from sfumato.shared.spending.places import LEDGER_VARIABLE, ROOTS_LEDGER

_folder = tempfile.TemporaryDirectory(prefix="sfumato-ledgers-")
_numbers = itertools.count()


def use_new_ledger() -> Path:
    """Let this process, and those that it starts, count in a new ledger, as on another machine."""
    path = Path(_folder.name) / f"{next(_numbers)}-{ROOTS_LEDGER.name}"
    os.environ[LEDGER_VARIABLE] = str(path)
    return path
