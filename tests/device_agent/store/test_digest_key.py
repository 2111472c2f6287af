import os
from pathlib import Path

import pytest

from sfumato.device_agent.store.identity import erase_key
from sfumato.device_agent.store.key import load_digest_key
from sfumato.shared.errors import ConfigError, StoreError


def test_the_secret_is_made_once_and_for_its_owner_alone(tmp_path: Path) -> None:
    secret = load_digest_key(tmp_path)
    assert len(secret) == 32
    assert load_digest_key(tmp_path) == secret
    (path,) = tmp_path.iterdir()
    assert (path.name, path.stat().st_mode & 0o777) == ("digest.key", 0o600)
    assert load_digest_key(_make(tmp_path / "other")) != secret


@pytest.mark.parametrize("damage", [b"", b"x" * 31, b"x" * 33])
def test_a_damaged_secret_is_made_anew(damage: bytes, tmp_path: Path) -> None:
    secret = load_digest_key(tmp_path)
    (tmp_path / "digest.key").write_bytes(damage)
    assert load_digest_key(tmp_path) not in (secret, damage)


def test_a_secret_that_others_may_read_is_refused(tmp_path: Path) -> None:
    load_digest_key(tmp_path)
    (tmp_path / "digest.key").chmod(0o640)
    with pytest.raises(ConfigError, match="must not be readable by others") as caught:
        load_digest_key(tmp_path)
    assert "chmod 600" in str(caught.value.fix)


def test_a_secret_that_cannot_be_made_is_an_error_of_the_store(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="cannot be read or written"):
        load_digest_key(tmp_path / "absent" / "study-0")


def test_forgetting_erases_it_and_what_is_left_of_it(tmp_path: Path) -> None:
    folder = tmp_path / "study-0"
    secret = load_digest_key(folder)
    held = os.open(folder / "digest.key", os.O_RDONLY)
    (folder / "digest.key.1.part").write_bytes(secret)
    erase_key(folder)
    assert not folder.exists()
    assert os.read(held, 32) == bytes(32)
    os.close(held)


def _make(folder: Path) -> Path:
    folder.mkdir()
    return folder
