"""Plans and records for sketches of files."""

from __future__ import annotations

import itertools
import secrets
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from sfumato.analyst.sketching import release
from sfumato.analyst.sketching.reader import choose_fields
from sfumato.analyst.sketching.release import Summed, sum_file
from sfumato.shared.core.engines import default_engine
from sfumato.shared.plan import Dimension, PlanSpec, SketchPlan, WindowRule, create_plan
from sfumato.shared.privacy.testing import SeededSource
from sfumato.shared.reading import Fields
from tests.device_agent.sources.streams import make_dimensions

NAMES = ("a", "b", "c")


def seed_sketches(patch: pytest.MonkeyPatch, *, seed: int = 1) -> None:
    """Let noise and the frequencies of refined plans come from a seed: every run is the same."""
    seeds = itertools.count(seed)
    patch.setattr(release, "SystemSource", lambda: SeededSource(next(seeds)))
    patch.setattr(secrets, "token_hex", lambda n_bytes: f"{seed:0{2 * n_bytes}x}")


def make_plan(*, masked: bool = False, least: int = 1, most: int = 1_000_000) -> SketchPlan:
    return create_plan(
        PlanSpec(
            dimensions=tuple(
                Dimension(name=name, unit="1", lower=-3.0, upper=3.0, scale=0.5) for name in NAMES
            ),
            n_frequencies=12,
            seed=bytes(32).hex(),
            epsilon=Fraction(1),
            window=WindowRule(kind="count", length=max(least, min(1000, most))),
            least_records=least,
            most_records=most,
            measurements_per_record=4 if masked else 12,
        )
    )


def make_records(n: int, seed: int = 0) -> NDArray[np.float64]:
    """Records inside and outside the box, and some that cannot be sketched."""
    generator = np.random.default_rng(seed)
    records = generator.normal(0.0, 2.0, size=(n, len(NAMES)))
    records[generator.random(records.shape) < 0.01] = np.nan
    return records


def sum_of(path: Path, plan: SketchPlan, fields: Fields | None = None, threads: int = 3) -> Summed:
    return sum_file(
        path,
        plan,
        fields or choose_fields(make_dimensions(*NAMES)),
        stream="main",
        engine=default_engine(),
        n_threads=threads,
        most_unreadable=1.0,
    )
