"""Mixtures of networks: what the paper's guarantee is worth, and its clusters.

Run as ``python -m benchmarks.generative [--quick] [--json] [--case PART]``.

``accounts`` computes the headline of Acs, Melis, Castelluccia and De Cristofaro (ICDM 2017) by
their own formula and by loss distributions: epsilon = 1.74 at delta = 1e-5 for images of MNIST, by
20 rounds of k-means with scale 40, then 20 epochs of batches at a rate of 0.0017, whose norms are
found at scale 4 and whose gradients have noise of scale 1.
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
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any, Final

import dp_accounting
import numpy as np
from dp_accounting.pld import pld_privacy_accountant
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from scipy.special import logsumexp

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


# ---- accounts ----

STATED: Final = 1.74
N_RECORDS: Final = 60_000
_MOST_ORDER: Final = 32
"""As published: enough orders lambda."""
_SHARES: Final = tuple(i / 10 for i in range(1, 10))
"""As published: about ten values of j_1, and j_2 = 1 - j_1."""
_RESOLUTION: Final = 1e-3


@dataclass(frozen=True, kw_only=True)
class Published:
    """Settings of one training of the paper.

    Parameters
    ----------
    rate
        q, the chance of a record to be in a batch.
    n_epochs
        Epochs of ``ceil(1 / q)`` steps each.
    norm_scale, cluster_scale, gradient_scale
        The paper's sigmas of norms, k-means and gradients.
    n_rounds
        Rounds of k-means.
    """

    rate: float = 0.0017
    n_epochs: int = 20
    norm_scale: float = 4.0
    cluster_scale: float = 40.0
    gradient_scale: float = 1.0
    n_rounds: int = 20

    @property
    def n_steps(self) -> int:
        """Steps of the training."""
        return self.n_epochs * math.ceil(1.0 / self.rate)

    def compute_published(self, delta: float) -> float:
        """Compute epsilon by the paper's Theorem 4, with its Lemma 1 as printed.

        ``min over lambda of (T_K (l^2 + l) / (2 s_K^2) + T_S min_j (j a(l/j, s_C) + (1 - j)
        a(l/(1 - j), s_G)) - log delta) / l``.
        """
        found = math.inf
        for order in range(1, _MOST_ORDER + 1):
            clusters = self.n_rounds * (order**2 + order) / (2.0 * self.cluster_scale**2)
            step = min(
                share * _compute_moment(order / share, self.rate, self.norm_scale)
                + (1.0 - share)
                * _compute_moment(order / (1.0 - share), self.rate, self.gradient_scale)
                for share in _SHARES
            )
            total = clusters + self.n_steps * step
            found = min(found, (total - math.log(delta)) / order)
        return found

    def compute_correct(self, delta: float, *, replaced: bool = False) -> float:
        """Compute epsilon by loss distributions, for the noise that the algorithms print.

        That is N(0, 2 s^2) on sums that a record which comes or goes moves by 1, in counts and in
        features of each round, and in norms and gradients of each batch.

        Parameters
        ----------
        replaced
            Whether a record is replaced: one that goes and one that comes, each in its own part.
        """
        joint = math.sqrt(2.0 / (self.norm_scale**-2 + self.gradient_scale**-2))
        step = dp_accounting.PoissonSampledDpEvent(self.rate, dp_accounting.GaussianDpEvent(joint))
        clusters = dp_accounting.GaussianDpEvent(self.cluster_scale / math.sqrt(self.n_rounds))
        accountant = pld_privacy_accountant.PLDAccountant(value_discretization_interval=_RESOLUTION)
        accountant.compose(dp_accounting.SelfComposedDpEvent(step, self.n_steps))
        accountant.compose(clusters)
        if not replaced:
            return float(accountant.get_epsilon(delta))
        # The group rule for two steps: half of epsilon, and (1 + exp(epsilon / 2)) times delta.

        def costs_more(epsilon: float) -> bool:
            least = float(accountant.get_delta(epsilon / 2.0))
            return (1.0 + math.exp(epsilon / 2.0)) * least > delta

        # From below: far above the answer the factor multiplies what rounding leaves of delta.
        low, high = 0.0, 1.0
        while costs_more(high):
            low, high = high, 2.0 * high
        while high - low > 1e-4:
            middle = (low + high) / 2.0
            low, high = (middle, high) if costs_more(middle) else (low, middle)
        return high


def _compute_moment(order: float, rate: float, scale: float) -> float:
    """Return the log moment of a Gaussian step on a batch: ``log max(E_1, E_2)``."""
    if (order, rate, scale) not in _MOMENTS:
        _MOMENTS[order, rate, scale] = max(
            _integrate(order, rate, scale, is_beside=flag) for flag in (False, True)
        )
    return _MOMENTS[order, rate, scale]


_MOMENTS: Final[dict[tuple[float, float, float], float]] = {}


def _integrate(order: float, rate: float, scale: float, *, is_beside: bool) -> float:
    # Smooth, and next to nothing at both ends: the trapezoidal rule is exact to many digits.
    reach = 12.0 * scale
    x = np.linspace(-reach - order, reach + order + 1.0, 20_001)
    without = -(x**2) / (2.0 * scale**2) - math.log(scale * math.sqrt(2.0 * math.pi))
    shifted = without + (2.0 * x - 1.0) / (2.0 * scale**2)
    beside = np.logaddexp(math.log1p(-rate) + without, math.log(rate) + shifted)
    logs = (
        beside + order * (beside - without) if is_beside else without + order * (without - beside)
    )
    return float(logsumexp(logs) + math.log(x[1] - x[0]))


def list_figure() -> dict[str, list[Published]]:
    """Return the settings of Figure 2 by panel: rates, scales of k-means, scales of gradients."""
    usual = Published()
    return {
        "rate": [replace(usual, rate=rate) for rate in (0.001, 0.0017, 0.0034)],
        "scale of k-means": [replace(usual, cluster_scale=each) for each in (20.0, 40.0, 80.0)],
        "scale of gradients": [replace(usual, gradient_scale=each) for each in (1.0, 1.5, 2.0)],
    }


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
