"""The digest of the kernel's sources, compiled into it: an old kernel is not taken for a new one.

A file of its own because the build runs it by its path, where NumPy is not installed.
"""

from __future__ import annotations

import hashlib
from pathlib import Path


def compute_source_digest(folder: Path) -> str | None:
    """Return the SHA-256, in hexadecimal, of the names and contents of all C files of a folder.

    None where there are none, as in an installed wheel.
    """
    files = sorted(path for path in folder.glob("*.[ch]") if path.is_file())
    whole = hashlib.sha256()
    for path in files:
        content = path.read_bytes()
        whole.update(f"{path.name} {len(content)}\n".encode() + content)
    return whole.hexdigest() if files else None
