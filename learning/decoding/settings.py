"""Checks of solvers' settings; every error names the setting."""

from sfumato.shared.errors import DecodingError

__all__ = ["check_count", "check_flag", "check_fraction"]


def check_count(field: str, value: object, limit: int) -> None:
    """Refuse a value that is not a whole number from 1 to `limit`.

    Raises
    ------
    DecodingError
        The value is refused; the error names the field.
    """
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= limit:
        rule = f"must be an integer from 1 to {limit}, not {value!r}"
        raise DecodingError(rule, field=field, fix="give a whole number")


def check_fraction(field: str, value: object) -> None:
    """Refuse a value that does not lie strictly between 0 and 1.

    Raises
    ------
    DecodingError
        The value is refused; the error names the field.
    """
    if not (isinstance(value, float) and 0.0 < value < 1.0):
        rule = f"lies strictly between 0 and 1, not {value!r}"
        raise DecodingError(rule, field=field, fix="leave it out to use the default")


def check_flag(field: str, value: object) -> None:
    """Refuse a value that is neither true nor false.

    Raises
    ------
    DecodingError
        The value is refused; the error names the field.
    """
    if not isinstance(value, bool):
        rule = f"must be true or false, not {value!r}"
        raise DecodingError(rule, field=field, fix="leave it out to use the default")
