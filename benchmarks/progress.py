"""Progress bar on standard error."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn


class ProgressBar:
    """A bar that gives way to printed rows; without ``progress`` nothing is shown."""

    def __init__(self, progress: Progress | None, total: int) -> None:
        self._progress = progress
        self._task = progress.add_task("", total=total) if progress else None

    def report(self, words: str, advance: int) -> None:
        """Show the current step, and advance the count."""
        if self._progress is not None and self._task is not None:
            self._progress.start()
            self._progress.update(self._task, description=words, advance=advance, refresh=True)

    def pause(self) -> None:
        """Remove the bar from the screen until the next report."""
        if self._progress is not None:
            self._progress.stop()


@contextmanager
def show_progress(total: int) -> Iterator[ProgressBar]:
    """Show a bar during the block, if standard error is a terminal."""
    if not sys.stderr.isatty():
        yield ProgressBar(None, total)
        return
    progress = Progress(
        TextColumn("{task.description:<48}"),
        BarColumn(),
        MofNCompleteColumn(),
        console=Console(stderr=True),
        # A refreshing thread would count as the solver's time.
        auto_refresh=False,
        transient=True,
        # Rows go to standard output unchanged.
        redirect_stdout=False,
        redirect_stderr=False,
    )
    bar = ProgressBar(progress, total)
    try:
        yield bar
    finally:
        bar.pause()
