"""Sign-in by OpenID Connect: a person's groups give a key that expires with the session."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import structlog

from sfumato.aggregator.resources.keys.record import SIGN_IN_ACTOR, KeyRecord, KeyScope
from sfumato.aggregator.resources.keys.service.keys import KeyService
from sfumato.aggregator.resources.keys.service.provider import (
    OPERATOR,
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

log = structlog.get_logger("aggregator.sign-in")


class SignInService(Service):
    """Makes keys for people whom the OpenID provider of the settings knows."""

    def __init__(self, parts: Parts, keys: KeyService) -> None:
        super().__init__(parts)
        self._keys = keys
        self._n_inside = 0

    async def check(self) -> str | None:
        """Check settings and provider when a server starts; return the redirect URI to register.

        A provider that does not answer is warned of: API keys work without it.

        Raises
        ------
        ConfigError
            A setting is missing, or does not suit the provider.
        """
        if not self._settings.oidc_issuer and not self._settings.oidc_client_id:
            return None
        try:
            await self._provider.describe()
        except UnreachableError as error:
            log.warning("nobody can sign in yet", reason=str(error))
        except ProviderError as error:
            fix = (error.fix or "").removeprefix(OPERATOR)
            raise ConfigError(error.rule, field=error.field, fix=fix) from error
        return self._provider.redirect_uri

    async def make_address(self) -> str | None:
        """Return the address to sign in at; None where there is no sign-in."""
        if not self._settings.oidc_issuer:
            return None
        with self._take_place():
            return await self._provider.make_address()

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
            fix = "use an API key"
            raise NotFoundError("is not set up on this server", field="sign-in", fix=fix)
        with self._take_place():
            claims = await self._provider.redeem(code, verifier, nonce)
        name = _name_person(claims)
        return await self._keys.create(
            name=name,
            scope=self._find_scope(claims, name),
            expires=self._clock.now() + 3600.0 * self._settings.oidc_hours,
            subject=claims["sub"],
            actor=SIGN_IN_ACTOR,
        )

    async def end(self, key: KeyRecord) -> KeyRecord:
        """Revoke the key of a person who signs out; ``NotFoundError`` if an operator created it."""
        if key.subject is None:
            raise NotFoundError(
                "carries a key that an operator created, so nobody is signed in",
                field="Authorization",
                fix="use `sfumato key revoke` to end the key itself",
            )
        return await self._keys.revoke(key.key_id, actor=key.key_id)

    @contextmanager
    def _take_place(self) -> Iterator[None]:
        if self._n_inside >= _MOST_AT_ONCE:
            rule, fix = f"is under way for {_MOST_AT_ONCE} people", "sign in again in some seconds"
            raise OverloadedError(rule, field="sign-in", fix=fix)
        self._n_inside += 1
        try:
            yield
        except ProviderError as error:
            log.warning("sign-in failed", reason=str(error))
            raise
        finally:
            self._n_inside -= 1

    @cached_property
    def _provider(self) -> Provider:
        # Late: commands on the database have the services too, and need no provider.
        return Provider(self._settings, self._clock)

    def _find_scope(self, claims: Mapping[str, Any], name: str) -> KeyScope:
        """Return the first scope of which a person has a group."""
        settings = self._settings
        groups: dict[KeyScope, list[str]] = {
            "operator": list_parts(settings.oidc_operators),
            "analyst": list_parts(settings.oidc_analysts),
            "viewer": list_parts(settings.oidc_viewers),
        }
        claim, held = settings.oidc_groups_claim, find_claim(claims, settings.oidc_groups_claim)
        if claim == "email" and claims.get("email_verified") is not True:
            held = None  # some providers let people state any address
        for scope, named in groups.items():
            if set(named) & set(held or ()):
                return scope
        wanted = ", ".join(each for named in groups.values() for each in named)
        if claim == "email":
            wanted = "the addresses in the settings"  # not for everybody with an account somewhere
        stated, fix = "states others", "for a place in one of these groups, then sign in again"
        if held is None:
            stated = "does not state it"
            fix = "to let the provider state it, or to name another in SFUMATO_OIDC_GROUPS_CLAIM"
        raise SignInRefusedError(
            f"must include one of {wanted} for {name}; the provider {stated}",
            field=claim,
            fix=f"ask {settings.oidc_contact} {fix}",
        )


def _name_person(claims: Mapping[str, Any]) -> str:
    # A provider may let people state an address that is not theirs; the log has the subject too.
    email = None if claims.get("email_verified") is False else claims.get("email")
    for name in (email, *map(claims.get, ("preferred_username", "name", "sub"))):
        if isinstance(name, str) and name and is_plain(name):
            return name[:_MOST_NAME]
    return "a person without a name"
