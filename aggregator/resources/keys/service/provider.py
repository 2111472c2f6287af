"""The OpenID provider by which people sign in: its document, the exchange of a code, the ID token.

Authorization code flow with PKCE (RFC 6749, RFC 7636, OpenID Connect Core 1.0, section 3.1).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlencode

import httpx
from joserfc import jwt
from joserfc.errors import ClaimError, JoseError, MissingClaimError
from joserfc.jwk import KeySet
from joserfc.jws import JWSRegistry

from sfumato.aggregator.base.clock import Clock
from sfumato.aggregator.base.helper_client import make_context, require_private_address
from sfumato.aggregator.settings import Settings, list_parts
from sfumato.shared.errors import AccessError, ConfigError, ProviderError
from sfumato.shared.hosts import is_private
from sfumato.shared.http_client import open_async_client

OPERATOR = "let the operator of this server "
"""How a fix begins that no person who signs in can make."""
_ANSWER_S = 10.0
_LEEWAY_S = 60
_DOCUMENT_S = 600.0
_ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "Ed25519"]
_MOST_TEXT = 300
_ENDPOINTS = ("authorization_endpoint", "token_endpoint", "jwks_uri")
_CLOCK = ("clock", "is not that of the provider", "set the clocks of both by NTP")
_CLIENT = ("oidc_client_id", "is not the client of the ID token", "copy it from the provider")
_WRONG_CLAIMS = {"exp": _CLOCK, "iat": _CLOCK, "nbf": _CLOCK, "aud": _CLIENT, "azp": _CLIENT}
"""Field, rule and fix by the claim of an ID token that is wrong."""


class UnreachableError(ProviderError):
    """The provider does not answer; it may do so later."""


class Provider:
    """The provider of the settings; raises ``ConfigError`` for settings that nobody can use."""

    def __init__(self, settings: Settings, clock: Clock) -> None:
        _require_settings(settings)
        self.redirect_uri = f"{settings.page_url}/"
        self._settings = settings
        self._clock = clock
        self._verify = make_context(settings.oidc_issuer, settings.oidc_ca, field="oidc_ca")
        self._document: Mapping[str, Any] = {}
        self._read_at = 0.0

    async def describe(self) -> Mapping[str, Any]:
        """Return the provider's document, which is read again after ten minutes.

        Raises
        ------
        ProviderError
            It cannot be read, or is that of another issuer.
        """
        if not self._document or self._clock.now() - self._read_at > _DOCUMENT_S:
            issuer = self._settings.oidc_issuer
            url = f"{issuer.rstrip('/')}/.well-known/openid-configuration"
            found = await self._fetch("GET", url)
            if found.get("issuer") != issuer:
                stated = _show(found.get("issuer"))
                raise _refuse(
                    f"must be what the provider states, to the last slash: {stated}", "correct it"
                )
            if missing := [name for name in _ENDPOINTS if not is_private(found.get(name))]:
                raise _refuse(
                    f"leads to a document without {', '.join(missing)} over https",
                    "name a provider with the authorization code flow",
                )
            self._document, self._read_at = found, self._clock.now()
        return self._document

    async def make_address(self) -> str:
        """Return the address to sign in at; the page adds state, nonce and code_challenge."""
        endpoint = (await self.describe())["authorization_endpoint"]
        query = {
            "response_type": "code",
            "client_id": self._settings.oidc_client_id,
            "redirect_uri": self.redirect_uri,
            "scope": self._settings.oidc_scopes,
            "code_challenge_method": "S256",
        }
        return f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(query)}"

    async def redeem(self, code: str, verifier: str, nonce: str) -> Mapping[str, Any]:
        """Exchange a code; return the verified claims of the person.

        Raises
        ------
        AccessError
            The code was used or has expired, or it is from another sign-in.
        ProviderError
            The provider does not answer, or its answer cannot be accepted.
        """
        document = await self.describe()
        tokens = await self._exchange(document, code, verifier)
        keys = await self._fetch("GET", document["jwks_uri"])
        claims = self._verify_token(tokens.get("id_token"), keys, nonce)
        url, access = document.get("userinfo_endpoint"), tokens.get("access_token")
        is_whole = find_claim(claims, self._settings.oidc_groups_claim) is not None
        if is_whole or not access or not is_private(url):
            return claims
        # Some providers state groups there alone.
        told = await self._fetch("GET", url, headers={"Authorization": f"Bearer {access}"})
        return {**told, **claims} if told.get("sub") == claims["sub"] else claims

    async def _exchange(
        self, document: Mapping[str, Any], code: str, verifier: str
    ) -> Mapping[str, Any]:
        client, secret = self._settings.oidc_client_id, self._settings.oidc_client_secret or ""
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self.redirect_uri,
            "code_verifier": verifier,
        }
        # Quoted first, as RFC 6749 has it.
        sent: dict[str, Any] = {"auth": (quote(client, safe=""), quote(secret, safe=""))}
        known = document.get("token_endpoint_auth_methods_supported") or ["client_secret_basic"]
        if "client_secret_basic" not in known:
            sent, form = {}, form | {"client_id": client, "client_secret": secret}
        tokens = await self._fetch("POST", document["token_endpoint"], data=form, **sent)
        error = tokens.get("error")
        if error == "invalid_grant":
            raise AccessError(
                "was used before, has expired, or is from another sign-in",
                field="code",
                fix="sign in again; if that does not help, let the operator compare page_url with "
                f"the redirect URI at the provider: {self.redirect_uri}",
            )
        if error is not None:
            told = _show(f"{error} {tokens.get('error_description') or ''}".strip())
            raise _refuse(
                f"are of a client that the provider refused: {told}",
                f"copy both from it again, and compare the redirect URI {self.redirect_uri}",
                "oidc_client_id, oidc_client_secret",
            )
        return tokens

    def _verify_token(self, token: object, keys: Any, nonce: str) -> dict[str, Any]:
        """Return the claims of an ID token: signature, issuer, audience, nonce and times hold."""
        rules = jwt.JWTClaimsRegistry(
            now=int(self._clock.now()),
            leeway=_LEEWAY_S,
            iss={"essential": True, "value": self._settings.oidc_issuer},
            sub={"essential": True},
            aud={"essential": True, "value": self._settings.oidc_client_id},
            azp={"value": self._settings.oidc_client_id},
            nonce={"essential": True, "value": nonce},
            exp={"essential": True},
            iat={"essential": True},
        )
        try:
            # Providers add headers of their own.
            registry = JWSRegistry(algorithms=_ALGORITHMS, strict_check_header=False)
            read = jwt.decode(str(token), KeySet.import_key_set(keys), registry=registry)
            rules.validate(read.claims)
            if isinstance(read.claims["aud"], list) and len(read.claims["aud"]) > 1:
                # Another audience may have asked for it: section 3.1.3.7, step 4.
                jwt.JWTClaimsRegistry(azp={"essential": True}).validate(read.claims)
        except ClaimError as error:
            is_missing = isinstance(error, MissingClaimError)
            if error.claim == "nonce" and not is_missing:
                fix = "sign in again, in this tab"
                raise AccessError("is from another sign-in", field="nonce", fix=fix) from error
            if error.claim in _WRONG_CLAIMS and not is_missing:
                field, rule, fix = _WRONG_CLAIMS[error.claim]
                raise _refuse(rule, fix, field) from error
            rule = f"belongs to a provider whose ID token has a wrong or missing {error.claim}"
            raise _refuse(rule, "compare it with the provider's document") from error
        except (JoseError, ValueError, KeyError, TypeError) as error:
            raise _refuse(
                f"belongs to a provider whose ID token does not verify: {_show(error)}",
                f"choose one of these signatures there: {', '.join(_ALGORITHMS)}",
            ) from error
        return dict(read.claims)

    async def _fetch(self, method: str, url: str, **sent: Any) -> dict[str, Any]:
        try:
            # The client's own limit starts anew with each part of an answer that drips.
            async with (
                asyncio.timeout(_ANSWER_S),
                open_async_client(url, verify=self._verify, timeout=None) as http,
            ):
                answer = await http.request(method, url, **sent)
            if answer.is_server_error:
                answer.raise_for_status()
            found = answer.json()
        except (httpx.HTTPError, TimeoutError) as error:
            raise UnreachableError(
                f"at {url} does not answer ({type(error).__name__})",
                field="oidc_issuer",
                fix="try again later; let the operator check it, oidc_ca, and the way there",
            ) from error
        except ValueError:
            found = None
        # Refusals of a code are JSON too, and say why.
        if not isinstance(found, dict) or (answer.is_error and "error" not in found):
            rule = f"leads to {url}, whose answer of status {answer.status_code} is not understood"
            raise _refuse(rule, "check that it is the provider's issuer")
        return found


def find_claim(claims: Mapping[str, Any], name: str) -> list[str] | None:
    """Return the texts of a claim; dots lead into objects unless a claim has the whole name."""
    found: Any = claims
    for part in [name] if name in claims else name.split("."):
        found = found.get(part) if isinstance(found, dict) else None
    if found is None:
        return None
    listed = found if isinstance(found, list) else [found]
    return [each for each in listed if isinstance(each, str)]


def _refuse(rule: str, fix: str, field: str = "oidc_issuer") -> ProviderError:
    return ProviderError(rule, field=field, fix=f"{OPERATOR}{fix}")


def _require_settings(settings: Settings) -> None:
    for name in ("oidc_issuer", "oidc_client_id", "oidc_client_secret", "page_url"):
        if not getattr(settings, name):
            fix = "state it in the settings of every server, or remove all of oidc_..."
            raise ConfigError("is missing: sign-in needs it", field=name, fix=fix)
    require_private_address(settings.oidc_issuer, field="oidc_issuer")
    require_private_address(settings.page_url, field="page_url")
    lists = ("oidc_operators", "oidc_analysts", "oidc_viewers")
    if not any(list_parts(getattr(settings, name)) for name in lists):
        fix = "name the groups of at least one scope, such as SFUMATO_OIDC_ANALYSTS=research"
        raise ConfigError("are empty: nobody could sign in", field=", ".join(lists), fix=fix)


def _show(told: object) -> str:
    """Return a text of the provider, cut and in visible characters."""
    return "".join(each if each.isprintable() else "?" for each in str(told))[:_MOST_TEXT]
