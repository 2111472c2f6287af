"""Sign-in by OpenID Connect: a person's groups give a key that expires with the session."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import structlog

from sfumato.aggregator.resources.keys.record import SIGN_IN_ACTOR, KeyRecord, KeyScope
from sfumato.aggregator.resources.keys.service.keys import KeyService
from sfumato.aggregator.resources.keys.service.provider import (
    Provider,
    UnreachableError,
    find_claim,
)
from sfumato.aggregator.resources.parts import Parts, Service
from sfumato.aggregator.settings import list_parts
from sfumato.shared.core.text import is_plain
from sfumato.shared.errors import (
    ConfigError,
    NotFoundError,
    OverloadedError,
    ProviderError,
    SignInRefusedError,
)

_MOST_AT_ONCE = 4
"""A provider that is slow must not take every turn of the server."""
_MOST_NAME = 200
# A provider may let people state an address that is not theirs; the subject is in the log too.
_NAMES = ("email", "preferred_username", "name", "sub")

log = structlog.get_logger("aggregator.sign-in")


class SignInService(Service):
    """Makes keys for people whom the OpenID provider of the settings knows."""

    def __init__(self, parts: Parts, keys: KeyService) -> None:
        super().__init__(parts)
        self._keys = keys
        self._made: Provider | None = None
        self._n_inside = 0

    async def check(self) -> str | None:
        """Check settings and provider when a server starts; return the redirect URI to register.

        A provider that does not answer is warned of: API keys work without it.

        Raises
        ------
        ConfigError
            A setting is missing, or does not suit the provider.
        """
        if not self._settings.oidc_issuer:
            if self._settings.oidc_client_id:
                raise ConfigError(
                    "is missing: oidc_client_id needs it",
                    field="oidc_issuer",
                    fix="name the provider's issuer, such as https://login.example.org",
                )
            return None
        try:
            await self._provider.describe()
        except UnreachableError as error:
            log.warning("nobody can sign in yet", reason=str(error))
        except ProviderError as error:
            raise ConfigError(error.rule, field=error.field, fix=error.fix) from error
        return self._provider.redirect_uri

    async def make_address(self) -> str | None:
        """Return the address to sign in at; None where there is no sign-in.

        Raises
        ------
        ProviderError
            The provider cannot be used.
        """
        return await self._provider.make_address() if self._settings.oidc_issuer else None

    async def redeem(self, code: str, verifier: str, nonce: str) -> tuple[str, KeyRecord]:
        """Exchange a provider's code for a key; return its secret, shown once, and the key.

        Raises
        ------
        AccessError, ProviderError
            As :meth:`Provider.redeem`.
        SignInRefusedError
            The person is in no group that may sign in.
        """
        if not self._settings.oidc_issuer:
            raise NotFoundError(
                "is not set up on this server", field="sign-in", fix="use an API key"
            )
        if self._n_inside >= _MOST_AT_ONCE:
            raise OverloadedError(
                f"is under way for {_MOST_AT_ONCE} people",
                field="sign-in",
                fix="sign in again after some seconds",
                retry_after_s=2.0,
            )
        self._n_inside += 1
        try:
            claims = await self._provider.redeem(code, verifier, nonce)
        except ProviderError as error:
            log.warning("sign-in failed", reason=str(error))
            raise
        finally:
            self._n_inside -= 1
        name = _name_person(claims)
        return await self._keys.create(
            name=name,
            scope=self._find_scope(claims, name),
            expires=self._clock.now() + 3600.0 * self._settings.oidc_hours,
            subject=claims["sub"],
            actor=SIGN_IN_ACTOR,
        )

    async def end(self, key: KeyRecord) -> KeyRecord:
        """Revoke the key of a person who signs out.

        Raises
        ------
        NotFoundError
            It is the key of nobody who signed in.
        """
        if key.subject is None:
            raise NotFoundError(
                "carries a key that an operator created, so nobody is signed in",
                field="Authorization",
                fix="use `sfumato key revoke` to end the key itself",
            )
        return await self._keys.revoke(key.key_id, actor=key.key_id)

    @property
    def _provider(self) -> Provider:
        # Commands on the database have the services too, and need no provider.
        if self._made is None:
            self._made = Provider(self._settings, self._clock)
        return self._made

    def _find_scope(self, claims: Mapping[str, Any], name: str) -> KeyScope:
        """Return the first scope of which a person has a group."""
        settings = self._settings
        claim = settings.oidc_groups_claim
        groups: dict[KeyScope, list[str]] = {
            "operator": list_parts(settings.oidc_operators),
            "analyst": list_parts(settings.oidc_analysts),
            "viewer": list_parts(settings.oidc_viewers),
        }
        held = find_claim(claims, claim)
        if claim == "email" and claims.get("email_verified") is not True:
            held = None  # some providers let people state any address
        for scope, named in groups.items():
            if set(named) & set(held or ()):
                return scope
        wanted = ", ".join(each for named in groups.values() for each in named)
        stated = "does not state" if held is None else "states other groups in"
        raise SignInRefusedError(
            f"must include one of {wanted} for {name}; the provider {stated} this claim",
            field=claim,
            fix=f"ask {settings.oidc_contact} for a place in one of these groups, then sign in "
            "again"
            if held is not None
            else f"ask {settings.oidc_contact} to let the provider state the claim in the ID "
            "token, or to name another with SFUMATO_OIDC_GROUPS_CLAIM",
        )


def _name_person(claims: Mapping[str, Any]) -> str:
    for claim in _NAMES:
        name = claims.get(claim)
        if claim == "email" and claims.get("email_verified") is False:
            continue
        if isinstance(name, str) and name and is_plain(name):
            return name[:_MOST_NAME]
    return "a person without a name"
