"""Tables of sizing: what fleets need, computed from the measured cost of each unit."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from benchmarks.pages.templates import Tables, group_rows, list_table
from benchmarks.runner import Row

_DAY: Final = 86_400
_BUSY: Final = 0.5
"""Share of a core that is planned for; the rest is for peaks."""
_MERGES: Final = 0.25
"""Share of its time that a server merges."""
_HELD_DAYS: Final = 30
_KEPT_DAYS: Final = 365
_MOST_CORES: Final = 64
_MOST_BYTES: Final = 3e13
"""Cores and disk of one Postgres."""
_MOST_FILE: Final = 1e12
"""Bytes of a SQLite file, which a backup copies as a whole."""
_MEASURED_DEVICES: Final = 500
_SIZES: Final = (10**4, 10**6, 10**8)
_SENT: Final = {
    "a sketch an hour": ("upload", 3600),
    "a sketch a day": ("upload", _DAY),
    "a report a day": ("report", _DAY),
}
_UNITS: Final = ("enrolment", "upload", "report", "decode")

Units = Mapping[str, Mapping[str, float]]
"""Figures of each unit on one database."""


@dataclass(frozen=True, kw_only=True)
class Need:
    """Needs of a fleet in a year; cores in full use, rates a second."""

    rate: float
    server_cores: float
    database_cores: float
    network_bits: float
    disk_bytes: float
    n_studies: int

    @property
    def n_servers(self) -> int:
        """Servers, each of which uses one core, half busy."""
        return max(1, math.ceil(self.server_cores / _BUSY))

    @property
    def n_databases(self) -> int:
        """Databases, each of its own servers."""
        cores = self.database_cores / _BUSY / _MOST_CORES
        return max(1, math.ceil(cores), math.ceil(self.disk_bytes / _MOST_BYTES))


def compute_need(units: Units, n_devices: int, unit: str, period: int) -> Need:
    """Compute the needs of a fleet whose devices send a unit once a period."""
    rate, own, disk = n_devices / period, units[unit], units["disk"]
    sizes = own if unit == "report" else disk
    limit = _MERGES / (units["merge devices=1000000"]["merge_cpu_ms"] / 1e3)
    n_studies = max(1, math.ceil(rate / limit))
    cells = _KEPT_DAYS * _DAY / period * disk["cells"]
    bits = n_studies * (disk["cell_bytes"] - _MEASURED_DEVICES / 8) + n_devices / 8
    stored = _KEPT_DAYS * _DAY * rate * sizes["kept_bytes"]
    payloads = _HELD_DAYS * _DAY * rate * max(0.0, sizes["held_bytes"] - sizes["kept_bytes"])
    return Need(
        rate=rate,
        server_cores=rate * own["server_cpu_ms"] / 1e3,
        database_cores=rate * own["database_cpu_ms"] / 1e3,
        network_bits=rate * own["wire_bytes"] * 8,
        disk_bytes=n_devices * units["enrolment"]["kept_bytes"] + stored + payloads + cells * bits,
        n_studies=n_studies,
    )


def _read_units(rows: Sequence[Row], kind: str) -> Units:
    start = f"sizing {kind} "
    return {
        case.removeprefix(start): {name: row.value for name, row in figures.items()}
        for case, figures in group_rows(rows).items()
        if case.startswith(start)
    }


def _list_needs(rows: Sequence[Row]) -> Iterator[str]:
    units, small = _read_units(rows, "postgres"), _read_units(rows, "sqlite")
    lines = []
    for n_devices in _SIZES if units and small else ():
        for words, (unit, period) in _SENT.items():
            need = compute_need(small, n_devices, unit, period)
            is_small = need.n_servers == need.n_studies == 1 and need.disk_bytes <= _MOST_FILE
            need = need if is_small else compute_need(units, n_devices, unit, period)
            lines.append(
                (
                    f"{n_devices:,}",
                    words,
                    _show(need.rate),
                    f"{need.n_servers:,}",
                    "0" if is_small else _show(max(1.0, math.ceil(need.database_cores / _BUSY))),
                    _show(need.network_bits / 1e6),
                    _show(need.disk_bytes / 1e9),
                    f"{need.n_studies:,}",
                    "SQLite" if is_small else f"Postgres: {need.n_databases:,}",
                )
            )
    heads = (
        *("devices", "each sends", "a second", "servers, of one core each", "cores of Postgres"),
        *("network, Mbit/s", "disk after a year, GB", "studies", "databases"),
    )
    yield from list_table(heads, lines)


def _list_limits(rows: Sequence[Row]) -> Iterator[str]:
    lines = []
    units, small = _read_units(rows, "postgres"), _read_units(rows, "sqlite")
    if units and small:
        a_server = {name: _BUSY / (small[name]["server_cpu_ms"] / 1e3) for name in _UNITS[1:3]}
        merges = _MERGES / (units["merge devices=1000000"]["merge_cpu_ms"] / 1e3)
        database = _MOST_CORES * _BUSY / (units["upload"]["database_cpu_ms"] / 1e3)
        kept = units["disk"]["kept_bytes"]
        a_cell = units["disk"]["cell_bytes"]
        lines = [
            (words, f"{_show(rate)} a second", f"{_show(rate * 3600)}")
            for words, rate in (
                ("one server on SQLite, sketches", a_server["upload"]),
                ("merging, which one server at a time does for a study", merges),
                (f"a Postgres of {_MOST_CORES} cores", database),
                (
                    f"a disk of {_MOST_BYTES / 1e12:.0f} TB, with rows of a year",
                    _MOST_BYTES / kept / _KEPT_DAYS / _DAY,
                ),
            )
        ]
        equal = (a_cell - _MEASURED_DEVICES / 8) * 8
        lines.append(
            ("running sums, half of whose bytes name devices", "-", f"{_show(equal)} in a study")
        )
    yield from list_table(("limit", "at", "devices that send once an hour"), lines)


def _list_units(rows: Sequence[Row]) -> Iterator[str]:
    heads = ("of one", "database", "server, ms", "Postgres, ms", "sent, B", "kept, B", "held, B")
    names = ("server_cpu_ms", "database_cpu_ms", "wire_bytes", "kept_bytes", "held_bytes")
    lines = []
    for unit in _UNITS:
        for kind in ("sqlite", "postgres"):
            units = _read_units(rows, kind)
            own = {**(units.get("disk", {}) if unit == "upload" else {}), **units.get(unit, {})}
            own.setdefault("server_cpu_ms", own.get("worker_cpu_ms", math.nan))
            if len(own) > 1:
                cells = (_show(own[name]) if own.get(name) else "-" for name in names)
                lines.append((unit, kind, *cells))
    yield from list_table(heads, lines)


def _show(value: float) -> str:
    """Format a number with two digits, or three where it is 100 and more."""
    if value >= 100:
        return f"{round(value, 2 - math.floor(math.log10(value))):,.0f}"
    return f"{value:.2g}"


TABLES: Final[Tables] = {"needs": _list_needs, "limits": _list_limits, "units": _list_units}
