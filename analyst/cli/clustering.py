"""``sfumato cluster FILE`` and ``sfumato cluster show FILE``: the literature's private methods."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import typer
from numpy.typing import NDArray

from analyst.cli.centroids import tabulate_centroids
from analyst.cli.options import PLAN_HELP, DefaultGroup, Json, show
from analyst.estimators import (
    CandidateKMeans,
    CoverKMeans,
    GridKMeans,
    LloydKMeans,
    TreeKMeans,
)
from analyst.estimators.clustering import ClusteringEstimator, describe_release
from analyst.planning.files import parse_delta, parse_epsilon, read_plan
from analyst.sketching.output import require_writable, write_once
from analyst.sketching.reader import RecordReader, choose_fields
from learning.clustering.methods.release import ClusterRelease
from shared.command import SETTINGS, list_examples
from shared.core import Columns
from shared.errors import ConfigError, PlanError
from shared.plan import Dimension
from shared.reading import WatchedFile

Floats = NDArray[np.float64]
Method = Literal["grid", "lloyd", "tree", "candidates", "cover"]
METHODS: dict[str, Any] = {
    "grid": GridKMeans,
    "lloyd": LloydKMeans,
    "tree": TreeKMeans,
    "candidates": CandidateKMeans,
    "cover": CoverKMeans,
}

app = typer.Typer(
    cls=DefaultGroup,
    help="Cluster a file of records by a private method of the literature.",
    **SETTINGS,
)
Clusters = Annotated[int, typer.Option("-k", min=1, help="Number of clusters.")]


@app.command(
    "FILE",
    hidden=True,
    epilog=list_examples(
        "sfumato cluster records.csv -k 5 --epsilon 1 --bounds temp=-40:60 --bounds wind=0:150",
        "sfumato cluster records.csv --method tree -k 5 --epsilon 1 --plan plan.toml -o found.cbor",
        "sfumato cluster records.csv --method cover -k 40 --epsilon 1 --delta 1e-7 --plan p.toml",
        "sfumato cluster show found.cbor -k 3",
    ),
)
def _cluster(
    path: Annotated[
        Path, typer.Argument(metavar="FILE", help="Records: .csv, .jsonl, .parquet or .npy.")
    ],
    n_clusters: Clusters,
    epsilon: Annotated[str, typer.Option(help="Of the whole fit: 1, 0.1 or 1/10.")],
    method: Annotated[Method, typer.Option(help="The method.")] = "grid",
    published: Annotated[
        bool, typer.Option("--published", help="As its paper has it, for comparison.")
    ] = False,
    bounds: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN=LOWER:UPPER[:SCALE]",
            help="Public bounds of a column, and the spread inside one cluster. Repeatable.",
        ),
    ] = None,
    plan_path: Annotated[
        Path | None, typer.Option("--plan", help=f"Bounds and scales instead. {PLAN_HELP}")
    ] = None,
    delta: Annotated[
        str, typer.Option(help="Above 0 for cover; Lloyd's sums then have Gaussian noise.")
    ] = "0",
    relation: Annotated[
        Literal["replace-one", "add-remove-one"],
        typer.Option(help="add-remove-one keeps the number of records secret too."),
    ] = "replace-one",
    max_records: Annotated[
        int | None, typer.Option(min=1, help="A public number, under add-remove-one.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="File for the release, to be clustered again."),
    ] = None,
    ledger: Annotated[
        Path | None,
        typer.Option(envvar="SFUMATO_LEDGER", help="The owner's ledger, which counts the fit."),
    ] = None,
    budget: Annotated[
        str | None, typer.Option(help="Limit of epsilon for each record, with --ledger.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Find centroids in a file of records under differential privacy.

    Noise is drawn once, and each further call on the same records costs epsilon again. Bounds are
    public: state what values can be, never what they are in the file.
    """
    dimensions = _read_dimensions(bounds or (), plan_path)
    if budget is not None and ledger is None:
        raise ConfigError("needs --ledger", field="--budget", fix="name the owner's ledger")
    if output is not None:
        require_writable(output)
    records = _read_records(path, dimensions)
    names = [dimension.name for dimension in dimensions]
    scales = {each.name: each.scale for each in dimensions if each.scale is not None}
    given: dict[str, Any] = {
        "epsilon": parse_epsilon(epsilon, "--epsilon"),
        "delta": parse_delta(delta, "--delta"),
        "bounds": {each.name: each.bounds for each in dimensions},
        "scale": scales if len(scales) == len(dimensions) else None,
        "relation": relation,
        "max_records": max_records,
        "ledger": ledger,
        "source": None if ledger is None else path,
        "budget": budget,
    }
    if method == "lloyd" and given["delta"] and not published:
        given["noise"] = "gaussian"
    kind = METHODS[method]
    if published and method == "tree":
        raise ConfigError(
            "cannot be combined with the method tree, of which no paper has this form",
            field="--published",
            fix="leave it out",
        )
    make = kind.published if published else kind
    found: ClusteringEstimator = make(n_clusters, **given).fit(_Table(records, names))
    if output is not None:
        write_once(output, found.release_.encode())
    _print(
        found.release_,
        found.cluster_centers_,
        found.weights_,
        [each.unit for each in dimensions],
        output,
        as_json=as_json,
    )


@app.command("show", epilog=list_examples("sfumato cluster show found.cbor -k 3"))
def _show(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="A release of clusters.")],
    n_clusters: Annotated[
        int | None, typer.Option("-k", min=1, help="Another number of clusters.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Cluster a release again, for the same k or another; this costs nothing."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigError(
            f"cannot be read: {error.strerror}", field=str(path), fix="name a file of -o"
        ) from error
    release = ClusterRelease.decode(data)
    found = release.recover(n_clusters, rng=np.random.default_rng(0))
    centroids = release.locate(found.centroids)
    units = ["1"] * len(release.names)
    _print(release, centroids, found.shares, units, None, as_json=as_json)


class _Table:
    """Records with names of columns, as estimators read tables."""

    def __init__(self, records: Floats, columns: Sequence[str]) -> None:
        self._records = records
        self.columns = list(columns)
        self.dtype = records.dtype

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Floats:
        del copy
        return self._records if dtype is None else self._records.astype(dtype)


def _read_dimensions(bounds: Sequence[str], plan_path: Path | None) -> tuple[Dimension, ...]:
    """Return the columns as they are stated on the command line, or by a plan."""
    if bool(bounds) == (plan_path is not None):
        raise ConfigError(
            "must be stated by --bounds for each column, or by --plan",
            field="--bounds",
            fix="state what the values can be, such as --bounds temperature=-40:60",
        )
    if plan_path is None:
        return tuple(map(_parse_bounds, bounds))
    dimensions = read_plan(plan_path).dimensions
    for each in dimensions:
        if each.is_categorical or each.transform is not None:
            raise PlanError(
                f"of {each.name!r} must be linear: it has levels or a logarithmic scale",
                field="--plan",
                fix="state --bounds of columns of numbers, or use CompressiveKMeans",
            )
    return tuple(dimensions)


def _parse_bounds(text: str) -> Dimension:
    name, equals, rest = text.rpartition("=")
    parts = rest.split(":")
    try:
        numbers = [float(part) for part in parts]
    except ValueError:
        numbers = []
    if not equals or not name or len(numbers) not in (2, 3):
        raise ConfigError(
            f"must be COLUMN=LOWER:UPPER or COLUMN=LOWER:UPPER:SCALE, and is {text!r}",
            field="--bounds",
            fix="write --bounds temperature=-40:60",
        )
    scale = numbers[2] if len(numbers) == 3 else None
    return Dimension(name=name, unit="1", lower=numbers[0], upper=numbers[1], scale=scale)


def _read_records(path: Path, dimensions: Sequence[Dimension]) -> Floats:
    """Read all records of a file: shape ``(n, d)``."""
    with WatchedFile(path) as file:
        reader = RecordReader(file, choose_fields(dimensions))
        with closing(reader.batches(1)) as batches:
            parts = [
                np.stack(batch.columns, axis=1) if isinstance(batch, Columns) else batch
                for batch in batches
            ]
        file.require_unchanged()
    if not parts:
        return np.empty((0, len(dimensions)))
    return np.concatenate(parts).astype(np.float64)


def _print(
    release: ClusterRelease,
    centroids: Floats,
    weights: Floats,
    units: Sequence[str],
    output: Path | None,
    *,
    as_json: bool,
) -> None:
    if as_json:
        document = {
            "method": release.method.name,
            "n_records": release.n_records,
            "columns": list(release.names),
            "centroids": centroids.tolist(),
            "weights": weights.tolist(),
            "epsilon": str(release.task.epsilon),
            "delta": str(release.task.delta),
            "relation": release.task.relation,
            "rounds": [answer.name for answer in release.answers],
            "release_digest": release.digest.hex(),
            "output": None if output is None else str(output),
        }
        print(json.dumps(document, ensure_ascii=False))
        return
    show(tabulate_centroids(release.names, units, weights, centroids))
    show(describe_release(release))
    if output is not None:
        show(f"The release is in {output}: `sfumato cluster show {output} -k K` costs nothing.")
