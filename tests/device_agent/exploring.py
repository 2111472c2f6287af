"""Explorations of state machines, and of machines in which a mistake is planted."""

import itertools
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test


def explore(
    of: Any, root: Path, *, n_examples: int, n_steps: int, first: int | None = None, **choices: Any
) -> None:
    """Run examples of a machine, each in a folder of its own."""
    root.mkdir(exist_ok=True)
    machine = type("Machine", (of,), {"folders": (root / str(i) for i in itertools.count())})
    run_state_machine_as_test(
        machine if first is None else seed(first)(machine),
        settings=settings(
            max_examples=n_examples,
            stateful_step_count=n_steps,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            **choices,
        ),
    )


def require_found(of: Any, root: Path, *, n_steps: int, soon: int) -> None:
    """Check that many short explorations find a mistake.

    Short ones, for each long one begins with its smallest examples. The one of the seed ``soon`` is
    made before all others.
    """

    def search() -> None:
        choices: Any = {"n_examples": 12, "n_steps": n_steps, "phases": [Phase.generate]}
        for number, first in enumerate([soon, *range(40)]):
            explore(of, root / str(number), first=first, **choices)

    with pytest.raises(BaseException) as caught:  # noqa: PT011
        search()
    # One that breaks by itself proves nothing.
    assert not isinstance(caught.value, TypeError | AttributeError | NameError)
