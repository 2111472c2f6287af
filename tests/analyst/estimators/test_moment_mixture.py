"""Synthetic records from moments, as a data scientist asks for them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from sfumato.analyst.estimators import MomentMixture
from sfumato.shared.errors import ConfigError, DecodingError, TableError

PARTS = ["calm", "wild"]


def make(**changes: Any) -> MomentMixture:
    usual: dict[str, Any] = {
        "parts": PARTS,
        "epsilon": "1",
        "delta": "1e-6",
        "bounds": (-8, 8),
        "n_directions": 3,
        "random_state": 0,
    }
    return MomentMixture(**(usual | changes))


def draw(n: int = 20_000) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(1)
    of = rng.integers(0, 2, size=n)
    values = rng.normal(size=(n, 3)) * 0.5 + np.where(of, 4.0, -4.0)[:, None]
    return pd.DataFrame(values, columns=["a", "b", "c"]), np.array(PARTS)[of]


def test_drawn_records_are_like_those_of_their_part() -> None:
    records, of = draw()
    # Fresh noise and 2,000 draws: a standard deviation errs by 0.013, a mean by 0.007. A false
    # alarm has a chance below 1e-10.
    model = make(epsilon="30").fit(records, of)
    drawn, parts = model.sample(4000)
    assert set(parts) == set(PARTS)
    for part, centre in zip(PARTS, (-4.0, 4.0), strict=True):
        assert np.allclose(drawn[parts == part].mean(axis=0), centre, atol=0.1)
        assert np.allclose(drawn[parts == part].std(axis=0), 0.5, atol=0.1)
    assert np.allclose(model.part_sizes_, 10_000, rtol=0.01)
    assert np.allclose(model.means_, [[-4.0] * 3, [4.0] * 3], atol=0.05)
    again, _ = model.sample(4000)
    assert np.array_equal(again, drawn)
    wanted, parts = model.sample(3, parts=["wild", "calm", "wild"])
    assert parts.tolist() == ["wild", "calm", "wild"]
    assert (wanted > 0).all(axis=1).tolist() == [True, False, True]


class Recorder:
    """A label that notes nothing, and cannot be looked up."""

    __hash__ = None  # type: ignore[assignment]


@pytest.mark.parametrize("odd", ["text", 0.5, None, [1, 2], {}, float("nan"), (0, 1), Recorder()])
def test_a_label_changes_the_part_of_its_own_record_alone(odd: Any) -> None:
    # The first part is too large for a double: another record's fraction must not round it.
    parts = [(1 << 53) + 1, 2]
    labels = [parts[0], 2] * 10_000
    odd_one = [odd, *labels[1:]]
    records = np.zeros((20_000, 3))
    for y in (odd_one, pd.Series(odd_one, dtype=object), tuple(odd_one)):
        model = make(parts=parts, epsilon="3").fit(records, y)
        assert np.allclose(model.part_sizes_, 10_000, rtol=0.05)


def test_a_part_without_records_and_records_without_part_are_harmless() -> None:
    records, of = draw()
    of[:100] = "unheard"
    records.iloc[5, 1] = np.nan
    empty = [f"empty {i}" for i in range(20)]
    model = make(parts=[*PARTS, *empty]).fit(records, of)
    # Noise passes for a part in 0.14 % of cases: six of twenty in 3e-13.
    seen = [part for part, size in zip(empty, model.part_sizes_[2:], strict=True) if size > 0.0]
    assert len(seen) <= 5
    assert set(model.sample(5000)[1]) <= {*PARTS, *seen}
    unseen = next(part for part in empty if part not in seen)
    with pytest.raises(DecodingError, match="has a part that its noise hides"):
        model.sample(1, parts=[unseen])
    # One of two parts in 0.3 % of fits; all of five in 2e-13.
    fits = [make(epsilon="0.001").fit(records.iloc[:50], of[:50]) for _ in range(5)]
    hidden = [each for each in fits if not each.part_sizes_.any()]
    assert hidden
    with pytest.raises(DecodingError, match="no part that its noise does not hide"):
        hidden[0].sample(1)


def test_parts_of_records_that_do_not_fit_them_are_refused_before_anything_is_spent() -> None:
    for wrong in (PARTS[:1], 7):
        model = make()
        with pytest.raises(TableError, match="y: must have 2 values"):
            model.fit(np.zeros((2, 3)), wrong)
        assert not {"events_", "release_"} & set(vars(model))


def test_pixels_are_drawn_as_zeros_and_ones() -> None:
    rng = np.random.default_rng(2)
    pixels = (rng.random((5000, 6)) < [0.9, 0.9, 0.9, 0.1, 0.1, 0.1]).astype(float)
    model = make(parts=None, epsilon="10", bounds=(0, 1), origin="lower", norm=2.0, binary=True)
    drawn, parts = model.fit(pixels).sample(4000)
    assert set(np.unique(drawn)) == {0.0, 1.0}
    assert set(parts) == {0}
    # Fresh noise moves a mean by 0.0015: a false alarm has a chance below 1e-20.
    assert np.allclose(model.means_[0], pixels.mean(axis=0), atol=0.02)
    # Clipping to chances moves one by up to 0.08, as the basis falls; draws add 0.007.
    assert np.allclose(drawn.mean(axis=0), pixels.mean(axis=0), atol=0.15)


def test_one_given_part_holds_its_own_records_and_without_parts_labels_are_ignored() -> None:
    records, of = draw()
    one = make(parts=["wild"], epsilon="3").fit(records, of)
    assert np.allclose(one.part_sizes_, (of == "wild").sum(), rtol=0.05)
    with pytest.raises(ConfigError, match="must be among wild"):
        one.sample(1, parts=["calm"])
    whole = make(parts=None, epsilon="3").fit(records, of)
    assert np.allclose(whole.part_sizes_, 20_000, rtol=0.05)


def test_drawn_parts_are_of_the_types_that_were_given() -> None:
    records, of = draw()
    model = make(parts=[1, "wild"], epsilon="3").fit(
        records, [1 if each == "calm" else "wild" for each in of]
    )
    wanted: Any = [1, "wild"]
    assert model.sample(2, parts=wanted)[1].tolist() == wanted


def test_a_column_of_texts_says_that_nothing_can_be_drawn_and_why() -> None:
    # Where its owner takes unreadable values for right, only the noisy size tells.
    records, of = draw()
    texts = records.astype(object)
    texts.iloc[:, 1] = "red"
    # Noise passes for one of two parts in 0.3 % of fits: in all of five in 2e-13.
    fits = [make(max_unreadable=1).fit(texts[:500], of[:500]) for _ in range(5)]
    hidden = [each for each in fits if not each.part_sizes_.any()]
    with pytest.raises(DecodingError, match="a text is a missing value"):
        hidden[0].sample(1)
