from __future__ import annotations

import io
import sys

import pytest

from sfumato.analyst.estimators import progress
from sfumato.analyst.estimators.progress import follow_step
from tests.analyst.estimators import kinds


class Clock:
    now = 0.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(progress, "time", made)
    return made


def run_step(clock: Clock, seconds: float, *, verbose: bool = True) -> None:
    show = follow_step("decoding", verbose=verbose)
    for i in range(1, 101):
        clock.now += seconds / 100.0
        show(i / 100.0)


def test_a_long_step_shows_a_line_every_five_seconds(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    run_step(clock, 20.0)
    shown = capsys.readouterr().err.splitlines()
    assert shown[0] == "decoding:   5%, 1 s"
    assert shown[-1] == "decoding: 100%, 20 s"
    assert 4 <= len(shown) <= 6


def test_a_terminal_has_one_line_that_changes(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stderr", terminal)
    run_step(clock, 20.0)
    shown = terminal.getvalue()
    assert shown.count("\r") >= 15
    assert shown.count("\n") == 1
    assert shown.endswith("\n")


@pytest.mark.parametrize(("seconds", "verbose"), [(0.5, True), (20.0, False)])
def test_short_steps_and_quiet_fits_show_nothing(
    clock: Clock, capsys: pytest.CaptureFixture[str], seconds: float, verbose: bool
) -> None:
    run_step(clock, seconds, verbose=verbose)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("name", ["compressive", "grid", "auto"])
def test_a_fit_follows_its_steps_to_their_end(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "_BEFORE", 0.0)
    monkeypatch.setattr(progress, "_BETWEEN", 0.0)
    kinds.make(name, verbose=True).fit(kinds.make_records())
    assert ": 100%" in capsys.readouterr().err
