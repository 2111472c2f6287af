"""Columns and statistics written from the documents alone agree with all vectors."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import cbor2
import pytest

from tests.system.stranger import columns, plans, wire
from tests.system.stranger.test_stranger import vectors

KINDS = vectors("kinds")


def to_dimension(encoding: Any, lower: float | None, upper: float | None) -> dict[str, Any]:
    """Write the rule of a column as a plan does, each level as its number."""
    if encoding["n_levels"] is not None:
        return {"levels": [str(level) for level in range(encoding["n_levels"])]}
    dimension: dict[str, Any] = {"lower": lower, "upper": upper, "missing": encoding["imputed"]}
    if encoding["resolution"] is not None:
        dimension["transform"] = {"kind": "log", "resolution": encoding["resolution"]}
    return dimension


def to_value(number: float | None, dimension: Any) -> columns.Value:
    """Write a value as a source has it."""
    if number is None or "levels" not in dimension:
        return number
    return str(int(number)) if float(number).is_integer() else str(number)


@pytest.mark.parametrize("vector", KINDS["logarithms"], ids=lambda vector: vector["resolution"])
def test_its_logarithms_are_those_of_the_vectors(vector: Any) -> None:
    dimension = {"transform": {"resolution": float.fromhex(vector["resolution"])}}
    found = [columns.scale_of(float.fromhex(x), dimension).hex() for x in vector["x"]]
    assert found == vector["t"]


@pytest.mark.parametrize("vector", KINDS["bins"], ids=lambda v: f"{v['lower']}-{v['bins_log2']}")
def test_its_bins_are_those_of_the_vectors(vector: Any) -> None:
    bounds = [float.fromhex(vector[name]) for name in ("lower", "upper")]
    dimension, bits = to_dimension(vector["encoding"], *bounds), vector["bins_log2"]
    given = [float.fromhex(x) for x in vector["values"]]
    # A number that is not finite is missing.
    values = [to_value(x if math.isfinite(x) else None, dimension) for x in given]
    assert [columns.find_bin(value, dimension, bits) for value in values] == vector["bins"]


def test_its_clipped_records_are_those_of_the_vectors() -> None:
    for vector in KINDS["clipped"]:
        steps = [[16 * u for u in row] for row in vector["coordinates"]]
        assert [columns.clip(row, vector["norm_steps"]) for row in steps] == vector["clipped"]


def make_plan_of_kinds(vector: Any) -> tuple[plans.Plan, list[int]]:
    """Return a plan of a statistic of the vectors, and the dimensions of its records."""
    name, carried = vector["statistic"], [0, 1, 2, 3]
    rows = zip(KINDS["encodings"], KINDS["lower"], KINDS["upper"], KINDS["scale"], strict=True)
    dimensions = [
        to_dimension(*row[:3]) | {"name": str(i), "scale": row[3] or 1.0}
        for i, row in enumerate(rows)
    ]
    statistic: dict[str, Any] = {"kind": name.split()[0].rstrip(",")}
    if statistic["kind"] == "fourier":
        m = KINDS["frequencies"]["n_frequencies"]
        few = ("measurements_per_record", "frequencies_per_sketch")
        statistic |= KINDS["frequencies"] | dict.fromkeys(few, m)
        statistic["seed"] = bytes.fromhex(statistic["seed"])
    elif statistic["kind"] == "histogram":
        carried = [1, 3] if "and" in name else carried
        bins = [KINDS["histogram_bins_log2"][i] for i in carried]
        statistic |= {"bins_log2": bins, "dimensions_per_sketch": len(carried)}
    elif statistic["kind"] == "grid":
        carried, statistic["cells"] = [0, 1, 2], KINDS["grid_cells"]
    elif statistic["kind"] == "clusters":
        statistic |= KINDS["clusters"] | {"norm": name[-2:]}
        if "two" in name:
            statistic |= {"clusters_per_sketch": 2}
    else:
        weight = name[-1]
        statistic |= {"norm_steps": KINDS["norm_steps"][weight], "diagonal_weight": int(weight)}
    fields = {"dimensions": [dimensions[i] for i in carried], "statistic": statistic}
    release = {"unit": "record", "neighbouring": "replace-one", "count_scale": 0}
    return plans.Plan(b"", fields | {"release": release}), carried


@pytest.mark.parametrize("vector", KINDS["sums"], ids=lambda vector: vector["statistic"])
def test_its_sums_and_sensitivities_of_every_statistic_are_those_of_the_vectors(
    vector: Any,
) -> None:
    plan, carried = make_plan_of_kinds(vector)
    records = [
        [
            to_value(record[i], dimension)
            for i, dimension in zip(carried, plan["dimensions"], strict=True)
        ]
        for record in KINDS["records"]
    ]
    block = 0 if plan.blocks else None
    assert plan.add_up(records, b"", "", 0, block) == vector["sums"]
    for norm, name in (("l1", "l1"), ("l2-squared", "l2_squared")):
        for relation, value in (vector[name] or {}).items():
            fields = dict(plan.fields) | {"release": {"neighbouring": relation}}
            assert plans.Plan(b"", fields).measure(norm)[0] == value


OTHERS = [
    vector
    for vector in vectors("messages")["messages"]
    if plans.Plan(b"", cbor2.loads(bytes.fromhex(vector["plan"]))).kind != "fourier"
]


@pytest.mark.parametrize("vector", OTHERS, ids=lambda vector: vector["name"])
def test_it_refuses_less_noise_than_each_statistic_needs(vector: Any) -> None:
    data = bytes.fromhex(vector["plan"])
    fields = cbor2.loads(data)
    release = fields["release"]
    plan = plans.Plan(data, fields)
    if plan.reports_phases:
        plan.check_odds()
        changes: list[dict[str, Any]] = [{"odds": release["odds"] + Fraction(1, 2**52)}]
        changes.append({"arc": plan.circle // 2 + 1})
        check = plans.Plan.check_odds
    else:
        plan.check_noise()
        stated = release["sensitivity"]
        changes = [{"sensitivity": stated | {"value": stated["value"] - 1}}]
        changes += [{"mechanism": "discrete-knorm"}, {"count_scale": release["count_scale"] + 1}]
        if stated["norm"] == "l1":
            changes.append({"scale": stated["value"] / release["epsilon"] - Fraction(1, 10**6)})
        check = plans.Plan.check_noise
    for change in changes:
        with pytest.raises(wire.RefusedError):
            check(plans.Plan(data, fields | {"release": release | change}))
