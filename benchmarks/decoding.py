"""Quality of centroids from a sketch, relative to k-means on the records, and decoding time.

Run as ``python -m benchmarks.decoding [--quick] [--json]``; ``--help`` lists the options. Relative
SSE is the SSE of the centroids over that of the best k-means on the records
(:mod:`benchmarks.reference`). The solver is the default one with its default settings; it receives
the public box, the frequencies and the variance of the noise, never records. Quality and seconds
come from the same runs; seconds are CPU time of the solver, one BLAS thread, and beside them those
of one start of k-means on 100,000 of the records. ``truth_start_*`` is
the quality of round clusters fitted by descent alone from the clusters of that k-means: where the
solver is no worse, the sketch sets the limit and not the search.

Synthetic data are the seed paper's mixtures, n = 2e5, a different one for each seed. The scale of a
plan is the standard deviation within a cluster: 1 for mixtures, that of the best k-means for real
data; ``scale x0.5`` means a plan that states half of it. The radius law is the planner's choice. So
is m where none is stated: the choice for the best predicted quality with that noise. ``peers`` are
the same sketches for CL-OMPR, and for that of pycle, the toolbox of the seed paper's authors.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any, Final, Literal

import numpy as np

from benchmarks.datasets import TEN, Mixture, RealData, Source
from benchmarks.packages import PYCLE, PackageUnavailableError, fetch_package
from benchmarks.runner import Bench, Row, make_rows, measure_cases, run, run_case
from benchmarks.sketches import describe_noise, make_noise
from benchmarks.trials import (
    Recover,
    Setting,
    Trial,
    TrialCase,
    make_case,
    recover_with,
    run_trial,
    summarise,
)
from sfumato.learning.decoding.problem import DecodingProblem
from sfumato.shared.arrays import Floats
from sfumato.shared.core import RadiusLaw
from sfumato.shared.errors import ConfigError

NAME = "decoding"
# Real data are the same for every seed; only the frequencies and the noise are drawn again.
_REAL_RUNS = 5
_FEW_RUNS = 3
PEERS = Setting(source=TEN, features=5)
_PEERS_NAME: Final = "peers d=10 k=10 m=5kd"
PYCLE_NAME: Final = f"solver=pycle/{PYCLE.version}"
_KINDS: Final[Mapping[str, Literal["adapted", "folded-gaussian", "gaussian"]]] = {
    "adapted": "adapted",
    "folded-gaussian": "folded-gaussian",
    "gaussian": "gaussian",
}


def list_cases() -> Iterator[TrialCase]:
    """List the cases of the decoder."""
    yield from _list_noiseless()
    yield from _list_wrong_scales()
    yield from _list_wide_bounds()
    yield from _list_private()
    yield from _list_real()


def _list_noiseless() -> Iterator[TrialCase]:
    for d, k, features, runs, quick_runs in (
        (2, 10, 5, 20, 3),
        (10, 10, 5, 20, 3),
        (20, 20, 5, 20, 0),
        (10, 50, 5, 20, 0),
        (5, 100, 5, 20, 0),
        (10, 10, 2, 20, 0),
        # Each of these takes half a minute.
        (10, 100, 5, _FEW_RUNS, 0),
        (10, 200, 5, _FEW_RUNS, 0),
    ):
        setting = Setting(source=Mixture(n_dimensions=d, n_clusters=k), features=features)
        name = f"noiseless d={d} k={k} m={features}kd"
        yield make_case(name, setting, runs=runs, quick_runs=quick_runs)


def _list_wrong_scales() -> Iterator[TrialCase]:
    for factor in (0.25, 0.5, 2.0, 4.0):
        setting = Setting(source=TEN, features=5, scale=factor)
        name = f"scale x{factor:g} d=10 k=10 m=5kd"
        yield make_case(name, setting, quick_runs=2 * (factor == 0.5))
    for data in ("weather", "shuttle"):
        for factor in (0.5, 2.0):
            setting = Setting(source=RealData(name=data), features=5, scale=factor)
            yield make_case(f"{data} scale x{factor:g} m=5kd", setting, runs=_REAL_RUNS)
    for factor in (0.5, 2.0):
        noise = make_noise("knorm", Fraction(20_000, TEN.n_records))
        setting = Setting(source=TEN, scale=factor, noise=noise)
        yield make_case(f"knorm n_eps=2e4 scale x{factor:g} d=10 k=10 L=1", setting)


def _list_wide_bounds() -> Iterator[TrialCase]:
    """List bounds 20 times too wide at the right scale, without and with a search box."""
    few = Mixture(n_dimensions=4, n_clusters=5, n_records=60_000)
    weather = RealData(name="weather")
    measured: tuple[tuple[str, Source, Fraction], ...] = (
        ("knorm n_eps=2e4 d=4 k=5", few, Fraction(20_000, few.n_records)),
        ("knorm n_eps=5e3 d=4 k=5", few, Fraction(5_000, few.n_records)),
        ("knorm n_eps=1e4 d=10 k=10", TEN, Fraction(10_000, TEN.n_records)),
        ("weather knorm epsilon=1", weather, Fraction(1)),
        ("weather knorm epsilon=4", weather, Fraction(4)),
    )
    for i, (name, source, epsilon) in enumerate(measured):
        setting = Setting(source=source, noise=make_noise("knorm", epsilon))
        wide = replace(setting, widening=20.0)
        for words, each in (
            (" bounds x1", setting),
            (" bounds x20", wide),
            (" bounds x20 search box", replace(wide, is_searched_within=True)),
        ):
            yield make_case(name + words, each, runs=_REAL_RUNS, quick_runs=3 * (i == 0))


def _list_private() -> Iterator[TrialCase]:
    for noise, n_epsilon, n_sketches, quick_runs in (
        ("knorm", "2e4", 1, 2),
        ("knorm", "1e4", 1, 0),
        ("gaussian", "1e4", 1, 1),
        ("gaussian", "4e3", 1, 0),
        ("knorm", "1e5", 100, 0),
        ("gaussian", "1e5", 100, 0),
    ):
        own = make_noise(noise, Fraction(n_epsilon) / TEN.n_records)
        setting = Setting(source=TEN, noise=own, n_sketches=n_sketches)
        name = f"{describe_noise(noise, n_epsilon)} d=10 k=10 L={n_sketches}"
        yield make_case(name, setting, quick_runs=quick_runs)
    # Time of the smallest and the largest decodes under noise.
    for d, k, n_epsilon in ((4, 5, "1e4"), (10, 50, "1e5"), (16, 64, "2e5"), (10, 100, "5e5")):
        source = Mixture(n_dimensions=d, n_clusters=k)
        own = make_noise("knorm", Fraction(n_epsilon) / source.n_records)
        name = f"knorm n_eps={n_epsilon} d={d} k={k} L=1"
        yield make_case(name, Setting(source=source, noise=own), runs=_FEW_RUNS)


def _list_real() -> Iterator[TrialCase]:
    for data, words, noise, quick_runs in (
        ("weather", "noiseless", None, 3),
        ("weather", "knorm epsilon=1", make_noise("knorm", Fraction(1)), 3),
        ("weather", "gaussian delta=1e-6 epsilon=0.1", make_noise("gaussian", Fraction(1, 10)), 0),
        ("shuttle", "noiseless", None, 3),
        ("shuttle", "knorm epsilon=1", make_noise("knorm", Fraction(1)), 0),
    ):
        source, features = RealData(name=data), None if noise else 5
        setting = Setting(source=source, noise=noise, features=features)
        yield make_case(f"{data} {words}", setting, runs=_REAL_RUNS, quick_runs=quick_runs)
    yield make_case("digits noiseless m=5kd", Setting(source=RealData(name="digits"), features=5))


def measure(bench: Bench) -> Iterator[Row]:
    """Yield the rows of the requested cases, by the laws that ``--law`` names."""
    laws = {text: parse_law(text) for text in bench.own.get("law", ())}
    cases = list(list_cases())
    if laws:
        cases = [_with_laws(case, laws) for case in cases]
    yield from measure_cases(NAME, bench, cases)
    if bench.includes(_PEERS_NAME):
        yield from measure_peers(bench)


def _with_laws(case: TrialCase, laws: Mapping[str, RadiusLaw]) -> TrialCase:
    run_one: Callable[..., Trial] = case.methods[""]
    methods = {f"law={text}": partial(run_one, law=law) for text, law in laws.items()}
    return replace(case, methods=methods)


def measure_peers(bench: Bench) -> Iterator[Row]:
    """Yield the same problems solved by the solver, by CL-OMPR, and by pycle's CL-OMPR."""
    solvers: dict[str, Recover] = {
        "solver=mixture": recover_with("mixture"),
        "solver=cl-ompr": recover_with("cl-ompr"),
    }
    try:
        solvers[PYCLE_NAME] = load_pycle()
    except PackageUnavailableError as error:
        yield Row(NAME, _PEERS_NAME, "pycle_available", 0.0, "1", 0, str(error))
    methods = {name: partial(run_trial, PEERS, recover=each) for name, each in solvers.items()}
    case = replace(make_case(_PEERS_NAME, PEERS), methods=methods)
    found = run_case(bench, case, list(methods), bench.list_seeds(20, 1))
    own = next(iter(found.values()))
    for name, trials in found.items():
        rows = list(summarise(trials))
        yield from make_rows(NAME, case.name_rows(name), rows, runs=len(trials))
        if trials is not own:
            pairs = zip(trials, own, strict=True)
            ratio = np.median([one.seconds / other.seconds for one, other in pairs])
            peer = name.removeprefix("solver=")
            figure = (f"speedup_over_{peer}", ratio, "1", f"{peer}, same sketches")
            yield from make_rows(NAME, _PEERS_NAME, [figure], runs=len(own))


def load_pycle() -> Recover:
    """Return pycle's CL-OMPR with one replicate and default settings; installed or from its wheel.

    Raises
    ------
    PackageUnavailableError
        It is not installed and its wheel cannot be fetched, or it cannot be imported.
    """
    learning, sketching = _import("compressive_learning"), _import("sketching")

    def recover(problem: DecodingProblem, seed: int) -> Floats:
        # pycle draws from NumPy's global generator.
        np.random.seed(seed)
        features = sketching.SimpleFeatureMap("complexExponential", np.array(problem.frequencies))
        # pycle's phases have their origin at zero, the problem's at the centre.
        bounds = np.stack([problem.lower - problem.centre, problem.upper - problem.centre])
        solver = learning.CLOMP_CKM(
            features, problem.n_clusters, bounds, sketch=np.array(problem.sketch)
        )
        solver.fit_once()
        return np.asarray(solver.get_centroids(), dtype=np.float64) + problem.centre

    return recover


def _import(module: str) -> Any:
    try:
        return importlib.import_module(f"pycle.{module}")
    except ModuleNotFoundError:
        sys.path.append(str(fetch_package(PYCLE)))
        importlib.invalidate_caches()
    try:
        return importlib.import_module(f"pycle.{module}")
    except ImportError as error:
        raise PackageUnavailableError(f"cannot be imported: {error}", field="pycle") from error


def parse_law(text: str) -> RadiusLaw:
    """Read a radius law.

    Raises
    ------
    ConfigError, PlanError
        The text cannot be read, or breaks the rules of a radius law.
    """
    named, *numbers = text.split(":")
    try:
        kind, values = _KINDS[named], [float(number) for number in numbers]
    except (ValueError, KeyError):
        values = []
    if len(values) not in (2, 4):
        raise ConfigError(
            f"cannot be read from {text!r}",
            field="--law",
            fix="write kind:sigma_low:sigma_high, such as adapted:1:4, and for a tail its share "
            "and end, such as adapted:1:2:0.25:16",
        )
    body = RadiusLaw(kind=kind, sigma_low=values[0], sigma_high=values[1], tail_share=0.0)
    return replace(body, tail_share=values[2], tail_high=values[3]) if values[2:] else body


if __name__ == "__main__":
    law = {"action": "append", "default": [], "metavar": "KIND:LOW:HIGH[:SHARE:END]"}
    run(NAME, __doc__, measure, ("--law", {**law, "help": "a radius law; may be repeated"}))
