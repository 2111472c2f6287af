"""TLS contexts from the settings."""

from __future__ import annotations

import os
import ssl
from pathlib import Path

from sfumato.device_agent.settings.owner_tables import TlsSettings
from sfumato.shared.errors import ConfigError

_VARIABLES = ("SSL_CERT_FILE", "SSL_CERT_DIR")


def make_context(settings: TlsSettings) -> ssl.SSLContext:
    """Return a TLS context that trusts the given authorities alone, or else those of the system.

    Raises
    ------
    ConfigError
        A file that the settings or the environment name is not there, or not what it should be.
    """
    _require_variables()
    given = settings.ca_file
    context = _load(given, "tls.ca_file") if given else _trust_system()
    if settings.certificate is not None:
        try:
            context.load_cert_chain(settings.certificate, settings.key)
        except (OSError, ssl.SSLError, ValueError) as error:
            raise _refuse("tls.certificate", settings.certificate, error) from error
    return context


def _trust_system() -> ssl.SSLContext:
    file = os.environ.get("SSL_CERT_FILE")
    if file:
        return _load(Path(file), "SSL_CERT_FILE")
    paths = ssl.get_default_verify_paths()
    if paths.cafile or paths.capath:
        return ssl.create_default_context()
    # Small images have no certificates; httpx brings some.
    import certifi

    return _load(Path(certifi.where()), "certifi")


def _load(path: Path, field: str) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=path)
    except (OSError, ssl.SSLError) as error:
        raise _refuse(field, path, error) from error


def _require_variables() -> None:
    for name in _VARIABLES:
        value = os.environ.get(name)
        if value and not Path(value).exists():
            raise ConfigError(
                f"must name an existing file or folder, and {value} does not exist",
                field=name,
                fix="correct it, or remove it from the environment",
            )


def _refuse(field: str, path: Path, error: Exception) -> ConfigError:
    reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or error
    return ConfigError(
        f"{path} cannot be used ({reason})",
        field=field,
        fix="name a file in PEM that this user may read",
    )
