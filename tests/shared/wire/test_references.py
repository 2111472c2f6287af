import re

import pytest
from hypothesis import given, strategies as st

from sfumato.shared.errors import ConfigError, NotFoundError, SketchError
from sfumato.shared.wire.references import choose_study, is_identity, require_identity

PUMPS, WEATHER, OTHER = "5f3a" * 16, "5f3a" * 15 + "5f3b", "0c" * 32
STUDIES = [(PUMPS, "pumps"), (WEATHER, "weather"), (OTHER, "weather")]


@pytest.mark.parametrize(
    ("reference", "study"),
    [("pumps", PUMPS), (OTHER, OTHER), ("0c0c0c", OTHER), (PUMPS[:64], PUMPS), (OTHER[:63], OTHER)],
)
def test_a_name_or_six_digits_stand_for_the_one_study_that_they_fit(
    reference: str, study: str
) -> None:
    assert choose_study(reference, STUDIES) == study


@pytest.mark.parametrize(
    ("reference", "candidates"), [("weather", (WEATHER, OTHER)), ("5f3a5f", (PUMPS, WEATHER))]
)
def test_what_fits_several_studies_is_refused_with_those(
    reference: str, candidates: tuple[str, str]
) -> None:
    said = {"weather": "is the name of 2 studies. Use the id of one: ", "5f3a5f": "fits 2 studies"}
    with pytest.raises(ConfigError, match=said[reference]) as caught:
        choose_study(reference, STUDIES)
    assert caught.value.field == "study"
    shown = re.findall(r"([0-9a-f]{12,}) \((\w+)\)", str(caught.value))
    names = dict(STUDIES)
    assert len({digits for digits, _ in shown}) == 2, "what is shown tells them apart"
    assert [name for _, name in shown] == [names[candidate] for candidate in candidates]
    for (digits, _), candidate in zip(shown, candidates, strict=True):
        assert candidate.startswith(digits)


digits = st.text("0123456789abcdef", min_size=64, max_size=64)


@given(
    st.lists(st.tuples(digits, st.text(max_size=8)), max_size=5, unique_by=lambda pair: pair[0]),
    st.text(max_size=10) | st.text("0123456789abcdef", max_size=64),
)
def test_a_reference_stands_for_a_study_that_it_fits_or_is_refused(
    studies: list[tuple[str, str]], reference: str
) -> None:
    fits = [
        i
        for i, name in studies
        if name == reference or (len(reference) > 5 and i.startswith(reference))
    ]
    if len(fits) == 1:
        assert choose_study(reference, studies) == fits[0]
    else:
        with pytest.raises(SketchError):
            choose_study(reference, studies)


@pytest.mark.parametrize(
    "text", ["", "0c", PUMPS.upper(), PUMPS + "0", f"{PUMPS[:-1]}\n", "../" * 22]
)
def test_what_is_no_identity_is_refused_without_a_regular_expression(text: str) -> None:
    assert not is_identity(text)
    with pytest.raises(ConfigError, match="64 lower-case hexadecimal digits") as caught:
        require_identity(text, "device")
    assert caught.value.field == "device"
    assert not {"^", "$", "["} & set(str(caught.value))


@pytest.mark.parametrize("reference", ["0c0c0", "5F3A5F", "pump", "", "0d0d0d", OTHER + "0"])
def test_what_fits_no_study_is_refused_with_all(reference: str) -> None:
    with pytest.raises(NotFoundError, match="is neither a study's name") as caught:
        choose_study(reference, STUDIES)
    for study_id, name in STUDIES:
        assert re.search(rf"{study_id[:12]}[0-9a-f]* \({name}\)", str(caught.value))


def test_where_there_is_no_study_the_error_says_how_to_make_one() -> None:
    with pytest.raises(NotFoundError, match="sfumato study create"):
        choose_study("pumps", [])


def test_a_study_whose_name_is_how_another_begins_is_not_taken_for_it() -> None:
    named = [*STUDIES, ("ab" * 32, "0c0c0c")]
    with pytest.raises(ConfigError, match="fits 2 studies"):
        choose_study("0c0c0c", named)


def test_of_many_candidates_a_few_are_listed() -> None:
    studies = [(f"{i:064x}", "x") for i in range(50)]
    with pytest.raises(ConfigError, match="and more, see `sfumato study list`") as refused:
        choose_study("x", studies)
    assert "is the name of more than 10 studies" in str(refused.value)
    with pytest.raises(ConfigError, match="is the name of 10 studies") as refused:
        choose_study("x", studies[:10])
    assert "and more" not in str(refused.value)
