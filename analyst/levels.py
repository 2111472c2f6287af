"""Epsilon and delta as people write them, read as exact numbers."""

from __future__ import annotations

from fractions import Fraction

from sfumato.shared.errors import ConfigError
from sfumato.shared.structure import read_exact


def parse_exact(text: str, field: str) -> Fraction:
    """Read an exact number: ``1``, ``0.1``, ``1/10`` or ``1e-6``.

    Raises
    ------
    ConfigError
        It is none, such as ``nan`` or ``inf``.
    """
    try:
        return read_exact(text.strip())
    except (ValueError, ZeroDivisionError) as error:
        raise ConfigError(
            "must be an exact number", field=field, fix='write it as "1", "0.1", "1/10" or "1e-6"'
        ) from error


def parse_epsilon(text: str, field: str) -> Fraction:
    """Read a positive exact number; raises as :func:`parse_exact`."""
    epsilon = parse_exact(text, field)
    if epsilon <= 0:
        raise ConfigError("must be greater than zero", field=field, fix="use a value such as 1")
    return epsilon


def parse_delta(text: str, field: str) -> Fraction:
    """Read an exact number from 0 to below 1; raises as :func:`parse_exact`."""
    delta = parse_exact(text, field)
    if not 0 <= delta < 1:
        raise ConfigError(
            "must be from 0 to below 1",
            field=field,
            fix='use "0", or less than one over the number of records, such as "1e-9"',
        )
    return delta
