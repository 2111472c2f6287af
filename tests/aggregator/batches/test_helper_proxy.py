"""The proxy between a server and its helper, told apart from the helper."""

import httpx
import pytest

from sfumato.aggregator.base.helper_client import HelperClient
from sfumato.aggregator.settings import Settings
from sfumato.shared.errors import ConfigError, HelperError
from sfumato.shared.http_client import PROXY_FIX

pytestmark = pytest.mark.anyio

SETTINGS = Settings(helper_url="https://helper.invalid", helper_api_key="sfh_x")


async def test_a_proxy_that_asks_for_a_password_is_not_taken_for_the_helper() -> None:
    def refuse(_: httpx.Request) -> httpx.Response:
        raise httpx.ProxyError("the proxy that HTTPS_PROXY names answered: 407")

    async with HelperClient(SETTINGS, transport=httpx.MockTransport(refuse)) as helper:
        with pytest.raises(HelperError, match="the proxy that HTTPS_PROXY names") as caught:
            await helper.find(bytes(32))
    assert caught.value.fix == PROXY_FIX


def test_a_wrong_proxy_is_refused_by_the_name_of_its_variable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "ftp://proxy")
    with pytest.raises(ConfigError, match=r"^HTTPS_PROXY: must be the address of a proxy"):
        HelperClient(SETTINGS)
