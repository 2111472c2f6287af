"""Checks of solvers' settings: what is out of range is refused by name."""

from shared.errors import DecodingError

__all__ = ["check_count", "check_flag", "check_fraction"]


def check_count(field: str, value: object, limit: int) -> None:
    """Refuse what is not a whole number from 1 to `limit`.

    Raises
    ------
    DecodingError
        Naming the field.
    """
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= limit:
        rule = f"must be an integer from 1 to {limit}, not {value!r}"
        raise DecodingError(rule, field=field, fix="give a whole number")


def check_fraction(field: str, value: object) -> None:
    """Refuse what does not lie strictly between 0 and 1.

    Raises
    ------
    DecodingError
        Naming the field.
    """
    if not (isinstance(value, float) and 0.0 < value < 1.0):
        rule = f"lies strictly between 0 and 1, not {value!r}"
        raise DecodingError(rule, field=field, fix="leave it out to use the default")


def check_flag(field: str, value: object) -> None:
    """Refuse what is neither true nor false.

    Raises
    ------
    DecodingError
        Naming the field.
    """
    if not isinstance(value, bool):
        rule = f"must be true or false, not {value!r}"
        raise DecodingError(rule, field=field, fix="leave it out to use the default")
