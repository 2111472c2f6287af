"""One thread at a time in an estimator: two that look at once must not both spend."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from threading import Lock, RLock
from typing import Any
from weakref import WeakKeyDictionary

# Beside the estimators and not in them: a lock can be neither stored nor copied.
_LOCKS: WeakKeyDictionary[object, Any] = WeakKeyDictionary()
_FINDING = Lock()


@contextmanager
def holding(*estimators: object) -> Iterator[None]:
    """Hold estimators until the block ends; a thread that holds them may do so again.

    They are taken in one order by all, so that no two threads wait for each other.
    """
    with _FINDING:
        locks = [_LOCKS.setdefault(each, RLock()) for each in sorted(estimators, key=id)]
    with ExitStack() as held:
        for lock in locks:
            held.enter_context(lock)
        yield
