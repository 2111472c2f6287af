"""The OpenID provider by which people sign in: its document, the exchange of a code, the ID token.

Authorization code flow with PKCE (RFC 6749, RFC 7636, OpenID Connect Core 1.0, section 3.1).
"""

from __future__ import annotations

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
from sfumato.shared.wire.objects.declaration import to_rfc3339

_ANSWER_S = 10.0
_LEEWAY_S = 60
_DOCUMENT_S = 600.0
_ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "Ed25519"]
_MOST_TEXT = 300
_REQUIRED = ("authorization_endpoint", "token_endpoint", "jwks_uri")


class UnreachableError(ProviderError):
    """The provider does not answer; it may do so later."""


class Provider:
    """The provider of the settings.

    Raises
    ------
    ConfigError
        A setting is missing or breaks its rule.
    """

    def __init__(self, settings: Settings, clock: Clock) -> None:
        _require_settings(settings)
        self._settings = settings
        self._clock = clock
        self._verify = make_context(settings.oidc_issuer, settings.oidc_ca, field="oidc_ca")
        self._document: Mapping[str, Any] = {}
        self._read_at = 0.0

    @property
    def redirect_uri(self) -> str:
        """Address to which people come back, as it is registered at the provider."""
        return f"{self._settings.page_url}/"

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
                raise ProviderError(
                    f"must be what the provider states: {_show(found.get('issuer'))}",
                    field="oidc_issuer",
                    fix="write SFUMATO_OIDC_ISSUER as the provider does, to the last slash",
                )
            for name in _REQUIRED:
                if not is_private(found.get(name)):
                    raise ProviderError(
                        f"leads to a document whose {name} is missing or not https",
                        field="oidc_issuer",
                        fix="name a provider with the authorization code flow over https",
                    )
            self._document, self._read_at = found, self._clock.now()
        return self._document

    async def make_address(self) -> str:
        """Return the address to sign in at; the page adds state, nonce and code_challenge."""
        document = await self.describe()
        query = {
            "response_type": "code",
            "client_id": self._settings.oidc_client_id,
            "redirect_uri": self.redirect_uri,
            "scope": self._settings.oidc_scopes,
            "code_challenge_method": "S256",
        }
        endpoint = document["authorization_endpoint"]
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
        tokens = await self._exchange(code, verifier)
        claims = await self._verify_token(tokens.get("id_token"), nonce)
        document = await self.describe()
        name = self._settings.oidc_groups_claim
        url, access = document.get("userinfo_endpoint"), tokens.get("access_token")
        if find_claim(claims, name) is None and is_private(url) and access:
            # Some providers state groups there alone.
            told = await self._fetch("GET", url, headers={"Authorization": f"Bearer {access}"})
            if told.get("sub") == claims["sub"]:
                return {**told, **claims}
        return claims

    async def _exchange(self, code: str, verifier: str) -> Mapping[str, Any]:
        settings, document = self._settings, await self.describe()
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self.redirect_uri,
            "code_verifier": verifier,
        }
        client, secret = settings.oidc_client_id, settings.oidc_client_secret or ""
        known = document.get("token_endpoint_auth_methods_supported") or ["client_secret_basic"]
        if "client_secret_basic" in known:
            # Quoted first, as RFC 6749 has it.
            sent: dict[str, Any] = {"auth": (quote(client, safe=""), quote(secret, safe=""))}
        else:
            sent, form = {}, form | {"client_id": client, "client_secret": secret}
        tokens = await self._fetch("POST", document["token_endpoint"], data=form, **sent)
        match tokens.get("error"):
            case None:
                return tokens
            case "invalid_grant":
                raise AccessError(
                    "was used before, has expired, or is from another sign-in",
                    field="code",
                    fix="sign in again; if that does not help, let the operator compare "
                    f"SFUMATO_PAGE_URL with the redirect URI at the provider: {self.redirect_uri}",
                )
            case "invalid_client" | "unauthorized_client":
                raise ProviderError(
                    "are not accepted by the provider",
                    field="oidc_client_id, oidc_client_secret",
                    fix="let the operator copy both from the provider again",
                )
            case error:
                told = _show(f"{error} {tokens.get('error_description') or ''}".strip())
                raise ProviderError(
                    f"belongs to a provider that refused the code: {told}",
                    field="oidc_issuer",
                    fix="let the operator compare the client at the provider with the settings; "
                    f"its redirect URI must be {self.redirect_uri}",
                )

    async def _verify_token(self, token: object, nonce: str) -> dict[str, Any]:
        """Return the claims of an ID token: signature, issuer, audience, nonce and times hold."""
        settings, now = self._settings, self._clock.now()
        keys = await self._fetch("GET", (await self.describe())["jwks_uri"])
        rules = jwt.JWTClaimsRegistry(
            now=int(now),
            leeway=_LEEWAY_S,
            iss={"essential": True, "value": settings.oidc_issuer},
            sub={"essential": True},
            aud={"essential": True, "value": settings.oidc_client_id},
            azp={"value": settings.oidc_client_id},
            nonce={"essential": True, "value": nonce},
            exp={"essential": True},
            iat={"essential": True},
        )
        try:
            # Providers add headers of their own.
            registry = JWSRegistry(algorithms=_ALGORITHMS, strict_check_header=False)
            read = jwt.decode(
                token if isinstance(token, str) else "",
                KeySet.import_key_set(keys),  # type: ignore[arg-type]  # checked there
                registry=registry,
            )
            claims: dict[str, Any] = read.claims
            rules.validate(claims)
        except ClaimError as error:
            raise _refuse_claim(error, settings, now) from error
        except (JoseError, ValueError, KeyError, TypeError) as error:
            raise ProviderError(
                f"belongs to a provider whose ID token does not verify: {_show(error)}",
                field="oidc_issuer",
                fix="let the operator choose one of these signatures for the client at the "
                f"provider: {', '.join(_ALGORITHMS)}",
            ) from error
        return claims

    async def _fetch(self, method: str, url: str, **sent: Any) -> dict[str, Any]:
        try:
            async with open_async_client(url, verify=self._verify, timeout=_ANSWER_S) as http:
                answer = await http.request(method, url, **sent)
            if answer.is_server_error:
                answer.raise_for_status()
            found = answer.json()
        except httpx.HTTPError as error:
            raise UnreachableError(
                f"at {url} does not answer ({type(error).__name__})",
                field="oidc_issuer",
                fix="try again later; let the operator check the address, oidc_ca, and whether "
                "this server reaches the provider",
            ) from error
        except ValueError:
            found = None
        # Refusals of a code are JSON too, and say why.
        if not isinstance(found, dict) or (answer.is_error and "error" not in found):
            raise ProviderError(
                f"leads to {url}, whose answer of status {answer.status_code} is not understood",
                field="oidc_issuer",
                fix="let the operator check that SFUMATO_OIDC_ISSUER is the provider's issuer",
            )
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


def _refuse_claim(error: ClaimError, settings: Settings, now: float) -> Exception:
    match None if isinstance(error, MissingClaimError) else error.claim:
        case "nonce":
            return AccessError(
                "is from another sign-in", field="nonce", fix="sign in again, in this tab"
            )
        case "exp" | "iat" | "nbf":
            return ProviderError(
                f"of this server says {to_rfc3339(now)}, at which the provider's token is not "
                f"valid ({error.claim})",
                field="clock",
                fix="let the operator set the clocks of server and provider by NTP",
            )
        case "aud" | "azp":
            return ProviderError(
                f"is {settings.oidc_client_id}, and the provider's token is for another client",
                field="oidc_client_id",
                fix="let the operator copy SFUMATO_OIDC_CLIENT_ID from the provider",
            )
    return ProviderError(
        f"belongs to a provider whose ID token has a wrong or missing claim: {error.claim}",
        field="oidc_issuer",
        fix="let the operator compare SFUMATO_OIDC_ISSUER with the provider's document",
    )


def _require_settings(settings: Settings) -> None:
    """Refuse settings that no one could sign in with.

    Raises
    ------
    ConfigError
        One is missing or breaks its rule.
    """
    fix = "state it in the settings of every server, or remove oidc_issuer"
    for name in ("oidc_client_id", "oidc_client_secret", "page_url"):
        if not getattr(settings, name):
            raise ConfigError("is missing: oidc_issuer needs it", field=name, fix=fix)
    require_private_address(settings.oidc_issuer, field="oidc_issuer")
    require_private_address(settings.page_url, field="page_url")
    lists = ("oidc_operators", "oidc_analysts", "oidc_viewers")
    if not any(list_parts(getattr(settings, name)) for name in lists):
        raise ConfigError(
            "are empty: nobody could sign in",
            field=", ".join(lists),
            fix="name the groups of at least one scope, such as SFUMATO_OIDC_ANALYSTS=research",
        )


def _show(told: object) -> str:
    """Return a text of the provider, cut and in visible characters."""
    return "".join(each if each.isprintable() else "?" for each in str(told))[:_MOST_TEXT]
