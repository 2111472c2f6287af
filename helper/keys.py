"""Secret keys of the helper: files that only their owner can read, never in the database."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from sfumato.shared.durable_files import place_file, sync_folder
from sfumato.shared.errors import ConfigError, DiskError

_KEY_BYTES = 32


@dataclass(frozen=True)
class KeyFolder:
    """The folder of secret keys: ``identity.key``, and a key for each accepted plan.

    Keep it out of backups that hold the leader's database: who has both can read the sums.
    """

    path: Path

    def make_identity(self) -> Ed25519PrivateKey:
        """Return the identity, and make it first if there is none."""
        file = self.path / "identity.key"
        if not file.exists():
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            _write_secret(file, Ed25519PrivateKey.generate().private_bytes_raw())
        return self.load_identity()

    def load_identity(self) -> Ed25519PrivateKey:
        """Return the identity.

        Raises
        ------
        ConfigError
            There is none, or the file is damaged.
        """
        return Ed25519PrivateKey.from_private_bytes(
            _read_secret(self.path / "identity.key", "make it with `sfumato helper identity`")
        )

    def save_plan_key(self, plan_digest: bytes, key: X25519PrivateKey) -> None:
        """Write the key of a plan; it must not be there already."""
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        _write_secret(self._file_of(plan_digest), key.private_bytes_raw())

    def load_plan_key(self, plan_digest: bytes) -> X25519PrivateKey:
        """Return the key of a plan.

        Raises
        ------
        ConfigError
            There is none, or the file is damaged.
        """
        return X25519PrivateKey.from_private_bytes(
            _read_secret(
                self._file_of(plan_digest),
                "restore it from where keys are kept; without it no batch of the plan opens",
            )
        )

    def destroy_plan_key(self, plan_digest: bytes) -> None:
        """Remove the key of a plan for good."""
        self._file_of(plan_digest).unlink(missing_ok=True)
        sync_folder(self.path)

    def _file_of(self, plan_digest: bytes) -> Path:
        return self.path / f"{plan_digest.hex()}.key"


def _write_secret(path: Path, secret: bytes) -> None:
    """Write a new file in one step: after a crash or on a full disk it is whole, or not there."""
    try:
        place_file(path, secret)
        sync_folder(path.parent)
    except OSError as error:
        raise DiskError(
            f"cannot be written ({error.strerror})",
            field=str(path),
            fix="free space on its disk, then try again; nothing was written",
        ) from error


def _read_secret(path: Path, fix: str) -> bytes:
    try:
        secret = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", field=str(path), fix=fix) from error
    if len(secret) != _KEY_BYTES:
        raise ConfigError(f"must have {_KEY_BYTES} bytes", field=str(path), fix=fix)
    return secret
