"""A main study that follows from a pilot, as text: each choice with its reason."""

from __future__ import annotations

import secrets
from dataclasses import asdict, replace
from typing import Any

from sfumato.analyst.client import Client
from sfumato.analyst.planning.candidates import band_to_json, candidate_to_json
from sfumato.analyst.planning.spec import (
    format_dimension,
    format_value,
    format_window,
    list_fields,
    quote,
)
from sfumato.learning.planning.main_columns import MainColumn
from sfumato.learning.planning.refinement import MainOutline, Refinement, refine
from sfumato.learning.planning.remedies import describe_doubt
from sfumato.shared.core.seeds import SEED_BYTES


def refinement_to_json(found: Refinement) -> dict[str, Any]:
    """Return the refinement as JSON values."""
    return {
        "specification": format_refinement(found),
        "search_box": found.search_box,
        "calibration": asdict(found.calibration),
        "recommended": candidate_to_json(found.candidate),
        "relative_sse": band_to_json(found.band),
        "meets_target": found.meets_target,
        "do_not_run": found.calibration.refusal
        or (None if found.doubt is None else describe_doubt(found.doubt)),
        "statements": list(found.describe()),
    }


def format_refinement(found: Refinement) -> str:
    """Write the specification as TOML, each choice with its reason, with a fresh seed."""
    best, pilot = found.candidate, found.pilot
    lines = [
        "# Made by `sfumato plan refine` from a pilot. Read it before you publish it.",
        *(f"# {sentence}" for sentence in found.describe()),
        "",
        f"seed = {quote(secrets.token_hex(SEED_BYTES))}  # published; a new one for each plan",
    ]
    for name, value in list_fields(found.outline, best).items():
        if name == "radius_law":
            lines.append(f"# because {best.law_choice.reason}")
        lines.append(f"{name} = {value}")
    lines += [f"{name} = {format_value(value)}" for name, value in found.sizes.items()]
    if pilot.labels:
        lines.append(f"labels = {format_value([asdict(each) for each in pilot.labels])}")
    if found.late_rule != "open-window":
        lines.append(f"late_rule = {quote(found.late_rule)}  # no record of another time")
    lines += ["", "[window]"]
    if found.window.origin != pilot.window.origin:
        whose = "pilot" if found.campaign_end is None else "pilot's campaign"
        lines.append(f"# begins where the {whose} has ended")
    lines += format_window(found.window)
    for column in found.columns:
        lines += ["", *format_column(column)]
    return "\n".join(lines) + "\n"


def format_search_box(found: Refinement) -> str:
    """Write the search box as the TOML file that ``--within`` reads."""
    lines = [
        "# Where decodes search for clusters: the places where the pilot saw records.",
        "[search_box]",
    ]
    lines += [f"{quote(name)} = {bounds!r}" for name, bounds in found.search_box.items()]
    return "\n".join(lines) + "\n"


def format_column(column: MainColumn) -> list[str]:
    """Write it as lines of TOML; one that is left out as a comment."""
    lines = ["[[dimensions]]", *format_dimension(column.dimension)]
    if column.loses_records:
        lines.append(f"# missing = {_suggest(column)}")
    if not column.is_kept:
        lines = [f"# {line}" for line in lines]
    return [*(f"# {comment}" for comment in column.comments), *lines]


def _suggest(column: MainColumn) -> str:
    if column.centre is None:
        return f"{quote(column.dimension.levels[0])}  # or another level"
    return f"{column.centre:.3g}  # or another value inside the bounds"


def refine_study(
    client: Client,
    study: str,
    main: MainOutline,
    *,
    n_clusters: int,
    most_clusters: int | None = None,
) -> Refinement:
    """Make the plan of a main study from all sketches of a pilot on a server.

    Windows by time begin at the end of the pilot, or of its campaign; if it has none, where its
    last window has ended. Raises as :func:`refine`.

    Parameters
    ----------
    study
        The pilot, a histogram study.
    main
        Facts of the main study, such as its epsilon.
    n_clusters, most_clusters
        The number of clusters that will be looked for, or the least and the largest.

    Raises
    ------
    WrongStatisticError
        The study has no histogram.
    """
    snapshot, pilot = client.snapshot(study), client.plan(study)
    calibration = client.calibration(
        snapshot.snapshot_id, n_clusters=n_clusters, most_clusters=most_clusters
    )
    if pilot.window.kind == "time" and pilot.window.end is None and not main.shares_records:
        last = max(item.slots[1] for item in client.sketches(study) if item.slots)
        main = replace(main, origin=pilot.window.slot_bounds(last)[1])
    return refine(calibration, client.histogram(snapshot.snapshot_id), pilot, main)
