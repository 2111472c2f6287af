"""Reading what callers pass to estimators: numbers, bounds, tables and sources of chance."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.analyst.estimators.columns import write_level
from sfumato.shared.arrays import Floats
from sfumato.shared.errors import CellTypeError, ConfigError, PrivacyError, TableError
from sfumato.shared.structure.reading import read_exact
from sfumato.shared.system import count_cores

_SHOWN = 5
Exact = str | int | float | Fraction
"""An exact number; a float stands for its decimal text, so that 0.1 is one tenth."""


def read_number(value: object, field: str) -> Fraction:
    """Return an exact number; a float by its decimal text.

    Raises
    ------
    PrivacyError
        It is none.
    """
    try:
        if isinstance(value, bool) or not isinstance(value, str | int | float | Fraction):
            raise ValueError
        return read_exact(str(float(value)) if isinstance(value, float) else value)
    except (ValueError, ZeroDivisionError) as error:
        raise PrivacyError(
            "must be an exact number", field=field, fix='write it as "1", "0.1", "1/10" or "1e-6"'
        ) from error


def read_whole(value: object, field: str, *, least: int = 1, most: int, fix: str) -> int:
    """Return a whole number within limits.

    Raises
    ------
    ConfigError
        It is none.
    """
    is_whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not (is_whole and least <= int(value) <= most):  # type: ignore[call-overload]
        raise ConfigError(f"must be a whole number from {least} to {most}", field=field, fix=fix)
    return int(value)  # type: ignore[call-overload, no-any-return]


def read_rows(rows: ArrayLike) -> NDArray[np.floating]:
    """Return rows as an array of floats, shape ``(n, d)``; what is no number becomes NaN.

    Only shape and declared type are refused here, never a value: a refusal that one record causes
    would tell of it.

    Raises
    ------
    TableError
        They are not a table, or of a type that has no numbers.
    """
    return read_cells(open_table(rows), ())


def spell_cell(rows: Any, row: int, column: int) -> str | None:
    """Return the text of a cell of a table; None if it holds numbers alone."""
    array = open_table(rows)
    cell = None if array.dtype.kind in "fiub" else array[row, column]
    return cell if isinstance(cell, str) else None


def open_table(rows: Any) -> NDArray[Any]:
    """Return rows as an array of shape ``(n, d)``, of numbers, texts or objects.

    Raises
    ------
    TableError
        They are not a table, or of another type.
    """
    if hasattr(rows, "toarray"):
        raise TableError(
            "is a sparse matrix, which is not supported", field="X", fix="pass X.toarray()"
        )
    if isinstance(rows, np.ma.MaskedArray):
        # What is masked is no value, whatever lies under the mask.
        is_number = rows.dtype.kind in "fiub"
        cells = np.array(rows.data, dtype=np.float64 if is_number else object)
        cells[np.ma.getmaskarray(rows)] = np.nan if is_number else None
        rows = cells
    if isinstance(rows, list | tuple):
        array = _open_lists(rows)
    elif hasattr(rows, "dtype") or hasattr(rows, "dtypes"):
        array = np.asarray(rows)
    else:
        # Without a declared type, NumPy would choose one by the values.
        array = np.asarray(rows, dtype=object)
    if array.dtype.kind == "c":
        raise TableError(
            "must be real numbers. Complex data not supported",
            field="X",
            fix="pass real and imaginary parts as columns",
        )
    if array.dtype.kind not in "fiubOUS":
        raise TableError(
            f"must be numbers and is of type {array.dtype}",
            field="X",
            fix="convert it before, each record by itself",
        )
    if array.ndim != 2:
        kind = f"{array.ndim}D array" if array.ndim else "scalar array"
        raise TableError(
            f"must have shape (n, d) and has {array.shape}: expected 2D array, got {kind} instead",
            field="X",
            fix="Reshape your data: one row a record; X.reshape(-1, 1) makes a single column",
        )
    if array.shape[1] == 0:
        raise TableError(
            f"must have a column: 0 feature(s) (shape={array.shape}) while a minimum of 1 is "
            "required",
            field="X",
            fix="pass at least one",
        )
    return array


def _open_lists(rows: Sequence[Any]) -> NDArray[Any]:
    """Return nested lists as cells; what a cell holds never decides their shape."""
    if not rows or not all(map(_is_row, rows)):
        return np.empty(len(rows), dtype=object)
    widths = {len(row) for row in rows}
    if len(widths) > 1:
        raise TableError(
            f"must have rows of one length, and has some of {min(widths)} and some of "
            f"{max(widths)} values",
            field="X",
            fix="pass the same columns in each row",
        )
    array = np.empty((len(rows), widths.pop()), dtype=object)
    for i, row in enumerate(rows):
        for j, cell in enumerate(row):
            array[i, j] = cell
    return array


def _is_row(row: Any) -> bool:
    has_cells = hasattr(row, "__len__") and getattr(row, "ndim", 1) > 0
    return has_cells and not isinstance(row, str | bytes | Mapping)


def read_cells(array: NDArray[Any], levels: Sequence[tuple[str, ...]]) -> NDArray[np.floating]:
    """Return a table as floats; what is no number, and no level of its column, becomes NaN.

    Parameters
    ----------
    levels
        Levels of each column, empty for a number; nothing where all are numbers.

    Raises
    ------
    TableError
        The declared type is text, where numbers belong.
    """
    if any(levels):
        # Text beside levels: a number may be written as one.
        array = array.astype(object)
        cells = np.empty(array.shape)
        for i, texts in enumerate(levels):
            column = array[:, i]
            cells[:, i] = (
                _find_levels(column, texts) if texts else read_cells(column[:, None], ())[:, 0]
            )
        return cells
    if array.dtype.kind in "US":
        raise CellTypeError(
            f"must be numbers and is of type {array.dtype}",
            field="X",
            fix="convert it before, each record by itself, or state the levels of its columns",
        )
    if array.dtype.kind == "O":
        cells = np.fromiter(map(_read_cell, array.flat), dtype=np.float64, count=array.size)
        return cells.reshape(array.shape)
    is_float = array.dtype in (np.dtype(np.float32), np.dtype(np.float64))
    # Without a warning of wider numbers that do not fit, which would tell of one value.
    with np.errstate(all="ignore"):
        return array if is_float else array.astype(np.float64)


def _find_levels(column: NDArray[Any], levels: tuple[str, ...]) -> Floats:
    """Return the number of each value's level; NaN for what is none."""
    places = {level: float(i) for i, level in enumerate(levels)}
    found = (places.get(_write_cell(value), math.nan) for value in column.tolist())
    return np.fromiter(found, dtype=np.float64, count=len(column))


def _write_cell(value: Any) -> str:
    try:
        return write_level(value)
    except Exception:
        # Whatever a value does is a matter of its own record.
        return ""


def refuse_words(rows: object, levels: Sequence[tuple[str, ...]] | None = None) -> None:
    """Refuse a table with a column of words, by its declared type, that has no levels.

    Parameters
    ----------
    levels
        Levels of each column, empty for a number; None for an estimator that knows none.

    Raises
    ------
    TableError
        A column has no numbers; the message names it.
    """
    types = getattr(rows, "dtypes", None)
    columns = list(getattr(rows, "columns", ()))
    if types is None or len(columns) != len(list(types)):
        return
    known = [()] * len(columns) if levels is None else levels
    for name, kind, texts in zip(columns, list(types), known, strict=True):
        # Libraries of tables have types of their own beside NumPy's.
        letter = getattr(kind, "kind", "O")
        word = str(kind).lower()
        is_text = word in ("category", "str", "string", "categorical")
        is_time = letter in "mM" or word.startswith(("date", "time", "duration"))
        if texts or (letter in "fiubO" and not (is_text or is_time)):
            continue
        if is_time:
            fix = "write it as numbers before, such as the hour of the day, or drop it"
        elif levels is None:
            fix = "drop it, or write its values as numbers, each record by itself"
        else:
            fix = f'state all its values, levels={{"{name}": [...]}}, or drop it'
        raise CellTypeError(
            f"has the column {name!r} of type {kind}, which holds no numbers", field="X", fix=fix
        )


def refuse_cells(
    array: NDArray[Any], names: Sequence[str], levels: Sequence[tuple[str, ...]]
) -> None:
    """Refuse a cell that is neither a number nor missing, in a column of numbers.

    Never where the fit is private: a refusal that one record causes would tell of it.

    Raises
    ------
    TableError
        There is one; the message names its column and row.
    """
    if array.dtype.kind != "O":
        return
    for name, column, texts in zip(names, array.T, levels, strict=True):
        for row, value in enumerate(() if texts else column):
            if value is None or _is_nan(value) or not math.isnan(_read_cell(value)):
                continue
            where = f"has no number in column {name!r}, row {row}"
            fix = f'drop the column, or state all its values, levels={{"{name}": [...]}}'
            if isinstance(value, complex | np.complexfloating):
                raise TableError(f"{where}. Complex data not supported", field="X", fix=fix)
            if isinstance(value, str | bytes):
                if any(map(str.isdigit, str(value))):
                    fix = (
                        "write its numbers with a decimal point, and without units or marks of "
                        f"thousands, or {fix}"
                    )
                raise CellTypeError(where, field="X", fix=fix)
            raise CellTypeError(
                f"{where}: argument must be a string or a real number, not {type(value).__name__}",
                field="X",
                fix=fix,
            )


def refuse_infinite(rows: NDArray[np.floating], names: Sequence[str]) -> None:
    """Refuse an infinite value, as scikit-learn does.

    Never where the fit is private: a refusal that one record causes would tell of it.

    Raises
    ------
    TableError
        There is one; the message names its column and row.
    """
    # A sum of many numbers is infinite, or none, where one of them is.
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(np.sum(rows)):
            return
    places = np.argwhere(np.isinf(rows))
    if len(places):
        row, column = places[0]
        raise TableError(
            f"has an infinite value in column {names[column]!r}, row {row}: Input X contains "
            "infinity",
            field="X",
            fix="write NaN in its place, which counts as missing, or a bound of the column",
        )


def _is_nan(value: Any) -> bool:
    return isinstance(value, float | np.floating) or type(value).__name__ in ("NAType", "NaTType")


def _read_cell(value: Any) -> float:
    """Return the number that a cell is, or NaN; no value causes an error or a warning."""
    if isinstance(value, complex | np.complexfloating | np.ndarray):
        return math.nan
    try:
        return float(value)
    except Exception:
        # Whatever a value does is a matter of its own record.
        return math.nan


def find_names(rows: object) -> NDArray[np.object_] | None:
    """Return the names of a table's columns, if they all are texts.

    Raises
    ------
    TableError
        A column has no name, or that of another.
    """
    columns: Sequence[object] = list(getattr(rows, "columns", ()))
    if not columns or not all(isinstance(name, str) for name in columns):
        return None
    for i, name in enumerate(columns):
        if not name or name in columns[:i]:
            raise TableError(
                f"has {'the name of another' if name else 'no name'} in column {i}"
                + (f", {name!r}" if name else ""),
                field="X",
                fix="give each column a name of its own, or drop it; an index is left out of a "
                "file by to_csv(index=False)",
            )
    return np.array(columns, dtype=object)


def describe_names(known: Sequence[str], given: Sequence[str]) -> str:
    """Describe how columns differ from those of a fit, as scikit-learn does."""
    parts = ["The feature names should match those that were passed during fit."]
    for title, names in (
        ("Feature names unseen at fit time:", sorted({*given} - {*known})),
        ("Feature names seen at fit time, yet now missing:", sorted({*known} - {*given})),
    ):
        if names:
            shown = [*names[:_SHOWN], "..."] if len(names) > _SHOWN else names
            parts += [title, *(f"- {name}" for name in shown)]
    if len(parts) == 1:
        parts.append("Feature names must be in the same order as they were in fit.")
    return "\n".join(parts) + "\n"


def describe_lost_names(estimator: str, *, has_names: bool) -> str:
    """Describe a table that has names where that of the fit had none, or the reverse."""
    if has_names:
        return f"X has feature names, but {estimator} was fitted without feature names"
    return (
        f"X does not have valid feature names, but {estimator} was fitted with feature names; its "
        "columns are taken in the order of the fit"
    )


def list_names(names: NDArray[np.object_] | None, n_columns: int) -> list[str]:
    """Return a name for each column: ``x0``, ``x1`` and so on where the table has none."""
    return [f"x{i}" for i in range(n_columns)] if names is None else list(names.tolist())


def read_seed(seed: object) -> str | None:
    """Return a public seed as text of 64 hexadecimal digits; None for None.

    Raises
    ------
    ConfigError
        It is neither a whole number, text nor bytes.
    """
    if seed is None:
        return None
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer | str | bytes):
        raise ConfigError(
            "must be a whole number, text or bytes",
            field="public_seed",
            fix="leave it out; it steers public choices, never noise",
        )
    data = seed if isinstance(seed, bytes) else str(seed).encode()
    return hashlib.sha256(data).hexdigest()


def read_threads(n_jobs: int | None) -> int:
    """Return a number of threads: None is one, -1 all that the process may use.

    Raises
    ------
    ConfigError
        It is neither positive nor -1.
    """
    if n_jobs is None:
        return 1
    if n_jobs == -1:
        return count_cores()
    return read_whole(n_jobs, "n_jobs", most=1 << 10, fix="leave it out for one, or -1 for all")


def read_rng(random_state: Any) -> np.random.Generator:
    """Return a source of random starts: a seed, a generator, or NumPy's older one; None is fresh.

    Raises
    ------
    ConfigError
        It is none of these.
    """
    if isinstance(random_state, np.random.RandomState):
        random_state = random_state.randint(1 << 31)
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError) as error:
        raise ConfigError(
            "must be a whole number that is not negative, or a generator of NumPy",
            field="random_state",
            fix="leave it out for fresh starts",
        ) from error


def require_delta(delta: Fraction) -> None:
    """Refuse Gaussian noise without a delta by ``ConfigError``."""
    if not delta:
        raise ConfigError(
            "must be above 0 for Gaussian noise",
            field="delta",
            fix='use less than one over the number of records, such as "1e-6"',
        )
