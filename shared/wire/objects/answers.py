"""JSON bodies that every answer has: its columns, the trust it deserves, and what is protected."""

from __future__ import annotations

from typing import Literal

from sfumato.shared.plan import SketchPlan, make_statement
from sfumato.shared.structure import member
from sfumato.shared.wire.objects.declaration import body


@body
class DimensionBody:
    """A column of the centroids."""

    name: str = member("The dimension's name.", "pressure")
    unit: str = member("The dimension's unit.", "bar")


Word = Literal["sound", "rough", "doubtful", "do not use"]
"""Verdicts, from the best to the worst."""


@body
class VerdictBody:
    """The trust that a result deserves."""

    word: Word = member("The verdict.", "sound")
    sentence: str = member("Why, in a sentence.", "the centroids agree between replicates")


@body
class PersonBody:
    """Privacy loss of a person with several records; decimals as text, rounded up."""

    n_records: int = member("The person's records in one window.", 20)
    n_windows: int = member("Number of windows with such records.", 10)
    epsilon: str = member("The loss at `delta`.", "200")
    delta: str = member("The delta of one sketch.", "0")
    multiple_epsilon: str = member("Epsilon of one sketch times records and windows.", "200")
    multiple_delta: str = member("The delta that holds at `multiple_epsilon`.", "0")


@body
class PublicFactBody:
    """A fact that devices and sketches show, and that no noise hides."""

    what: str = member("The fact.", "sequence numbers")
    detail: str = member(
        "The fact in a sentence.",
        "How many sketches each stream has released so far, and their order.",
    )
    seen_by: str = member("Whom the fact is visible to.", "analysts, and whoever is given a sketch")


@body
class PromiseBody:
    """Privacy promise of a study: for one record, and for people with several."""

    epsilon: str = member("Epsilon of one sketch, an exact fraction.", "1")
    delta: str = member("Delta of one sketch, an exact fraction.", "0")
    neighbouring: str = member("The neighbouring relation.", "replace-one")
    mechanism: str = member("The mechanism that adds the noise.", "discrete-knorm")
    scale: str = member("The noise scale, an exact fraction.", "4503599627370496/1518500")
    statement: str = member(
        "The promise in words.",
        "Each sketch is epsilon = 1 differentially private under replace-one ...",
    )
    max_records_per_person: int | Literal["unknown"] = member(
        "Most records of a person in one window, if the plan states it.", "unknown"
    )
    people: list[PersonBody] = member("Privacy loss of people with several records.")


@body
class PrivacyBody(PromiseBody):
    """Privacy statement of a study: the promise and its limits."""

    public: list[PublicFactBody] = member("Facts that no noise hides.")
    unprotected: list[str] = member(
        "Facts that the promise does not cover.",
        ["that and when a device takes part, and how many records it has"],
    )
    warnings: list[str] = member("Doubts about the plan, a sentence each.", [])
    payload_days: float | None = member(
        "Days after which the server drops payloads of sketches; null: never.", 90.0, default=None
    )
    version: str = member("Version of the server that states it.", "0.1.0", default="")


def describe_promise(plan: SketchPlan) -> PromiseBody:
    """Return the guarantee of a plan, which goes with every result."""
    statement = make_statement(plan)
    most = plan.max_records_per_person
    return PromiseBody(
        epsilon=str(plan.release.epsilon),
        delta=str(plan.release.delta),
        neighbouring=plan.release.neighbouring,
        mechanism=plan.release.mechanism,
        scale=str(plan.release.scale),
        statement=statement.describe(),
        max_records_per_person="unknown" if most is None else most,
        people=[PersonBody(**person) for person in statement.people_to_json()],
    )
