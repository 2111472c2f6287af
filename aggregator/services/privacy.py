"""Privacy promise and statement of a study; rationals are exact text."""

from __future__ import annotations

from shared.plan import SketchPlan, make_statement
from shared.wire.bodies.declaring import make_body, read_body
from shared.wire.bodies.results import PersonBody, PrivacyBody, PromiseBody, PublicFactBody


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
        people=[read_body(PersonBody, person) for person in statement.people_to_json()],
    )


def describe_privacy(plan: SketchPlan) -> PrivacyBody:
    """Return the privacy statement of a study: its promise, and the limits of the promise."""
    statement = make_statement(plan)
    return PrivacyBody(
        **vars(describe_promise(plan)),
        public=[make_body(PublicFactBody, fact) for fact in statement.public],
        unprotected=list(statement.unprotected),
        warnings=list(statement.cautions),
    )
