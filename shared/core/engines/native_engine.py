"""The native engine: the C kernel in ``native/``, if a compiler was available.

All levels compute the same integers with different instructions.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from sfumato.shared.arrays import Floats, Integers
from sfumato.shared.core.engines.source_digest import compute_source_digest
from sfumato.shared.core.frequencies import FrequencyMatrix
from sfumato.shared.core.masks import BLOCK_RECORDS, MaskSchedule, split_at_blocks
from sfumato.shared.core.quantise import STEPS, Quantiser
from sfumato.shared.core.records import Columns, Records, require_records
from sfumato.shared.core.statistics.clusters import ClustersStatistic
from sfumato.shared.core.statistics.fourier import FourierStatistic
from sfumato.shared.core.statistics.grid import GridStatistic
from sfumato.shared.core.statistics.histogram import HistogramStatistic
from sfumato.shared.core.statistics.interface import PlainStatistic
from sfumato.shared.core.statistics.moments import WEIGHT, MomentsStatistic
from sfumato.shared.errors import ConfigError

_CACHE_LINE = 64


_SOURCES = Path(__file__).parent / "native"


@dataclass(frozen=True, kw_only=True)
class Absence:
    """Reason why the kernel is not used, and the remedy."""

    rule: str
    fix: str


def _load() -> ModuleType | Absence:
    try:
        native = importlib.import_module("sfumato.shared.core.engines._native")
    except ModuleNotFoundError:
        return Absence(
            rule="the kernel was not compiled when Sfumato was installed",
            fix="install a C compiler and Python's header files (Debian: gcc, python3-dev), then "
            "install Sfumato again; `pip install --verbose` shows what fails",
        )
    except ImportError as error:
        return Absence(rule=f"the kernel cannot be loaded ({error})", fix="install Sfumato again")
    expected = compute_source_digest(_SOURCES)
    if expected is not None and getattr(native, "source_digest", None) != expected:
        return Absence(
            rule="the kernel was compiled from other sources than those beside it",
            fix="install Sfumato again, in a checkout with `make setup`",
        )
    return native


_loaded = _load()
_native = None if isinstance(_loaded, Absence) else _loaded
absence = _loaded if isinstance(_loaded, Absence) else None
"""Why the kernel is not used; None if it is."""
_packed: dict[str, WeakKeyDictionary[FrequencyMatrix, NDArray[np.int16]]] = {}


def list_levels() -> list[str]:
    """Return the levels that this processor supports, fastest first; none without the kernel."""
    return [] if _native is None else _native.levels()


@dataclass(frozen=True)
class NativeEngine:
    """One level of the compiled kernel. It releases the interpreter lock while it computes.

    Raises
    ------
    ConfigError
        There is no usable kernel, or this processor lacks the level's instructions.
    """

    level: str

    def __post_init__(self) -> None:
        levels = list_levels()
        if absence is not None:
            raise ConfigError(absence.rule, field="engine", fix=f"{absence.fix}; or use 'numpy'")
        if self.level not in levels:
            raise ConfigError(
                f"has no level {self.level!r} on this machine",
                field="engine",
                fix=f"use one of {', '.join(levels)}, or 'numpy'",
            )

    @property
    def name(self) -> str:
        """``native:`` and the level."""
        return f"native:{self.level}"

    def add_fourier(
        self, records: Records, statistic: FourierStatistic, *, first_record: int, sums: Integers
    ) -> int:
        """Add each record's masked features to ``sums`` in place; see ``SketchEngine``."""
        quantiser, frequencies = statistic.quantiser, statistic.frequencies
        masks = statistic.masks
        require_records(records, quantiser.n_dimensions)
        m = frequencies.n_frequencies
        n_unsketchable = 0
        for start, stop in split_at_blocks(first_record, len(records)):
            part = records[start:stop]
            counter = first_record + start
            if masks is None:
                packed = self._pack_once(frequencies)
                n_unsketchable += self._add(part, quantiser, frequencies, packed, counter, sums)
                continue
            order = masks.permute_features(counter // BLOCK_RECORDS).ravel()
            packed = self._pack(frequencies, masks, order)
            by_place = np.zeros_like(sums)
            n_unsketchable += self._add(
                part, quantiser, frequencies, packed, counter, by_place, masks
            )
            sums[order] += by_place[:m]
            sums[m + order] += by_place[m:]
        return n_unsketchable

    def add(self, records: Records, statistic: PlainStatistic, *, sums: Integers) -> int:
        """Add what each record adds; see ``SketchEngine``."""
        require_records(records, statistic.quantiser.n_dimensions)
        return _ADD[type(statistic)](records, statistic, sums)

    def _pack_once(self, frequencies: FrequencyMatrix) -> NDArray[np.int16]:
        """Cache the packed form as long as the matrix: packing costs more than one record."""
        known = _packed.setdefault(self.level, WeakKeyDictionary())
        packed = known.get(frequencies)
        if packed is None:
            packed = known[frequencies] = self._pack(frequencies, None, None)
        return packed

    def _pack(
        self, frequencies: FrequencyMatrix, masks: MaskSchedule | None, order: Integers | None
    ) -> NDArray[np.int16]:
        """Pack W group by group, features in the given order."""
        assert _native is not None
        shape = (frequencies.n_dimensions, *_group_shape(frequencies, masks))
        packed = _allocate_aligned(_native.packed_size(self.level, *shape))
        turns = np.ascontiguousarray(frequencies.turns)
        _native.pack(self.level, turns, *shape, order, packed)
        return packed

    def _add(
        self,
        records: Records,
        quantiser: Quantiser,
        frequencies: FrequencyMatrix,
        packed: NDArray[np.int16],
        counter: int,
        sums: Integers,
        masks: MaskSchedule | None = None,
    ) -> int:
        assert _native is not None
        unsketchable: int = _native.add_records(
            self.level,
            _as_argument(records),
            quantiser.n_dimensions,
            quantiser.centre,
            STEPS / quantiser.half_width,
            packed,
            *_group_shape(frequencies, masks),
            frequencies.bits,
            masks.assignment_key if masks else 0,
            counter,
            sums,
        )
        return unsketchable


def _add_histogram(records: Records, statistic: HistogramStatistic, sums: Integers) -> int:
    assert _native is not None
    integers, doubles = _rules_of(statistic)
    d, count = statistic.n_dimensions, len(statistic.carried)
    _native.add_histogram(_as_argument(records), d, count, integers, doubles, sums)
    return 0


def _add_grid(records: Records, statistic: GridStatistic, sums: Integers) -> int:
    assert _native is not None
    cells = np.array(statistic.cells, dtype=np.int64)
    _native.add_grid(*_place(records, statistic.quantiser), cells, sums)
    return 0


def _add_moments(records: Records, statistic: MomentsStatistic, sums: Integers) -> int:
    assert _native is not None
    unsketchable: int = _native.add_moments(
        *_place(records, statistic.quantiser),
        statistic.norm_steps,
        statistic.constant,
        statistic.mean_weight,
        statistic.diagonal_weight,
        WEIGHT,
        sums,
    )
    return unsketchable


def _add_clusters(records: Records, statistic: ClustersStatistic, sums: Integers) -> int:
    assert _native is not None
    place = _place(records, statistic.quantiser)
    unusable: int = _native.add_clusters(*place, _cluster_rule_of(statistic), sums)
    return unusable


_ADD: Mapping[type, Callable[[Records, Any, Integers], int]] = MappingProxyType(
    {
        HistogramStatistic: _add_histogram,
        GridStatistic: _add_grid,
        MomentsStatistic: _add_moments,
        ClustersStatistic: _add_clusters,
    }
)


def _place(records: Records, quantiser: Quantiser) -> tuple[Any, ...]:
    """Return records and their box as arguments of the kernel."""
    scale = STEPS / quantiser.half_width
    return _as_argument(records), quantiser.n_dimensions, quantiser.centre, scale


def _as_argument(
    records: Records,
) -> tuple[NDArray[np.floating], ...] | NDArray[np.floating]:
    return records.columns if isinstance(records, Columns) else records


_LINEAR, _LOGARITHMIC, _LEVELS = range(3)


def _rules_of(statistic: HistogramStatistic) -> tuple[Integers, Floats]:
    """Rows (dimension, kind of scale, size) and (centre, scale, resolution), as in ``sketch.h``."""
    quantiser = statistic.quantiser
    scale = STEPS / quantiser.half_width
    integers, doubles = [], []
    for i in statistic.carried:
        encoding, size = statistic.encodings[i], statistic.bins_log2[i]
        kind = _LINEAR if encoding.resolution is None else _LOGARITHMIC
        if encoding.n_levels is not None:
            kind, size = _LEVELS, encoding.n_levels
        integers.append((i, kind, size))
        doubles.append((quantiser.centre[i], scale[i], encoding.resolution or 1.0))
    return np.array(integers, dtype=np.int64), np.array(doubles, dtype=np.float64)


def _cluster_rule_of(statistic: ClustersStatistic) -> Integers:
    """All numbers of the rule, in the order of ``struct cluster_rule`` of ``sketch.h``."""
    units, k = statistic.units, statistic.n_clusters
    sizes = (k, len(statistic.assigned), len(statistic.summed), len(statistic.optional))
    blocks = np.full(k, -1, dtype=np.int64)
    blocks[list(statistic.members)] = np.arange(len(statistic.members)) * statistic.block_size
    numbers = (
        (*sizes, len(statistic.candidates), statistic.cap),
        (units.residual, units.count, units.square, units.beyond, units.presence, units.total),
        (statistic.norm == "l1", statistic.n_coordinates),
        (*statistic.assigned, *statistic.summed, *statistic.optional),
        statistic.centres.ravel(),
        statistic.weights,
        statistic.origins.ravel(),
        statistic.radii.ravel(),
        statistic.candidates.ravel(),
        blocks,
    )
    return np.concatenate([np.asarray(part, dtype=np.int64) for part in numbers])


def _group_shape(frequencies: FrequencyMatrix, masks: MaskSchedule | None) -> tuple[int, int]:
    """Features a group, and groups."""
    if masks is None:
        return frequencies.n_frequencies, 1
    return masks.measurements_per_record, masks.n_groups


def _allocate_aligned(size: int) -> NDArray[np.int16]:
    """Allocate ``size`` bytes aligned to a cache line, for full-width loads."""
    memory = np.empty(size + _CACHE_LINE, dtype=np.uint8)
    start = -memory.ctypes.data % _CACHE_LINE
    return memory[start : start + size].view(np.int16)
