"""Commands for people who publish studies and read results: ``sfumato plan | study | decode``.

Reached through the entry points of ``sfumato``; the connection is named by ``SFUMATO_URL`` and
``SFUMATO_KEY``, or by ``--url`` and ``--key``.
"""

from __future__ import annotations

import json
import sys
import tomllib
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from analyst.client import Client, DecodeResult
from shared.errors import ConfigError, PlanError
from shared.plan import (
    SketchPlan,
    compute_plan_digest,
    plan_from_json,
    plan_from_spec,
    plan_to_json,
)

_DEFAULT_URL = "http://127.0.0.1:8750"

Url = Annotated[str, typer.Option(envvar="SFUMATO_URL", help="Where the aggregator listens.")]
Key = Annotated[str, typer.Option(envvar="SFUMATO_KEY", help="An API key (`sfumato key create`).")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]

_settings: dict[str, Any] = {
    "no_args_is_help": True,
    "add_completion": False,
    "pretty_exceptions_enable": False,
    "rich_markup_mode": None,
}
_plan = typer.Typer(help="Make, check and explain plans.", **_settings)
_study = typer.Typer(help="Publish and look at studies.", **_settings)
_decode = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)


def plan(argv: list[str]) -> int:
    """Make a plan from a short specification, or explain one."""
    return _run(_plan, "sfumato plan", argv)


def study(argv: list[str]) -> int:
    """Publish studies, list them, close them, and make enrolment tokens."""
    return _run(_study, "sfumato study", argv)


def decode(argv: list[str]) -> int:
    """Recover the centroids of a study."""
    return _run(_decode, "sfumato decode", argv)


def _run(app: typer.Typer, name: str, argv: list[str]) -> int:
    try:
        app(args=argv, prog_name=name)
    except SystemExit as ended:
        return int(ended.code or 0)
    return 0


@_plan.command("new")
def _plan_new(
    spec: Annotated[Path, typer.Argument(help="TOML file with the choices.")],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write it here.")] = None,
) -> None:
    """Make a plan from a specification and print it as JSON.

    Example: sfumato plan new deploy/demo/plan.toml -o plan.json
    """
    text = json.dumps(plan_to_json(_read_spec(spec)), indent=1, ensure_ascii=False)
    if output is None:
        print(text)
        return
    output.write_text(text + "\n", encoding="utf-8")
    print(f"wrote {output}; publish it with: sfumato study create NAME {output}", file=sys.stderr)


@_plan.command("show")
def _plan_show(
    path: Annotated[Path, typer.Argument(help="A plan (JSON) or a specification (TOML).")],
) -> None:
    """Explain a plan: what it protects, what it costs, how large a sketch is."""
    plan_ = _read_plan(path)
    release = plan_.release
    rows = [
        ("digest", compute_plan_digest(plan_).hex()),
        ("dimensions", ", ".join(f"{d.name} ({d.unit})" for d in plan_.dimensions)),
        ("frequencies", f"{plan_.n_frequencies}, {plan_.measurements_per_record} a record"),
        ("privacy", plan_.mechanism.guarantee.describe()),
        ("noise", f"{release.mechanism}, scale {float(release.scale):.6g} units of the sum"),
        ("sketch", f"{plan_.payload_bytes} bytes, {plan_.payload_width} a coordinate"),
        ("records", f"{plan_.least_records} to {plan_.most_records} in one sketch"),
    ]
    table = Table(show_header=False, box=None)
    for row in rows:
        table.add_row(*row)
    Console().print(table)


@_study.command("create")
def _study_create(
    name: Annotated[str, typer.Argument(help="A name for people.")],
    path: Annotated[Path, typer.Argument(help="A plan (JSON) or a specification (TOML).")],
    key: Key,
    url: Url = _DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """Publish a study. The same name and plan again are the same study.

    Example: sfumato study create weather deploy/demo/plan.toml
    """
    with Client(url, key=key) as client:
        created = client.create_study(name, _read_plan(path))
    if as_json:
        print(json.dumps(created))
        return
    print(f"study {created['study_id']} is {created['state']}")
    print(f"next: let a device enrol: sfumato study token {created['study_id']}")


@_study.command("list")
def _study_list(key: Key, url: Url = _DEFAULT_URL, as_json: Json = False) -> None:
    """List the studies."""
    with Client(url, key=key) as client:
        studies = list(client.studies())
    if as_json:
        print(json.dumps(studies))
        return
    table = Table("name", "state", "devices", "sketches", "records")
    # Identities are copied, so none may be cut to the width of the terminal.
    table.add_column("study", overflow="fold", min_width=64)
    for item in studies:
        counts = (str(item[f"n_{what}"]) for what in ("devices", "sketches", "records"))
        table.add_row(item["name"], item["state"], *counts, item["study_id"])
    Console().print(table)


@_study.command("close")
def _study_close(study_id: str, key: Key, url: Url = _DEFAULT_URL) -> None:
    """Close a study: it accepts no more sketches."""
    with Client(url, key=key) as client:
        print(f"study {study_id} is {client.set_state(study_id, 'closed')['state']}")


@_study.command("token")
def _study_token(
    study_id: str,
    key: Key,
    url: Url = _DEFAULT_URL,
    uses: Annotated[int, typer.Option(help="Devices that it may enrol.")] = 1,
) -> None:
    """Make an enrolment token and print it; it is shown this once.

    Example: sfumato-agent init --config agent.toml --token "$(sfumato study token STUDY)"
    """
    with Client(url, key=key) as client:
        print(client.create_token(study_id, max_uses=uses))


@_decode.command()
def _decode_study(
    study_id: Annotated[str, typer.Argument(help="The study.")],
    k: Annotated[int, typer.Option("-k", help="Number of clusters.")],
    key: Key,
    url: Url = _DEFAULT_URL,
    seed: Annotated[int, typer.Option(help="Seed of the decoder's random starts.")] = 0,
    as_json: Json = False,
) -> None:
    """Recover k centroids from everything that a study holds now.

    Example: sfumato decode STUDY -k 5
    """
    with Client(url, key=key) as client, Progress(console=Console(stderr=True)) as progress:
        task = progress.add_task("decoding", total=1.0)
        running = client.decode(study_id, n_clusters=k, seed=seed)
        result = running.wait(progress=lambda share: progress.update(task, completed=share))
    if as_json:
        print(json.dumps(_result_to_json(result)))
        return
    _print_result(result)


def _result_to_json(result: DecodeResult) -> dict[str, Any]:
    document = {
        name: value.tolist() if hasattr(value, "tolist") else value
        for name, value in vars(result).items()
    }
    return document


def _print_result(result: DecodeResult) -> None:
    table = Table(
        "weight", *(f"{n} ({u})" for n, u in zip(result.names, result.units, strict=True))
    )
    for weight, centroid in zip(result.weights, result.centroids, strict=True):
        table.add_row(f"{weight:.1%}", *(f"{value:.4g}" for value in centroid))
    console = Console()
    console.print(table)
    console.print(f"SNR {result.snr:.3g}; {result.quality}. {result.privacy}")
    for warning in result.warnings:
        console.print(f"warning: {warning}")


def _read_plan(path: Path) -> SketchPlan:
    if path.suffix == ".toml":
        return _read_spec(path)
    try:
        document = json.loads(_read_text(path))
    except json.JSONDecodeError as error:
        raise PlanError(f"line {error.lineno} is not JSON", field=str(path)) from error
    return plan_from_json(document)


def _read_spec(path: Path) -> SketchPlan:
    try:
        document = tomllib.loads(_read_text(path))
    except tomllib.TOMLDecodeError as error:
        raise PlanError(f"is not TOML: {error}", field=str(path)) from error
    return plan_from_spec(document)


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise ConfigError(f"cannot be read: {reason}", field=str(path)) from error
