"""One thread at a time in every estimator: two that begin at once do not both spend."""

from __future__ import annotations

import threading
from fractions import Fraction
from typing import Any

import pytest

from sfumato.analyst.estimators import lock
from sfumato.shared.errors import PrivacyError
from tests.analyst.estimators.kinds import make, make_records

RECORDS = make_records(200)


class WatchedLock:
    """A lock that tells when another thread than its maker's wants it."""

    def __init__(self, is_wanted: threading.Event) -> None:
        self._lock = threading.RLock()
        self._maker = threading.current_thread()
        self._is_wanted = is_wanted

    def __enter__(self) -> None:
        if threading.current_thread() is not self._maker:
            self._is_wanted.set()
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def fit_twice_at_once(found: Any) -> list[PrivacyError]:
    """Fit in two threads: the second begins after the first has looked at what was spent."""
    is_wanted, errors = threading.Event(), []
    lock._LOCKS[found] = WatchedLock(is_wanted)
    read_level = found._read_level

    def fit() -> None:
        try:
            found.fit(RECORDS)
        except PrivacyError as error:
            errors.append(error)

    other = threading.Thread(target=fit)

    def read_late() -> Any:
        if threading.current_thread() is other:
            is_wanted.set()  # It was not held up at all.
        elif not other.ident:
            other.start()
            assert is_wanted.wait(60)
        return read_level()

    found._read_level = read_late
    fit()
    other.join()
    return errors


@pytest.mark.parametrize("name", ["auto", "compressive", "grid", "moments"])
def test_threads_that_begin_at_once_spend_once(name: str) -> None:
    found = make(name, epsilon="2")
    (error,) = fit_twice_at_once(found)
    assert "would spend it again" in str(error)
    assert {event.stream for event in found.events_} == {"main"}
    assert len({event.plan_digest for event in found.events_}) == len(found.events_)
    assert found.guarantee_.epsilon <= 2


@pytest.mark.parametrize("name", ["compressive", "components"])
def test_threads_that_may_spend_again_are_counted_both(name: str) -> None:
    found = make(name, epsilon="2", refit=True)
    assert not fit_twice_at_once(found)
    assert {event.stream for event in found.events_} == {"main", "main.2"}
    assert found.guarantee_.epsilon > Fraction(39, 10)


def test_several_are_held_in_one_order_whoever_names_them() -> None:
    pair = [make("components") for _ in range(2)]
    taken: list[object] = []

    class Noting(WatchedLock):
        def __enter__(self) -> None:
            taken.append(self)
            super().__enter__()

    for each in pair:
        lock._LOCKS[each] = Noting(threading.Event())
    for named in (pair, pair[::-1]):
        with lock.holding(*named):
            pass
    assert taken[:2] == taken[2:]
    assert len(set(taken)) == 2


def test_what_moves_to_another_estimator_is_not_released_where_it_was() -> None:
    """A thread that looks at what another one merges away comes before the merge, or after it."""
    public = {"max_records": 400, "public_seed": 1}
    mine, others = (make("compressive", **public).partial_fit(RECORDS) for _ in range(2))
    is_wanted = threading.Event()
    lock._LOCKS[others] = WatchedLock(is_wanted)
    seen: list[object] = []
    other = threading.Thread(target=lambda: seen.append(hasattr(others, "release_")))
    merge = mine._held.merge

    def merge_late(held: Any) -> None:
        other.start()
        assert is_wanted.wait(60)
        merge(held)

    mine._held.merge = merge_late
    mine.merge(others)
    other.join()
    assert seen == [False]
    assert mine.n_records_seen_ == 400
    assert len(mine.events_) == 1
