"""Whatever is left out of a plan or a specification is said to be missing, by its name."""

import copy
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import cbor2
import pytest

from sfumato.analyst.planning.files import read_plan
from sfumato.shared.cbor import encode_deterministic
from sfumato.shared.errors import PlanError
from sfumato.shared.plan import (
    SketchPlan,
    decode_plan,
    encode_plan,
    plan_from_json,
    plan_from_spec,
    plan_to_json,
)
from tests.shared.plan.test_plan import PRESENCE, SPEC, make

FieldPath = tuple[str | int, ...]
BY_COUNT = {**SPEC, "window": {"kind": "count", "length": 100}}
REQUIRED: list[tuple[dict[str, Any], FieldPath]] = [
    *((SPEC, (name,)) for name in ("dimensions", "n_frequencies", "seed", "epsilon")),
    *((SPEC, (name,)) for name in ("window", "most_records")),
    *((SPEC, ("dimensions", 1, name)) for name in ("name", "unit", "lower", "upper", "scale")),
    *((SPEC, ("labels", 0, name)) for name in ("name", "values")),
    *((SPEC, ("window", name)) for name in ("kind", "length_s")),
    *((BY_COUNT, ("window", name)) for name in ("kind", "length")),
    *((SPEC | PRESENCE, ("window", name)) for name in ("kind", "length_s", "origin")),
]
PLAN = plan_to_json(make(**PRESENCE))


def without(document: dict[str, Any], path: FieldPath) -> dict[str, Any]:
    changed = copy.deepcopy(document)
    target: Any = changed
    for part in path[:-1]:
        target = target[part]
    del target[path[-1]]
    return changed


def name_of(path: FieldPath) -> str:
    parts = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return parts.removeprefix(".")


def fields_of(value: Any, path: FieldPath = ()) -> Iterator[FieldPath]:
    if isinstance(value, dict):
        for name, item in value.items():
            yield (*path, name)
            yield from fields_of(item, (*path, name))
    elif isinstance(value, list):
        for i, item in enumerate(value):
            yield from fields_of(item, (*path, i))


def to_toml(document: dict[str, Any]) -> str:
    """Write a specification as TOML; its inline tables and arrays look like JSON but for colons."""

    def write(value: Any) -> str:
        if isinstance(value, dict):
            return "{" + ", ".join(f"{k} = {write(v)}" for k, v in value.items()) + "}"
        if isinstance(value, list):
            return "[" + ", ".join(map(write, value)) + "]"
        return json.dumps(value)

    return "".join(f"{name} = {write(value)}\n" for name, value in document.items())


@pytest.mark.parametrize(("spec", "path"), REQUIRED)
def test_a_field_left_out_of_a_specification_is_missing(
    spec: dict[str, Any], path: FieldPath, tmp_path: Path
) -> None:
    plan_from_spec(spec)
    with pytest.raises(PlanError, match="is missing") as caught:
        plan_from_spec(without(spec, path))
    assert caught.value.field == name_of(path)
    assert caught.value.fix
    file = tmp_path / "plan.toml"
    file.write_text(to_toml(without(spec, path)), encoding="utf-8")
    with pytest.raises(PlanError) as read:
        read_plan(file)
    assert str(read.value) == str(caught.value)


def test_all_other_fields_of_a_specification_may_be_left_out() -> None:
    least = {str(path[0]): SPEC[str(path[0])] for _, path in REQUIRED if len(path) == 1}
    assert plan_from_spec(least) == make(labels=[], radius_law={}, least_records=1)


@pytest.mark.parametrize("path", list(fields_of(PLAN)), ids=name_of)
def test_a_field_left_out_of_a_whole_plan_is_missing_in_every_form(
    path: FieldPath, tmp_path: Path
) -> None:
    broken = without(PLAN, path)
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(broken), encoding="utf-8")
    encoded = encode_deterministic(without(cbor2.loads(encode_plan(make(**PRESENCE))), path))
    readers: list[Callable[[], SketchPlan]] = [
        lambda: plan_from_json(broken),
        lambda: read_plan(file),
        lambda: decode_plan(encoded),
    ]
    for read in readers:
        with pytest.raises(PlanError, match="is missing") as caught:
            read()
        assert caught.value.field == name_of(path)


def test_a_field_of_another_type_is_refused_where_the_bytes_are_hashed() -> None:
    encoded = cbor2.loads(encode_plan(make()))
    encoded["statistic"]["seed"] = encoded["statistic"]["seed"].hex()
    with pytest.raises(PlanError, match="has a field of another type"):
        decode_plan(encode_deterministic(encoded))


@pytest.mark.parametrize("name", ["length_s", "length"])
def test_a_length_of_nothing_is_too_short_and_not_missing(name: str) -> None:
    window = {"kind": "time" if name == "length_s" else "count", name: 0}
    with pytest.raises(PlanError, match=f"window.{name}: must be at least 1"):
        make(window=window)
