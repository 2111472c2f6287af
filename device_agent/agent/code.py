"""Enrolment code: fill in what the configuration lacks."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

from device_agent.agent.policy import require_server_allowed
from device_agent.settings.agent_settings import Settings, find_absent, load_settings
from shared.errors import ConfigError
from shared.wire import EnrolmentCode

_BOM = b"\xef\xbb\xbf"


def load_settings_with_code(path: Path, code: EnrolmentCode) -> Settings:
    """Load a configuration, and write server and study into it if it lacks them.

    A server that the configuration names takes precedence over the code's: a device may reach it by
    another address. The owner's policy on servers holds for both.

    Raises
    ------
    ConfigError
        The configuration is wrong, is of another study, or cannot be written; nothing was changed.
    PrivacyError
        The owner does not allow this server; nothing was changed.
    """
    known = {"server": code.server, "study": code.study.hex()}
    settings = load_settings(path, absent=known)
    if settings.study != code.study:
        raise ConfigError(
            "is not the study of the code",
            field="study",
            fix="use another configuration and state_dir, or remove the line to take the code's",
        )
    require_server_allowed(settings)
    absent = find_absent(path, known)
    if absent:
        # The address holds neither spaces nor control characters, so JSON writes it as TOML does.
        _put_first(path, [f"{key} = {json.dumps(known[key])}" for key in absent])
    return settings


def _put_first(path: Path, lines: Sequence[str]) -> None:
    """Put lines before the first table; a crash leaves the old file or the new one."""
    target = path.resolve()
    text = "".join(f"{line}\n" for line in lines).encode()
    try:
        status = target.stat()
        text += target.read_bytes().removeprefix(_BOM)
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(text)
                os.fchmod(handle, status.st_mode & 0o7777)
                if (os.geteuid(), os.getegid()) != (status.st_uid, status.st_gid):
                    os.fchown(handle, status.st_uid, status.st_gid)
                file.flush()
                os.fsync(handle)
            os.replace(name, target)
        except BaseException:
            os.unlink(name)
            raise
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be written ({error.strerror})",
            field="--config",
            fix=f"put at its top: {', '.join(lines)}",
        ) from error
