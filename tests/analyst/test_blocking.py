"""The client without coroutines has every call of the one with them, and needs no event loop."""

import asyncio
import inspect
import pydoc

import pytest

from sfumato.analyst import Analysis, AsyncAnalysis, AsyncClient, AsyncDecode, Client, Decode
from sfumato.analyst.client.methods import run


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
    for name, method in inspect.getmembers(Client, inspect.isfunction):
        assert "Async" not in pydoc.render_doc(method)
        assert method.__doc__ or name.startswith("__")


@pytest.mark.parametrize("client", [Client, AsyncClient])
def test_help_of_a_declared_call_shows_members_of_its_request_with_meaning_and_unit(
    client: type[Client],
) -> None:
    shown = pydoc.plain(pydoc.render_doc(client.create_schedule))
    assert "create_schedule(self, study: str, *, kind: Literal['decode', 'timeline']" in shown
    assert "n_clusters: int, every_s: float, last_s: Optional[float] = None" in shown
    assert "-> 'ScheduleBody'" in shown
    assert "every_s\n        Seconds from one start to the next." in shown
    assert "before the start count; None for all." in shown
    assert "create_schedule(self, study: str" in pydoc.plain(pydoc.render_doc(client))


def test_each_keyword_is_known_to_the_method_before_anything_is_sent() -> None:
    client = Client("http://127.0.0.1:9")
    with pytest.raises(TypeError, match="every_hours"):
        client.create_schedule("pumps", n_clusters=5, every_s=1.0, every_hours=24)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="n_clusters"):
        client.create_schedule("pumps", every_s=86_400.0)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="batch_id"):
        client.batch("pumps")  # type: ignore[call-arg]
    client.close()


def test_a_call_that_waits_for_an_event_loop_is_a_defect_that_is_noticed() -> None:
    with pytest.raises(RuntimeError, match="has waited"):
        run(asyncio.sleep(0))
