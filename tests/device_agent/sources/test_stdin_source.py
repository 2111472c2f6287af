import math
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from sfumato.device_agent.sources.stdin_source import StdinSource
from sfumato.shared.errors import ConfigError, RecordError
from tests.device_agent.sources.streams import DIGEST_KEY, Reader, make_stream


class Pipe:
    def __init__(self, reader: Reader) -> None:
        self.read_end, self.write_end = os.pipe()
        known = list(reader.known.values())
        self.source = StdinSource(
            reader.stream, reader.dimensions, known, DIGEST_KEY, fd=self.read_end
        )

    def write(self, data: bytes) -> None:
        os.write(self.write_end, data)

    def finish(self) -> None:
        os.close(self.write_end)

    def close(self) -> None:
        self.source.close()
        os.close(self.read_end)


def make_reader(**options: Any) -> Reader:
    return Reader(make_stream(Path("/"), kind="stdin", **options))


def numbers(pipe: Pipe) -> list[float]:
    found: list[float] = []
    while (batch := pipe.source.read_batch()) is not None:
        found += batch.values[:, 0].tolist()
    return found


def test_a_pipe_gives_whole_lines_as_they_come() -> None:
    pipe = Pipe(make_reader())
    assert numbers(pipe) == []
    pipe.write(b"\xef\xbb\xbfx,y\n1,0\n2")
    assert numbers(pipe) == [1]
    pipe.write(b",0\nbad,0\n4,0")
    found = numbers(pipe)
    assert (found[0], str(found[1]), pipe.source.ended) == (2, "nan", False)
    pipe.finish()
    assert numbers(pipe) == [4]
    assert pipe.source.ended
    assert "line 4 (x)" in pipe.source.report.describe()[0]
    pipe.close()


@settings(deadline=None, max_examples=30)
@given(cuts=st.lists(st.integers(0, 60), max_size=8))
def test_chunks_change_nothing(cuts: list[int]) -> None:
    data = b"x,y\n" + b"".join(b"%d,0\n" % i for i in range(12)) + b"12,0"
    pipe = Pipe(make_reader())
    found, done = [], 0
    for cut in sorted(cuts):
        pipe.write(data[done : max(cut, done)])
        done = max(done, min(cut, len(data)))
        found += numbers(pipe)
    pipe.write(data[done:])
    pipe.finish()
    found += numbers(pipe)
    pipe.close()
    assert found == list(range(13))


def test_a_record_without_a_time_may_have_that_of_its_arrival(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pipe = Pipe(make_reader(timestamp="arrival"))
    times = []
    for i in range(2):
        monkeypatch.setattr(time, "time", lambda moment=1000.5 + i: moment)
        pipe.write(b"x,y,arrival\n1,0,7\nbad,0,8\n" if i == 0 else b"\n2,0,9\n")
        while (batch := pipe.source.read_batch()) is not None:
            times += batch.timestamps.tolist()
    pipe.finish()
    pipe.close()
    # A line that is no record of values has a time too, and what a field says counts for nothing.
    assert times == [1000.5, 1000.5, 1001.5, 1001.5]
    assert not any("time" in line for line in pipe.source.report.describe())


def test_the_time_of_arrival_has_no_time_of_day_of_its_own() -> None:
    with pytest.raises(ConfigError, match=r"timestamp_clock.*arrival"):
        make_reader(timestamp="arrival", timestamp_clock="clock")


def test_records_with_ids_are_known_when_they_are_fed_again() -> None:
    reader = make_reader(format="jsonl", id="n")
    feed = b"".join(b'{"n": %d, "x": %d}\n' % (i, i) for i in range(5))
    pipe = Pipe(reader)
    pipe.write(feed)
    batch = pipe.source.read_batch()
    assert batch is not None
    reader.remember(batch.position_after, 2)
    pipe.close()
    pipe = Pipe(reader)
    pipe.write(feed + b'{"n": 4, "x": 9}\n{"n": 7, "x": 7}\n')
    assert numbers(pipe) == [3, 4, 7]
    assert "4 record(s) were dropped" in pipe.source.report.describe()[0]
    pipe.close()


def test_a_record_without_a_readable_id_keeps_its_place_and_moves_no_other() -> None:
    pipe = Pipe(make_reader(format="jsonl", id="n"))
    pipe.write(
        b'{"n": 1, "x": 1}\n{"x": 9}\n{"n": 1e300, "x": 9}\nnonsense\n{"n": 2, "x": 2}\n'
        # An id is read though what is behind it is broken.
        b'{"n": 3, "x": [\n{"n": 3, "x": 3}\n{"n": 4, "x": 4}\n'
    )
    batch = pipe.source.read_batch()
    assert batch is not None
    nan = math.nan
    np.testing.assert_array_equal(batch.values[:, 0], [1, nan, nan, nan, 2, nan, 4])
    assert batch.position_after(3).place == {"records": 4, "id": 1}
    assert batch.position_after(6).place == {"records": 7, "id": 4}
    messages = pipe.source.report.describe()
    assert messages[:2] == [
        "1 record(s) were dropped: they were read before",
        "3 record(s) have no readable id, a whole number from 0 to 9223372036854775807, and count "
        "as zero",
    ]
    pipe.close()


@pytest.mark.parametrize("form", ["csv", "jsonl"])
@pytest.mark.parametrize("last", [2**53 + 1, 2**63 - 1])
def test_ids_of_64_bits_are_told_apart(form: str, last: int) -> None:
    ids = [last - 1, last - 1, last, 2**63]
    lines = [f"{n},1\n" if form == "csv" else f'{{"n": {n}, "x": 1}}\n' for n in ids]
    pipe = Pipe(
        make_reader(format=form, id="n", **({"header": ["n", "x"]} if form == "csv" else {}))
    )
    pipe.write("".join(lines).encode())
    batch = pipe.source.read_batch()
    assert batch is not None
    np.testing.assert_array_equal(batch.values[:, 0], [1, 1, math.nan])
    assert batch.position_after(1).place == {"records": 2, "id": last}
    pipe.close()


def test_without_ids_positions_only_count() -> None:
    reader = make_reader()
    pipe = Pipe(reader)
    pipe.write(b"x\n1\n2\n")
    batch = pipe.source.read_batch()
    assert batch is not None
    assert batch.position_after(1).place == {"records": 2}
    assert pipe.source.guarantee.delivery == "at most once"
    assert pipe.source.guarantee.consumes
    pipe.close()


def test_a_line_without_bounds_is_one_record() -> None:
    pipe = Pipe(make_reader())
    found: list[float] = []
    data = b"x,y\n1,0\n" + b"9" * 3_000_000 + b"\n2,0\n"
    writer = threading.Thread(target=pipe.write, args=(data,))
    writer.start()
    while len(found) < 3:
        found += numbers(pipe)
        assert len(pipe.source._cutter._rest) < 1 << 17
    writer.join()
    assert (found[0], str(found[1]), found[2]) == (1, "nan", 2)
    pipe.close()


def test_a_header_without_the_column_is_refused() -> None:
    pipe = Pipe(make_reader())
    pipe.write(b"a,b\n1,2\n")
    with pytest.raises(RecordError, match="x: the column is not in the header of standard input"):
        pipe.source.read_batch()
    pipe.close()


def test_ids_of_records_that_are_not_wanted_make_none_a_repetition() -> None:
    pipe = Pipe(make_reader(id="n", where={"s": "a"}))
    pipe.write(b"n,s,x\n1,a,1\n1000,b,2\n2,a,3\n")
    pipe.finish()
    assert numbers(pipe) == [1.0, 3.0]
    pipe.close()


def test_a_real_standard_input_is_read_to_its_end() -> None:
    program = (
        "from pathlib import Path\n"
        "from tests.device_agent.sources.streams import make_dimensions, make_stream\n"
        "from sfumato.device_agent.sources import open_source\n"
        "stream = make_stream(Path('/'), kind='stdin')\n"
        "source = open_source(stream, make_dimensions('x'), [], bytes(32))\n"
        "print(sum(float(batch.values.sum()) for batch in source.read()))\n"
    )
    feed = "x\n" + "1\n" * 10_000
    done = subprocess.run(
        [sys.executable, "-c", program], input=feed, capture_output=True, text=True, check=True
    )
    assert done.stdout == "10000.0\n"
