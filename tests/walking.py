"""Walks over a matrix in one test, where its cells share what took long to set up."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType


class Walk:
    """Cells that are all tried before the test fails; its message names every one that failed.

    ::

        with Walk() as walk:
            for k in (0, -3):
                with walk.cell(k):
                    assert is_refused(k)
    """

    def __init__(self) -> None:
        self._failed: list[str] = []
        self._n_cells = 0

    def __enter__(self) -> Walk:
        return self

    @contextmanager
    def cell(self, *named: object) -> Iterator[None]:
        """Try one cell; a failed assertion is kept for the end."""
        self._n_cells += 1
        try:
            yield
        except AssertionError as error:
            self._failed.append(f"{', '.join(map(repr, named))[:200]}: {error}")

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        if kind is None:
            assert self._n_cells, "the walk has no cell"
            assert not self._failed, "\n\n".join(self._failed)
