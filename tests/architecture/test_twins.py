"""The client without coroutines is generated from the one with them, and is current."""

import inspect

import pytest

from docs.generator.client import SOURCE, TARGET, render_modules
from sfumato.analyst import Analysis, AsyncAnalysis, AsyncClient, AsyncDecode, Client, Decode


def test_the_client_without_coroutines_is_the_one_with_them_line_by_line() -> None:
    rendered = render_modules()
    stale = [
        path.name
        for path, text in rendered.items()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    ]
    assert stale == [], "run `python -m docs.generator`"
    assert {path.name for path in rendered} == {path.name for path in TARGET.glob("*.py")}
    assert len(rendered) == len(list(SOURCE.glob("*.py")))


@pytest.mark.parametrize(
    ("twin", "other"), [(Client, AsyncClient), (Decode, AsyncDecode), (Analysis, AsyncAnalysis)]
)
def test_twins_have_the_same_methods_with_the_same_parameters(twin: type, other: type) -> None:
    def describe(kind: type) -> dict[str, list[str]]:
        return {
            {"aclose": "close"}.get(name, name): list(inspect.signature(method).parameters)
            for name, method in inspect.getmembers(kind, inspect.isfunction)
            if not name.startswith("_")
        }

    assert describe(twin) == describe(other)
    assert describe(twin)
