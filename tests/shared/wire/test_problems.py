import inspect

import pytest

from sfumato.shared import errors
from sfumato.shared.wire import (
    DeviceAction,
    error_from_problem,
    problem_document,
    problem_type_of,
    problem_types,
)

ERRORS = [
    kind
    for _, kind in inspect.getmembers(errors, inspect.isclass)
    if issubclass(kind, errors.SketchError)
]


@pytest.mark.parametrize("kind", ERRORS)
def test_every_error_has_a_problem_type_and_is_drawn_in_the_tree(
    kind: type[errors.SketchError],
) -> None:
    assert issubclass(kind, problem_type_of(kind).error)
    assert kind.__name__ in (errors.__doc__ or "")


@pytest.mark.parametrize("problem", problem_types(), ids=lambda problem: problem.slug)
def test_an_error_survives_the_journey_through_its_document(problem: object) -> None:
    kind = problem.error  # type: ignore[attr-defined]
    sent = kind("is wrong", field="plan.seed", fix="mend it")
    document = problem_document(sent)
    received = error_from_problem(document, document["status"])
    assert type(received) is kind
    assert (received.rule, received.field, received.fix) == ("is wrong", "plan.seed", "mend it")
    assert document["detail"] == "plan.seed: is wrong. Mend it"


def test_an_answer_of_no_known_type_is_a_transport_error_that_is_retried() -> None:
    error = error_from_problem({"title": "Bad gateway"}, 502)
    assert isinstance(error, errors.TransportError)
    assert problem_type_of(type(error)).action is DeviceAction.RETRY


def test_slugs_titles_and_classes_are_unique() -> None:
    table = problem_types()
    for column in ("slug", "title", "error"):
        values = [getattr(problem, column) for problem in table]
        assert len(set(values)) == len(values)


def test_other_bytes_under_one_identity_suspend_the_stream() -> None:
    assert problem_type_of(errors.DuplicateUploadError).action is DeviceAction.SUSPEND


def test_a_device_has_a_problem_for_each_thing_that_it_may_do() -> None:
    assert {problem.action for problem in problem_types()} == set(DeviceAction)


def test_a_window_that_has_not_begun_is_held_until_it_has() -> None:
    assert problem_type_of(errors.TooEarlyError).action is DeviceAction.HOLD


def test_only_what_may_pass_by_itself_is_retried() -> None:
    retried = {p.status for p in problem_types() if p.action is DeviceAction.RETRY}
    assert retried == {408, 426, 429, 500, 503}
