"""The client without coroutines has every call of the one with them, and needs no event loop."""

import asyncio
import inspect
import pydoc

import pytest

from sfumato.analyst import Analysis, AsyncAnalysis, AsyncClient, AsyncDecode, Client, Decode
from sfumato.analyst.client.blocking import run


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


def test_help_shows_parameters_their_meaning_and_what_this_client_returns() -> None:
    shown = pydoc.plain(pydoc.render_doc(Client.timeline))
    assert "study: 'str', *, n_clusters: 'int'" in shown
    assert "-> 'Analysis[Timeline]'" in shown
    assert "False alarms to accept in a year without a change." in shown
    assert "-> 'Iterator[StudyBody]'" in pydoc.render_doc(Client.studies)
    for _, method in inspect.getmembers(Client, inspect.isfunction):
        assert "Async" not in pydoc.render_doc(method)


def test_a_call_that_waits_for_an_event_loop_is_a_defect_that_is_noticed() -> None:
    with pytest.raises(RuntimeError, match="has waited"):
        run(asyncio.sleep(0))
