"""Principal components from one private release of clipped second moments.

Run as ``python -m benchmarks.components [--quick] [--json] [--diffprivlib PYTHON]``. Records are
normal, 20,000 of them, with variances that fall by 0.6, 0.7 or 0.8 a component along directions
drawn at random. The bounds are three times the largest spread of a dimension, and the radius is the
root of the sum of squared spreads, which a pilot tells. ``laplace`` is pure, ``gaussian`` has
delta = 1e-6; both hide the values of a record, unless a name says add-remove-one.
``captured_share`` is the variance of the records along the three released directions, over that
along the best three; the median is over spectra and seeds. ``mean_sin2`` is the squared sine of the
angle of the first direction to the true one, over the runs that tell it apart, beside what these
releases predicted; records that are pulled in turn it too, and are not in the prediction. Noise
comes from the operating system, so that figures differ a little between runs.

diffprivlib's ``PCA`` (0.6.6: pure, add-remove-one, floating-point noise, the same bounds and
radius) does not import beside this project's scikit-learn. ``--diffprivlib`` names the Python of an
environment that has it; without it, its rows are left out, and so are those of cases that take it
more than three minutes: its sampler rejects more the larger epsilon and d are.
"""

from __future__ import annotations

import io
import math
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Literal

import numpy as np

from benchmarks.runner import Bench, Row, make_rows, run
from sfumato.analyst.estimators import PrivatePCA
from sfumato.shared.arrays import Floats

NAME = "components"
N_RECORDS = 20_000
DELTA = Fraction(1, 10**6)
BASES = (0.6, 0.7, 0.8)
_KEPT = 3
_RUNS, _QUICK_RUNS = 10, 2
_PATIENCE_S = 180
_CASES = ((5, 10**3), (5, 10**4), (10, 10**3), (10, 10**4), (30, 10**3), (30, 10**4), (30, 10**5))
_QUICK_CASES = ((10, 10**3), (10, 10**4))

_PEER = """
import io, sys, warnings
import numpy as np
from diffprivlib.models import PCA
warnings.simplefilter("ignore")
epsilon, kept, found = float(sys.argv[1]), int(sys.argv[2]), []
for seed, records in enumerate(np.load(io.BytesIO(sys.stdin.buffer.read())).values()):
    half, norm = records[0, 0], records[0, 1]
    pca = PCA(
        kept, epsilon=epsilon, data_norm=norm, bounds=(-half, half), random_state=seed
    ).fit(records[1:])
    found.append(pca.components_)
out = io.BytesIO()
np.save(out, np.array(found))
sys.stdout.buffer.write(out.getvalue())
"""

Relation = Literal["replace-one", "add-remove-one"]
_MECHANISMS: dict[str, tuple[Fraction, Relation]] = {
    "laplace": (Fraction(0), "replace-one"),
    "gaussian": (DELTA, "replace-one"),
    "laplace add-remove-one": (Fraction(0), "add-remove-one"),
}


@dataclass(frozen=True, kw_only=True, eq=False)
class Sample:
    """Records, and what is known of them beforehand.

    Parameters
    ----------
    records
        Shape ``(n, d)``.
    half_width
        Half width of the bounds, the same in each dimension.
    radius
        Root of the sum of squared spreads.
    """

    records: Floats
    half_width: float
    radius: float

    def measure_share(self, directions: Floats) -> float:
        """Return the variance along some directions over that along the best as many."""
        covariance = np.cov(self.records.T)
        best = np.linalg.eigvalsh(covariance)[::-1][: len(directions)]
        # Released directions need not be orthogonal to the last digit.
        basis = np.linalg.qr(directions.T)[0]
        return float(np.trace(basis.T @ covariance @ basis) / best.sum())

    def measure_turn(self, direction: Floats) -> float:
        """Return the squared sine of the angle to the first direction of the records."""
        true = np.linalg.eigh(np.cov(self.records.T))[1][:, -1]
        return float(1 - (direction @ true) ** 2)


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One release: the share captured, and of the first direction its turn, seen and predicted."""

    captured: float
    turn: float = math.nan
    predicted: float = math.nan


def draw_sample(n_dimensions: int, base: float, seed: int) -> Sample:
    """Draw records whose variances fall by ``base`` a component."""
    rng = np.random.default_rng([seed, n_dimensions])
    variances = base ** np.arange(n_dimensions)
    axes = np.linalg.qr(rng.normal(size=(n_dimensions, n_dimensions)))[0]
    spreads = np.sqrt(axes**2 @ variances)
    return Sample(
        records=rng.normal(size=(N_RECORDS, n_dimensions)) * np.sqrt(variances) @ axes.T,
        half_width=3 * float(spreads.max()),
        radius=float(np.linalg.norm(spreads)),
    )


def run_product(sample: Sample, epsilon: Fraction, delta: Fraction, relation: Relation) -> Trial:
    """Release moments and take the first three components."""
    pca = PrivatePCA(
        _KEPT,
        epsilon=epsilon,
        delta=delta,
        bounds=(-sample.half_width, sample.half_width),
        norm=sample.radius / sample.half_width,
        relation=relation,
    ).fit(sample.records)
    told_apart = bool(pca.answer_.is_told_apart[0])
    return Trial(
        captured=sample.measure_share(pca.components_),
        turn=sample.measure_turn(pca.components_[0]) if told_apart else math.nan,
        predicted=float(pca.answer_.expected_sin_squared[0]) if told_apart else math.nan,
    )


def run_diffprivlib(samples: list[Sample], epsilon: Fraction, python: str) -> list[Trial]:
    """Run diffprivlib's PCA in another environment; return nothing if it takes too long.

    Raises
    ------
    RuntimeError
        The environment does not have it, or it failed.
    """
    written = io.BytesIO()
    # The first row is what is known beforehand.
    heads = [np.full(s.records.shape[1], s.half_width) for s in samples]
    for head, sample in zip(heads, samples, strict=True):
        head[1] = sample.radius
    np.savez(written, *[np.vstack([h, s.records]) for h, s in zip(heads, samples, strict=True)])
    try:
        done = subprocess.run(
            [python, "-c", _PEER, str(float(epsilon)), str(_KEPT)],
            input=written.getvalue(),
            capture_output=True,
            check=False,
            timeout=_PATIENCE_S,
        )
    except subprocess.TimeoutExpired:
        print(f"components: diffprivlib took over {_PATIENCE_S} s and is left out", file=sys.stderr)
        return []
    if done.returncode:
        raise RuntimeError(done.stderr.decode(errors="replace").strip().splitlines()[-1])
    found = np.load(io.BytesIO(done.stdout))
    return [
        Trial(captured=sample.measure_share(directions))
        for sample, directions in zip(samples, found, strict=True)
    ]


def measure(bench: Bench) -> Iterator[Row]:
    """Yield the rows of each case and method."""
    python = bench.own.get("diffprivlib")
    if python is None:
        print("components: without --diffprivlib PYTHON its rows are left out", file=sys.stderr)
    for d, n_epsilon in _CASES:
        budget, is_quick = f"d={d} n_eps={n_epsilon:.0e}", (d, n_epsilon) in _QUICK_CASES
        names = (*_MECHANISMS, "diffprivlib")
        chosen = [n for n in names if bench.includes(f"{n} {budget}", in_quick=is_quick)]
        seeds, epsilon = (
            bench.list_seeds(_RUNS, _QUICK_RUNS, first=0),
            Fraction(n_epsilon, N_RECORDS),
        )
        samples = [draw_sample(d, base, seed) for base in BASES for seed in seeds if chosen]
        for name in chosen:
            if name in _MECHANISMS:
                found = [run_product(each, epsilon, *_MECHANISMS[name]) for each in samples]
            else:
                found = run_diffprivlib(samples, epsilon, python) if python else []
            if found:
                yield from _compare(f"{name} {budget}", found)


def _compare(case: str, trials: list[Trial]) -> Iterator[Row]:
    make = partial(make_rows, NAME, case, baseline="exact PCA of the records")
    captured = [trial.captured for trial in trials]
    shares = ("median_captured_share", np.median(captured)), ("worst_captured_share", min(captured))
    yield from make(shares, runs=len(trials))
    turns = [(t.turn, t.predicted) for t in trials if not math.isnan(t.turn)]
    if turns:
        seen, predicted = np.mean(turns, axis=0)
        yield from make((("mean_sin2", seen), ("mean_sin2_predicted", predicted)), runs=len(turns))


if __name__ == "__main__":
    words = "Python of an environment that has diffprivlib"
    run(NAME, __doc__, measure, ("--diffprivlib", {"metavar": "PYTHON", "help": words}))
