"""Digest of the kernel's sources, compiled into the kernel to detect a stale one.

A file of its own: the build runs it by path, where NumPy is not installed.
"""

from __future__ import annotations

import hashlib
from pathlib import Path


def compute_source_digest(folder: Path) -> str | None:
    """Return the SHA-256 (hexadecimal) of the names and contents of a folder's C files.

    None if there are no such files, as in an installed wheel.
    """
    files = sorted(path for path in folder.glob("*.[ch]") if path.is_file())
    whole = hashlib.sha256()
    for path in files:
        content = path.read_bytes()
        whole.update(f"{path.name} {len(content)}\n".encode() + content)
    return whole.hexdigest() if files else None
