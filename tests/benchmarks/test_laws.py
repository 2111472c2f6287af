import pytest

from benchmarks.laws import format_law, parse_law
from sfumato.shared.core import RadiusLaw
from sfumato.shared.errors import SketchError


@pytest.mark.parametrize(
    ("text", "law"),
    [
        (
            "folded-gaussian:0.5:2",
            RadiusLaw(kind="folded-gaussian", sigma_low=0.5, sigma_high=2.0, tail_share=0.0),
        ),
        (
            "adapted:1:2:0.25:16",
            RadiusLaw(sigma_low=1.0, sigma_high=2.0, tail_share=0.25, tail_high=16.0),
        ),
    ],
)
def test_a_law_is_read_and_written(text: str, law: RadiusLaw) -> None:
    assert parse_law(text) == law
    assert format_law(law) == text


@pytest.mark.parametrize(
    "text",
    [
        "adapted",
        "adapted:1",
        "adapted:one:2",
        "adapter:1:4",
        "adapted:1:2:0.5",
        "adapted:1:2:2:16",
        "adapted:1:2:0.5:1",
        "adapted:4:1",
        "adapted:nan:1",
        "",
    ],
)
def test_a_law_that_cannot_be_used_is_refused(text: str) -> None:
    with pytest.raises(SketchError) as caught:
        parse_law(text)
    assert caught.value.field is not None
