"""Every line is a record: nothing that it holds ends another, or makes it none."""

from itertools import pairwise

from hypothesis import given, strategies as st

from sfumato.shared.reading import BOM, LineCutter

texts = st.binary(max_size=20).filter(lambda text: b"\n" not in text)


def cut(data: bytes, places: list[int]) -> list[bytes]:
    cutter, found, done = LineCutter(), [], 0
    for place in [*sorted(places), len(data)]:
        blocks = [cutter.feed(data[done : max(place, done)])]
        done = max(done, min(place, len(data)))
        if done == len(data) and place == len(data):
            blocks.append(cutter.finish())
        for block in blocks:
            if block is not None:
                starts = [0, *block.ends.tolist()]
                found += [block.data[a:b] for a, b in pairwise(starts)]
    return found


@given(st.lists(texts, min_size=1, max_size=6), st.lists(st.integers(0, 99), max_size=4))
def test_lines_are_found_wherever_chunks_are_cut(lines: list[bytes], places: list[int]) -> None:
    data = b"".join(line + b"\n" for line in lines)
    wanted = [line + b"\n" for line in lines]
    wanted[0] = wanted[0].removeprefix(BOM)
    assert cut(data, [place for place in places if place < len(data)]) == wanted


def test_a_last_line_that_holds_a_mark_of_byte_order_alone_is_a_line() -> None:
    assert cut(b"x\n" + BOM, []) == [b"x\n", BOM]
    assert len(cut(BOM, [])) == 1
