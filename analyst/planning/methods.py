"""The method for records in one place, in advice."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from sfumato.learning.clustering.methods.contract import guess_scale
from sfumato.learning.planning.methods import SKETCH, Holding, MethodChoice, choose_method
from sfumato.learning.planning.outline import StudyOutline


def advise_method(
    outline: StudyOutline, *, epsilon: Fraction, delta: Fraction
) -> MethodChoice | None:
    """Choose a method by the numbers of an outline; None where devices are protected as a whole."""
    if outline.protects_devices:
        return None
    return choose_method(
        Holding(
            n_records=outline.n_records,
            n_dimensions=outline.n_dimensions,
            n_clusters=outline.n_clusters,
            epsilon=epsilon,
            delta=delta,
            relation=outline.neighbouring,
            n_parts=outline.n_sketches,
            # A plan states scales.
            scale=guess_scale(outline.n_clusters, outline.n_dimensions),
        )
    )


def describe_method(choice: MethodChoice, outline: StudyOutline) -> str:
    """Describe the method for records in one place, and how to run it."""
    if choice.name == SKETCH:
        return f"Method: the sketch. {_capital(choice.reason)}."
    return (
        f"Method: {choice.name}, if the records may be read in one place by "
        f"`sfumato cluster FILE --method {choice.name} -k {outline.n_clusters}`, which sends "
        f"nothing. {_capital(choice.reason)}."
    )


def method_to_json(choice: MethodChoice) -> dict[str, Any]:
    """Return a choice as JSON values."""
    return {
        "name": choice.name,
        "expected_relative_sse": dict(choice.expected),
        "reason": choice.reason,
    }


def _capital(words: str) -> str:
    return words[0].upper() + words[1:]
