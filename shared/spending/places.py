"""Where records and their owner's ledger lie on this machine.

Records by their names, and by what no name changes; the ledger where every program of one user of
the operating system finds it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from sfumato.shared.errors import ConfigError
from sfumato.shared.file_identity import identify
from sfumato.shared.privacy import Origin

LEDGER_VARIABLE = "SFUMATO_LEDGER"
"""Names the ledger of all programs that are not told of another."""
ROOTS_LEDGER = Path("/var/lib/sfumato/owner.ledger")
MOST_FILES = 10_000
"""A folder of more files is refused: which of them other releases have read could not be told."""


def find_ledger() -> Path:
    """Return the ledger of this user of the operating system; its folder is made if missing.

    The file that ``SFUMATO_LEDGER`` names; otherwise root's in ``/var/lib/sfumato``, and any other
    user's in ``$XDG_DATA_HOME/sfumato``. Other users, and other machines, have ledgers of their
    own, which know nothing of this one.

    Raises
    ------
    ConfigError
        It cannot be there.
    """
    stated = os.environ.get(LEDGER_VARIABLE)
    if stated:
        return Path(stated)
    path = ROOTS_LEDGER
    try:
        if not hasattr(os, "geteuid") or os.geteuid():
            data = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local/share"
            path = Path(data) / "sfumato" / path.name
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # A user may have no home.
    except (OSError, RuntimeError) as error:
        raise ConfigError(
            f"is missing, and the owner's ledger cannot be in {path.parent} ({error})",
            field=LEDGER_VARIABLE,
            fix="name a file in a folder of this user, which counts what is released",
        ) from error
    return path


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
