"""Files of a server are its owner's alone, whatever the umask."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from sfumato.shared.command import main
from tests.aggregator.cli.test_damage import serving


@pytest.fixture(autouse=True)
def open_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def test_databases_and_backups_are_closed_to_others(tmp_path: Path) -> None:
    database, log = tmp_path / "sfumato.db", tmp_path / "log"
    assert main(["operator-key", "--name", "me", "--database", str(database)]) == 0
    with serving(database, log):
        names = {path.name for path in tmp_path.glob("sfumato.db*")}
        assert names == {"sfumato.db", "sfumato.db-wal", "sfumato.db-shm"}
        backup = str(tmp_path / "sfumato.db-backup")
        assert main(["backup", backup, "--database", str(database)]) == 0
        assert main(["restore", backup, "--database", f"{database}-restored"]) == 0
        assert main(["copy", "--database", str(database), "--to", f"{database}-copied"]) == 0
        modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.glob("sfumato.db*")}
    assert len(modes) >= 6
    assert set(modes.values()) == {0o600}, modes
    assert "chmod" not in log.read_text()


def test_a_server_warns_in_one_line_of_a_database_that_others_may_read(tmp_path: Path) -> None:
    database, log = tmp_path / "sfumato.db", tmp_path / "log"
    assert main(["migrate", "--database", str(database)]) == 0
    database.chmod(0o644)
    with serving(database, log):
        pass
    (told,) = (json.loads(line) for line in log.read_text().splitlines() if "chmod" in line)
    assert told["level"] == "warning"
    assert told["event"].endswith(f"Run `chmod 600 {database}*`")
