"""Synthetic records as a typed result: a table, a file, and what they promise."""

from __future__ import annotations

import importlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any, Protocol

from sfumato.analyst.results.files import write_file
from sfumato.analyst.results.tables import make_frame
from sfumato.learning.answers.questions import Inquiry
from sfumato.learning.estimate.totals import Totals
from sfumato.learning.generative.columns import Column, read_columns
from sfumato.learning.generative.synthesis import Origin, Synthesiser
from sfumato.shared.errors import ConfigError
from sfumato.shared.plan import SketchPlan
from sfumato.shared.reading.csv_lines import write_lines
from sfumato.shared.wire.objects.answers import PromiseBody
from sfumato.shared.wire.objects.synthesis import MOST_SYNTHETIC, SynthesisRequest, SyntheticBody

_SHOWN = 5
_ENDINGS = (".csv", ".json", ".parquet")


def split_parts(n_records: int) -> list[int]:
    """Split a number of records into those of each part.

    Raises
    ------
    ConfigError
        It is not positive.
    """
    if n_records < 1:
        raise ConfigError("must be at least 1", field="n_records", fix="ask for 1000")
    whole, rest = divmod(n_records, MOST_SYNTHETIC)
    return [MOST_SYNTHETIC] * whole + [rest] * (rest > 0)


class HistogramSource(Protocol):
    """A histogram of the same records: its plan and its sums."""

    @property
    def plan(self) -> SketchPlan:
        """The plan."""

    @property
    def totals(self) -> Totals:
        """The sums."""

    @property
    def identity(self) -> str:
        """Digest of the sums, 64 hexadecimal digits."""

    @property
    def promise(self) -> PromiseBody:
        """The promise of the sums; of exact ones, that there is none."""


def draw_parts(
    inquiry: Inquiry,
    n_records: int,
    *,
    verdict: str,
    origin: Origin,
    promise: PromiseBody,
    margins: Sequence[Column],
    histogram: HistogramSource | None,
    seed: int,
    allow_unusable: bool,
) -> SyntheticRecords:
    """Draw synthetic records on this machine, as a server does.

    Parameters
    ----------
    inquiry
        The densities with their plan.
    verdict, origin, promise
        Verdict on the decode, what was decoded, and its promise.
    margins
        Distributions of columns, in place of a histogram.
    """
    if isinstance(histogram, str | Path):
        raise ConfigError(
            f"must be a sketch of a histogram, and is the name {str(histogram)!r}: only a server "
            "knows studies by name",
            field="histogram",
            fix="pass LocalSketches(sketches=[...], plan=...) of its files",
        )
    promises, columns, digest = [promise], margins, None
    if histogram is not None:
        columns = read_columns(histogram.plan, histogram.totals)
        promises.append(histogram.promise)
        digest = histogram.identity
    synthesiser = Synthesiser(
        plan=inquiry.plan,
        posterior=inquiry.posterior,
        verdict=verdict,
        columns=columns,
        allow_unusable=allow_unusable,
    )
    return SyntheticRecords(
        [
            synthesiser.answer(
                SynthesisRequest(n_records=size, histogram=digest, seed=seed, part=part),
                origin=origin,
                privacy=promises,
            )
            for part, size in enumerate(split_parts(n_records))
        ]
    )


def require_table_file(path: Path) -> None:
    """Refuse a file that :meth:`SyntheticRecords.save` cannot write, before anything is drawn.

    Raises
    ------
    ConfigError
        Its ending is another one, its folder is missing, or pyarrow is not installed.
    """
    if path.suffix.lower() not in _ENDINGS:
        raise ConfigError(
            f"must end in .csv, .parquet or .json, and is {path.name!r}",
            field="out",
            fix="write records.csv",
        )
    if not path.parent.is_dir():
        raise ConfigError(
            f"cannot be written: {path.parent} is no folder",
            field="out",
            fix="make it, or name another file",
        )
    if path.suffix.lower() == ".parquet":
        _import_parquet()


def _import_parquet() -> tuple[Any, Any]:
    try:
        # Not a dependency: other files need nothing.
        return importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    except ImportError as error:
        raise ConfigError(
            "needs pyarrow to write .parquet, which is not installed",
            field="out",
            fix="run `pip install pyarrow`, or write a .csv file",
        ) from error


@dataclass(frozen=True, eq=False, repr=False)
class SyntheticRecords:
    """Records drawn from the densities of a decode.

    Parameters
    ----------
    parts
        As a server or a solver on this machine gives them, one or more of one draw.
    """

    parts: Sequence[SyntheticBody]

    @property
    def body(self) -> SyntheticBody:
        """The first part, with all that holds for every part."""
        return self.parts[0]

    def __len__(self) -> int:
        """Return the number of records."""
        return sum(part.n_records for part in self.parts)

    def __repr__(self) -> str:
        names = ", ".join(self.names)
        return f"<{len(self)} synthetic records of {names}: {self.body.verdict}>"

    def __str__(self) -> str:
        return self.statement

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(each.name for each in self.body.dimensions)

    @cached_property
    def columns(self) -> dict[str, list[Any]]:
        """The columns by name: numbers in data units, or texts of levels."""
        return {
            name: [value for part in self.parts for value in part.columns[i]]
            for i, name in enumerate(self.names)
        }

    @property
    def statement(self) -> str:
        """What the records are and are not, and how far to trust them."""
        return self.body.statement

    @property
    def errors(self) -> dict[int, float]:
        """Mean error of the share of a random range, by the number of columns that it limits."""
        return {each.n_columns: each.error for each in self.body.errors}

    @property
    def correlation_errors(self) -> dict[tuple[str, str], float]:
        """Mean error of the correlation of two columns, by their names in the table's order."""
        found = self.body.correlation_errors
        return {(each.columns[0], each.columns[1]): each.error for each in found}

    @property
    def about(self) -> dict[str, Any]:
        """All but the records: where they come from, what they promise, how far to trust them."""
        found = asdict(self.body)
        del found["columns"], found["part"]
        return {**found, "n_records": len(self)}

    def to_frame(self, library: str = "pandas") -> Any:
        """Return a frame of pandas or polars; that of pandas carries ``about`` in its ``attrs``.

        Raises
        ------
        ConfigError
            The library is not known, or not installed.
        """
        frame = make_frame(self.columns, library)
        if library == "pandas":
            frame.attrs["sfumato"] = self.about
        return frame

    def save(self, path: str | Path) -> list[Path]:
        """Write the records, and what they promise; return the files.

        A ``.parquet`` file has the promise in its metadata and needs pyarrow; a ``.json`` file is
        one object with both; a ``.csv`` file gets a neighbour, ``NAME.about.json``. In it a
        text that a spreadsheet would run as a formula begins with an apostrophe.

        Raises
        ------
        ConfigError
            The ending is another one, pyarrow is not installed, or a file cannot be written.
        """
        path = Path(path)
        require_table_file(path)
        about = json.dumps(self.about, ensure_ascii=False, indent=2)
        match path.suffix.lower():
            case ".csv":
                beside = path.with_name(f"{path.name}.about.json")
                write_file(beside, about)
                write_file(
                    path, write_lines([self.names, *zip(*self.columns.values(), strict=True)])
                )
                return [path, beside]
            case ".json":
                content = {**self.about, "columns": self.columns}
                write_file(path, json.dumps(content, ensure_ascii=False))
                return [path]
            case _:
                self._write_parquet(path, about)
                return [path]

    def _write_parquet(self, path: Path, about: str) -> None:
        arrow, parquet = _import_parquet()
        table = arrow.table(self.columns).replace_schema_metadata({"sfumato": about})
        part = path.with_name(f".{path.name}.part")
        try:
            parquet.write_table(table, part)
            part.replace(path)
        except OSError as error:
            part.unlink(missing_ok=True)
            raise ConfigError(
                f"cannot be written: {error.strerror or error}",
                field=str(path),
                fix="name another file",
            ) from error

    def _repr_html_(self) -> str:
        """Return a table of the first records and the statement, for notebooks."""
        head = "".join(f"<th>{escape(name)}</th>" for name in self.names)
        rows = "".join(
            "<tr>" + "".join(f"<td>{escape(_show(value))}</td>" for value in row) + "</tr>"
            for row in list(zip(*self.columns.values(), strict=True))[:_SHOWN]
        )
        return (
            f"<p>{escape(self.statement)}</p><table><thead><tr>{head}</tr></thead>"
            f"<tbody>{rows}</tbody></table><p>{len(self):,} synthetic records</p>"
        )


def _show(value: object) -> str:
    return f"{value:.5g}" if isinstance(value, float) else str(value)
