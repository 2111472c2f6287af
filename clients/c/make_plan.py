"""Compile a study's plan into a C header for microcontrollers, after verifying it.

    python -m clients.c.make_plan SERVER STUDY > plan.h

SERVER is an aggregator's address, or a file with what its `/v1/studies/STUDY/plan` answers as JSON.
STUDY is the study's identity: the SHA-256 of its name and plan, so the server need not be trusted.
"""

from __future__ import annotations

import argparse
import json
import math
import string
import sys
import urllib.request
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from sfumato.shared.core.quantise import STEPS
from sfumato.shared.errors import PlanError, SketchError
from sfumato.shared.plan import SketchPlan, compute_plan_digest, plan_from_json
from sfumato.shared.plan.statistics import ClustersPart
from sfumato.shared.privacy.mechanisms.knorm import DiscreteKNorm
from sfumato.shared.privacy.mechanisms.laplace import DiscreteLaplace
from sfumato.shared.wire import compute_study_id

MOST_DIMENSIONS = 32
MOST_FREQUENCIES = 32767
MOST_RECORDS = 2**31 - 1
_MOST_32 = 2**32 - 1
_TWO_PI = 6.283185307179586
_FIX = "use the Python agent on a gateway for this study"


def require_supported(plan: SketchPlan) -> None:
    """Check that the device in C computes and releases what the plan says.

    Raises
    ------
    PlanError
        It does not; the field and the rule are named.
    """
    rules: list[tuple[bool, str, str]] = [
        (plan.kind in ("fourier", "clusters"), "statistic.kind", "must be fourier or clusters"),
        (plan.release.kind == "local.v1", "release.kind", "must be local.v1"),
        (plan.release.unit == "record", "release.unit", "must be record"),
        (plan.release.neighbouring == "replace-one", "release.neighbouring", "must be replace-one"),
        (
            plan.release.mechanism in ("discrete-knorm", "discrete-laplace"),
            "release.mechanism",
            "must be discrete-knorm or discrete-laplace",
        ),
        (plan.most_records <= MOST_RECORDS, "most_records", f"must be {MOST_RECORDS} at most"),
        (plan.n_dimensions <= MOST_DIMENSIONS, "dimensions", f"must be {MOST_DIMENSIONS} at most"),
        (
            all(
                not each.is_categorical and each.transform is None and each.missing is None
                for each in plan.dimensions
            ),
            "dimensions",
            "must be numbers without transform and missing",
        ),
        (
            # A device may be drawn for a phase that this one does not follow to.
            plan.campaign is None or plan.campaign.devices == "all",
            "campaign.devices",
            "must be all",
        ),
    ]
    for holds, field, rule in rules:
        if not holds:
            raise PlanError(f"{rule} on a microcontroller", field=field, fix=_FIX)
    is_look = plan.kind == "clusters"
    if plan.is_split or (not is_look and plan.n_frequencies > MOST_FREQUENCIES):
        field = "clusters_per_sketch" if is_look else "frequencies_per_sketch"
        rule = "clusters" if is_look else f"of at most {MOST_FREQUENCIES} features"
        raise PlanError(
            f"must carry all {rule} on a microcontroller", field=f"statistic.{field}", fix=_FIX
        )


def compile_plan(plan: SketchPlan, study: bytes, *, from_seed: bool = False) -> str:
    """Return a header that defines `PLAN` and its sizes.

    Parameters
    ----------
    study
        The study's identity, 32 bytes.
    from_seed
        Leave out the frequencies: the device draws them again for every record, slowly, from the
        seed. Otherwise they take 2 d m bytes of flash.

    Raises
    ------
    PlanError
        The device in C does not do what the plan says.
    """
    require_supported(plan)
    size = plan.payload_bytes
    if isinstance(plan.statistic, ClustersPart):
        head, tables, own = _render_clusters(plan, plan.statistic)
    else:
        head, (tables, own) = "", _render_features(plan, from_seed=from_seed)
    fields = {
        "study": render_bytes(study),
        "digest": render_bytes(compute_plan_digest(plan)),
        "n_dimensions": plan.n_dimensions,
        "payload_width": plan.payload_width,
        "dimensions": "PLAN_DIMENSIONS",
        **own,
        **_list_noise(plan),
        **_list_windows(plan),
    }
    return (
        "/* Made by `python -m clients.c.make_plan`, which verified the plan. */\n"
        f"#ifndef SFUMATO_PLAN_H\n#define SFUMATO_PLAN_H\n\n{head}"
        '#include "sfumato.h"\n\n'
        f"enum {{\n    PLAN_COORDINATES = {plan.n_coordinates},\n"
        f"    PLAN_MESSAGE_MOST = {size} + SFUMATO_ENVELOPE_MOST,\n"
        f"    PLAN_MASKED_FEATURES = {plan.n_frequencies if plan.has_masks else 0},\n}};\n\n"
        f"#define PLAN_NAMES {_join(render_text(each.name) for each in plan.dimensions)}\n\n"
        f"{_render_dimensions(plan)}{tables}"
        f"static const struct sfumato_plan PLAN = {{\n{_list_members(fields)}}};\n\n#endif\n"
    )


def _render_features(plan: SketchPlan, *, from_seed: bool) -> tuple[str, dict[str, object]]:
    """Return the table of frequencies, and the members of the plan that need it."""
    law, frequencies = plan.radius_law, plan.frequencies
    members = {
        "seed": render_bytes(plan.seed),
        "frequencies_digest": render_bytes(frequencies.digest),
        "n_frequencies": plan.n_frequencies,
        "measurements_per_record": plan.measurements_per_record,
        "turn_bits": frequencies.bits,
        "radius_law": _join(
            [
                f"SFUMATO_{law.kind.replace('-', '_').upper()}",
                *map(_render_double, (law.sigma_low, law.sigma_high)),
                *map(_render_double, (law.tail_share, law.tail_high)),
            ]
        ),
        "turns": "NULL" if from_seed else "PLAN_TURNS",
    }
    return "" if from_seed else _render_turns(frequencies.turns), members


_LOOK = """\
#ifndef SFUMATO_CLUSTERS
#error "this plan has the statistic clusters: compile all sources with -DSFUMATO_CLUSTERS"
#endif

"""


def _render_clusters(plan: SketchPlan, part: ClustersPart) -> tuple[str, str, dict[str, object]]:
    """Return the condition of the build, the tables of centres, and the members that need them."""
    whole = part.build_whole(plan.space)
    arrays = {
        "assigned": ("uint8_t", np.array(whole.assigned)),
        "summed": ("uint8_t", np.array(whole.summed)),
        "optional": ("uint8_t", np.array(whole.optional)),
        "centres": ("int16_t", np.concatenate([whole.centres[None], whole.candidates])),
        "weights": ("uint32_t", whole.weights),
        "origins": ("int16_t", whole.origins),
        "radii": ("uint16_t", whole.radii),
    }
    tables = "".join(
        f"static const {kind} PLAN_{name.upper()}[] = {_join(table.ravel().tolist())};\n"
        for name, (kind, table) in arrays.items()
        if table.size
    )
    members = {
        "n_coordinates": whole.n_coordinates,
        "n_clusters": whole.n_clusters,
        "block_size": whole.block_size,
        "n_candidates": len(whole.candidates),
        "n_assigned": len(whole.assigned),
        "n_summed": len(whole.summed),
        "n_optional": len(whole.optional),
        **{
            name: f"PLAN_{name.upper()}" if table.size else "NULL"
            for name, (_, table) in arrays.items()
        },
        "cap": f"INT64_C({whole.cap})",
        **vars(whole.units),
        "largest": whole.highest,
        "is_l1": str(whole.norm == "l1").lower(),
    }
    tables += (
        f"static const struct sfumato_clusters PLAN_CLUSTERS = {{\n{_list_members(members)}}};\n\n"
    )
    return _LOOK, tables, {"clusters": "&PLAN_CLUSTERS"}


def _list_noise(plan: SketchPlan) -> dict[str, object]:
    mechanism = plan.mechanism
    assert isinstance(mechanism, DiscreteKNorm | DiscreteLaplace)
    is_knorm = isinstance(mechanism, DiscreteKNorm)
    return {
        "mechanism": "SFUMATO_KNORM" if is_knorm else "SFUMATO_LAPLACE",
        "rate": f"UINT64_C({mechanism.rate})",
        "least_radius": mechanism.shift if isinstance(mechanism, DiscreteKNorm) else 0,
        "coordinate_bound": f"INT64_C({plan.coordinate_bound})",
        "noise_bound": f"INT64_C({mechanism.noise_bound})",
    }


def _list_windows(plan: SketchPlan) -> dict[str, object]:
    window = plan.window
    return {
        "least_records": plan.least_records,
        "most_records": plan.most_records,
        "most_sketches": min(plan.most_sketches_per_device, _MOST_32),
        "by_time": str(window.kind == "time").lower(),
        "has_end": str(window.end is not None).lower(),
        "leaves_out_outside": str(plan.late_rule == "leave-out-outside").lower(),
        "origin": f"INT64_C({window.origin})",
        "end": f"INT64_C({window.end or 0})",
        "length": window.length_s or window.length,
    }


def _list_members(members: Mapping[str, object]) -> str:
    return "".join(f"    .{name} = {value},\n" for name, value in members.items())


def _join(items: Iterable[object]) -> str:
    return "{" + ", ".join(map(str, items)) + "}"


def render_bytes(data: bytes) -> str:
    """Return the initialiser of an array."""
    return _join(f"0x{byte:02x}" for byte in data)


def render_text(text: str) -> str:
    """Return a string literal; octal digits stand for what C may read as something else."""
    plain = (string.ascii_letters + string.digits + " _-.:/").encode()
    return '"' + "".join(chr(b) if b in plain else f"\\{b:03o}" for b in text.encode()) + '"'


def _render_double(x: float) -> str:
    """Return every bit of a double, in hexadecimal."""
    return float(x).hex()


def _render_dimensions(plan: SketchPlan) -> str:
    quantiser = plan.space.quantiser
    # Only frequencies have a scale.
    scale = plan.space.scale if plan.kind == "fourier" else math.inf
    rows = zip(
        quantiser.centre,
        STEPS / quantiser.half_width,
        quantiser.half_width / scale / (STEPS * _TWO_PI),
        strict=True,
    )
    lines = [f"    {_join(map(_render_double, row))},\n" for row in rows]
    return (
        "static const struct sfumato_dimension PLAN_DIMENSIONS[] = {\n" + "".join(lines) + "};\n\n"
    )


def _render_turns(turns: np.ndarray) -> str:
    rows = "".join(f"    {', '.join(map(str, column))},\n" for column in turns.T.tolist())
    return f"static const int16_t PLAN_TURNS[] = {{\n{rows}}};\n\n"


def read_study(source: str, study: str) -> SketchPlan:
    """Read and verify the plan of a study from a server, or from a file of its answer.

    Raises
    ------
    SketchError
        The plan breaks a rule, or is not that of the study.
    """
    if source.startswith(("http://", "https://")):
        request = urllib.request.Request(
            f"{source.rstrip('/')}/v1/studies/{study}/plan", headers={"Accept": "application/json"}
        )
        with urllib.request.urlopen(request) as answer:
            document = json.load(answer)
    else:
        document = json.loads(Path(source).read_text("utf-8"))
    plan = plan_from_json(document["plan"])
    if compute_study_id(document["name"], plan).hex() != study:
        raise PlanError(
            "is not that of this name and plan",
            field="study",
            fix="check the study's identity and the server's address; do not use this plan",
        )
    return plan


def main(arguments: list[str] | None = None) -> int:
    """Run the command; return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m clients.c.make_plan", description=__doc__)
    parser.add_argument("source", metavar="SERVER", help="address, or file of the JSON answer")
    parser.add_argument("study", metavar="STUDY", help="identity of the study, 64 digits")
    parser.add_argument(
        "--from-seed", action="store_true", help="save flash: draw frequencies for every record"
    )
    given = parser.parse_args(arguments)
    try:
        plan = read_study(given.source, given.study)
        header = compile_plan(plan, bytes.fromhex(given.study), from_seed=given.from_seed)
    except (SketchError, OSError, KeyError, ValueError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    sys.stdout.write(header)
    return 0


if __name__ == "__main__":
    sys.exit(main())
