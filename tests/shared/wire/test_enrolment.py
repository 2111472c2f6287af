import pytest

from sfumato.shared.errors import ConfigError, SignatureError
from sfumato.shared.wire import encode_proof_input, verify_proof
from tests.shared.wire.samples import KEY, PUBLIC_KEY


def proof_input(
    token: str = "t", study: bytes = b"s" * 32, labels: dict[str, str] | None = None
) -> bytes:
    return encode_proof_input(
        token=token, study=study, public_key=PUBLIC_KEY, labels=labels or {"site": "north"}
    )


def test_the_holder_of_the_key_can_prove_it() -> None:
    verify_proof(proof_input(), public_key=PUBLIC_KEY, proof=KEY.sign(proof_input()))


@pytest.mark.parametrize(
    "other",
    [proof_input(token="u"), proof_input(study=b"t" * 32), proof_input(labels={"site": "south"})],
)
def test_a_proof_is_bound_to_token_study_and_labels(other: bytes) -> None:
    with pytest.raises(SignatureError, match="proof"):
        verify_proof(other, public_key=PUBLIC_KEY, proof=KEY.sign(proof_input()))


def test_a_key_or_proof_of_the_wrong_size_is_refused() -> None:
    with pytest.raises(ConfigError, match="public_key: must have 32 bytes"):
        verify_proof(b"x", public_key=b"short", proof=b"also")
    with pytest.raises(SignatureError):
        verify_proof(b"x", public_key=PUBLIC_KEY, proof=b"short")
