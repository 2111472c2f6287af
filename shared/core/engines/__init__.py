"""Engines: interchangeable ways to add records to a sketch, equal bit for bit."""

from __future__ import annotations

from functools import cache
from typing import Protocol

from sfumato.shared.arrays import Integers
from sfumato.shared.core.engines.native_engine import NativeEngine, absence, list_levels
from sfumato.shared.core.engines.numpy_engine import NumpyEngine
from sfumato.shared.core.records import Records
from sfumato.shared.core.statistics.fourier import FourierStatistic
from sfumato.shared.core.statistics.interface import PlainStatistic
from sfumato.shared.errors import ConfigError

ENGINE_VARIABLE = "SFUMATO_ENGINE"
"""The environment variable whose value programs pass to :func:`choose_engine`."""


class SketchEngine(Protocol):
    """Adds the integers of statistics to 64-bit sums, as ``docs/explanation/sketch.md`` defines."""

    @property
    def name(self) -> str:
        """The name shown to users."""
        ...

    def add_fourier(
        self, records: Records, statistic: FourierStatistic, *, first_record: int, sums: Integers
    ) -> int:
        """Add each record's masked features to ``sums``; otherwise as ``Statistic.add_records``.

        Parameters
        ----------
        statistic
            The definition; without masks every record adds to every feature.
        first_record
            The counter of the first record, which determines its mask.
        """
        ...

    def add(self, records: Records, statistic: PlainStatistic, *, sums: Integers) -> int:
        """Add the integers of a plain statistic, as ``PlainStatistic.sum_records`` defines."""
        ...


def list_engines() -> list[str]:
    """Return the names of all engines of this machine, fastest first."""
    return [*(f"native:{level}" for level in list_levels()), "numpy"]


@cache
def default_engine() -> SketchEngine:
    """Return the fastest engine that this machine has."""
    levels = list_levels()
    return NativeEngine(levels[0]) if levels else NumpyEngine()


def choose_engine(choice: str | None) -> SketchEngine:
    """Return an engine by name: ``numpy``, ``native`` or ``native:LEVEL``; None is the fastest.

    The engine changes the speed of a sketch, and no bit of it.

    Raises
    ------
    ConfigError
        This machine has no such engine.
    """
    if not choice:
        return default_engine()
    kind, colon, level = choice.partition(":")
    if choice == "numpy":
        return NumpyEngine()
    if kind != "native" or (colon and not level):
        raise ConfigError(
            f"must be 'numpy', 'native' or 'native:LEVEL' and is {choice!r}",
            field=ENGINE_VARIABLE,
            fix=f"this machine has {', '.join(list_engines())}",
        )
    levels = list_levels()
    return NativeEngine(level or (levels[0] if levels else "any"))


def describe_engine(engine: SketchEngine) -> str:
    """Describe the engine in use, and the available levels or why the kernel is not used."""
    if absence is not None:
        return f"{engine.name}: {absence.rule}. To be faster, {absence.fix}"
    return f"{engine.name} (levels of this machine: {', '.join(list_levels())})"


__all__ = [
    "ENGINE_VARIABLE",
    "NativeEngine",
    "NumpyEngine",
    "SketchEngine",
    "choose_engine",
    "default_engine",
    "describe_engine",
    "list_engines",
]
