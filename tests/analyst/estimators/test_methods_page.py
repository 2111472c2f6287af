"""The section of methods: its examples run, in their order, on records that it does not know."""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "clustering.md"
SECTION = "## Methods of the literature"


def test_every_example_of_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    means = np.array([[20.0, 10.0], [-10.0, 60.0], [40.0, 100.0]])
    records = means[rng.integers(3, size=6000)] + rng.normal(scale=3.0, size=(6000, 2))
    known: dict[str, Any] = {"records": records, "others": records[:10]}
    section = PAGE.read_text(encoding="utf-8").partition(f"\n{SECTION}\n")[2].partition("\n## ")[0]
    examples = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    assert len(examples) == 6
    for example in examples:
        exec(compile(example, str(PAGE), "exec"), known)
    distances = np.linalg.norm(known["refined"].cluster_centers_[:, None] - means, axis=2)
    assert distances.min(axis=0).max() < 5.0
    # One centre for all has some 1,900. Those with one start may end in a local optimum.
    assert len(known["table"]) == 9
    assert max(known["table"].values()) < 1500.0
    several = {"sketch", "grid", "tree", "candidates", "cover"}
    assert max(known["table"][way] for way in several) < 100.0
    assert known["again"].digest == known["found"].release_.digest
    # Six deviations of its noise: once in 1e8.
    cost, tree = known["cost"].cost, known["tree"]
    squares = ((records[:, None] - tree.cluster_centers_) ** 2 / tree.metric_**2).sum(axis=2)
    inside = np.minimum(squares.min(axis=1), 0.4**2)
    assert abs(cost.mean - inside.mean()) < 6 * cost.mean_std < 0.01
    assert cost.largest_distance == 0.4
    assert tree.guarantee_.epsilon == Fraction(11, 10)
