"""An OpenID provider on loopback, which can be made to lie."""

from __future__ import annotations

import base64
import hashlib
import importlib
import json
import secrets
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BytesIO
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
from joserfc import jwt
from joserfc.jwk import RSAKey
from werkzeug.serving import WSGIRequestHandler, make_server

with warnings.catch_warnings():
    # It rests on parts of Authlib that are to be replaced, and Authlib turns its warnings on again.
    importlib.import_module("authlib.deprecate")

    warnings.simplefilter("ignore")
    import oidc_provider_mock
    from oidc_provider_mock import User


AS_IT_IS = "ignore:get_jwt_config:DeprecationWarning"
"""Filter of a warning that the provider's library raises."""


def encode(raw: bytes) -> str:
    """Return base64 without padding, for addresses."""
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


class Provider:
    """A provider with people of several groups; it checks secret, redirect URI and PKCE.

    Parameters
    ----------
    alter
        Changes the claims of ID tokens, which are then signed by a key that the provider publishes.
    is_foreign
        Whether that key is another one of the same name.
    """

    def __init__(self) -> None:
        people = {"olga": ["ops", "other"], "ana": ["research"], "vi": ["guests"], "eve": ["other"]}
        self._app = oidc_provider_mock.app(
            require_client_registration=True,
            user_claims=[
                User(sub=name, claims={"email": f"{name}@example.org", "groups": groups})
                for name, groups in people.items()
            ],
        )
        self._app.debug = False
        self._server = make_server("127.0.0.1", 0, self, request_handler=_Quiet, threaded=True)
        self.issuer = f"http://127.0.0.1:{self._server.port}"
        self._challenges: dict[str, str] = {}
        self._key = RSAKey.generate_key(2048, {"kid": "own"})
        self._foreign = RSAKey.generate_key(2048, {"kid": "own"})
        self.alter: Callable[[dict[str, Any]], dict[str, Any]] | None = None
        self.is_foreign = False

    def register(self, redirect_uri: str) -> dict[str, Any]:
        """Register a server; return its settings."""
        body = {"redirect_uris": [redirect_uri]}
        made = httpx.post(f"{self.issuer}/oauth2/clients", json=body).json()
        return {
            "oidc_issuer": self.issuer,
            "oidc_client_id": made["client_id"],
            "oidc_client_secret": made["client_secret"],
            "oidc_operators": "ops",
            "oidc_analysts": "research, lab",
            "oidc_viewers": "guests",
            "oidc_contact": "it@example.org",
            "page_url": redirect_uri.removesuffix("/"),
        }

    def __call__(self, environ: dict[str, Any], start: Callable[..., Any]) -> Any:
        """Serve a request: the provider's answer, or a lie."""
        path: str = environ["PATH_INFO"]
        noted: list[Any] = []
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        environ["wsgi.input"] = BytesIO(body)
        form = parse_qs(body.decode())
        if path == "/oauth2/token":
            challenge = self._challenges.get(form["code"][0])
            if encode(hashlib.sha256(form["code_verifier"][0].encode()).digest()) != challenge:
                start("400 Bad Request", [("Content-Type", "application/json")])
                return [b'{"error": "invalid_grant"}']

        def note(status: str, headers: list[tuple[str, str]], *_: Any) -> None:
            noted[:] = [status, headers]

        told = b"".join(self._app.wsgi_app(environ, note))
        # Its pages name a style sheet of another host.
        told = told.replace(b"https://cdn.jsdelivr.net/", b"/none/")
        status, headers = noted
        code = parse_qs(urlsplit(dict(headers).get("Location", "")).query).get("code")
        if code:
            self._challenges[code[0]] = parse_qs(environ["QUERY_STRING"])["code_challenge"][0]
        if self.alter is not None and path in ("/oauth2/token", "/jwks"):
            told = json.dumps(self._lie(path, json.loads(told))).encode()
        kept = [(name, value) for name, value in headers if name.lower() != "content-length"]
        start(status, [*kept, ("Content-Length", str(len(told)))])
        return [told]

    def _lie(self, path: str, document: dict[str, Any]) -> dict[str, Any]:
        if path == "/jwks":
            return {"keys": [self._key.as_dict(private=False)]}
        assert self.alter is not None
        part = document["id_token"].split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(part + "=="))
        key = self._foreign if self.is_foreign else self._key
        header = {"alg": "RS256", "kid": "own"}
        return document | {"id_token": jwt.encode(header, self.alter(claims), key)}

    def authorize(self, address: str, person: str) -> tuple[str, dict[str, str]]:
        """Sign in as a browser would; return the code and what the page keeps."""
        verifier, nonce, state = (secrets.token_urlsafe(32) for _ in range(3))
        challenge = encode(hashlib.sha256(verifier.encode()).digest())
        to = f"{address}&state={state}&nonce={nonce}&code_challenge={challenge}"
        assert httpx.get(to).status_code == 200
        back = httpx.post(to, data={"sub": person}).headers["location"]
        found = parse_qs(urlsplit(back).query)
        assert found["state"] == [state]
        return found["code"][0], {"verifier": verifier, "nonce": nonce}

    @contextmanager
    def running(self) -> Iterator[Provider]:
        """Serve until the end of a block."""
        thread = threading.Thread(target=self._server.serve_forever)
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            thread.join()
            self._server.server_close()


class _Quiet(WSGIRequestHandler):
    def log_request(self, *_: Any) -> None:
        """Write nothing."""
