"""Mixtures of networks: what the paper's guarantee is worth, and its clusters.

Run as ``python -m benchmarks.generative [--quick] [--json] [--case WORDS] [--picture FOLDER]``.

``accounts`` computes the paper's headline by its own formula and by loss distributions.
``clusters`` is the accuracy of private k-means on MNIST, with the best matching of clusters and
digits, at delta 1e-5 under add-remove-one: on random features, and on pixels shortened to a length
of 28, as published, or 12. ``--picture`` draws the paper's figures: epsilon over epochs, accuracy
over epsilon, and drawn images; its queries "holds any item of a set" are in
``benchmarks.synthesis``. Noise is the system's, so that figures differ a little between runs.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Final

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from benchmarks.generative_accounts import N_RECORDS, STATED, Published, list_figure
from benchmarks.mnist import Digits, load_digits
from benchmarks.packages import PackageUnavailableError
from benchmarks.rows import Row, create_parser, print_rows
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
_RUNS: Final = 3
_PIXEL_STEPS: Final = 1 << 12

Floats = NDArray[np.float64]
Parts = NDArray[np.intp]


def measure_accounts() -> Iterator[Row]:
    """Yield the epsilons of the headline."""
    paper = Published()
    by_formula = paper.compute_published(1e-5)
    yield _make_row("accounts", "epsilon_by_its_formula", by_formula, f"{STATED} as stated")
    yield _make_row("accounts", "over_the_stated", by_formula / STATED, "1")
    for name, delta in (("delta=1e-5", 1e-5), ("delta=n^-1.5", N_RECORDS**-1.5)):
        for relation, replaced in (("add-remove-one", False), ("replace-one", True)):
            found = paper.compute_correct(delta, replaced=replaced)
            yield _make_row(f"accounts {name}", f"epsilon, {relation}", found, f"{STATED}")


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
    "pixels to 28": lambda data, mu, rounds: part_by_pixels(data, mu, rounds, 28.0),
    "pixels to 12": lambda data, mu, rounds: part_by_pixels(data, mu, rounds, 12.0),
    "50 features": lambda data, mu, rounds: part_by_features(data, mu, rounds, 50),
    "200 features": lambda data, mu, rounds: part_by_features(data, mu, rounds, 200),
    "1000 features": lambda data, mu, rounds: part_by_features(data, mu, rounds, 1000),
}


def measure_clusters(quick: bool) -> Iterator[Row]:
    """Yield the accuracy of each clustering, number of rounds and epsilon."""
    data = load_digits()
    for epsilon in _EPSILONS[::2] if quick else _EPSILONS:
        mu = compute_mu(Fraction(epsilon), Fraction(DELTA))
        for rounds in _ROUNDS:
            for name, part in list(CLUSTERINGS.items())[: 4 if quick else None]:
                found = [
                    measure_accuracy(part(data, mu, rounds), data.digits)
                    for _ in range(1 if quick else _RUNS)
                ]
                case = f"clusters eps={epsilon} T={rounds} {name}"
                yield _make_row(case, "accuracy", float(np.median(found)), "digits", len(found))


def _make_row(case: str, figure: str, value: float, baseline: str, runs: int = 1) -> Row:
    return Row(
        benchmark=NAME,
        case=case,
        figure=figure,
        value=value,
        unit="1",
        runs=runs,
        baseline=baseline,
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


def draw_clusters(rows: list[Row], path: Path) -> None:
    """Draw accuracy over epsilon, from the rows of ``clusters``."""
    figure = Figure(figsize=(8, 3.2), layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    for panel, rounds in zip(panels, _ROUNDS, strict=True):
        for name in CLUSTERINGS:
            found = {
                float(Fraction(row.case.split()[1].removeprefix("eps="))): row.value
                for row in rows
                if row.case.endswith(f"T={rounds} {name}")
            }
            panel.plot(list(found), list(found.values()), "o-", label=name, markersize=3)
        panel.set_xscale("log")
        panel.set_title(f"{rounds} rounds", fontsize=9)
        panel.set_xlabel("epsilon at delta 1e-5")
    panels[0].set_ylabel("accuracy")
    panels[0].legend(fontsize=7)
    figure.savefig(path, dpi=120)


def draw_images(path: Path) -> None:
    """Draw real images, and those of one network, a network a part, and a machine a part."""
    data = load_digits()
    # Half the hidden units and steps of the estimator's defaults, for the sake of time.
    given = {
        "n_hidden": 50,
        "n_steps": 50,
        "epsilon": "5",
        "delta": DELTA,
        "bounds": (0, 1),
        "binary": True,
        "random_state": 0,
    }
    found = {"real": data.images[:80]}
    ways = {
        "one autoencoder": {},
        "an autoencoder a part": {"n_parts": 10, "start": _pick_start(data)},
        "a machine a part": {"n_parts": 10, "start": _pick_start(data), "network": "rbm"},
    }
    for name, more in ways.items():
        model = NetworkMixture(**given, **more).fit(data.images)  # type: ignore[arg-type]
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


def measure(quick: bool, case: str = "", folder: Path | None = None) -> Iterator[Row]:
    """Yield the rows of all cases, or of the named one; draw pictures into a folder."""
    if case in ("", "accounts"):
        yield from measure_accounts()
        if folder is not None:
            draw_accounts(folder / "networks-epsilon.png")
    if case in ("", "clusters"):
        rows = []
        try:
            for row in measure_clusters(quick):
                rows.append(row)
                yield row
        except PackageUnavailableError as error:
            print(f"benchmarks.{NAME}: without clusters: {error}", file=sys.stderr)
        if folder is not None and rows:
            draw_clusters(rows, folder / "networks-clusters.png")
    if case in ("", "images") and folder is not None:
        draw_images(folder / "networks-images.png")


if __name__ == "__main__":
    parser = create_parser(NAME, (__doc__ or "").splitlines()[0])
    parser.add_argument("--case", default="", choices=["", "accounts", "clusters", "images"])
    parser.add_argument("--picture", type=Path, default=None, help="a folder for the figures")
    options = parser.parse_args()
    print_rows(measure(options.quick, options.case, options.picture), as_json=options.json)
