"""A specification as text: the advised fields, and those that follow from answers."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from fractions import Fraction
from typing import Any

from sfumato.analyst.planning.candidates import UNIT_WORDS
from sfumato.learning.planning.alternatives import Fleet
from sfumato.learning.planning.candidates import Candidate
from sfumato.learning.planning.looks import LookPlan
from sfumato.learning.planning.outline import StudyOutline
from sfumato.learning.planning.planner import Advice
from sfumato.learning.planning.plans import list_decided, list_sizes
from sfumato.shared.core.seeds import SEED_BYTES
from sfumato.shared.plan import Dimension, WindowRule

_FORMED = ("dimensions", "window", "clusters", "radius_law")
"""Fields of a specification that are tables of their own in its file, or no matter of a look."""


@dataclass(frozen=True, kw_only=True)
class Answers:
    """Answers to the questions of `sfumato plan new`.

    Parameters
    ----------
    dimensions
        Columns of the records.
    outline
        The windows that are decoded together, over all devices.
    epsilon, delta
        Budget of one sketch.
    window
        Rule that cuts streams into windows.
    n_windows
        Windows that are decoded together.
    knows_clusters
        Whether the outline's number of clusters is an answer, not a guess.
    usual_spreads
        The spread of all records, by the name of each dimension whose scale follows from it.
    fleet
        The batches of a secure sum; None where each device adds its noise.
    """

    dimensions: tuple[Dimension, ...]
    outline: StudyOutline
    epsilon: Fraction
    delta: Fraction
    window: WindowRule
    n_windows: int = 1
    knows_clusters: bool = True
    usual_spreads: Mapping[str, float] = field(default_factory=dict)
    fleet: Fleet | None = None


def list_fields(
    outline: StudyOutline, best: Candidate, *, n_windows: int = 1, fleet: Fleet | None = None
) -> dict[str, str]:
    """List the fields that a candidate decides: names, and values as TOML.

    Fields that its kind of release forbids, or whose default it needs, are left out.

    Parameters
    ----------
    outline, best
        The study, and the candidate.
    n_windows
        The sketches of one device.
    fleet
        The batches of a secure sum.
    """
    decided = list_decided(outline, best, n_windows=n_windows)
    fields = {name: format_value(value) for name, value in decided.items()}
    if best.is_summed and fleet is not None:
        release = {"release": fields.pop("release"), "parts": str(fleet.parts)}
        least = fleet.choose_least_reports(outline)
        release |= {} if least is None else {"least_reports": str(least)}
        fields = release | fields
    return fields


def format_spec(answers: Answers, advice: Advice) -> str:
    """Write the specification as TOML, with a fresh seed that will be published."""
    best = advice.recommended
    above = {
        "most_sketches_per_device": "Each further report of a device costs it epsilon once more.",
        "radius_law": f"because {best.law_choice.reason}",
    }
    if best.is_split:
        above["frequencies_per_sketch"] = _describe_carried(best)
    beside = {
        "n_frequencies": advice.cluster_range.describe(),
        "epsilon": f"for {UNIT_WORDS[best.unit]}",
        "release": "a masked sum, to whose total two servers add noise"
        if best.is_summed
        else "a noisy phase of the first record of each window",
    }
    if not answers.knows_clusters:
        beside["most_clusters"] = "unknown; the most of the usual numbers that the target allows"
    lines = [
        "# Made by `sfumato plan new`. Bounds and scales are public choices, not taken from data.",
        "",
        f"seed = {quote(secrets.token_hex(SEED_BYTES))}  # published; a new one for each plan",
    ]
    listed = list_fields(advice.outline, best, n_windows=answers.n_windows, fleet=answers.fleet)
    for name, value in listed.items():
        lines += [f"# {above[name]}"] if name in above else []
        lines.append(f"{name} = {value}" + (f"  # {beside[name]}" if name in beside else ""))
    lines += [
        *(
            f"{name} = {format_value(value)}"
            for name, value in list_sizes(advice.outline, best).items()
        ),
        "",
        "[window]",
        *format_window(answers.window),
    ]
    for dimension in answers.dimensions:
        lines += ["", "[[dimensions]]", *format_dimension(dimension)]
        if dimension.name in answers.usual_spreads:
            spread = answers.usual_spreads[dimension.name]
            lines[-1] += f"  # 0.7 k^(-1/d) of a usual spread of {spread:g}"
    return "\n".join(lines) + "\n"


def format_look(planned: LookPlan) -> str:
    """Write the specification of a look as TOML, with what it will give."""
    spec = planned.spec
    chosen = {
        each.name: getattr(spec, each.name)
        for each in fields(spec)
        if each.name not in _FORMED and getattr(spec, each.name) not in (each.default, None)
    }
    lines = ["# Made by `sfumato plan look`: the centres are of a released result."]
    lines += [f"# {sentence}" for sentence in planned.describe()]
    lines += ["", *(f"{name} = {_format_field(value)}" for name, value in chosen.items())]
    lines += ["", "[window]", *format_window(spec.window), "", "[clusters]"]
    part = asdict(planned.part) | {"result": planned.part.result.hex()}
    for name in ("kind", "norm"):
        del part[name]
    lines += [f"{name} = {format_value(value)}" for name, value in part.items()]
    for dimension in spec.dimensions:
        lines += ["", "[[dimensions]]", *format_dimension(dimension)]
    return "\n".join(lines) + "\n"


def _format_field(value: Any) -> str:
    """Write a field; fractions are exact as text, and labels are tables."""
    if isinstance(value, Fraction):
        return format_value(str(value))
    if isinstance(value, tuple):
        return format_value([asdict(each) for each in value])
    return format_value(value)


def quote(text: str) -> str:
    """Write printable text as a TOML string."""
    # What JSON escapes, TOML reads alike; both are given printable text only.
    return json.dumps(text, ensure_ascii=False)


def _describe_carried(best: Candidate) -> str:
    return (
        f"A sketch carries {best.frequencies_per_sketch} of the {best.n_frequencies} frequencies, "
        f"so that a selection needs at least {best.shortest_selection} sketches."
    )


def format_value(value: Any) -> str:
    """Write a value of a field: text, a number, or a list or table in a line."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(format_value, value))}]"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{name} = {format_value(v)}" for name, v in value.items()) + "}"
    return quote(value) if isinstance(value, str) else repr(value)


def format_window(window: WindowRule) -> list[str]:
    """Write a window rule as lines of TOML."""
    if window.kind == "count":
        return ['kind = "count"', f"length = {window.length}"]
    lines = ['kind = "time"', f"origin = {window.origin}", f"length_s = {window.length_s}"]
    return lines if window.end is None else [*lines, f"end = {window.end}"]


def format_dimension(dimension: Dimension) -> list[str]:
    """Write a dimension as lines of TOML; the scale is the last, if there is one."""
    lines = [f"name = {quote(dimension.name)}", f"unit = {quote(dimension.unit)}"]
    missing = dimension.missing
    rule = [] if missing is None else [f"missing = {_quote_value(missing)}"]
    if dimension.is_categorical:
        return [*lines, f"levels = [{', '.join(map(quote, dimension.levels))}]", *rule]
    if dimension.transform is not None:
        resolution = dimension.transform.resolution
        lines.append(f'transform = {{kind = "log", resolution = {resolution!r}}}')
    lines += [f"lower = {dimension.lower!r}", f"upper = {dimension.upper!r}", *rule]
    return lines if dimension.scale is None else [*lines, f"scale = {dimension.scale!r}"]


def _quote_value(value: float | str) -> str:
    return quote(value) if isinstance(value, str) else repr(float(value))
