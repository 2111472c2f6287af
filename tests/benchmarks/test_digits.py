"""The benchmark of synthetic digits: what it draws, on images that are made here."""

from functools import partial

import numpy as np
import pytest

from benchmarks.digits import VARIANTS, WAYS, measure_accuracy
from benchmarks.mnist import Digits


def make_digits(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Images with a row of pixels for each digit, some of them noise."""
    rng = np.random.default_rng(n)
    digits = rng.integers(0, 10, size=n)
    images = (rng.random((n, 784)) < 0.02).astype(float)
    for i, digit in enumerate(digits):
        images[i, 70 * digit : 70 * digit + 60] = 1.0
    return images, digits


SMALL = {"n_hidden": 20, "n_steps": 60}
NAMES = ["MomentMixture", "NetworkMixture clipping=fixed"]


@pytest.mark.parametrize("way", NAMES)
def test_a_classifier_learns_from_drawn_images(way: str) -> None:
    images, digits = make_digits(1000)
    test_images, test_digits = make_digits(300)
    data = Digits(images=images, digits=digits, test_images=test_images, test_digits=test_digits)
    draw = (WAYS | VARIANTS)[way]
    drawn, of = (partial(draw, **SMALL) if "Network" in way else draw)(data, "5", 0)
    assert set(np.unique(drawn)) <= {0.0, 1.0}
    assert measure_accuracy(drawn, of, data) > 0.9
