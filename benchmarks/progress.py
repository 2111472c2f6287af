"""A progress bar on standard error, for whoever waits in a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn


class ProgressBar:
    """A bar that gives way to what is printed; without ``progress`` there is none to see."""

    def __init__(self, progress: Progress | None, total: int) -> None:
        self._progress = progress
        self._task = progress.add_task("", total=total) if progress else None

    def tell(self, words: str, advance: int) -> None:
        """Say what is being done, and count what has been."""
        if self._progress is not None and self._task is not None:
            self._progress.start()
            self._progress.update(self._task, description=words, advance=advance, refresh=True)

    def pause(self) -> None:
        """Take the bar off the screen until it is told more."""
        if self._progress is not None:
            self._progress.stop()


@contextmanager
def show_progress(total: int) -> Iterator[ProgressBar]:
    """Show a bar while the block lasts, if standard error is a terminal."""
    if not sys.stderr.isatty():
        yield ProgressBar(None, total)
        return
    progress = Progress(
        TextColumn("{task.description:<48}"),
        BarColumn(),
        MofNCompleteColumn(),
        console=Console(stderr=True),
        # A thread that refreshed it would count as the solver's time.
        auto_refresh=False,
        transient=True,
        # Rows go where standard output goes, whole.
        redirect_stdout=False,
        redirect_stderr=False,
    )
    bar = ProgressBar(progress, total)
    try:
        yield bar
    finally:
        bar.pause()
