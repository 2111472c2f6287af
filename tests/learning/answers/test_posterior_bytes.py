import numpy as np
import pytest
from hypothesis import given, strategies as st

from sfumato.learning.answers.posterior_bytes import pack_posterior, unpack_posterior
from sfumato.shared.cbor import encode_deterministic
from sfumato.shared.errors import MalformedMessageError

from .posteriors import draw_posterior


@given(seed=st.integers(0, 999), d=st.integers(1, 4), slanted=st.booleans())
def test_a_posterior_is_read_back_to_single_precision(seed: int, d: int, slanted: bool) -> None:
    posterior = draw_posterior(
        np.random.default_rng(seed), n_draws=3, n_atoms=2, d=d, slanted=slanted
    )
    found = unpack_posterior(pack_posterior(posterior))
    for name in ("shares", "weights", "means", "roots", "lower", "upper"):
        assert getattr(found, name) == pytest.approx(getattr(posterior, name), rel=1e-5, abs=1e-6)
    assert np.array_equal(found.draw_of, posterior.draw_of)
    assert (found.doubt, found.held_out) == (posterior.doubt, posterior.held_out)


@pytest.mark.parametrize(
    "content",
    [
        encode_deterministic({"format": 2}),
        encode_deterministic({"format": 1}),
        encode_deterministic([1]),
        b"\xff",
    ],
)
def test_other_bytes_are_refused(content: bytes) -> None:
    with pytest.raises(MalformedMessageError):
        unpack_posterior(content)


def test_the_usual_posterior_takes_about_sixty_kilobytes() -> None:
    posterior = draw_posterior(
        np.random.default_rng(0), n_draws=32, n_atoms=20, d=10, slanted=False
    )
    assert 50_000 < len(pack_posterior(posterior)) < 60_000
