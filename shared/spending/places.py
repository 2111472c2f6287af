"""Where records lie on this machine, as origins: by their names, and by what no name changes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from sfumato.shared.errors import ConfigError
from sfumato.shared.file_identity import identify
from sfumato.shared.privacy import Origin

MOST_FILES = 10_000
"""A folder of more files is refused: which of them other releases have read could not be told."""


def find_origins(place: Path) -> set[Origin]:
    """Return the origins of records in a file, or in any file below a folder.

    Symbolic links are followed, and hard links have one identity. So two places have an origin in
    common where a file is in both, under whatever name.

    Parameters
    ----------
    place
        A file or a folder that exists.

    Raises
    ------
    ConfigError
        The folder holds too many files.
    OSError
        It does not exist, or may not be inspected.
    """
    path = place.resolve()
    if not path.is_dir():
        return {Origin(kind="path", name=str(path)), _identify(path)}
    found = {Origin(kind="tree", name=str(path))}
    for n_files, file in enumerate(_list_below(path), start=1):
        if n_files > MOST_FILES:
            raise ConfigError(
                f"is a folder of more than {MOST_FILES:,} files",
                field=str(place),
                fix="name the file of the records, or a smaller folder",
            )
        # It may have gone meanwhile.
        with suppress(OSError):
            found.add(_identify(file))
            if file.is_symlink():
                kind = "tree" if file.is_dir() else "path"
                found.add(Origin(kind=kind, name=str(file.resolve())))
    return found


def _list_below(folder: Path) -> Iterator[Path]:
    """Yield the files below a folder, and links to other folders, which are followed once."""
    seen = {folder}
    for root, folders, names in os.walk(folder, followlinks=True):
        yield from (Path(root) / name for name in names)
        for name in tuple(folders):
            path = Path(root) / name
            if path.is_symlink():
                yield path
                if path.resolve() in seen:
                    folders.remove(name)
                seen.add(path.resolve())


def _identify(path: Path) -> Origin:
    return Origin(kind="file", name=identify(path).source.removeprefix("file:"))
