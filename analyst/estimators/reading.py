"""Reading what callers pass to estimators: numbers, bounds, tables and sources of chance."""

from __future__ import annotations

import hashlib
import math
import os
import sys
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shared.errors import ConfigError, PrivacyError, TableError
from shared.structure.reading import read_exact

Floats = NDArray[np.float64]
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


def read_bounds(bounds: Any, n_dimensions: int) -> tuple[NDArray[np.float64], ...]:
    """Return the public bounds of each dimension, lower and upper: shapes ``(d,)``, data units.

    Raises
    ------
    ConfigError
        They are missing, not two numbers or two rows of d numbers, or not ascending.
    """
    try:
        lower, upper = bounds
        read = [
            np.broadcast_to(np.asarray(side, dtype=np.float64), (n_dimensions,)).copy()
            for side in (lower, upper)
        ]
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"must be (lower, upper): two numbers, or two rows of {n_dimensions} numbers",
            field="bounds",
            fix="state what the values can be; bounds that are read off the records are not "
            "private",
        ) from error
    wrong = np.flatnonzero(~(read[0] < read[1]) | ~np.isfinite(read[0]) | ~np.isfinite(read[1]))
    if wrong.size:
        i = int(wrong[0])
        raise ConfigError(
            f"must be finite with lower < upper, and are {read[0][i]:g} and {read[1][i]:g} in "
            f"column {i}",
            field="bounds",
            fix="state (lower, upper) in this order; leave out a column that cannot vary",
        )
    return tuple(read)


def read_rows(rows: ArrayLike) -> NDArray[np.floating]:
    """Return rows as an array of floats, shape ``(n, d)``; what is no number becomes NaN.

    Only shape and declared type can be refused, never a value: a refusal that one record causes
    would tell of it.

    Raises
    ------
    TableError
        They are not a table, or of a type that has no numbers.
    """
    if hasattr(rows, "toarray"):
        raise TableError(
            "is a sparse matrix, which is not supported", field="X", fix="pass X.toarray()"
        )
    # Without a declared type, NumPy would choose one by the values.
    array = np.asarray(rows) if hasattr(rows, "dtype") or hasattr(rows, "dtypes") else None
    if array is None:
        array = np.asarray(rows, dtype=object)
    if array.dtype.kind not in "fiubO":
        raise TableError(
            f"must be numbers and is of type {array.dtype}",
            field="X",
            fix="convert it before, each record by itself",
        )
    if array.ndim != 2 or array.shape[1] == 0:
        raise TableError(
            f"must have shape (n, d) and has {array.shape}",
            field="X",
            fix="reshape your data: one row a record; X.reshape(-1, 1) makes a single column",
        )
    if array.dtype.kind == "O":
        cells = np.fromiter(map(_read_cell, array.flat), dtype=np.float64, count=array.size)
        return cells.reshape(array.shape)
    is_float = array.dtype in (np.dtype(np.float32), np.dtype(np.float64))
    # Without a warning of wider numbers that do not fit, which would tell of one value.
    with np.errstate(all="ignore"):
        return array if is_float else array.astype(np.float64)


def refuse_words(rows: object, *, look_inside: bool) -> None:
    """Refuse a table with a column whose declared type holds no numbers.

    Parameters
    ----------
    look_inside
        Whether to look at values too, for a column of a type that can hold anything. Never where
        the fit is private: a refusal that one record causes would tell of it.

    Raises
    ------
    TableError
        A column has no numbers; the message names it.
    """
    types = getattr(rows, "dtypes", None)
    columns = list(getattr(rows, "columns", ()))
    if types is None or len(columns) != len(list(types)):
        declared: list[tuple[object, object]] = []
    else:
        declared = list(zip(columns, list(types), strict=True))
    for name, kind in declared:
        # Libraries of tables have types of their own beside NumPy's.
        letter = getattr(kind, "kind", "O")
        if letter not in "fiubO" or str(kind) in ("category", "str", "string"):
            raise TableError(
                f"has the column {name!r} of type {kind}, which holds no numbers",
                field="X",
                fix="drop it, or encode it as numbers, each record by itself",
            )
    if look_inside:
        _refuse_words_inside(np.asarray(rows), columns)


def _refuse_words_inside(array: NDArray[Any], columns: Sequence[object]) -> None:
    if array.dtype.kind != "O" or array.ndim != 2:
        return
    for i, column in enumerate(array.T):
        for row, value in enumerate(column):
            if value is not None and math.isnan(_read_cell(value)) and not _is_nan(value):
                name = columns[i] if columns else i
                raise TableError(
                    f"has no number in column {name!r}, row {row}",
                    field="X",
                    fix="drop the column, or encode it as numbers",
                )


def _is_nan(value: Any) -> bool:
    return isinstance(value, float | np.floating)


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
    """Return the names of a table's columns, if they all are texts."""
    columns: Sequence[object] = list(getattr(rows, "columns", ()))
    if not columns or not all(isinstance(name, str) for name in columns):
        return None
    return np.array(columns, dtype=object)


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


def read_scale(scale: Any, n_dimensions: int) -> Floats:
    """Return the stated spread inside one cluster: shape ``(d,)``.

    Raises
    ------
    ConfigError
        It is neither one number nor d of them, or one is not finite and positive.
    """
    try:
        given = np.broadcast_to(np.asarray(scale, dtype=np.float64), (n_dimensions,)).copy()
        is_good = bool(np.all((given > 0) & np.isfinite(given)))
    except (TypeError, ValueError):
        is_good = False
    if not is_good:
        raise ConfigError(
            f"must be one finite positive number, or {n_dimensions} of them",
            field="scale",
            fix="give the spread inside one cluster, in the units of the columns",
        )
    return given


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
        return len(os.sched_getaffinity(0))
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


def make_unfitted(text: str) -> AttributeError:
    """Make the error of an estimator before its fit: scikit-learn's, where that is in use."""
    module = sys.modules.get("sklearn.exceptions")
    error: AttributeError = (AttributeError if module is None else module.NotFittedError)(text)
    return error
