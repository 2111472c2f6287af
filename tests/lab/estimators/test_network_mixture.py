"""Synthetic records from networks, as a data scientist asks for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from sfumato.lab import NetworkMixture
from sfumato.lab.generative.networks import training
from sfumato.shared.errors import ConfigError, DecodingError, SketchError, TableError

PARTS = ["calm", "wild"]
D = 6


def make(**changes: Any) -> NetworkMixture:
    usual: dict[str, Any] = {
        "parts": PARTS,
        "epsilon": "3",
        "delta": "1e-5",
        "bounds": (0, 1),
        "binary": True,
        "n_hidden": 8,
        "n_latent": 2,
        "n_steps": 40,
        "batch_rate": 0.25,
        "learning_rate": 0.05,
        "random_state": 0,
    }
    return NetworkMixture(**(usual | changes))


def draw(n: int = 4000) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(1)
    of = rng.integers(0, 2, size=n)
    chances = np.where(of, 0.9, 0.1)[:, None]
    values = (rng.random((n, D)) < chances).astype(float)
    return pd.DataFrame(values, columns=list("abcdef")), np.array(PARTS)[of]


@pytest.fixture(scope="module")
def fitted() -> NetworkMixture:
    return make().fit(*draw())


def test_drawn_records_are_like_those_of_their_part(fitted: NetworkMixture) -> None:
    drawn, parts = fitted.sample(2000)
    assert set(np.unique(drawn)) == {0.0, 1.0}
    assert drawn[parts == "wild"].mean() > 0.7
    assert drawn[parts == "calm"].mean() < 0.3
    assert np.allclose(fitted.part_sizes_, 2000, rtol=0.1)
    again, _ = fitted.sample(2000)
    assert np.array_equal(again, drawn)
    wanted, parts = fitted.sample(3, parts=["wild", "calm", "wild"])
    assert parts.tolist() == ["wild", "calm", "wild"]
    assert wanted.shape == (3, D)
    assert fitted.feature_names_in_.tolist() == list("abcdef")


def test_a_ledger_counts_before_anything_is_drawn_and_refuses_a_second_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records, of = draw(300)
    source = tmp_path / "records.csv"
    source.write_text("a\n")
    account = {
        "ledger": tmp_path / "owner.ledger",
        "source": source,
        "budget": "3",
        "delta": "1e-6",
        "n_steps": 2,
    }
    honest = training.draw_batch
    counted = []

    def look(*given: Any) -> Any:
        counted.append((tmp_path / "owner.ledger").exists())
        return honest(*given)

    monkeypatch.setattr(training, "draw_batch", look)
    make(**account).fit(records, of)
    assert counted
    assert all(counted)
    before = len(counted)
    # The second delta of 1e-6 is beyond what the ledger is judged at, which nobody can raise.
    with pytest.raises(SketchError, match=r"delta: must be at most 1e-06 .* Use a smaller delta"):
        make(**account, n_hidden=9).fit(records, of)
    assert len(counted) == before


def test_parts_are_found_where_none_are_given() -> None:
    rng = np.random.default_rng(1)
    of = rng.integers(0, 2, size=4000)
    records = (
        np.where(of[:, None] == (np.arange(D) < 3), 0.9, 0.1) + rng.normal(size=(4000, D)) * 0.03
    )
    start = np.array([[1.0] * 3 + [0.0] * 3, [0.0] * 3 + [1.0] * 3])
    model = make(parts=None, n_parts=2, start=start, binary=False, epsilon="8", bandwidth=1.0)
    assert model.plan_events(D) == model.fit(records).events_
    found = model.predict(records)
    assert max(np.mean(found == of), np.mean(found != of)) > 0.95
    drawn, parts = model.sample(500)
    means = [drawn[parts == part].mean(axis=0) for part in (0, 1)]
    assert (np.abs(means[0] - means[1]) > 0.3).all()
    assert drawn.min() >= 0.0
    assert drawn.max() <= 1.0
    missing = records[:2].copy()
    missing[0, 0] = np.nan
    assert model.predict(missing)[0] == -1


@pytest.mark.parametrize("clipping", ["fixed", "dpnorm"])
def test_other_ways_to_clip_train_too(clipping: Any) -> None:
    records, of = draw()
    model = make(clipping=clipping, clipping_norm=4.0).fit(records, of)
    drawn, parts = model.sample(1000)
    assert drawn[parts == "wild"].mean() > drawn[parts == "calm"].mean() + 0.3


@pytest.mark.parametrize("n", [0, 3])
def test_hardly_any_records_cause_no_error_that_tells_of_them(n: int) -> None:
    # Noise of four standard deviations shows a part: 1e-4, and in each of three fits in 1e-12.
    fits = [make(n_steps=2).fit(np.ones((n, D)), PARTS[:1] * n) for _ in range(3)]
    assert [len(model.events_) for model in fits] == [1, 1, 1]
    hidden = [model for model in fits if not model.part_sizes_.any()]
    with pytest.raises(DecodingError, match="no part that its noise does not hide"):
        hidden[0].sample(1)


def test_a_machine_draws_zeros_and_ones() -> None:
    records, _ = draw()
    model = make(parts=None, network="rbm").fit(records.to_numpy())
    drawn, parts = model.sample(300)
    assert set(np.unique(drawn)) <= {0.0, 1.0}
    assert set(parts) == {0}
    # There is one part alone.
    assert model.predict(np.array([[0.0] * D, [np.nan] * D])).tolist() == [0, -1]


def test_a_part_without_records_and_records_without_part_are_harmless() -> None:
    records, of = draw(1000)
    of[:100] = "unheard"
    records.iloc[5, 1] = np.nan
    empty = [f"empty {i}" for i in range(6)]
    model = make(parts=[*PARTS, *empty], n_steps=2).fit(records, of)
    # Noise of four standard deviations shows a part: 3e-5, and three of six in 1e-12.
    hidden = [part for part, size in zip(empty, model.part_sizes_[2:], strict=True) if size == 0.0]
    assert len(hidden) >= 4
    assert not {*hidden} & {*model.sample(1000)[1]}
    with pytest.raises(DecodingError, match="has a part that its noise hides"):
        model.sample(1, parts=hidden[:1])


def test_parts_that_were_given_are_not_predicted(fitted: NetworkMixture) -> None:
    with pytest.raises(ConfigError, match="were not found but given"):
        fitted.predict(draw(10)[0])


def test_other_numbers_of_parts_than_of_records_are_refused_before_anything_is_spent() -> None:
    model = make()
    with pytest.raises(TableError, match="y: must have 2 values"):
        model.fit(np.zeros((2, D)), PARTS[:1])
    assert not hasattr(model, "events_")
