import pytest
from hypothesis import given, strategies as st

from sfumato.aggregator.base import rates
from sfumato.aggregator.base.rates import RateLimit
from sfumato.shared.errors import OverloadedError


class Watch:
    """A monotonic clock that is moved by hand."""

    seconds = 0.0

    def read(self) -> float:
        return self.seconds


def make(per_second: float, burst: int) -> tuple[RateLimit, Watch]:
    watch = Watch()
    limit = RateLimit(per_second=per_second, burst=burst, what="device", monotonic=watch.read)
    return limit, watch


def is_let_through(limit: RateLimit, sender: str = "a") -> bool:
    try:
        limit.spend(sender)
    except OverloadedError:
        return False
    return True


@given(
    st.lists(st.floats(0.0, 3.0), max_size=60),
    st.sampled_from([0.5, 2.0, 8.0]),
    st.integers(1, 5),
)
def test_never_more_pass_than_the_burst_and_what_came_back(
    pauses: list[float], per_second: float, burst: int
) -> None:
    limit, watch = make(per_second, burst)
    n_passed = 0
    for pause in pauses:
        watch.seconds += pause
        n_passed += is_let_through(limit)
        assert n_passed <= burst + per_second * watch.seconds + 1e-9


@given(st.sampled_from([0.5, 2.0, 8.0]), st.integers(1, 5))
def test_who_waits_as_long_as_it_is_told_passes(per_second: float, burst: int) -> None:
    limit, watch = make(per_second, burst)
    while is_let_through(limit):
        pass
    with pytest.raises(OverloadedError) as caught:
        limit.spend("a")
    watch.seconds += caught.value.retry_after_s
    assert is_let_through(limit)


def test_senders_have_buckets_of_their_own() -> None:
    limit, _ = make(1.0, 1)
    assert is_let_through(limit, "a")
    assert not is_let_through(limit, "a")
    assert is_let_through(limit, "b")


def test_the_memory_of_senders_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rates, "_MOST_SENDERS", 10)
    limit, _ = make(1.0, 1)
    for i in range(100):
        limit.spend(str(i))
    assert len(limit._buckets) == 10
