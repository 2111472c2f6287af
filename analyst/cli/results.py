"""Results on a command line: where they are found, and the files that they are written to."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sfumato.analyst.results import DecodeResult
from sfumato.analyst.results.files import write_file
from sfumato.shared.errors import ConfigError
from sfumato.shared.reading.csv_lines import write_lines

ResultReference = Annotated[
    str,
    typer.Argument(
        metavar="RESULT",
        help="A decode by its id or 6 or more first digits of it; a study, for its last decode; or "
        "a .json file that `sfumato decode export` wrote.",
    ),
]
ENDINGS = (".json", ".csv", ".parquet")


def write_result(result: DecodeResult, path: Path) -> None:
    """Write a result whole, or a table of its clusters, by the ending of the file's name.

    Raises
    ------
    ConfigError
        The file cannot be written, its name ends otherwise, or pyarrow is missing.
    """
    match path.suffix.lower():
        case ".json":
            result.save(path)
        case ".csv":
            write_file(path, _format_csv(result))
        case ".parquet":
            _write_parquet(result, path)
        case other:
            raise ConfigError(
                f"must end with {', '.join(ENDINGS)}, not {other!r}",
                field="--output",
                fix="choose another name",
            )


def _format_csv(result: DecodeResult) -> str:
    columns = result.to_columns()
    return write_lines([columns, *zip(*columns.values(), strict=True)], end="\r\n")


def _write_parquet(result: DecodeResult, path: Path) -> None:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise ConfigError(
            "needs pyarrow for .parquet",
            field="--output",
            fix="run `pip install pyarrow`, or write .csv",
        ) from error
    try:
        pyarrow.parquet.write_table(pyarrow.table(result.to_columns()), path)
    except OSError as error:
        raise ConfigError(
            f"cannot be written: {error.strerror}", field=str(path), fix="name another file"
        ) from error
