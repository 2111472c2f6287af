import base64

import pytest

from sfumato.shared.errors import SignatureError
from sfumato.shared.wire import (
    device_id_of,
    format_time,
    parse_request_signature,
    sign_request,
    verify_request,
)
from tests.shared.wire.samples import KEY, PUBLIC_KEY

NOW = 1_800_000_000


def headers(body: bytes = b"") -> dict[str, str]:
    signed = sign_request(
        method="GET",
        path="/v1/devices/me",
        body=body,
        device=device_id_of(PUBLIC_KEY),
        created=NOW,
        sign=KEY.sign,
    )
    return {name.lower(): value for name, value in signed.items()}


def verify(
    method: str = "GET", path: str = "/v1/devices/me", body: bytes = b"", now: float = NOW
) -> None:
    verify_request(
        parse_request_signature(headers(body=b"")),
        method=method,
        path=path,
        body=body,
        public_key=PUBLIC_KEY,
        now=now,
    )


def test_a_signed_request_verifies() -> None:
    verify()
    assert parse_request_signature(headers()).device == device_id_of(PUBLIC_KEY)


def test_the_signature_base_is_that_of_the_standard() -> None:
    signature = base64.b64decode(headers()["signature"].removeprefix("sfumato=:").rstrip(":"))
    parameters = headers()["signature-input"].removeprefix("sfumato=")
    base = f'"@method": GET\n"@path": /v1/devices/me\n"@signature-params": {parameters}'
    KEY.public_key().verify(signature, base.encode())


@pytest.mark.parametrize(
    "change",
    [{"method": "PUT"}, {"path": "/v1/devices/you"}, {"body": b"x"}],
)
def test_another_method_path_or_body_does_not_verify(change: dict[str, object]) -> None:
    with pytest.raises(SignatureError, match="does not verify"):
        verify(**change)  # type: ignore[arg-type]


@pytest.mark.parametrize("seconds", [-301, 301])
def test_an_old_or_future_signature_is_refused(seconds: int) -> None:
    with pytest.raises(SignatureError, match="one of the two clocks is wrong") as caught:
        verify(now=NOW + seconds)
    assert format_time(NOW) in str(caught.value)
    assert format_time(NOW + seconds) in str(caught.value)


def test_a_body_is_covered_by_its_digest() -> None:
    signature = parse_request_signature(headers(b"body"))
    verify_request(
        signature,
        method="GET",
        path="/v1/devices/me",
        body=b"body",
        public_key=PUBLIC_KEY,
        now=NOW,
    )
    with pytest.raises(SignatureError):
        verify_request(
            signature,
            method="GET",
            path="/v1/devices/me",
            body=b"other",
            public_key=PUBLIC_KEY,
            now=NOW,
        )


@pytest.mark.parametrize("missing", ["signature", "signature-input"])
def test_a_missing_signature_is_refused_by_name(missing: str) -> None:
    incomplete = {name: value for name, value in headers().items() if name != missing}
    with pytest.raises(SignatureError, match="missing"):
        parse_request_signature(incomplete)
