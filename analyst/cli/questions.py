"""``sfumato ask``: shares of ranges, quantiles and means of the records behind a decode."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from sfumato.analyst.cli.decodes import AllowUnusable, Seed
from sfumato.analyst.cli.options import DEFAULT_URL, Json, Url, make_table, print_answer
from sfumato.analyst.cli.search_boxes import Within, read_search_box
from sfumato.analyst.cli.sources import MaybeKey, PlanOfFile
from sfumato.analyst.client import Client
from sfumato.analyst.planning.files import read_plan
from sfumato.analyst.questions import make_questions
from sfumato.analyst.results import require_usable
from sfumato.analyst.sketching.answers import LocalSketches
from sfumato.analyst.sketching.sketch_file import read_sketch_file
from sfumato.shared.command import SETTINGS, list_examples
from sfumato.shared.errors import ConfigError, DecodingError
from sfumato.shared.structure import require_plain
from sfumato.shared.wire.objects.questions import AnswersBody, QuestionsRequest

ask = typer.Typer(**SETTINGS)

Ranges = dict[str, tuple[float | None, float | None]]


@ask.command(
    epilog=list_examples(
        'sfumato ask DECODE --range "temperature=70:" --quantile temperature=0.5',
        'sfumato ask DECODE --range "temperature=70:90,wind=:5" --json',
        "sfumato ask DECODE --range education=12:16 --histogram SNAPSHOT",
        'sfumato ask main.sketch --plan main.toml -k 5 --mean-of wind --where "temperature=70:"',
    )
)
def _ask(
    references: Annotated[
        list[str],
        typer.Argument(
            metavar="DECODE|FILE...",
            help="The id of a decode, or with --plan sketch files of different records.",
        ),
    ],
    ranges: Annotated[
        list[str] | None,
        typer.Option(
            "--range",
            metavar="NAME=LOW:HIGH,...",
            help="Share of the records in a range; either end may be left out. Several dimensions "
            "make a box. May be given many times.",
        ),
    ] = None,
    quantiles: Annotated[
        list[str] | None,
        typer.Option("--quantile", metavar="NAME=SHARE", help="Value below which a share lies."),
    ] = None,
    means: Annotated[
        list[str] | None, typer.Option("--mean-of", metavar="NAME", help="Mean of a dimension.")
    ] = None,
    where: Annotated[
        str | None,
        typer.Option(
            metavar="NAME=LOW:HIGH,...", help="Take the means over the records in these ranges."
        ),
    ] = None,
    marginals: Annotated[
        list[str] | None,
        typer.Option("--marginal", metavar="NAME", help="Density of a dimension, as a curve."),
    ] = None,
    allow_narrow: Annotated[
        bool,
        typer.Option(
            "--allow-narrow", help="Answer ranges narrower than half of the plan's scale."
        ),
    ] = False,
    histogram: Annotated[
        str | None,
        typer.Option(
            metavar="SNAPSHOT", help="Follow the columns of a histogram of the same records."
        ),
    ] = None,
    plan: PlanOfFile = None,
    n_clusters: Annotated[
        int | None, typer.Option("-k", min=1, help="Clusters to decode sketch files with.")
    ] = None,
    seed: Seed = 0,
    within: Within = None,
    allow_unusable: AllowUnusable = False,
    key: MaybeKey = "",
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """Answer questions about the records behind a decode, at no further cost of privacy.

    A decode on the server answers at once; sketch files are decoded first.
    """
    box = read_ranges(where, "--where") if where else {}
    asked = make_questions(
        ranges=[read_ranges(text, "--range") for text in ranges or ()],
        quantiles=[_read_quantile(text) for text in quantiles or ()],
        marginals=marginals or (),
        means=[(name, box) for name in means or ()],
        allow_narrow=allow_narrow,
        histogram=histogram,
    )
    if histogram is not None and plan is not None:
        raise ConfigError(
            "is a snapshot of a server, and these are files",
            field="--histogram",
            fix="leave it out",
        )
    if where and not means:
        raise ConfigError("needs a mean", field="--where", fix="add --mean-of NAME")
    if plan is None:
        found = _ask_server(references, asked, key=key, url=url)
    else:
        found = _ask_files(
            references, plan, asked, n_clusters, seed, within, allow_unusable=allow_unusable
        )
    print_answer(asdict(found), _describe(asked, found), as_json=as_json)


def _ask_server(
    references: list[str], asked: QuestionsRequest, *, key: str, url: str
) -> AnswersBody:
    for each in references:
        if Path(each).is_file():
            raise ConfigError(
                f"is missing, and {each} is a file", field="--plan", fix="name the file's plan"
            )
    if len(references) > 1:
        raise ConfigError(
            "must be one decode", field="DECODE", fix="ask about one decode at a time"
        )
    with Client(url, key=key or None) as client:
        return client.ask(references[0], asked)


def _ask_files(
    references: list[str],
    plan: Path,
    asked: QuestionsRequest,
    n_clusters: int | None,
    seed: int,
    within: list[str] | None,
    *,
    allow_unusable: bool,
) -> AnswersBody:
    if n_clusters is None:
        raise ConfigError("is missing", field="-k", fix="name a number of clusters, as for decode")
    sketches = [read_sketch_file(Path(each)) for each in references]
    local = LocalSketches(sketches=sketches, plan=read_plan(plan))
    found = local.decode(n_clusters=n_clusters, seed=seed, search_box=read_search_box(within))
    result = require_usable(found, allow_unusable=allow_unusable)
    if result.posterior is None:
        raise DecodingError(
            f"keeps no density: {result.decoder} finds none, or it was too large",
            field="decode",
            fix="ask about sketches of Fourier features, with fewer clusters",
        )
    return result.posterior.answer(asked)


def read_ranges(text: str, option: str) -> Ranges:
    """Read ranges by dimension, such as ``temperature=70:90,wind=:5``.

    Raises
    ------
    ConfigError
        The text is malformed.
    """
    box: Ranges = {}
    for part in text.split(","):
        name, is_stated, ends = part.rpartition("=")
        low, is_range, high = ends.partition(":")
        try:
            if is_stated and is_range and name.strip():
                box[name.strip()] = (_read_end(low), _read_end(high))
                continue
        except ValueError:
            pass
        raise ConfigError(
            f"must be NAME=LOW:HIGH, several with commas between, not {text!r}",
            field=option,
            fix=f'write for instance {option} "temperature=70:"',
        )
    return box


def _read_end(text: str) -> float | None:
    return float(require_plain(text)) if text.strip() else None


def _read_quantile(text: str) -> tuple[str, float]:
    name, is_stated, share = text.rpartition("=")
    try:
        if is_stated and name.strip():
            return name.strip(), float(require_plain(share))
    except ValueError:
        pass
    raise ConfigError(
        f"must be NAME=SHARE, not {text!r}",
        field="--quantile",
        fix="write for instance --quantile temperature=0.5 for the median",
    )


def _describe(asked: QuestionsRequest, found: AnswersBody) -> Iterator[object]:
    bar = "rough bar" if found.is_rough else f"{found.level:.0%} bar"
    table = make_table("question", figures=("answer", bar))
    for box, share in zip(asked.ranges, found.ranges, strict=True):
        cells = _show_bar(share.low, share.high, ".1%")
        table.add_row(Text(f"share with {_name_box(box)}"), _show_figure(share.share, ".1%"), cells)
    for quantile, value in zip(asked.quantiles, found.quantiles, strict=True):
        words = f"{quantile.dimension} that {quantile.share:.0%} lie below"
        table.add_row(Text(words), f"{value.value:.4g}", _show_bar(value.low, value.high, ".4g"))
    for question, mean in zip(asked.means, found.means, strict=True):
        words = f"mean {question.mean_of}"
        words += f" with {_name_box(question.within)}" if question.within else ""
        cells = _show_bar(mean.low, mean.high, ".4g")
        table.add_row(Text(words), _show_figure(mean.mean, ".4g"), cells)
    # Doubt first.
    refused = [each.refused for each in found.ranges] + [each.refused for each in found.means]
    yield from (Text(reason) for reason in refused if reason)
    yield from (Text(words) for words in found.words)
    if table.row_count:
        yield table
    for curve in found.marginals:
        yield Text(f"density of {curve.dimension}")
        yield from _draw_curve(curve.x, curve.density)


def _show_figure(figure: float | None, form: str) -> str:
    return "refused" if figure is None else f"{figure:{form}}"


def _show_bar(low: float | None, high: float | None, form: str) -> str:
    return "none" if low is None or high is None else f"{low:{form}} to {high:{form}}"


def _name_box(box: dict[str, list[float | None]]) -> str:
    return " and ".join(_name_range(name, *ends) for name, ends in box.items()) or "any value"


def _name_range(name: str, low: float | None, high: float | None) -> str:
    if low is None:
        return name if high is None else f"{name} to {high:g}"
    return f"{name} from {low:g}" + ("" if high is None else f" to {high:g}")


def _draw_curve(x: list[float], density: list[float]) -> Iterable[Text]:
    """Draw a density as bars of text, at every fourth point."""
    most = max(density) or 1.0
    for value, height in list(zip(x, density, strict=True))[::4]:
        yield Text(f"{value:>12.4g}  {'█' * round(40 * height / most)}")
