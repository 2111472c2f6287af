"""Long explorations, for `make soak`, and the methods of the laboratory, for `make lab-test`."""

from __future__ import annotations

from collections.abc import Container, Iterable

import pytest
from _pytest.mark import ParameterSet


def small_and_soak(names: str, small: object, soak: object) -> pytest.MarkDecorator:
    """Run a test twice: with small values always, with those of a long exploration on demand."""
    values = [
        pytest.param(*_as_tuple(names, small), id="small"),
        pytest.param(*_as_tuple(names, soak), id="soak", marks=pytest.mark.soak),
    ]
    return pytest.mark.parametrize(names, values)


def _as_tuple(names: str, values: object) -> tuple[object, ...]:
    return values if "," in names and isinstance(values, tuple) else (values,)


def leave_to_lab(names: Iterable[str], lab: Container[str]) -> list[ParameterSet]:
    """Mark those of some parameters that are of the laboratory."""
    return [pytest.param(name, marks=[pytest.mark.lab] if name in lab else []) for name in names]
