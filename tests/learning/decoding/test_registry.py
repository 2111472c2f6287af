import pytest

from sfumato.learning.decoding.mixture.decoder import MixtureDecoder
from sfumato.learning.decoding.points.clompr import ClOmpr
from sfumato.learning.decoding.registry import create_solver, default_solver, solver_factories
from sfumato.shared.errors import DecodingError


def test_the_default_solver_is_registered_and_carries_its_version() -> None:
    assert default_solver in solver_factories
    assert create_solver() == MixtureDecoder()
    assert create_solver().name == "mixture/2"
    assert create_solver("cl-ompr").name == "cl-ompr/1"


def test_an_unknown_solver_is_refused_with_the_known_ones() -> None:
    with pytest.raises(DecodingError, match="cl-ompr"):
        create_solver("magic")


@pytest.mark.parametrize(
    "settings",
    [{"n_replicates": 0}, {"n_starts": 1.5}, {"max_iterations": True}, {"tolerance": 0.0}],
)
def test_a_setting_out_of_range_is_refused(settings: dict[str, object]) -> None:
    with pytest.raises(DecodingError, match=next(iter(settings))):
        create_solver("cl-ompr", **settings)


def test_settings_reach_the_solver_and_unknown_ones_are_refused_by_name() -> None:
    assert create_solver("cl-ompr", n_replicates=3) == ClOmpr(n_replicates=3)
    with pytest.raises(DecodingError, match=r"settings\.n_restarts"):
        create_solver("cl-ompr", n_restarts=3)
