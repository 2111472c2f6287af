"""Commands for people who publish studies, sketch files and read results.

``sfumato plan | study | decode | sketch``, reached through the entry points of ``sfumato``; the
connection is named by ``SFUMATO_URL`` and ``SFUMATO_KEY``, or by ``--url`` and ``--key``.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from analyst.client import Client, DecodeResult
from analyst.planning.cli import app as plan_app
from analyst.planning.files import read_plan
from analyst.sketching.cli import choose_app
from shared.errors import ConfigError

_DEFAULT_URL = "http://127.0.0.1:8750"

Url = Annotated[str, typer.Option(envvar="SFUMATO_URL", help="Where the aggregator listens.")]
Key = Annotated[str, typer.Option(envvar="SFUMATO_KEY", help="An API key (`sfumato key create`).")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]

EXIT_STOPPED = 1
EXIT_USAGE = 2

# Of the parser inside typer, which has no public name for it: the base of all wrong command lines.
_UsageError: type[Exception] = typer.BadParameter.__mro__[1]

_settings: dict[str, Any] = {
    "no_args_is_help": True,
    "add_completion": False,
    "pretty_exceptions_enable": False,
    "rich_markup_mode": None,
}
_study = typer.Typer(help="Publish and look at studies.", **_settings)
_decode = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)


def plan(argv: list[str]) -> int:
    """Make a plan from a short specification, or explain one."""
    return _run(plan_app, "sfumato plan", argv)


def study(argv: list[str]) -> int:
    """Publish studies, list them, close them, and make enrolment tokens."""
    return _run(_study, "sfumato study", argv)


def decode(argv: list[str]) -> int:
    """Recover the centroids of a study."""
    return _run(_decode, "sfumato decode", argv)


def sketch(argv: list[str]) -> int:
    """Sketch a file of records on this machine, whatever its size, into one private file."""
    app, arguments = choose_app(argv)
    return _run(app, f"sfumato sketch{' show' if arguments is not argv else ''}", arguments)


def _run(app: typer.Typer, name: str, argv: list[str]) -> int:
    try:
        status = app(args=argv, prog_name=name, standalone_mode=False)
    except typer.Abort:  # Ctrl-C
        print("stopped", file=sys.stderr)
        return EXIT_STOPPED
    except _UsageError as error:
        if not argv:  # the message is the help text
            print(error, file=sys.stderr)
            return EXIT_USAGE
        raise _to_config_error(error, name) from error
    return int(status or 0)


def _to_config_error(error: Exception, name: str) -> ConfigError:
    """Say what is wrong with a command line as the rest of the project says it."""
    parameter = getattr(error, "param", None)
    field = getattr(error, "option_name", None) or (parameter and max(parameter.opts, key=len))
    context = getattr(error, "ctx", None)
    command = context.command_path if context else name
    message = str(getattr(error, "message", "")).rstrip(".")
    if not message:
        message = "is missing"
    elif message.startswith("No such option"):
        message = f"is not an option of `{command}`"
    return ConfigError(message, field=field, fix=f"`{command} --help` lists what there is")


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
        created = client.create_study(name, read_plan(path))
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
    choose: Annotated[
        bool, typer.Option("--choose", help="Find out how many clusters there are, up to k.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Recover k centroids from everything that a study holds now.

    Examples: sfumato decode STUDY -k 5; sfumato decode STUDY -k 12 --choose
    """
    settings = {"choose": True} if choose else None
    with Client(url, key=key) as client, Progress(console=Console(stderr=True)) as progress:
        task = progress.add_task("decoding", total=1.0)
        running = client.decode(study_id, n_clusters=k, seed=seed, settings=settings)
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
    if result.choice is not None:
        console.print(_tabulate_choice(result.choice), f"{result.choice['statement']}")
    console.print(table)
    console.print(f"SNR {result.snr:.3g}; {result.quality}. {result.privacy}")
    for warning in result.warnings:
        console.print(f"warning: {warning}")


def _tabulate_choice(choice: Mapping[str, Any]) -> Table:
    table = Table("clusters", "residual", "noise floor", "")
    rows = zip(choice["residuals"], choice["noise_floors"], strict=True)
    for k, (residual, floor) in enumerate(rows, start=1):
        mark = "recommended" if k == choice["recommended"] else ""
        table.add_row(str(k), f"{residual:.3g}", f"{floor:.3g}", mark)
    return table
