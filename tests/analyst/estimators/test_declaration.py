"""Declared estimators: the signature and the documentation of their parameters."""

import inspect
import re
from typing import Any

import pytest

import sfumato
from sfumato.lab import NetworkMixture, ReferenceKMeans

ESTIMATORS: list[Any] = [
    *(getattr(sfumato, name) for name in dir(sfumato) if name.endswith(("KMeans", "Mixture"))),
    sfumato.PrivatePCA,
    NetworkMixture,
    ReferenceKMeans,
]


@pytest.mark.parametrize("kind", ESTIMATORS, ids=lambda kind: kind.__name__)
def test_every_parameter_is_described_once_and_nothing_else_is(kind: Any) -> None:
    text = inspect.cleandoc(kind.__doc__)
    section = re.search(r"Parameters\n-+\n(.*?)\n\n", text, re.DOTALL)
    assert section is not None
    heads = re.findall(r"^(\S.*)$", section[1], re.MULTILINE)
    described = [name for head in heads for name in head.split(", ")]
    assert sorted(described) == sorted(inspect.signature(kind).parameters)


def test_what_is_needed_comes_first_and_the_owners_ledger_last() -> None:
    names = list(inspect.signature(sfumato.TreeKMeans).parameters)
    assert names[:5] == ["n_clusters", "epsilon", "bounds", "delta", "scale"]
    assert names[5:7] == ["n_rounds", "depth"]
    assert names[-1] == "verbose"


def test_a_class_says_itself_what_differs_from_its_base() -> None:
    assert "is clipped" in (sfumato.TreeKMeans.__doc__ or "")
    assert "half widths" not in (sfumato.TreeKMeans.__doc__ or "")
    assert sfumato.TreeKMeans.__doc__ != sfumato.SplitKMeans.__doc__
    examples = (sfumato.CompressiveMixture.__doc__ or "").split("Examples")[1]
    assert "CompressiveMixture(n_components=2" in examples


def test_a_parameter_without_default_must_be_given_and_others_are_refused() -> None:
    with pytest.raises(TypeError, match="epsilon"):
        sfumato.TreeKMeans(3, bounds=(0, 1))  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="n_cluster"):
        sfumato.TreeKMeans(n_cluster=3, epsilon=1, bounds=(0, 1))
