import itertools

from hypothesis import given, strategies as st

from sfumato.aggregator.base.sums.dyadic import cover, homes, smallest_node, widen_root

SLOTS = st.integers(-(1 << 53) + 1, (1 << 53) - 1)


@given(SLOTS, st.integers(0, 1 << 40), st.data())
def test_a_range_is_made_of_few_nodes_that_hold_every_slot_of_it_once(
    first: int, n_slots: int, data: st.DataObject
) -> None:
    last = min(first + n_slots, (1 << 53) - 1)
    root = widen_root(None, first, last)
    lower, upper = sorted(data.draw(st.tuples(*[st.integers(first, last)] * 2)))
    chosen = cover(root, lower, upper)
    assert sum(1 << node.level for node in chosen.nodes) == upper - lower + 1
    ranges = sorted((node.first, node.last) for node in chosen.nodes)
    assert all(a[1] + 1 == b[0] for a, b in itertools.pairwise(ranges))
    assert len(chosen.nodes) <= max(1, 2 * (upper - lower + 1).bit_length())
    assert len(chosen.crossed) <= 2 * root.level + 1


@given(SLOTS, st.integers(0, 100), st.integers(0, 1000), st.integers(0, 1000))
def test_a_sketch_is_found_once_in_each_range_that_holds_it_and_in_no_other(
    first: int, length: int, before: int, more: int
) -> None:
    last = min(first + length, (1 << 53) - 1)
    lower, upper = max(first - 500 + before, 1 - (1 << 53)), min(last - 500 + more, (1 << 53) - 1)
    root = widen_root(widen_root(None, first, last), min(lower, upper), max(lower, upper))
    chosen = cover(root, lower, upper)
    found = [n for n in homes(first, last, root) if n in chosen.nodes or chosen.takes(n)]
    assert len(found) == (lower <= first and last <= upper)


@given(st.integers(0, 1 << 30), st.integers(0, 1 << 30))
def test_slots_around_the_origin_have_a_low_root(before: int, after: int) -> None:
    root = widen_root(None, -before, after)
    assert root.level <= max(before, after).bit_length() + 3


@given(SLOTS, SLOTS)
def test_the_smallest_node_over_slots_has_halves_that_do_not_hold_both(one: int, two: int) -> None:
    low, high = sorted((one + (1 << 54), two + (1 << 54)))
    node = smallest_node(low, high)
    assert node.first <= low <= high <= node.last
    if node.level:
        left, right = node.children()
        assert low <= left.last
        assert right.first <= high
