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
_MOST_BYTES: Final = 3e13
"""Disk of one Postgres; its cores are needed later."""
_MOST_FILE: Final = 1e12
"""Bytes of a SQLite file, which a backup copies as a whole."""
_MEASURED_DEVICES: Final = 500
_MOST_DEVICES: Final = 1_000_000
"""Devices of a study that merging was measured with."""
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
        return math.ceil(self.server_cores / _BUSY)

    @property
    def n_databases(self) -> int:
        """Databases, each of its own servers."""
        return math.ceil(self.disk_bytes / _MOST_BYTES)


def compute_need(units: Units, n_devices: int, unit: str, period: int) -> Need:
    """Compute the needs of a fleet whose devices send a unit once a period."""
    rate, own, disk = n_devices / period, units[unit], units["disk"]
    sizes = own if unit == "report" else disk
    limit = _MERGES / (units["merge devices=1000000"]["merge_cpu_ms"] / 1e3)
    n_studies = max(math.ceil(rate / limit), math.ceil(n_devices / _MOST_DEVICES))
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


def _find_needs(rows: Sequence[Row]) -> Iterator[tuple[int, str, Need, bool]]:
    """Yield the needs of each fleet on SQLite where that is enough, else on Postgres."""
    small, large = (_read_units(rows, kind) for kind in ("sqlite", "postgres"))
    for n_devices in _SIZES if small and large else ():
        for words, (unit, period) in _SENT.items():
            need = compute_need(small, n_devices, unit, period)
            is_small = need.n_servers == need.n_studies == 1 and need.disk_bytes <= _MOST_FILE
            if not is_small:
                need = compute_need(large, n_devices, unit, period)
            yield n_devices, words, need, is_small


def _list_answers(rows: Sequence[Row]) -> Iterator[str]:
    for n_devices, words, need, is_small in _find_needs(rows):
        if words == next(iter(_SENT)):
            what = "SQLite" if is_small else _count("Postgres database", need.n_databases)
            servers, studies = _count("server", need.n_servers), _count("study", need.n_studies)
            size = _show_size(need.disk_bytes)
            yield (
                f"* **{n_devices:,} devices**, {words}: {servers}, {what}, {studies}, {size} of "
                "disk after a year."
            )


def _list_needs(rows: Sequence[Row]) -> Iterator[str]:
    heads = ("devices", "each sends", "a second", "servers", "cores of Postgres")
    more = ("network, Mbit/s", "disk after a year", "studies", "databases")
    lines = (
        (
            f"{n_devices:,}",
            words,
            _show(need.rate),
            f"{need.n_servers:,}",
            "-" if is_small else f"{math.ceil(need.database_cores / _BUSY):,}",
            _show(need.network_bits / 1e6),
            _show_size(need.disk_bytes),
            f"{need.n_studies:,}",
            "SQLite" if is_small else f"{need.n_databases:,}",
        )
        for n_devices, words, need, is_small in _find_needs(rows)
    )
    yield from list_table((*heads, *more), lines)


def _list_limits(rows: Sequence[Row]) -> Iterator[str]:
    small, large = (_read_units(rows, kind) for kind in ("sqlite", "postgres"))
    lines = []
    if small and large:
        disk = large["disk"]
        a_row = disk["kept_bytes"] * _KEPT_DAYS + _HELD_DAYS * (
            disk["held_bytes"] - disk["kept_bytes"]
        )
        rates = {
            f"{_show_size(_MOST_FILE)} of SQLite, which a backup copies": _MOST_FILE / a_row / _DAY,
            "one server, half busy": _BUSY / (small["upload"]["server_cpu_ms"] / 1e3),
            f"{_show_size(_MOST_BYTES)} of Postgres": _MOST_BYTES / a_row / _DAY,
            "merging of a study": _MERGES / (large["merge devices=1000000"]["merge_cpu_ms"] / 1e3),
        }
        lines = [(words, _show(rate), _show(rate * 3600)) for words, rate in rates.items()]
        equal = (disk["cell_bytes"] - _MEASURED_DEVICES / 8) * 8
        lines.append(("running sums, half of which names devices", "-", _show(equal)))
    yield from list_table(("limit", "sketches a second", "devices, hourly"), lines)


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


def _count(noun: str, n: int) -> str:
    plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{n:,} {noun if n == 1 else plural}"


def _show_size(n_bytes: float) -> str:
    return f"{_show(n_bytes / 1e12)} TB" if n_bytes >= 1e12 else f"{_show(n_bytes / 1e9)} GB"


def _show(value: float) -> str:
    """Format a number with two digits, or three where it is 100 and more."""
    if value >= 100:
        return f"{round(value, 2 - math.floor(math.log10(value))):,.0f}"
    return f"{value:.2g}"


TABLES: Final[Tables] = {
    "answers": _list_answers,
    "needs": _list_needs,
    "limits": _list_limits,
    "units": _list_units,
}
