"""Mixtures of networks: what the paper's guarantee is worth, and its clusters.

Run as ``python -m benchmarks.generative [--quick] [--json] [--case PART]``.

``accounts`` computes the paper's headline by its own formula and by loss distributions.
``clusters`` is the accuracy of private k-means on MNIST, with the best matching of clusters and
digits, at delta 1e-5 under add-remove-one: on random features, and on pixels shortened to a length
of 28, as published, or 12. ``--epochs`` and ``--images`` draw figures of the paper: epsilon over
epochs, and images; ``benchmarks.pages clusters`` draws accuracy over epsilon. Queries "holds any
item of a set" are in ``benchmarks.synthesis``. Noise is the system's, so that figures differ a
little between runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from benchmarks.generative_accounts import N_RECORDS, STATED, Published, list_figure
from benchmarks.mnist import Digits, load_digits
from benchmarks.runner import Bench, Case, Row, make_rows, measure_cases, read_output, run
from sfumato.lab import NetworkMixture
from sfumato.lab.generative.accounting import compute_mu
from sfumato.lab.generative.partition import FeatureMap, KernelPartition, assign
from sfumato.lab.generative.wide_gaussian import WideGaussian
from sfumato.shared.core.quantise import Quantiser
from sfumato.shared.system import SystemSource

NAME: Final = "generative"
DELTA: Final = "1e-5"
_EPSILONS: Final = ("1/10", "3/10", "1/2", "1", "2")
_ROUNDS: Final = (5, 20)
_PIXEL_STEPS: Final = 1 << 12

Floats = NDArray[np.float64]
Parts = NDArray[np.intp]


def measure_accounts() -> Iterator[Row]:
    """Yield the epsilons of the headline."""
    paper, stated = Published(), f"{STATED} as stated"
    by_formula = paper.compute_published(1e-5)
    figures = ("epsilon_by_its_formula", by_formula), ("over_the_stated", by_formula / STATED)
    yield from make_rows(NAME, "accounts", figures, baseline=stated)
    for name, delta in (("delta=1e-5", 1e-5), ("delta=n^-1.5", N_RECORDS**-1.5)):
        found = (
            (f"epsilon, {relation}", paper.compute_correct(delta, replaced=replaced))
            for relation, replaced in (("add-remove-one", False), ("replace-one", True))
        )
        yield from make_rows(NAME, f"accounts {name}", found, baseline=stated)


def measure_accuracy(parts: Parts, digits: NDArray[np.int64]) -> float:
    """Return the share of records whose part is matched with their digit, at best."""
    table = np.zeros((10, 10))
    np.add.at(table, (parts, digits), 1.0)
    rows, columns = linear_sum_assignment(-table)
    return float(table[rows, columns].sum() / len(digits))


def part_by_features(data: Digits, mu: float, n_rounds: int, n_features: int) -> Parts:
    """Part images by private k-means on random features, from ten public test images."""
    d = data.images.shape[1]
    quantiser = Quantiser.from_bounds(np.zeros(d), np.ones(d))
    features = FeatureMap.draw(
        quantiser, n_features=n_features, bandwidth=0.5 * math.sqrt(d), seed=bytes(32)
    )
    start = features.compute(quantiser.quantise(_pick_start(data))[0]).astype(np.int64)
    partition = KernelPartition(
        features=features, n_parts=10, n_rounds=n_rounds, start=start, seed=0
    )
    found = features.compute(quantiser.quantise(data.images)[0])
    noise = WideGaussian.of_least(math.sqrt(n_rounds * partition.squared_distance) / mu)
    source = SystemSource()
    centroids = partition.release(
        found, lambda sums: sums + noise.draw(source, sums.size), math.sqrt(noise.variance)
    )
    return assign(found, centroids)


def part_by_pixels(data: Digits, mu: float, n_rounds: int, most: float) -> Parts:
    """Part images by private k-means on pixels, shortened to a length, as published."""
    lengths = np.linalg.norm(data.images, axis=1)
    images = (data.images * np.minimum(1.0, most / np.maximum(lengths, 1.0))[:, None]).astype(
        np.float32
    )
    centroids = _pick_start(data).astype(np.float32)
    # Half of mu squared each for counts and sums, as published.
    deviation = math.sqrt(2.0 * n_rounds) / mu
    noise, source = WideGaussian.of_least(_PIXEL_STEPS * deviation), SystemSource()

    def find(centroids: NDArray[np.float32]) -> Parts:
        parts: Parts = np.argmin((centroids**2).sum(axis=1) - 2.0 * images @ centroids.T, axis=1)
        return parts

    for _ in range(n_rounds):
        parts = find(centroids)
        drawn = noise.draw(source, 10 * 785).reshape(10, 785) / _PIXEL_STEPS
        for part in range(10):
            mine = images[parts == part]
            count = len(mine) + drawn[part, -1]
            if count > 4.0 * deviation:
                moved = (mine.sum(axis=0) + most * drawn[part, :-1]) / count
                centroids[part] = np.clip(moved, 0.0, 1.0)
    return find(centroids)


def _pick_start(data: Digits) -> Floats:
    """Return one test image of each digit, which are public here."""
    places = [int(np.flatnonzero(data.test_digits == digit)[0]) for digit in range(10)]
    return data.test_images[places].copy()


CLUSTERINGS: Final[dict[str, Callable[[Digits, float, int], Parts]]] = {
    **{f"pixels to {most}": partial(part_by_pixels, most=float(most)) for most in (28, 12)},
    **{f"{n} features": partial(part_by_features, n_features=n) for n in (50, 200, 1000)},
}


def list_clusters() -> Iterator[Case[Digits, float]]:
    """List the epsilons and numbers of rounds."""

    def judge(part: Callable[..., Parts], mu: float, rounds: int, data: Digits, seed: int) -> float:
        return measure_accuracy(part(data, mu, rounds), data.digits)

    for epsilon in _EPSILONS:
        mu = compute_mu(Fraction(epsilon), Fraction(DELTA))
        for rounds in _ROUNDS:
            yield Case(
                name=f"clusters eps={epsilon} T={rounds}",
                load=lambda seed: load_digits(),
                methods={name: partial(judge, p, mu, rounds) for name, p in CLUSTERINGS.items()},
                summarise=lambda found: [("accuracy", np.median(found), "1", "digits")],
                runs=3,
                quick_runs=int(epsilon in _EPSILONS[::2]),
            )


# ---- pictures ----


def draw_accounts(path: Path) -> None:
    """Draw epsilon over epochs, by the paper's formula and by loss distributions."""
    figure = Figure(figsize=(9.6, 3.2), layout="constrained")
    panels = figure.subplots(1, 3, sharey=True)
    epochs = (1, 2, 5, 10, 15, 20)
    for panel, (title, settings) in zip(panels, list_figure().items(), strict=True):
        for i, each in enumerate(settings):
            made = [Published(**{**vars(each), "n_epochs": epoch}) for epoch in epochs]
            value = {"rate": each.rate, "scale of k-means": each.cluster_scale}.get(
                title, each.gradient_scale
            )
            published = [one.compute_published(1e-5) for one in made]
            panel.plot(epochs, published, f"C{i}--", label=f"{value:g}, as published")
            correct = [one.compute_correct(1e-5) for one in made]
            panel.plot(epochs, correct, f"C{i}-", label=f"{value:g}, loss distributions")
        panel.set_title(title, fontsize=9)
        panel.set_xlabel("epochs")
        panel.legend(fontsize=6)
    panels[0].set_ylabel("epsilon at delta 1e-5")
    figure.savefig(path, dpi=120)


def draw_images(path: Path) -> None:
    """Draw real images, and those of one network, a network a part, and a machine a part."""
    data = load_digits()
    # Half the hidden units and steps of the estimator's defaults, for the sake of time.
    given: dict[str, Any] = {"n_hidden": 50, "n_steps": 50, "epsilon": "5", "delta": DELTA}
    given |= {"bounds": (0, 1), "binary": True, "random_state": 0}
    parts: dict[str, Any] = {"n_parts": 10, "start": _pick_start(data)}
    found = {"real": data.images[:80]}
    for name, more in {
        "one autoencoder": {},
        "an autoencoder a part": parts,
        "a machine a part": {**parts, "network": "rbm"},
    }.items():
        model = NetworkMixture(**given, **more).fit(data.images)
        shown = [part for part, size in zip(model.parts_, model.part_sizes_, strict=True) if size]
        found[name] = model.sample(80, parts=np.sort(np.resize(shown, 80)))[0]
    figure = Figure(figsize=(9.6, 3.4), layout="constrained")
    for panel, (name, images) in zip(figure.subplots(1, 4), found.items(), strict=True):
        rows = [
            np.concatenate(list(images[8 * i : 8 * i + 8].reshape(8, 28, 28)), axis=1)
            for i in range(10)
        ]
        panel.imshow(1.0 - np.concatenate(rows), cmap="gray", vmin=0.0, vmax=1.0)
        panel.set_title(name, fontsize=9)
        panel.set_axis_off()
    figure.savefig(path, dpi=150)


def measure(bench: Bench) -> Iterator[Row]:
    """Yield the rows of all cases, or of the named ones, and draw the pictures asked for."""
    if bench.includes("accounts"):
        yield from measure_accounts()
    yield from measure_cases(NAME, bench, list_clusters())
    for name, draw in (("epochs", draw_accounts), ("images", draw_images)):
        path: Path | None = bench.own.get(name)
        if path is not None:
            draw(path)


if __name__ == "__main__":
    drawn = [
        (f"--{name}", {"type": read_output, "metavar": "FILE", "help": f"draw {name} as PNG"})
        for name in ("epochs", "images")
    ]
    run(NAME, __doc__, measure, *drawn)
