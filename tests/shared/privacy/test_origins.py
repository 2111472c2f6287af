"""Which streams may read the same records: decided by public facts, and never too narrowly."""

import itertools
from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from sfumato.shared.errors import ConfigError
from sfumato.shared.privacy import Origin, OriginIndex, TimeSpan
from sfumato.shared.privacy.origins import ANY_TIME

LEVELS = ("a", "b", "")
TOPICS = ["/".join(t) for n in (1, 2, 3, 4) for t in itertools.product(LEVELS, repeat=n)]


def matches(topic_filter: str, topic: str) -> bool:
    """Tell whether a filter matches a topic: MQTT 5.0, section 4.7.1, read word by word."""
    levels, names = topic_filter.split("/"), topic.split("/")
    for i, level in enumerate(levels):
        if level == "#":
            return len(names) >= i
        if i >= len(names) or level not in ("+", names[i]):
            return False
    return len(levels) == len(names)


filters = st.builds(
    lambda levels, rest: "/".join([*levels, *rest]),
    st.lists(st.sampled_from([*LEVELS, "+"]), min_size=1, max_size=3),
    st.sampled_from([[], ["#"]]),
) | st.just("#")


def mqtt(topic_filter: str, broker: str = "b") -> Origin:
    return Origin(kind="mqtt", name=f"{broker} {topic_filter}")


@given(a=filters, b=filters)
def test_filters_overlap_where_a_topic_matches_both_and_nowhere_else(a: str, b: str) -> None:
    both = any(matches(a, topic) and matches(b, topic) for topic in TOPICS)
    assert mqtt(a).overlaps(mqtt(b)) == mqtt(b).overlaps(mqtt(a)) == both
    assert not mqtt(a).overlaps(mqtt(b, "another"))


@pytest.mark.parametrize("shared", ["$share/group/a/+", "$queue/a/+", "$exclusive/a/+"])
def test_a_shared_subscription_overlaps_what_it_shares(shared: str) -> None:
    assert mqtt(shared).overlaps(mqtt("a/b"))
    assert not mqtt(shared).overlaps(mqtt("b/a"))


names = st.sampled_from(["/d/a", "/d/b", "/d", "/d/a/c", "/dd/a", "/e/a", "/"])
origins = st.builds(
    Origin,
    kind=st.sampled_from(["path", "folder", "tree", "file", "http", "stdin"]),
    name=names,
    part=st.sampled_from(["", "x", "y"]),
    times=st.sampled_from(["", "5 9 a", "9  a", "9  b", "2 6 a"]),
) | st.builds(mqtt, filters)
readers = st.tuples(st.just(b"study"), st.sampled_from("pqrs"))


@given(a=origins, b=origins)
def test_overlapping_is_symmetric_and_everything_overlaps_itself(a: Origin, b: Origin) -> None:
    assert a.overlaps(a)
    assert a.overlaps(b) == b.overlaps(a)


@given(
    known=st.lists(st.tuples(readers, origins), max_size=12),
    reader=readers,
    asked=st.lists(origins, max_size=3),
)
def test_the_index_finds_what_comparing_all_finds(
    known: list[tuple[tuple[bytes, str], Origin]],
    reader: tuple[bytes, str],
    asked: list[Origin],
) -> None:
    index = OriginIndex()
    for other, origin in known:
        index.add(other, origin)
    own = [origin for other, origin in known if other == reader] + asked
    near = {r for r, o in known if r != reader and any(o.overlaps(one) for one in own)}
    assert index.find_near(reader, asked) == near
    # Of the same people: the same places, whatever their times.
    own = [replace(origin, times=ANY_TIME) for origin in own]
    people = {r for r, o in known if r != reader and any(o.overlaps(one) for one in own)}
    assert index.find_same_people(reader, asked) == people
    assert people >= near


@pytest.mark.parametrize(
    ("folder", "path", "expected"),
    [("/d", "/d/a", True), ("/d", "/d/e/a", False), ("/", "/a", True), ("/d", "/dd/a", False)],
)
def test_a_folder_holds_the_files_in_it(folder: str, path: str, expected: bool) -> None:
    whole = Origin(kind="folder", name=folder)
    assert whole.overlaps(Origin(kind="path", name=path)) == expected


def test_parts_are_disjoint_only_where_both_are_named() -> None:
    whole, x, y = (Origin(kind="path", name="/d/a", part=part) for part in ("", "x", "y"))
    assert whole.overlaps(x)
    assert not x.overlaps(y)


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"origin\.kind: must be one of"):
        Origin(kind="tape", name="x")


spans = st.builds(
    lambda since, length, reading: TimeSpan(
        since=since, until=None if length is None else since + length, reading=reading
    ),
    st.integers(-5, 9),
    st.none() | st.integers(1, 9),
    st.sampled_from("ab"),
)


@given(a=spans, b=spans)
def test_times_are_apart_where_no_time_is_in_both_and_they_are_read_alike(
    a: TimeSpan, b: TimeSpan
) -> None:
    def times(span: TimeSpan) -> set[int]:
        return set(range(span.since, 99 if span.until is None else span.until))

    expected = a.reading == b.reading and not times(a) & times(b)
    assert a.is_apart(b) == b.is_apart(a) == expected
    files = [Origin(kind="file", name="f", times=span.text) for span in (a, b)]
    assert files[0].overlaps(files[1]) != expected
    assert TimeSpan.parse(a.text) == a


def test_an_origin_of_any_time_overlaps_all_times() -> None:
    assert Origin(kind="stdin", name="").overlaps(Origin(kind="stdin", name="", times="1 2 a"))


@pytest.mark.parametrize("times", ["x", "1 2", "2 2 a", "3 1 a", "1 x a"])
def test_times_that_are_no_span_are_refused(times: str) -> None:
    with pytest.raises(ConfigError, match=r"origin\.times"):
        Origin(kind="file", name="f", times=times)
