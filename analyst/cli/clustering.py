"""``sfumato cluster FILE`` and ``sfumato cluster show FILE``: the literature's private methods."""

from __future__ import annotations

import json
import math
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import typer

from sfumato.analyst.cli.centroids import tabulate_centroids
from sfumato.analyst.cli.options import (
    PLAN_HELP,
    DefaultGroup,
    Json,
    Ledger,
    Limit,
    MaxUnreadable,
    Read,
    show,
)
from sfumato.analyst.estimators import (
    AutoKMeans,
    CandidateKMeans,
    CompressiveKMeans,
    CoverKMeans,
    GridKMeans,
    LloydKMeans,
    SplitKMeans,
    TreeKMeans,
)
from sfumato.analyst.estimators.clustering import describe_release, is_published, state_guarantee
from sfumato.analyst.estimators.contract import FORMAT
from sfumato.analyst.estimators.held import decode_release
from sfumato.analyst.estimators.signature import (
    create_owner_key,
    is_signed,
    open_release,
    read_owner_key,
    sign_release,
)
from sfumato.analyst.levels import parse_delta, parse_epsilon
from sfumato.analyst.planning.files import read_plan
from sfumato.analyst.sketching.output import require_writable, write_once
from sfumato.analyst.sketching.reader import (
    ReadSettings,
    RecordReader,
    choose_fields,
    read_settings,
    spell_unreadable,
)
from sfumato.learning.clustering.methods.release import ClusterRelease
from sfumato.shared.arrays import Floats
from sfumato.shared.cbor import decode_deterministic
from sfumato.shared.command import SETTINGS, list_examples
from sfumato.shared.core import Columns
from sfumato.shared.errors import ConfigError, MalformedMessageError, PlanError, SketchError
from sfumato.shared.plan import Dimension, decode_plan
from sfumato.shared.privacy import PrivacyGuarantee
from sfumato.shared.reading import Fields, FileLayout, WatchedFile
from sfumato.shared.reading.unreadable import MOST_UNREADABLE, UnreadableError
from sfumato.shared.structure import require_plain

Method = Literal["auto", "compressive", "grid", "lloyd", "tree", "candidates", "cover", "split"]
METHODS: dict[str, Any] = {
    "auto": AutoKMeans,
    "compressive": CompressiveKMeans,
    "grid": GridKMeans,
    "lloyd": LloydKMeans,
    "tree": TreeKMeans,
    "candidates": CandidateKMeans,
    "cover": CoverKMeans,
    "split": SplitKMeans,
}

_SEED = 0
_WRITE = "write what the values can be, such as --bounds temperature=-40:60"
_ADVICE = (
    "name a column as the header does, or correct the header; state how the file is written with "
    "--read, such as --read 'delimiter=;', --read skip_lines=2 "
    "or --read encoding=cp1252"
)
_OPTIONS = {
    "bounds": "--bounds",
    "budget": "--budget",
    "delta": "--delta",
    "epsilon": "--epsilon",
    "ledger": "--ledger",
    "max_records": "--max-records",
    "n_clusters": "-k",
    "scale": "--bounds",
}
"""The options by the names of the parameters that they set."""

app = typer.Typer(
    cls=DefaultGroup,
    help="Cluster a file of records by a private method of the literature.",
    **SETTINGS,
)
Records = Annotated[
    Path, typer.Argument(metavar="FILE", help="Records: .csv, .jsonl, .parquet or .npy.")
]
Clusters = Annotated[int, typer.Option("-k", min=1, help="Number of clusters.")]
Epsilon = Annotated[str, typer.Option(help="Of the whole fit: 1, 0.1 or 1/10.")]
Bounds = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COLUMN=LOWER:UPPER[:SCALE]",
        help="Public bounds of a column, and the spread inside one cluster. Repeatable; other "
        "columns are not read.",
    ),
]
PlanPath = Annotated[
    Path | None, typer.Option("--plan", help=f"Bounds and scales instead. {PLAN_HELP}")
]
Relation = Annotated[
    Literal["replace-one", "add-remove-one"],
    typer.Option(help="add-remove-one keeps the number of records secret too."),
]
MostRecords = Annotated[
    int | None, typer.Option(min=1, help="A public number, under add-remove-one.")
]
Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", help="File for the release, to be clustered again."),
]


@app.command(
    "FILE",
    hidden=True,
    epilog=list_examples(
        "sfumato cluster records.csv -k 5 --epsilon 1 --bounds temp=-40:60 --bounds wind=0:150",
        "sfumato cluster records.csv --method tree -k 5 --epsilon 1 --plan plan.toml -o found.cbor",
        "sfumato cluster records.csv --method cover -k 40 --epsilon 1 --delta 1e-7 --plan p.toml",
        "sfumato cluster show found.cbor -k 3",
        "sfumato cluster records.csv -k 5 --epsilon 1 --plan plan.toml -o found.cbor "
        "--sign owner.key",
    ),
)
def _cluster(
    path: Records,
    n_clusters: Clusters,
    epsilon: Epsilon,
    method: Annotated[
        Method, typer.Option(help="auto chooses by public numbers, such as those of columns and k.")
    ] = "auto",
    published: Annotated[
        bool, typer.Option("--published", help="As its paper has it, for comparison.")
    ] = False,
    bounds: Bounds = None,
    plan_path: PlanPath = None,
    delta: Annotated[
        str,
        typer.Option(help="Above 0 for cover and split; Lloyd's sums then have Gaussian noise."),
    ] = "0",
    relation: Relation = "replace-one",
    max_records: MostRecords = None,
    output: Output = None,
    sign: Annotated[
        Path | None,
        typer.Option(help="The owner's key, which signs the release: see `sfumato cluster key`."),
    ] = None,
    ledger: Ledger = None,
    budget: Limit = None,
    max_unreadable: MaxUnreadable = MOST_UNREADABLE,
    read: Read = None,
    as_json: Json = False,
) -> None:
    """Find centroids in a file of records under differential privacy.

    Noise is drawn once, and each further call on the same records costs epsilon again. Bounds are
    public: state what values can be, never what they are in the file.
    """
    kind = METHODS[method]
    if published and not hasattr(kind, "published"):
        raise ConfigError(
            f"cannot be combined with the method {method}, of which no paper has this form",
            field="--published",
            fix="leave it out, or see `sfumato lab cluster`",
        )
    dimensions = read_dimensions(bounds or (), plan_path)
    given: dict[str, Any] = {
        "epsilon": parse_epsilon(epsilon, "--epsilon"),
        "delta": parse_delta(delta, "--delta"),
        "relation": relation,
        "max_records": max_records,
        "ledger": ledger,
        "budget": budget,
        "max_unreadable": max_unreadable,
    }
    if method == "lloyd" and given["delta"] and not published:
        given["noise"] = "gaussian"
    if method == "compressive" and not _have_scales(dimensions):
        given["scale"] = "bounds"
    fit_file(
        partial(kind.published if published else kind, n_clusters, **given),
        path,
        dimensions,
        read_settings(read or ()),
        output=output,
        sign=sign,
        as_json=as_json,
    )


def fit_file(
    make: Callable[..., Any],
    path: Path,
    dimensions: Sequence[Dimension],
    settings: ReadSettings,
    *,
    output: Path | None,
    sign: Path | None = None,
    as_json: bool,
) -> None:
    """Fit an estimator to a file, store the release, and print the centroids.

    Parameters
    ----------
    make
        Makes the estimator of bounds, source and ``random_state``, and of a scale where the
        columns have one.
    settings
        How the file is written.
    """
    if sign is not None and output is None:
        raise ConfigError("needs -o", field="--sign", fix="name a file for the release")
    # Read before anything is spent.
    key = None if sign is None else read_owner_key(sign)
    if output is not None:
        require_writable(output)
    fields = replace(choose_fields(dimensions, settings=settings), advice=_ADVICE)
    records = _read_records(path, fields, settings)
    names = [dimension.name for dimension in dimensions]
    scales = {each.name: each.scale for each in dimensions}
    model = make(
        bounds={each.name: each.bounds for each in dimensions},
        source=path,
        # As of `cluster show`, which then computes the same from the release. It steers no noise.
        random_state=_SEED,
        **({"scale": scales} if _have_scales(dimensions) else {}),
    )
    try:
        model.fit(_Table(records, names))
    except UnreadableError as error:
        # The estimator has numbers alone, and the file spells what could not be read.
        text = spell_unreadable(path, fields, error.found.column, settings)
        raise error.of_file(path, text) from None
    except SketchError as error:
        error.field = _OPTIONS.get(error.field or "", error.field)
        raise
    finally:
        # Also where it shows no clusters: it was paid for.
        if output is not None and "release_" in vars(model):
            released = model.release_
            write_once(output, released.encode() if key is None else sign_release(released, key))
    units = [each.unit for each in dimensions]
    owner = None if key is None else key.public_key().public_bytes_raw().hex()
    _print(_describe_fit(model, names, units), output, owner, as_json=as_json)


def _have_scales(dimensions: Sequence[Dimension]) -> bool:
    return all(each.scale is not None for each in dimensions)


@app.command("show", epilog=list_examples("sfumato cluster show found.cbor -k 3"))
def show_clusters(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="A release of clusters.")],
    n_clusters: Annotated[
        int | None, typer.Option("-k", min=1, help="Another number of clusters.")
    ] = None,
    owner: Annotated[
        str | None, typer.Option(help="Public key of the owner who signed the release.")
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
    _require_owner(path, owner, is_signed=is_signed(data))
    try:
        answer = _read_answer(open_release(data, owner), n_clusters)
    except MalformedMessageError as error:
        raise ConfigError(
            "is damaged, or is no release of this version",
            field=str(path),
            fix="name a file that `sfumato cluster -o` wrote, as it was written",
        ) from error
    except SketchError as error:
        error.field = _OPTIONS.get(error.field or "", error.field)
        raise
    _print(answer, None, as_json=as_json)


@app.command("key", epilog=list_examples("sfumato cluster key owner.key"))
def _key(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="A new file.")],
    as_json: Json = False,
) -> None:
    """Make a key that signs releases of an owner, and print its public part.

    Keep the file. Give the public part to those who read what you release.
    """
    public = create_owner_key(path)
    print(json.dumps({"file": str(path), "public": public}) if as_json else public)
    if not as_json:
        note = f"keep {path} secret; the line above is its public key, for those who read"
        print(note, file=sys.stderr)


def _require_owner(path: Path, owner: str | None, *, is_signed: bool) -> None:
    if is_signed and owner is None:
        raise ConfigError(
            "is signed, and --owner is missing",
            field=str(path),
            fix="pass the public key that the owner gave you, 64 hexadecimal digits",
        )
    if owner is not None and not is_signed:
        raise ConfigError(
            "has no signature, and --owner asks for one",
            field=str(path),
            fix="ask its owner for a file that was written with --sign",
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class _Answer:
    """Clusters, and the release that they were computed from."""

    method: str
    is_published: bool
    columns: Sequence[str]
    units: Sequence[str]
    centroids: Floats
    weights: Floats
    n_records: int | None
    guarantee: PrivacyGuarantee
    rounds: Sequence[str]
    digest: bytes
    words: str


def _describe_fit(model: Any, columns: Sequence[str], units: Sequence[str]) -> _Answer:
    """Describe the answer of a fitted estimator."""
    fitted = model.estimator_ if isinstance(model, AutoKMeans) else model
    if not isinstance(fitted, CompressiveKMeans):
        release: ClusterRelease = fitted.release_
        answer = _describe_clusters(release, model.cluster_centers_, model.weights_, units)
    else:
        answer = _describe_sketch(fitted, columns, units)
    if isinstance(model, AutoKMeans):
        return replace(answer, words=f"{answer.words} It was chosen: {model.choice_.reason}.")
    return answer


def _read_answer(data: bytes, n_clusters: int | None) -> _Answer:
    """Cluster what a file holds: a release of rounds, or of a sketch."""
    document = decode_deterministic(data, what="release")
    if not isinstance(document, Mapping) or document.get("format") != FORMAT:
        release = ClusterRelease.decode(data)
        found = release.recover(n_clusters, rng=np.random.default_rng(_SEED))
        units = ["1"] * len(release.names)
        return _describe_clusters(release, release.locate(found.centroids), found.shares, units)
    sketch = decode_release(data)
    plan = decode_plan(sketch.design["plan"])
    k = n_clusters or plan.most_clusters
    if k is None:
        raise ConfigError("is missing", field="-k", fix="state the number of clusters")
    guarantee = plan.mechanism.guarantee
    model = CompressiveKMeans(k, epsilon=guarantee.epsilon, random_state=_SEED).fit_sketch(sketch)
    units = [each.unit for each in plan.dimensions]
    return _describe_sketch(model, [each.name for each in plan.dimensions], units)


def _describe_clusters(
    release: ClusterRelease, centroids: Floats, weights: Floats, units: Sequence[str]
) -> _Answer:
    return _Answer(
        method=release.method.name,
        is_published=is_published(release),
        columns=release.names,
        units=units,
        centroids=centroids,
        weights=weights,
        n_records=release.n_records,
        guarantee=state_guarantee(release),
        rounds=[answer.name for answer in release.answers],
        digest=release.digest,
        words=describe_release(release),
    )


def _describe_sketch(
    model: CompressiveKMeans, columns: Sequence[str], units: Sequence[str]
) -> _Answer:
    release = model.release_
    return _Answer(
        method="compressive",
        is_published=False,
        columns=columns,
        units=units,
        centroids=model.cluster_centers_,
        weights=model.weights_,
        n_records=release.n_records,
        guarantee=model.guarantee_,
        rounds=["pilot", "sketch"] if "pilot" in release.design else ["sketch"],
        digest=release.digest,
        words=f"{model.describe()} Method compressive: {model.result_.verdict}, "
        f"{model.result_.reason}.",
    )


class _Table:
    """Records with names of columns, as estimators read tables."""

    def __init__(self, records: Floats, columns: Sequence[str]) -> None:
        self._records = records
        self.columns = list(columns)
        self.dtype = records.dtype

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Floats:
        del copy
        return self._records if dtype is None else self._records.astype(dtype)


def read_dimensions(bounds: Sequence[str], plan_path: Path | None) -> tuple[Dimension, ...]:
    """Return the columns as they are stated on the command line, or by a plan."""
    if bool(bounds) == (plan_path is not None):
        raise ConfigError(
            "must be stated by --bounds for each column, or by --plan",
            field="--bounds",
            fix="state what the values can be, such as --bounds temperature=-40:60",
        )
    if plan_path is None:
        stated = tuple(map(_parse_bounds, bounds))
        for name, count in Counter(each.name for each in stated).items():
            if count > 1:
                raise ConfigError(
                    f"of {name!r} cannot be stated {count} times",
                    field="--bounds",
                    fix="state them once for each column",
                )
        return stated
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
    name, _, rest = text.rpartition("=")
    parts = rest.split(":")
    if name and len(parts) > 1 and not all(map(_is_number, parts)):
        raise ConfigError(
            f"of {name!r} must be numbers, and are {rest!r}",
            field="--bounds",
            fix=f"{_WRITE}. Convert dates and times to numbers first, such as days since 2020; "
            "for words use CompressiveKMeans(levels=...)",
        )
    if not name or len(parts) not in (2, 3):
        raise ConfigError(
            f"must be COLUMN=LOWER:UPPER or COLUMN=LOWER:UPPER:SCALE, and is {text!r}",
            field="--bounds",
            fix=_WRITE,
        )
    lower, upper, *scale = map(float, parts)
    if not (math.isfinite(lower) and math.isfinite(upper) and lower < upper):
        raise ConfigError(
            f"of {name!r} must be finite, the lower one first, and are {rest!r}",
            field="--bounds",
            fix=_WRITE,
        )
    if scale and not 0.0 < scale[0] < math.inf:
        raise ConfigError(
            f"of {name!r} must have a positive scale, and are {rest!r}",
            field="--bounds",
            fix="give the spread inside one cluster in the unit of the column, or leave it out",
        )
    return Dimension(
        name=name, unit="1", lower=lower, upper=upper, scale=scale[0] if scale else None
    )


def _is_number(text: str) -> bool:
    try:
        float(require_plain(text))
    except ValueError:
        return False
    return True


def _read_records(path: Path, fields: Fields, layout: FileLayout) -> Floats:
    """Read all records of a file: shape ``(n, d)``."""
    with WatchedFile(path) as file:
        reader = RecordReader(file, fields, layout)
        with closing(reader.batches(1)) as batches:
            parts = [
                np.stack(batch.columns, axis=1) if isinstance(batch, Columns) else batch
                for batch in batches
            ]
        file.require_unchanged()
    if not parts:
        return np.empty((0, len(fields.values)))
    return np.concatenate(parts).astype(np.float64)


def _print(
    answer: _Answer, output: Path | None, owner: str | None = None, *, as_json: bool
) -> None:
    if as_json:
        document = {
            "method": answer.method,
            "published": answer.is_published,
            "n_records": answer.n_records,
            "columns": list(answer.columns),
            "centroids": answer.centroids.tolist(),
            "weights": answer.weights.tolist(),
            "epsilon": str(answer.guarantee.epsilon),
            "delta": str(answer.guarantee.delta),
            "relation": answer.guarantee.neighbouring,
            "rounds": list(answer.rounds),
            "statement": answer.words,
            "release_digest": answer.digest.hex(),
            "output": None if output is None else str(output),
        }
        print(json.dumps(document, ensure_ascii=False))
        return
    show(tabulate_centroids(answer.columns, answer.units, answer.weights, answer.centroids))
    show(answer.words)
    if output is not None:
        again = f"sfumato cluster show {output} -k K" + (f" --owner {owner}" if owner else "")
        show(f"The release is in {output}: `{again}` costs nothing.")
