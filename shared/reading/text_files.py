"""Files of text whose lines do not lie in them as they are: packed, in UTF-16, or one document.

Such a file is made into lines as a whole, in a file without a name, before a record of it is read.
So what breaks it, and its size, decide about all of its records or none. Places in it and digests
are of these lines: a file that was packed or written anew goes on behind the same lines.
"""

from __future__ import annotations

import codecs
import os
from collections.abc import Iterable, Iterator, Mapping
from io import FileIO
from pathlib import Path
from typing import IO, Any, Literal

from sfumato.shared.errors import ConfigError, RecordError
from sfumato.shared.reading.arrow import find_pyarrow
from sfumato.shared.reading.files import open_regular
from sfumato.shared.reading.json_document import DOCUMENT, DocumentError, ListReader
from sfumato.shared.reading.layout import FileLayout

PACKED: Mapping[str, Literal["gzip", "zstd"]] = {".gz": "gzip", ".zst": "zstd"}
"""Formats of packed files, by the end of their names."""
MOST_TEXT_BYTES = 1 << 28
_CHUNK_BYTES = 1 << 16
_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


class TextFile:
    """An open file of text, and its lines.

    Parameters
    ----------
    path, layout
        The file, and how it is written.

    Raises
    ------
    RecordError
        It is no regular file, or cannot be made into lines; nothing of it was read.
    """

    def __init__(self, path: Path, layout: FileLayout) -> None:
        self.name, self._path, self._layout = str(path), path, layout
        self.file = open_regular(path)
        """The file itself, whose identity counts."""
        self._stamp = stamp_file(self.file)
        try:
            self._lines = make_lines(self.file, layout, path)
        except BaseException:
            self.file.close()
            raise

    def fileno(self) -> int:
        """Return the descriptor of its lines."""
        return self._lines.fileno()

    @property
    def is_outdated(self) -> bool:
        """True if the file has changed since its lines were made."""
        return self._lines is not self.file and stamp_file(self.file) != self._stamp

    def renew(self) -> None:
        """Make the lines again.

        Raises
        ------
        RecordError
            As for a new one.
        """
        stamp, lines = stamp_file(self.file), make_lines(self.file, self._layout, self._path)
        self._lines.close()
        self._stamp, self._lines = stamp, lines

    def close(self) -> None:
        """Close both."""
        self._lines.close()
        self.file.close()


def stamp_file(file: FileIO) -> tuple[int, int]:
    """Return the size of a file, and when it was written."""
    status = os.fstat(file.fileno())
    return status.st_size, status.st_mtime_ns


def make_lines(file: FileIO, layout: FileLayout, path: Path) -> IO[bytes]:
    """Return the lines of a file: the file itself, where they lie in it as they are.

    Raises
    ------
    ConfigError
        A library is needed to unpack it.
    RecordError
        It is not written as the layout says, is too large, or was written to meanwhile.
    """
    if not layout.packed and path.suffix in PACKED:
        raise RecordError(
            "is packed",
            field=str(path),
            fix=f'state packed = "{PACKED[path.suffix]}", or unpack it: {show_command(path)}',
        )
    if layout.has_lines:
        return file
    # Loaded where it is needed: with what it loads it takes a megabyte.
    from tempfile import TemporaryFile  # noqa: PLC0415

    before, n_bytes = stamp_file(file), 0
    lines = TemporaryFile()  # noqa: SIM115  # closed with the file
    try:
        for part in _take_records(_recode(_unpack(file, layout, path), layout, path), layout, path):
            n_bytes += len(part)
            if n_bytes > MOST_TEXT_BYTES:
                raise RecordError(
                    f"has more than {MOST_TEXT_BYTES >> 20} MiB of text, and is read as a whole",
                    field=str(path),
                    fix=f"make lines of it first: {show_command(path, layout)}",
                )
            lines.write(part)
        lines.seek(0)
        if stamp_file(file) != before:
            raise RecordError(
                "was changed while it was read", field=str(path), fix="read it once it is whole"
            )
    except BaseException:
        lines.close()
        raise
    return lines


def show_command(path: Path, layout: FileLayout | None = None) -> str:
    """Return a command that makes lines of a file."""
    name, stem = path.name, path.stem
    if path.suffix in PACKED:
        return f"{'gunzip -k' if PACKED[path.suffix] == 'gzip' else 'zstd -d'} {name}"
    if layout is not None and layout.records:
        way = "" if layout.records == DOCUMENT else layout.records
        return f"jq -c '.{way}[]' {name} > {stem}.jsonl"
    return f"iconv -f utf-16 -t utf-8 {name} > {stem}.utf8{path.suffix}"


def _unpack(file: FileIO, layout: FileLayout, path: Path) -> Iterator[bytes]:
    import gzip  # noqa: PLC0415
    import zlib  # noqa: PLC0415

    file.seek(0)
    unpacked: Any = file
    if layout.packed == "gzip":
        unpacked = gzip.GzipFile(fileobj=file, mode="rb")
    elif layout.packed == "zstd":
        arrow = find_pyarrow("pyarrow")
        if arrow is None:
            raise ConfigError(
                "needs pyarrow, which is not installed here, to be unpacked",
                field=str(path),
                fix=f"install it: pip install 'sfumato[parquet]', or run {show_command(path)}",
            )
        # It closes what it is given.
        unpacked = arrow.input_stream(os.fdopen(os.dup(file.fileno()), "rb"), compression="zstd")
    try:
        while chunk := unpacked.read(_CHUNK_BYTES):
            yield chunk
    except (EOFError, zlib.error, OSError) as error:
        if unpacked is file or (isinstance(error, OSError) and error.errno):
            raise
        raise RecordError(
            f"must be a whole {layout.packed} file, and is cut short or something else",
            field=str(path),
            fix="read it once it is written whole, or correct packed",
        ) from error
    finally:
        if unpacked is not file:
            unpacked.close()


def _recode(chunks: Iterator[bytes], layout: FileLayout, path: Path) -> Iterator[bytes]:
    if not layout.is_utf16:
        yield from chunks
        return
    head = b""
    while len(head) < len(_MARKS[0]) and (chunk := next(chunks, b"")):
        head += chunk
    if head and not head.startswith(_MARKS):
        raise RecordError(
            "must begin with a mark of byte order, as UTF-16 does",
            field=str(path),
            fix="correct encoding",
        )
    # Half a unit at the end is no text: the last line is then no number, and never another one.
    decoder = codecs.getincrementaldecoder("utf-16")("replace")
    yield decoder.decode(head).encode()
    for chunk in chunks:
        yield decoder.decode(chunk).encode()
    yield decoder.decode(b"", final=True).encode()


def _take_records(chunks: Iterable[bytes], layout: FileLayout, path: Path) -> Iterator[bytes]:
    if not layout.records:
        yield from chunks
        return
    reader = ListReader(layout.records)
    try:
        for chunk in chunks:
            reader.feed(chunk)
            # White space as before, and in a text an error as before.
            yield from (each.replace(b"\n", b"\r") + b"\n" for each in reader.take())
        reader.finish()
    except DocumentError as error:
        raise RecordError(
            f"holds {error}",
            field=str(path),
            fix='write the way to the list of records as records, such as "data.items", or "."; '
            "read it once it is written whole",
        ) from error
