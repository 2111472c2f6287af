"""Cluster a year of weather from three airports without moving a single record.

Starts a real aggregator process and one real agent process per airport, sends differentially
private sketches over HTTP on the loopback address, decodes them, and compares with ordinary k-means
on the pooled raw records, which only a demonstration may read.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import signal
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from deploy.demo import phones, secure_sum
from deploy.demo.baseline import Baseline, compute_baseline
from deploy.demo.cluster import (
    Aggregator,
    enrol_device,
    finish_agent,
    run_agents,
    start_agent,
)
from deploy.demo.synthetic import N_RECORDS, Comparison, compare
from deploy.demo.tables import tabulate_facts, tabulate_weather
from deploy.demo.trial import Trial
from deploy.demo.weather_words import read_weather
from deploy.demo.year import Year, read_plan, read_spec
from sfumato.analyst import Client, DecodeResult
from sfumato.learning.estimate.snr import compute_noise_energy, predict_snr
from sfumato.shared.errors import SketchError
from sfumato.shared.plan import SketchPlan, plan_from_spec
from sfumato.shared.privacy import calibrate_mechanism
from sfumato.shared.wire.objects.looks import MeasuredClustersBody
from sfumato.shared.wire.objects.results import SnapshotBody

HERE = Path(__file__).resolve().parent
AIRPORTS = {"EWR": "Newark", "JFK": "Kennedy", "LGA": "La Guardia"}
N_CLUSTERS = 5
STUDY_NAME = "weather"
PILOT_NAME = "weather-pilot"
LOOK_NAME = "weather-look"
LOOK_EPSILON = Fraction(1, 2)
_PLAIN: Final[dict[str, Any]] = {"highlight": False}
_AS_IT_IS: Final[dict[str, Any]] = {"highlight": False, "soft_wrap": True, "sep": "\n"}
_MOST_PER_RECORD = 4
"""Epsilon that an owner lets a record lose over all studies."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Results and cost of the demo."""

    plan: SketchPlan
    result: DecodeResult
    snapshot: SnapshotBody
    baseline: Baseline
    relative_sse: float
    synthetic: Comparison
    measured: MeasuredClustersBody
    pilot_epsilon: Fraction
    epsilon_spent: str
    reports: dict[str, dict[str, Any]]
    seconds: float
    study_id: str
    year: Year | None
    trial: Trial | None

    @property
    def snr_with_laplace(self) -> float:
        """The SNR with the seed paper's Laplace noise at the same epsilon."""
        plan, snapshot = self.plan, self.snapshot
        laplace = calibrate_mechanism(replace(plan.privacy_target, mechanism="discrete-laplace"))
        noise = compute_noise_energy(
            noise_variance_sum=snapshot.n_sketches * laplace.variance,
            amplitude=plan.amplitude,
            alpha=plan.alpha,
            n_records=snapshot.n_records,
        )
        return predict_snr(
            signal_energy=snapshot.signal_energy,
            noise_energy=noise,
            alpha=plan.alpha,
            n_records=snapshot.n_records,
        )

    def total(self, name: str) -> int:
        """Sum one figure of the agents' reports."""
        return sum(int(report[name]) for report in self.reports.values())

    def to_json(self) -> dict[str, Any]:
        """Return the figures as JSON values for scripts."""
        figures = {
            "relative_sse": round(self.relative_sse, 4),
            "verdict": self.result.verdict,
            "snr": round(self.result.snr, 2),
            "snr_with_laplace": round(self.snr_with_laplace, 2),
            "sketches": self.snapshot.n_sketches,
            "records": self.snapshot.n_records,
            "bytes_sent": self.total("bytes_sent"),
            "raw_bytes": self.total("raw_bytes_read"),
            "epsilon_per_record": str(self.plan.release.epsilon),
            "epsilon_per_record_of_pilot": str(self.pilot_epsilon),
            "epsilon_per_record_of_look": str(LOOK_EPSILON),
            "shares_measured": [round(each.share.value, 4) for each in self.measured.clusters],
            "gain_measured": self.measured.gain and round(self.measured.gain.value, 4),
            "synthetic": asdict(self.synthetic),
            "seconds": round(self.seconds, 2),
        }
        return figures if self.year is None else figures | {"alarms": self.year.alarms}


def main() -> int:
    """Run the demo and return its exit status."""
    options = _parse_arguments()
    # Stop the server however the demo ends.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    console = Console(stderr=options.json, quiet=options.json)
    if options.phones:
        return _run_phones(console, options)
    if options.secure_sum:
        return _run_secure_sum(console, options)
    folder = Path(tempfile.mkdtemp(prefix="sfumato-demo-"))
    aggregator: Aggregator | None = None
    try:
        with _progress(console) as progress:
            bar = progress.add_task("", total=9 if options.keep else 7)
            plan = read_plan(mechanism=options.mechanism)
            aggregator, outcome = _run(folder, plan, options.clusters, progress, bar, options.keep)
        _draw(outcome, options.picture)
        if options.json:
            print(json.dumps(outcome.to_json()), flush=True)
        else:
            _report(console, outcome, options.picture)
        if options.keep:
            _print_next_steps(console, aggregator, outcome)
            aggregator.process.wait()
        elif not options.json:
            _print_next(console)
    except SketchError as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
    finally:
        if aggregator:
            aggregator.stop()
        shutil.rmtree(folder, ignore_errors=True)
    return 0


def _run_phones(console: Console, options: argparse.Namespace) -> int:
    try:
        with _progress(console) as progress:
            outcome = phones.run(
                HERE, list(AIRPORTS), options.clusters, progress, n_devices=options.devices
            )
        phones.draw(outcome, options.picture)
    except SketchError as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return 0
    if options.json:
        print(phones.to_line(outcome))
    else:
        phones.report(console, outcome, options.picture)
    return 0


def _run_secure_sum(console: Console, options: argparse.Namespace) -> int:
    folder = Path(tempfile.mkdtemp(prefix="sfumato-demo-"))
    try:
        with _progress(console) as progress:
            outcome = secure_sum.run(
                folder,
                HERE,
                list(AIRPORTS),
                options.clusters,
                progress,
                n_devices=secure_sum.N_DEVICES if options.devices is None else options.devices,
            )
    except SketchError as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return 0
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if options.json:
        print(secure_sum.to_line(outcome))
    else:
        secure_sum.report(console, outcome)
    return 0


def _read_count(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"must be a positive integer, and is {text!r}")
    return int(text)


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="end with one JSON line, print no more")
    parser.add_argument(
        "--phones",
        action="store_true",
        help="put every hour on a simulated phone of its own, which sends two bytes",
    )
    parser.add_argument(
        "--secure-sum",
        action="store_true",
        help="give each of many devices one hour, and let two servers add the noise",
    )
    parser.add_argument(
        "--devices",
        type=_read_count,
        help=f"devices of --secure-sum (default: {secure_sum.N_DEVICES}), or phones of --phones "
        "(default: one for every hour)",
    )
    parser.add_argument(
        "--keep",
        action="store_true",
        help="leave the aggregator up until Ctrl-C, with a second study whose page shows the year",
    )
    parser.add_argument(
        "--mechanism",
        choices=("discrete-knorm", "discrete-laplace"),
        default="discrete-knorm",
        help="the noise; discrete-laplace is the seed paper's (default: %(default)s)",
    )
    parser.add_argument("--clusters", type=int, default=N_CLUSTERS, help="k (default: %(default)s)")
    parser.add_argument(
        "--picture",
        type=Path,
        default=Path("sfumato-demo.png"),
        help="where to write the picture (default: %(default)s)",
    )
    return parser.parse_args()


def _progress(console: Console) -> Progress:
    columns = (TextColumn("{task.description:<46}"), BarColumn(), TimeElapsedColumn())
    return Progress(*columns, console=console)


def _run(
    folder: Path, plan: SketchPlan, n_clusters: int, progress: Progress, bar: Any, has_year: bool
) -> tuple[Aggregator, Outcome]:
    def step(words: str) -> None:
        progress.update(bar, description=words, advance=1)

    progress.update(bar, description="starting the aggregator")
    aggregator = Aggregator.start(folder)
    started = time.monotonic()
    try:
        with Client(aggregator.url, key=aggregator.key) as client:
            # The oldest study stands first on the page.
            year = Year.publish(client) if has_year else None
            trial = Trial.publish(client, aggregator.url) if has_year else None
            step("publishing the study, enrolling three devices")
            study_id = client.create_study(STUDY_NAME, plan).study_id
            pilot = plan_from_spec(read_spec("pilot.toml"))
            pilot_id = client.create_study(PILOT_NAME, pilot).study_id
            configs = _enrol(folder, aggregator, client, study_id)
            pilots = _enrol(folder, aggregator, client, pilot_id)
            step("devices sketch, add noise, sign and send")
            reports = run_agents(configs)
            step("decoding the global sketch")
            # The histograms are needed later.
            running = {name: start_agent(config) for name, config in pilots.items()}
            snapshot = client.snapshot(study_id)
            decode = client.decode(
                study_id, n_clusters=n_clusters, snapshot_id=snapshot.snapshot_id
            )
            # Shown whatever its verdict: a demonstration knows the truth too.
            result = decode.wait(allow_unusable=True)
            for each in running.values():
                finish_agent(each)
            table = decode.synthesise(N_RECORDS, histogram=pilot_id, allow_unusable=True)
            step("the same devices count around the centroids")
            measured, spent = _look(folder, aggregator, client, result)
            seconds = time.monotonic() - started
            if year:
                step("the same devices send a sketch every four weeks")
                run_agents(_enrol(folder, aggregator, client, year.study_id))
                step("looking over the year")
                year = year.look(client, n_clusters)
        step("k-means on the raw records, to compare")
        baseline = compute_baseline(HERE / "data", list(AIRPORTS), plan, n_clusters)
        step("done")
    except BaseException:
        aggregator.stop()
        raise
    return aggregator, Outcome(
        plan=plan,
        result=result,
        snapshot=snapshot,
        baseline=baseline,
        relative_sse=baseline.relative_sse(result.centroids),
        synthetic=compare(table, baseline.records),
        measured=measured,
        pilot_epsilon=pilot.release.epsilon,
        # Of all studies of the station so far.
        epsilon_spent=str(spent["JFK"]["epsilon_spent_lifetime"]),
        reports=reports,
        seconds=seconds,
        study_id=study_id,
        year=year,
        trial=trial,
    )


def _look(
    folder: Path, aggregator: Aggregator, client: Client, result: DecodeResult
) -> tuple[MeasuredClustersBody, dict[str, dict[str, Any]]]:
    """Show the centroids to the devices again; return what they add up to, and their reports."""
    planned = client.plan_look(result, epsilon=LOOK_EPSILON, same_records=True)
    study_id = client.create_study(LOOK_NAME, planned.plan).study_id
    reports = run_agents(_enrol(folder, aggregator, client, study_id))
    return client.clusters(client.snapshot(study_id).snapshot_id), reports


def _describe_measured(measured: MeasuredClustersBody) -> str:
    """Describe what the second look counted, beside the shares of the table."""
    shares = ", ".join(f"{each.share.value:.0%}" for each in measured.clusters)
    error = max(each.share.error for each in measured.clusters)
    words = f"the devices counted {shares} in these clusters, each +-{2 * error:.1%}"
    if measured.gain:
        words += (
            f"; a further step of k-means would gain {measured.gain.value:.1%} "
            f"+-{2 * measured.gain.error:.1%}"
        )
    return words


def _enrol(folder: Path, aggregator: Aggregator, client: Client, study_id: str) -> dict[str, Path]:
    def enrol(airport: str) -> Path:
        return enrol_device(
            folder,
            airport=airport,
            data=HERE / "data" / f"{airport.lower()}.csv",
            aggregator=aggregator,
            study_id=study_id,
            token=tokens[airport],
            # A record that is in three studies costs its owner all of them.
            per_record=_MOST_PER_RECORD,
        )

    tokens = {airport: client.create_token(study_id) for airport in AIRPORTS}
    with ThreadPoolExecutor(len(AIRPORTS)) as pool:
        return dict(zip(AIRPORTS, pool.map(enrol, AIRPORTS), strict=True))


def _draw(outcome: Outcome, path: Path) -> None:
    from sfumato.analyst.plots import plot_centroids, save_figure

    figure = plot_centroids(
        outcome.result,
        pairs=((0, 1), (2, 3)),
        title=(
            f"Weather patterns of three airports, from {outcome.snapshot.n_sketches} private "
            f"sketches (epsilon = {outcome.plan.release.epsilon} for each record)"
        ),
        readings=[read_weather(centroid) for centroid in outcome.result.centroids],
        records=outcome.baseline.records,
        baseline=outcome.baseline.centroids,
    )
    save_figure(figure, path)


def _report(console: Console, outcome: Outcome, picture: Path) -> None:
    result, plan = outcome.result, outcome.plan
    sketches, records = outcome.snapshot.n_sketches, outcome.snapshot.n_records
    title = f"Typical weather at three airports, from {sketches} private sums"
    console.print(tabulate_weather(result, title))
    sent, raw = outcome.total("bytes_sent"), outcome.total("raw_bytes_read")
    spent = plan.release.epsilon + outcome.pilot_epsilon + LOOK_EPSILON
    band = result.body.band
    expected = f" ({band.low:.2f} to {band.high:.2f} was expected)" if band else ""
    facts = (
        ("verdict", f"[bold]{result.verdict}[/bold]: {result.reason}"),
        ("second look", _describe_measured(outcome.measured)),
        ("truth", f"{outcome.relative_sse:.3f} times the squared error of k-means on the raw "
         f"records{expected}, which only a demo may read"),
        ("sent", f"{sent:,} bytes; the {records:,} records, {raw:,} bytes, never left"),
        ("privacy", f"epsilon {spent} for a record, {outcome.pilot_epsilon} of it for a histogram "
         f"and {LOOK_EPSILON} for the look: even odds about its values become "
         f"{math.exp(spent):.1f} to 1 at most; a person with a record in each quarter of a "
         f"station loses {outcome.epsilon_spent}"),
        ("synthetic", f"{N_RECORDS:,} records; shares of ranges are off by "
         f"{outcome.synthetic.range_error:.1%} on average"),
        ("picture", f"{picture}, after {outcome.seconds:.0f} seconds"),
        *(("note", warning) for warning in result.warnings),
    )  # fmt: skip
    console.print(tabulate_facts(facts))


def _print_next(console: Console) -> None:
    console.print(
        "",
        "Next:",
        "  make demo ARGS=--keep             pages, timeline, your browser as a device",
        "  docs/how-to/clustering.md         your own table, in three lines of Python",
        "  docs/tutorials/first-study.md     your own server, study and device",
        **_AS_IT_IS,
    )


def _print_next_steps(console: Console, aggregator: Aggregator, outcome: Outcome) -> None:
    url, key, year = aggregator.url, aggregator.key, outcome.year
    assert year is not None
    assert outcome.trial is not None

    def show(*lines: str) -> None:
        # Whoever copies a line needs it whole.
        console.print(*("", *(f"  {line}" for line in lines), ""), **_AS_IT_IS)

    console.print("\nThe server stays up until Ctrl-C. Its page asks for this key:", **_PLAIN)
    show(key)
    stretches = ", ".join(f"{first} to {last}" for first, last in year.alarms)
    console.print(
        "See the year as a timeline. The same devices also sent a sum every four weeks, for "
        f"epsilon 1 more. Alarms, because much has changed: {stretches or 'none'}.",
        **_PLAIN,
    )
    show(f"{url}/{year.address}")
    console.print("Be a device, in your browser: see what leaves it, what comes back.", **_PLAIN)
    show(outcome.trial.address)
    console.print("Ask from another terminal:", **_PLAIN)
    show(
        ". .venv/bin/activate",
        f"export SFUMATO_URL={url} SFUMATO_KEY={key}",
        f"sfumato decode {STUDY_NAME} -k 3",
        f"sfumato groups {STUDY_NAME} airport -k 3",
        f"sfumato timeline {year.study_id[:12]} -k 5",
        f"sfumato synthesise {STUDY_NAME} -k 5 --histogram {PILOT_NAME} --out weather.csv",
        f"curl {url}/v1/studies/{outcome.study_id}/privacy",
        f'curl -H "Authorization: Bearer $SFUMATO_KEY" {url}/v1/studies',
    )
    console.print(f"All calls are described at {url}/docs.", **_PLAIN)


if __name__ == "__main__":
    sys.exit(main())
