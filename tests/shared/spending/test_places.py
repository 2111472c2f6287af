"""Whatever a place is called, what two places share is found, and nothing else."""

import os
from itertools import product
from pathlib import Path

import pytest

from sfumato.device_agent.sources import Position
from sfumato.shared.errors import ConfigError
from sfumato.shared.file_identity import identify
from sfumato.shared.spending import OwnersLedger, places
from sfumato.shared.spending.places import LEDGER_VARIABLE, find_ledger, find_origins
from tests.device_agent.sources.streams import make_stream
from tests.walking import Walk

# Each place, and the files in it.
PLACES = {
    "data/r.csv": {"r"},
    "data/other.csv": {"other"},
    "data": {"r", "other"},
    ".": {"r", "other", "apart"},
    "apart/a.csv": {"apart"},
    "apart": {"apart"},
    "hard/of_r.csv": {"r"},
    "hard": {"r"},
    "soft/to_r.csv": {"r"},
    "soft": {"r"},
    "to_data": {"r", "other"},
    "around": {"r", "other"},
    "data2": set(),
}


def make_places(folder: Path) -> None:
    for name in ("data", "apart", "hard", "soft", "around", "data2"):
        (folder / name).mkdir()
    for name in ("data/r.csv", "data/other.csv", "apart/a.csv"):
        (folder / name).write_text("x\n1\n")
    os.link(folder / "data/r.csv", folder / "hard/of_r.csv")
    (folder / "soft/to_r.csv").symlink_to(folder / "data/r.csv")
    for name in ("to_data", "around/inner"):
        (folder / name).symlink_to(folder / "data")
    # A circle of folders has an end.
    (folder / "data/again").symlink_to(folder / "data")


def test_two_places_have_an_origin_in_common_where_they_share_a_file(tmp_path: Path) -> None:
    make_places(tmp_path)
    found = {name: find_origins(tmp_path / name) for name in PLACES}
    # An agent reads a file or the files of a folder, not what lies deeper.
    for name in ("data/r.csv", "hard/of_r.csv", "soft/to_r.csv"):
        stream = make_stream(tmp_path, kind="csv", path=name)
        found[f"agent: {name}"] = stream.find_origins(None)
    for name in ("data", "to_data"):
        stream = make_stream(tmp_path, kind="folder", path=name)
        # It notes each file as it reads it.
        sources = [identify(path).source for path in (tmp_path / name).iterdir()]
        read = [Position(source=source, place={}) for source in sources]
        found[f"agent: {name}"] = stream.find_origins(None, read)
    with Walk() as walk:
        for (a, at_a), (b, at_b) in product(found.items(), repeat=2):
            files = [PLACES[name.removeprefix("agent: ")] for name in (a, b)]
            shares = bool(files[0] & files[1]) or a == b
            # Empty folders may hold something later.
            shares |= "data2" in (a, b) and "." in (a, b)
            with walk.cell(a, b):
                assert any(x.overlaps(y) for x in at_a for y in at_b) == shares


def test_the_ledger_is_where_the_variable_says_or_of_this_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(LEDGER_VARIABLE, str(tmp_path / "stated"))
    assert find_ledger() == tmp_path / "stated"
    monkeypatch.delenv(LEDGER_VARIABLE)
    monkeypatch.setattr(places, "ROOTS_LEDGER", tmp_path / "root/owner.ledger")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert find_ledger() == tmp_path / "root/owner.ledger"
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert find_ledger() == tmp_path / "data/sfumato/owner.ledger"
    monkeypatch.delenv("XDG_DATA_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert find_ledger() == tmp_path / "home/.local/share/sfumato/owner.ledger"
    OwnersLedger(find_ledger())
    assert find_ledger().stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "home/.local/share/sfumato").stat().st_mode & 0o77 == 0
    # Never silently none.
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "file"))
    with pytest.raises(ConfigError, match=f"^{LEDGER_VARIABLE}: .* ledger cannot be in"):
        find_ledger()


def test_a_folder_of_too_many_files_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_places(tmp_path)
    monkeypatch.setattr(places, "MOST_FILES", 2)
    assert find_origins(tmp_path / "apart")
    with pytest.raises(ConfigError, match="more than 2 files"):
        find_origins(tmp_path)
