"""Synthetic digits: how well a classifier learns from them, tested on real ones.

Run as ``python -m benchmarks.digits [--quick] [--json] [--picture FILE]``. MNIST with pixels of 0
or 1; add-remove-one, delta 1e-5, one curator. 10,000 images are drawn, their digits by the noisy
sizes. A logistic regression on 40 principal components of the synthetic images is tested on the
10,000 test images: ``accuracy``, beside ``real records``, where it learnt from as many real images.
``cpu_s`` is the whole fit and the drawing. ``private means`` draws each pixel by its noisy mean,
which is what the moments must beat. Noise is the system's, so that figures differ a little between
runs; medians.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import image
from numpy.typing import NDArray
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression

from benchmarks.mnist import Digits, load_digits
from benchmarks.packages import PackageUnavailableError
from benchmarks.rows import Row, create_parser, print_rows
from sfumato.analyst.estimators import MomentMixture
from sfumato.lab import NetworkMixture
from sfumato.shared.privacy.mechanisms.gaussian import DiscreteGaussian
from sfumato.shared.system import SystemSource

NAME = "digits"
DELTA = "1e-5"
_N_DRAWN = 10_000
_COMPONENTS = 40
_RUNS, _QUICK_RUNS = 5, 1
_EPSILONS = ("1", "2", "5")
_DIRECTIONS = {"1": 24, "2": 24, "5": 32}
"""The best of 16, 24 and 32 in one run each; not paid for."""
_NORM = 10.0
"""The usual length of an image: the square root of some hundred pixels."""
_CLIPPING_NORM = 3.0
"""1, 3 and 10 gave 0.865, 0.857 and 0.863 in one run each."""
_REAL = "real records"

Floats = NDArray[np.float64]
Drawn = tuple[Floats, NDArray[np.int64]]


def measure_accuracy(images: Floats, digits: NDArray[np.int64], data: Digits) -> float:
    """Return the share of test images that a classifier of some images gets right."""
    basis = PCA(_COMPONENTS, random_state=0).fit(images)
    model = LogisticRegression(max_iter=300).fit(basis.transform(images), digits)
    return float(model.score(basis.transform(data.test_images), data.test_digits))


def draw_by_moments(data: Digits, epsilon: str, seed: int) -> Drawn:
    """Fit the moments of each digit's images, and draw."""
    model = MomentMixture(
        range(10),
        epsilon=epsilon,
        delta=DELTA,
        bounds=(0, 1),
        n_directions=_DIRECTIONS.get(epsilon, 24),
        norm=_NORM,
        origin="lower",
        binary=True,
        relation="add-remove-one",
        random_state=seed,
    )
    images, digits = model.fit(data.images, data.digits).sample(_N_DRAWN)
    return images, digits.astype(np.int64)


def draw_by_means(data: Digits, epsilon: str, seed: int) -> Drawn:
    """Draw every pixel by the noisy mean of its digit's images; sizes are released too."""
    # Images with more pixels, one in two hundred, are left out.
    most = 200
    rng = np.random.default_rng(seed)
    lengths = data.images.sum(axis=1)
    kept = data.images[lengths <= most], data.digits[lengths <= most]
    sums = np.zeros((10, data.images.shape[1] + 1), dtype=np.int64)
    for digit in range(10):
        of = kept[0][kept[1] == digit]
        sums[digit, :-1], sums[digit, -1] = of.sum(axis=0), len(of) * int(_NORM)
    noise = DiscreteGaussian.calibrate(
        n_coordinates=sums.size,
        sensitivity_l2_squared=most + int(_NORM) ** 2,
        epsilon=Fraction(epsilon),
        delta=Fraction(DELTA),
        neighbouring="add-remove-one",
    )
    found = noise.add_noise(sums.ravel(), SystemSource()).reshape(sums.shape)
    sizes = np.maximum(found[:, -1] / _NORM, 1.0)
    digits = rng.choice(10, size=_N_DRAWN, p=sizes / sizes.sum())
    chances = np.clip(found[:, :-1] / sizes[:, None], 0.0, 1.0)[digits]
    return (rng.random(chances.shape) < chances).astype(np.float64), digits


def draw_by_networks(data: Digits, epsilon: str, seed: int, **settings: Any) -> Drawn:
    """Train a network on each digit's images, an autoencoder unless settings differ, and draw."""
    model = NetworkMixture(
        range(10),
        epsilon=epsilon,
        delta=DELTA,
        bounds=(0, 1),
        binary=True,
        relation="add-remove-one",
        random_state=seed,
        **settings,
    )
    images, digits = model.fit(data.images, data.digits).sample(_N_DRAWN)
    return images, digits.astype(np.int64)


WAYS: dict[str, Callable[[Digits, str, int], Drawn]] = {
    "private means": draw_by_means,
    "MomentMixture": draw_by_moments,
    "NetworkMixture": draw_by_networks,
}
VARIANTS: dict[str, Callable[[Digits, str, int], Drawn]] = {
    "NetworkMixture clipping=fixed": partial(
        draw_by_networks, clipping="fixed", clipping_norm=_CLIPPING_NORM
    ),
    "NetworkMixture clipping=dpnorm": partial(
        draw_by_networks, clipping="dpnorm", clipping_norm=_CLIPPING_NORM
    ),
    "NetworkMixture rbm": partial(draw_by_networks, network="rbm"),
}
"""Variants of the network, by the name of their rows; measured at the last epsilon."""


def measure(
    quick: bool, case: str = "", picture: Path | None = None, runs: int | None = None
) -> Iterator[Row]:
    """Yield the rows of all cases, or of those whose name holds some words."""
    try:
        data = load_digits()
    except PackageUnavailableError as error:
        print(f"benchmarks.{NAME}: without images: {error}", file=sys.stderr)
        return
    runs = runs or (_QUICK_RUNS if quick else _RUNS)
    real = measure_accuracy(data.images[:_N_DRAWN], data.digits[:_N_DRAWN], data)
    yield _make_row(_REAL, "accuracy", real, "1", 1)
    for epsilon in _EPSILONS:
        for way, draw in {**WAYS, **(VARIANTS if epsilon == _EPSILONS[-1] else {})}.items():
            name = f"mnist eps={epsilon} {way}"
            if not all(word in name.split() for word in case.split()):
                continue
            accuracies, seconds = [], []
            for seed in range(runs):
                started = time.process_time()
                images, digits = draw(data, epsilon, seed)
                seconds.append(time.process_time() - started)
                accuracies.append(measure_accuracy(images, digits, data))
            yield _make_row(name, "accuracy", float(np.median(accuracies)), "1", runs)
            yield _make_row(name, "cpu_s", float(np.median(seconds)), "s", runs)
            if picture is not None:
                save_picture(images, digits, picture.with_stem(f"{picture.stem}-{epsilon}-{way}"))


def _make_row(case: str, figure: str, value: float, unit: str, runs: int) -> Row:
    baseline = "-" if unit == "s" or case == _REAL else _REAL
    return Row(
        benchmark=NAME,
        case=case,
        figure=figure,
        value=value,
        unit=unit,
        runs=runs,
        baseline=baseline,
    )


def save_picture(images: Floats, digits: NDArray[np.int64], path: Path) -> None:
    """Save some drawn images, a row for each digit."""
    rows = [
        np.concatenate([each.reshape(28, 28) for each in images[digits == digit][:12]], axis=1)
        for digit in range(10)
        if (digits == digit).sum() >= 12
    ]
    image.imsave(path, 1.0 - np.concatenate(rows), cmap="gray")


if __name__ == "__main__":
    parser = create_parser(NAME, (__doc__ or "").splitlines()[0])
    parser.add_argument("--case", default="", help='words of a case, such as "eps=1"')
    parser.add_argument("--runs", type=int, default=None, help="runs of each case; default: 5")
    parser.add_argument("--picture", type=Path, default=None, help="a PNG for each case")
    options = parser.parse_args()
    found = measure(options.quick, options.case, options.picture, options.runs)
    print_rows(found, as_json=options.json)
