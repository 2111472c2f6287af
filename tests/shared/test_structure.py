"""Every document that a class does not declare is refused, with path, rule and fix."""

import doctest
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest

from sfumato.shared import structure as module
from sfumato.shared.errors import ConfigError
from sfumato.shared.structure import (
    Rule,
    Seconds,
    Tagged,
    Text,
    declared,
    member,
    read_toml,
    structure,
)


@dataclass(frozen=True, kw_only=True)
class Animal:
    kind: str
    legs: int = 4

    def __post_init__(self) -> None:
        if self.kind == "snake" and self.legs:
            raise ConfigError("must be 0 of a snake", field="legs", fix="write legs = 0")


@dataclass(frozen=True, kw_only=True)
class Bird(Animal):
    wings: int


def find_animal(kind: str) -> type[Animal]:
    if kind == "unicorn":
        raise ConfigError("must be real", fix="look around")
    return Bird if kind == "bird" else Animal


@dataclass(frozen=True, kw_only=True)
class Zoo:
    name: Text
    share: Annotated[Fraction, Rule(lambda f: 0 < f < 1, "must be between 0 and 1", "halve it")]
    folder: Path | None = None
    size: Literal["small", "large"] = "small"
    edition: Literal[1, 2] = 1
    poll_s: Seconds = 1.0
    is_open: bool = True
    first: int | str = 0
    names: Mapping[str, Text] = field(default_factory=dict)
    animals: tuple[Annotated[Animal, Tagged("kind", find_animal)], ...] = ()
    shout: Annotated[str, str.upper] = ""


GOOD: dict[str, Any] = {"name": "z", "share": "1/2"}


def read(**values: Any) -> Zoo:
    return structure(Zoo, {**GOOD, **values}, "zoo", folder=Path("/f"))


def test_the_examples_hold() -> None:
    examples = doctest.testmod(module)
    assert (examples.failed, examples.attempted > 0) == (0, True)


def test_a_document_becomes_the_class_that_declares_it() -> None:
    zoo = read(
        folder="a", first="x", animals=[{"kind": "bird", "wings": 2}, {"kind": "cat"}], shout="hey"
    )
    assert zoo.animals == (Bird(kind="bird", wings=2), Animal(kind="cat"))
    assert (zoo.folder, zoo.first, zoo.share) == (Path("/f/a"), "x", Fraction(1, 2))
    assert (zoo.poll_s, zoo.shout) == (1.0, "HEY")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"naem": "a"}, "zoo.naem: is not a known key. Did you mean name?"),
        ({"name": ""}, "zoo.name: must be text and not empty. Quote it"),
        ({"name": 1}, "zoo.name: must be text and not empty. Quote it"),
        ({"share": 0.5}, "zoo.share: must be between 0 and 1. Halve it"),
        ({"share": "1e999999999"}, "zoo.share: must be between 0 and 1. Halve it"),
        ({"share": 1}, "zoo.share: must be between 0 and 1. Halve it"),
        ({"folder": ""}, "zoo.folder: must be a path. Quote it"),
        ({"size": "tiny"}, 'zoo.size: must be "small" or "large". Choose one of them'),
        ({"edition": True}, "zoo.edition: must be 1 or 2. Choose one of them"),
        ({"poll_s": float("nan")}, "zoo.poll_s: must be a number greater than zero"),
        ({"poll_s": True}, "zoo.poll_s: must be a number greater than zero"),
        ({"is_open": 1}, "zoo.is_open: must be true or false. Use no quotes"),
        ({"first": True}, "zoo.first: must be text"),
        ({"names": {"a": 1}}, "zoo.names.a: must be text and not empty"),
        ({"names": []}, "zoo.names: must be a table. Write [zoo.names]"),
        ({"animals": {}}, "zoo.animals: must be a list"),
        ({"animals": [1]}, "zoo.animals[0]: must be a table of named values"),
        ({"animals": [{}]}, 'zoo.animals[0].kind: is missing. Add kind = "..."'),
        ({"animals": [{"kind": "unicorn"}]}, "zoo.animals[0].kind: must be real. Look around"),
        ({"animals": [{"kind": "bird"}]}, "zoo.animals[0].wings: is missing. Add wings = 1"),
        ({"animals": [{"kind": "cat", "wings": 1}]}, "zoo.animals[0].wings: is not a known key"),
        ({"animals": [{"kind": "snake"}]}, "zoo.animals[0].legs: must be 0 of a snake"),
    ],
)
def test_what_is_not_declared_is_refused_with_path_rule_and_fix(
    change: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        read(**change)
    assert str(caught.value).startswith(message)


@declared
class Box:
    size: tuple[int, int]
    weights: list[float] | None = None
    counts: dict[str, Annotated[int, Rule(ge=0, lt=10)]] = member("Counts.", default_factory=dict)
    letters: Annotated[str, Rule(pattern="[a-z]*", max_length=3)] = "abc"


def test_null_stands_for_none_and_other_keys_are_ignored_where_they_may_be() -> None:
    document = {"size": [1, 2], "weights": None, "counts": {"a": 9}, "colour": "red"}
    assert structure(Box, document, strict=False) == Box(size=(1, 2), counts={"a": 9})
    with pytest.raises(ConfigError, match="weights: must be a list"):
        structure(Box, {"size": [1, 2], "weights": None}, unknown="unknown")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"size": [1]}, "size: must have 2 elements"),
        ({"size": [1, True]}, "size[1]: must be a whole number. Use no quotes"),
        ({"weights": [0.5, 10**400]}, "weights[1]: must be a finite number. Use no quotes"),
        ({"counts": {"a": 10}}, "counts.a: must be at least 0 and below 10"),
        ({"counts": {"\x1b[2J": -1}}, "counts.'\\x1b[2J': must be at least 0 and below 10"),
        ({"letters": "aaaa"}, "letters: must be at most 3 long and text that matches [a-z]*"),
        ({"letters": "A"}, "letters: must be at most 3 long and text that matches [a-z]*"),
    ],
)
def test_a_limit_that_is_broken_is_described(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        structure(Box, {"size": [1, 2], **change})
    assert str(caught.value) == message


def test_a_file_that_is_not_toml_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"a\.toml: cannot be read"):
        read_toml(tmp_path / "a.toml")
    (tmp_path / "a.toml").write_text("[a")
    with pytest.raises(ConfigError, match=r"a\.toml: is not TOML"):
        read_toml(tmp_path / "a.toml")


def test_a_document_that_is_no_table_is_refused() -> None:
    with pytest.raises(ConfigError, match="document: must be a table of named values"):
        structure(Box, [1, 2])
