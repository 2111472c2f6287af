"""Long explorations: `make soak` runs them, `make test` a smaller version of each."""

from __future__ import annotations

import pytest


def small_and_soak(names: str, small: object, soak: object) -> pytest.MarkDecorator:
    """Run a test twice: with small values always, with those of a long exploration on demand."""
    values = [
        pytest.param(*_as_tuple(names, small), id="small"),
        pytest.param(*_as_tuple(names, soak), id="soak", marks=pytest.mark.soak),
    ]
    return pytest.mark.parametrize(names, values)


def _as_tuple(names: str, values: object) -> tuple[object, ...]:
    return values if "," in names and isinstance(values, tuple) else (values,)
