"""Cluster a year of weather from three airports without moving a single record.

Starts a real aggregator process and one real agent process per airport, sends differentially
private sketches over HTTP on the loopback address, decodes them, and compares with ordinary k-means
on the pooled raw records, which only a demonstration may read.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

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
from deploy.demo.tables import tabulate_weather
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
    """Describe what the second look measured, beside what was predicted."""
    shares = ", ".join(
        f"{each.share.value:.0%} +- {2 * each.share.error:.1%}" for each in measured.clusters
    )
    doubts = "".join(f"{doubt}; " for doubt in measured.doubts[:1])
    return f"{doubts}clusters hold {shares} of the records; {measured.statement}"


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
    console.print(tabulate_weather(result, "Typical weather, recovered from sketches alone"))
    sent, raw = outcome.total("bytes_sent"), outcome.total("raw_bytes_read")
    unsketchable = outcome.total("unsketchable")
    facts = Table(show_header=False, box=None, padding=(0, 1))
    for name, words in (
        ("verdict", f"{result.verdict}: {result.reason}"),
        ("records", f"{outcome.snapshot.n_records:,} on three devices; {unsketchable} lacked a "
         "value, kept their place and added nothing"),
        ("sent", f"{outcome.snapshot.n_sketches} sketches, {sent:,} bytes; the raw data have "
         f"{raw:,} bytes, {raw / sent:.0f} times as many, and stayed where they are"),
        ("signal to noise", f"SNR {result.snr:.0f} with {plan.release.mechanism} noise; "
         f"{outcome.snr_with_laplace:.0f} with the seed paper's Laplace noise; {result.quality}"),
        ("privacy spent", f"epsilon {plan.release.epsilon} for each record, "
         f"{outcome.pilot_epsilon} for a histogram and {LOOK_EPSILON} for a second look; "
         f"{outcome.epsilon_spent} over a station's four windows"),
        ("guarantee", result.privacy),
        ("quality", f"SSE {outcome.relative_sse:.3f} times that of k-means on the pooled raw "
         "records (in units of the plan's scales; this demo may look at them, an analyst cannot)"),
        ("synthetic", outcome.synthetic.describe()),
        ("measured", _describe_measured(outcome.measured)),
        ("decoder", f"{result.decoder}, version {result.decoder_version}, {result.seconds:.1f} s; "
         f"everything {outcome.seconds:.1f} s"),
        ("picture", str(picture)),
    ):  # fmt: skip
        facts.add_row(f"[bold]{name}[/bold]", words)
    console.print(facts)
    for warning in result.warnings:
        console.print(f"[yellow]note:[/yellow] {warning}")


def _print_next_steps(console: Console, aggregator: Aggregator, outcome: Outcome) -> None:
    url, study, year = aggregator.url, outcome.study_id, outcome.year
    assert year is not None
    assert outcome.trial is not None
    stretches = " and ".join(f"from {first} to {last}" for first, last in year.alarms)
    console.print(
        "\nThe same devices also sent a sketch every four weeks, for epsilon 1 more. These "
        "differ from those since the last change by more than one usually does from the next "
        f"{stretches or 'never'}. To see what changed, open\n\n  {url}/{year.address}\n\n"
        f"and paste the key {aggregator.key}. The server stays up until Ctrl-C. Try also:\n\n"
        f"  export SFUMATO_URL={url} SFUMATO_KEY={aggregator.key}\n"
        f'  curl -s -H "Authorization: Bearer $SFUMATO_KEY" {url}/v1/studies/{study}\n'
        f'  curl -s -H "Authorization: Bearer $SFUMATO_KEY" {url}/v1/studies/{study}/sketches\n'
        f"  curl -s {url}/v1/studies/{study}/privacy\n"
        f"  .venv/bin/sfumato decode {study} -k 3\n"
        "  .venv/bin/sfumato synthesise weather -k 5 --histogram weather-pilot --out weather.csv\n"
        f"  .venv/bin/sfumato timeline {year.study_id} -k 5\n"
        f"  a browser at {url}/docs\n\n"
        "To be a device yourself, and see what leaves it and what comes back, open\n\n"
        f"  {outcome.trial.address}\n",
        soft_wrap=True,
        highlight=False,
    )


if __name__ == "__main__":
    sys.exit(main())
