"""Questions whose answers, with advice, become a specification."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from typing import Any, TypeVar

import typer
from rich.table import Table

from sfumato.analyst.levels import parse_delta, parse_epsilon
from sfumato.analyst.planning.candidates import UNIT_WORDS
from sfumato.analyst.planning.files import parse_clusters, require_count
from sfumato.analyst.planning.spec import Answers
from sfumato.learning.planning.alternatives import FEW_SKETCHES, LEAST_REPORTS, PARTS, Fleet
from sfumato.learning.planning.outline import (
    POSSIBLE_CLUSTERS,
    UNITS,
    StudyOutline,
    guess_clusters,
    guess_scale,
)
from sfumato.shared.errors import ConfigError, SketchError
from sfumato.shared.plan import Dimension, LogTransform, WindowRule
from sfumato.shared.plan.catalogue import ORIGIN, UsualRange, offer_ranges
from sfumato.shared.plan.rules import MOST_PARTS
from sfumato.shared.structure import require_plain

T = TypeVar("T")

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


@dataclass(frozen=True, kw_only=True)
class _Column:
    """A dimension, whose scale may wait for the numbers of clusters and dimensions.

    Parameters
    ----------
    dimension
        With the spread as its scale.
    spread
        In its unit, or in doublings on a logarithmic scale.
    is_whole
        Whether the spread is that of all records, rather than of one cluster.
    """

    dimension: Dimension
    spread: float
    is_whole: bool

    def settle(self, n_clusters: float, n_dimensions: int) -> Dimension:
        """Return the dimension with the scale of one cluster."""
        if not self.is_whole:
            return self.dimension
        scale = guess_scale(self.spread, n_clusters=n_clusters, n_dimensions=n_dimensions)
        return replace(self.dimension, scale=float(f"{scale:.3g}"))


def ask_for_answers(n_windows: int = 1) -> Answers:
    """Prompt for the answers, and repeat a question until its answer keeps its rule.

    Parameters
    ----------
    n_windows
        Windows that are decoded together.

    Raises
    ------
    typer.Abort
        The answers ended.
    PrivacyError
        The answers contradict each other.
    """
    _say("Bounds and scales are public: choose them from common knowledge, never from the data.")
    _say(ORIGIN)
    columns = _ask_for_columns()
    n_clusters = _ask(
        "largest number of clusters that may be wanted",
        lambda text: parse_clusters(text, "clusters"),
        "unknown",
    )
    planned = float(n_clusters) if n_clusters else guess_clusters()
    dimensions = tuple(column.settle(planned, len(columns)) for column in columns)
    neighbouring = _ask_for_word(
        "hide the values of a record, or its presence too",
        {"values": "replace-one", "presence": "add-remove-one"},
        "values",
        field="hide",
        fix="choose presence to hide that a record exists; it costs a sketch for every window",
    )
    window = _ask_for_window(neighbouring)
    unit = _ask_for_unit(neighbouring, window)
    n_devices = _ask("devices", lambda text: _parse_count(text, "devices"))
    if window.kind == "count":
        n_records = n_devices * window.length
    else:
        n_records = _ask(
            "records in one window, all devices together",
            lambda text: _parse_records(text, n_devices, neighbouring),
        )
    fleet = _ask_for_fleet(window, n_devices, n_windows)
    # Without effect on sketches that each count as one record, and on their masked sums.
    devices_differ = (n_devices > 1 and unit == "record" and fleet is None) and _ask_for_word(
        "may devices hold different kinds of records, such as other places or users (yes or no)",
        {"yes": True, "y": True, "no": False, "n": False},
        "yes",
        field="devices",
        fix="choose no only if every device holds the same kinds of records",
    )
    epsilon = _ask(
        f"epsilon for {UNIT_WORDS[unit]}", lambda text: parse_epsilon(text, "epsilon"), "1"
    )
    delta = _ask("delta (0 for pure epsilon)", lambda text: parse_delta(text, "delta"), "0")
    outline = StudyOutline(
        n_records=n_records * n_windows,
        n_sketches=n_devices * n_windows,
        n_dimensions=len(dimensions),
        n_clusters=n_clusters or POSSIBLE_CLUSTERS[0],
        neighbouring=neighbouring,
        devices_differ=devices_differ,
        unit=unit,
        by_time=window.kind == "time",
        n_noises=None if fleet is None else fleet.n_noises,
    )
    return Answers(
        dimensions=dimensions,
        outline=outline,
        epsilon=epsilon,
        delta=delta,
        window=window,
        n_windows=n_windows,
        knows_clusters=n_clusters is not None,
        usual_spreads={
            column.dimension.name: column.spread for column in columns if column.is_whole
        },
        fleet=fleet,
    )


def _ask_for_word(
    question: str, words: Mapping[str, T], default: str, *, field: str, fix: str
) -> T:
    """Prompt for one of some words; return what it stands for."""

    def parse(text: str) -> T:
        word = text.strip().lower()
        if word not in words:
            listed = " or ".join(word for word in words if len(word) > 1)
            raise ConfigError(f"must be {listed}", field=field, fix=fix)
        return words[word]

    return _ask(question, parse, default)


def parse_date(text: str) -> int:
    """Read a date in UTC as seconds since 1970-01-01; raises ``ConfigError``."""
    try:
        day = date.fromisoformat(text.strip())
    except ValueError as error:
        raise ConfigError("must be a date", field="start", fix="write it as 2026-01-31") from error
    seconds = (day - date(1970, 1, 1)).days * _SECONDS["d"]
    if seconds <= 0:
        raise ConfigError("must be after 1970-01-01", field="start", fix="write it as 2026-01-31")
    return seconds


def parse_window(text: str) -> WindowRule:
    """Read a length of time or a number of records; raises ``ConfigError``."""
    counted = re.fullmatch(r"\s*([0-9]{1,15})\s*records?\s*", text)
    if counted:
        return WindowRule(kind="count", length=require_count(int(counted[1]), "window"))
    timed = re.fullmatch(r"\s*([0-9]{1,15})\s*([smhdw])\s*", text)
    if timed:
        length_s = require_count(int(timed[1]), "window") * _SECONDS[timed[2]]
        return WindowRule(kind="time", length_s=length_s)
    raise ConfigError(
        "must be a length of time or a number of records",
        field="window",
        fix="write it as 6h, 7d, 90m or 1000 records",
    )


def _ask_for_window(neighbouring: str) -> WindowRule:
    if neighbouring == "replace-one":
        question = "window: a length of time such as 6h or 7d, or 1000 records"
        return _ask(question, parse_window, "7d")
    window = _ask("window: a length of time such as 6h or 7d", _parse_timed_window, "7d")
    today = datetime.now(UTC).date().isoformat()
    origin = _ask("start of the study (a date in UTC)", parse_date, today)
    return replace(window, origin=origin)


def _ask_for_unit(neighbouring: str, window: WindowRule) -> str:
    if neighbouring != "replace-one" or window.kind != "time":
        return "record"  # no plan allows the other
    return _ask_for_word(
        "protect each record, or all records of a device in a window (record or device)",
        {unit: unit for unit in UNITS},
        "record",
        field="protect",
        fix="choose device to protect all records of a device in a window as one; a sketch "
        "then counts as one record",
    )


def _ask_for_fleet(window: WindowRule, n_devices: int, n_windows: int) -> Fleet | None:
    """Prompt for a secure sum, where there are enough devices for it; None without one."""
    if window.kind != "time" or n_devices < FEW_SKETCHES:
        return None
    is_summed = _ask_for_word(
        "who adds noise: each device, or two servers that never work together, whose operators all "
        "owners then have to trust (device or servers)",
        {"device": False, "servers": True},
        "device",
        field="noise",
        fix="choose servers only if another organisation than yours runs the second one",
    )
    if not is_summed:
        return None
    parts = _ask(
        "  parts of a window's batch: 1 hides which devices lie, 5 or more show it, and each costs "
        "a noise",
        lambda text: _parse_parts(text, n_devices),
        str(PARTS if n_devices >= PARTS * LEAST_REPORTS else 1),
    )
    return Fleet(n_groups=n_windows, parts=parts)


def _parse_parts(text: str, n_devices: int) -> int:
    parts = _parse_count(text, "parts")
    most = min(MOST_PARTS, n_devices // 2)
    if parts > most:
        raise ConfigError(f"must be at most {most}", field="parts", fix="use 1 or 16")
    return parts


def _parse_timed_window(text: str) -> WindowRule:
    window = parse_window(text)
    if window.kind != "time":
        raise ConfigError(
            "must be a length of time: when a number of records is full reveals how many there are",
            field="window",
            fix="write it as 6h, 7d or 90m",
        )
    return window


def _ask_for_columns() -> list[_Column]:
    columns: list[_Column] = []
    while (column := _ask_for_column([known.dimension.name for known in columns])) is not None:
        columns.append(column)
        _say("(an empty name ends the list)")
    return columns


def _ask_for_column(before: list[str]) -> _Column | None:
    name = _ask(
        f"dimension {len(before) + 1}: name",
        lambda text: _parse_name(text, before),
        "" if before else None,
    )
    if not name:
        return None
    likely = offer_ranges(name)
    unit = _ask(
        "  unit (1 for a pure number)",
        lambda text: _parse_text(text, "unit"),
        likely[0].unit if likely else "1",
    )
    usual = _ask_for_range(offer_ranges(name, unit))
    lower = _ask(
        "  lower bound",
        lambda text: _parse_number(text, "lower"),
        None if usual is None else f"{usual.lower:.10g}",
    )
    upper = _ask(
        "  upper bound",
        lambda text: _parse_upper(text, lower),
        None if usual is None or usual.upper <= lower else f"{usual.upper:.10g}",
    )
    transform = _ask_for_transform(usual)
    dimension = Dimension(name=name, unit=unit, lower=lower, upper=upper, transform=transform)
    low, high = dimension.scaled_bounds.tolist()
    expected = None
    if usual is not None:
        expected = usual.spread if transform is None else usual.octaves
    spread, is_whole = _ask(
        f"  spread inside one cluster{'' if transform is None else ', in doublings'}, "
        'or of all records as "all 8"',
        lambda text: _parse_spread(text, high - low),
        None if expected is None else f"all {expected:g}",
    )
    dimension = replace(dimension, scale=spread)
    return _Column(dimension=dimension, spread=spread, is_whole=is_whole)


def _ask_for_transform(usual: UsualRange | None) -> LogTransform | None:
    """Prompt for the scale, linear or logarithmic, of values that extend over powers of ten."""
    if usual is None or usual.resolution is None:
        return None
    is_log = _ask_for_word(
        "  scale: linear, or log for values that extend over powers of ten; centroids are then "
        "typical values, not means",
        {"linear": False, "log": True},
        "log",
        field="transform",
        fix="choose log where twice as much matters alike for small and large values",
    )
    return LogTransform(resolution=usual.resolution) if is_log else None


def _ask_for_range(offered: tuple[UsualRange, ...]) -> UsualRange | None:
    """Offer usual ranges; return the chosen one, whose figures become default answers."""
    if not offered:
        return None
    _say("  usual ranges:")
    for number, usual in enumerate(offered, 1):
        _say(f"  {number}. {usual.describe()}")
    number = _ask(
        "  which of these (0 for none)", lambda text: _parse_choice(text, len(offered)), "1"
    )
    return offered[number - 1] if number else None


def _ask(question: str, parse: Callable[[str], T], default: str | None = None) -> T:
    while True:
        answer = typer.prompt(question, default=default, show_default=bool(default), err=True)
        try:
            return parse(str(answer))
        except SketchError as error:
            _say(f"  {error}")


def _say(text: str) -> None:
    typer.echo(text, err=True)


def _parse_choice(text: str, most: int) -> int:
    word = text.strip()
    if not re.fullmatch(r"[0-9]{1,3}", word) or int(word) > most:
        raise ConfigError(
            f"must be from 0 to {most}", field="range", fix="choose 0 to type bounds yourself"
        )
    return int(word)


def _parse_name(text: str, before: list[str]) -> str:
    if not text.strip() and not before:
        raise ConfigError("must not be empty", field="name", fix="name the first dimension")
    if text.strip() in before:
        raise ConfigError("is taken", field="name", fix="choose another name")
    return _parse_text(text, "name")


def _parse_text(text: str, field: str) -> str:
    if not text.strip().isprintable():
        raise ConfigError("must be printable text", field=field, fix="leave out control characters")
    return text.strip()


def _parse_count(text: str, field: str) -> int:
    if not re.fullmatch(r"[+-]?[0-9]{1,15}", text.strip()):
        raise ConfigError("must be a whole number", field=field, fix="write it as 1000")
    return require_count(int(text), field)


def _parse_records(text: str, n_devices: int, neighbouring: str) -> int:
    n_records = _parse_count(text, "records")
    if n_records < n_devices and neighbouring == "replace-one":
        raise ConfigError(
            f"must be at least the number of devices, {n_devices}",
            field="records",
            fix="count the records of all devices together",
        )
    return n_records


def _parse_number(text: str, field: str) -> float:
    try:
        number = float(require_plain(text))
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ConfigError("must be a finite number", field=field, fix="write it as -10 or 0.5")
    return number


def _parse_upper(text: str, lower: float) -> float:
    upper = _parse_number(text, "upper")
    if not lower < upper:
        raise ConfigError(f"must be above the lower bound, {lower:g}", field="upper")
    return upper


def _parse_spread(text: str, width: float) -> tuple[float, bool]:
    """Read a spread, and whether it is that of all records."""
    whole = re.fullmatch(r"all\s+(.+)", text.strip(), re.IGNORECASE)
    spread = _parse_number(whole[1] if whole else text, "scale")
    if not 0 < spread <= width:
        raise ConfigError(
            f"must be positive and at most the width of the bounds, {width:g}",
            field="scale",
            fix="give the standard deviation that you expect inside one cluster, such as 2, or of "
            'all records, such as "all 8"',
        )
    return spread, whole is not None


def ranges_to_json(ranges: Sequence[UsualRange]) -> list[dict[str, Any]]:
    """Return ranges as JSON values; the transform is as in a plan."""
    return [
        {
            "quantity": usual.quantity,
            "unit": usual.unit,
            "lower": usual.lower,
            "upper": usual.upper,
            "spread": usual.spread,
            "transform": (
                {"kind": "log", "resolution": usual.resolution}
                if usual.suits_logarithm
                else "linear"
            ),
            "spread_in_octaves": usual.octaves,
        }
        for usual in ranges
    ]


def describe_ranges(ranges: Sequence[UsualRange]) -> Iterator[Table | str]:
    """Yield a table of ranges, then where they come from."""
    table = Table()
    table.add_column("quantity")
    table.add_column("unit", no_wrap=True)
    for heading in ("lower", "upper", "spread", "log: r", "doublings"):
        table.add_column(heading, justify="right")
    for usual in ranges:
        figures = (usual.lower, usual.upper, usual.spread)
        table.add_row(
            usual.quantity,
            usual.unit,
            *(f"{figure:,.10g}" for figure in figures),
            *("" if x is None else f"{x:g}" for x in (usual.resolution, usual.octaves)),
        )
    yield table
    yield ORIGIN
    yield (
        "The spread is the standard deviation of all values together. Where r is stated, values "
        "extend over powers of ten, and log2(1 + |x| / r) suits them better; doublings are the "
        "spread of that."
    )
