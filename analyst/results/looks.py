"""Measurements of second looks, in words."""

from __future__ import annotations

from collections.abc import Iterator

from sfumato.shared.wire.objects.looks import MeasuredClustersBody, NumberBody

_TWICE = 2.0


def describe_look(look: MeasuredClustersBody) -> Iterator[str]:
    """Yield what a look measured of all clusters together; errors are two standard deviations."""
    yield look.statement
    if look.sse is not None:
        yield f"{show_measured(look.sse, '.3f')} of the squared distances are left, capped"
    if look.beyond is not None:
        yield f"{show_measured(look.beyond, '.1%')} of the records are beyond the cap or the clip"


def show_measured(number: NumberBody, form: str) -> str:
    """Write a measured number with two of its standard deviations."""
    return f"{number.value:{form}} ± {_TWICE * number.error:{form}}"
