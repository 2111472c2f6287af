"""A microcontroller that loses its power at any operation of its storage releases nothing twice."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.c.building import (
    SANITISED,
    compile_c,
    number_of,
    render_plans,
)
from tests.clients.c.conftest import HERE, Compile

KINDS = {"nothing done": 0, "half done": 1, "done": 2, "scrambled": 3}
PLANS = ("wire by count", "look by count")
OPERATIONS = 25
"""A run has 24: a new device, two releases and two settlements; the last cut comes never."""
Run = tuple[dict[int, set[str]], int]


@pytest.fixture(scope="session")
def power(tmp_path_factory: pytest.TempPathFactory, library: Compile) -> Path:
    objects = library(SANITISED)
    folder = tmp_path_factory.mktemp("power")
    (folder / "plans.h").write_text(render_plans(from_seed=False))
    return compile_c(folder, SANITISED, [HERE / "power.c", *objects], "power")


def run_all(
    program: Path, kind: int, first: int, second: int, *, plan: str = PLANS[0]
) -> Iterator[tuple[str, Run]]:
    """Yield what was sent by sequence number, and the ledger, of each pair of cuts."""
    words = [str(word) for word in (number_of(plan), kind, first, second)]
    done = subprocess.run([program, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for text in done.stdout.split("cut ")[1:]:
        cuts, *lines = text.splitlines()
        sent: dict[int, set[str]] = {}
        for line in lines[:-1]:
            name, sequence, digest = line.split()
            assert name == "sent", (cuts, line)
            sent.setdefault(int(sequence), set()).add(digest)
        assert lines[-1].startswith("end "), (cuts, lines[-1])
        ledger = lines[-1].split()[1]
        yield cuts, (sent, int(ledger))


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("kind", KINDS)
def test_after_any_two_cuts_the_same_bytes_are_sent_or_none_and_what_was_spent_stays(
    power: Path, kind: str, plan: str
) -> None:
    counts = set()
    for cuts, (sent, ledger) in run_all(power, KINDS[kind], OPERATIONS, 8, plan=plan):
        assert [len(messages) for messages in sent.values()] == [1] * len(sent), cuts
        assert sorted(sent) == list(range(ledger)), cuts
        counts.add(ledger)
    # Two windows where no cut cost records, fewer where one did.
    assert max(counts) == 2
    assert min(counts) < 2


def test_cuts_reach_every_operation_of_a_run(power: Path) -> None:
    runs = [run for _, run in run_all(power, KINDS["half done"], OPERATIONS, 1)]
    assert runs[-1][1] == 2
    # The cut before the last lies in the last settlement: the message is sent, and known as sent.
    assert [len(sent) for sent, _ in runs[-2:]] == [2, 2]
