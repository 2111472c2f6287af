"""Calls about published results and the key that signs them."""

from __future__ import annotations

from collections.abc import AsyncIterator

from sfumato.analyst.client.decodes import AsyncDecodes
from sfumato.analyst.requests import ANSWERS
from sfumato.shared.wire import SignedResult, decode_published
from sfumato.shared.wire.objects.publications import IdentityBody, PublicationBody


class AsyncPublications(AsyncDecodes):
    """Calls about published results and the key that signs them."""

    async def publish(
        self, decode_id: str, *, name: str = "", allow_unusable: bool = False
    ) -> PublicationBody:
        """Publish the result of a decode: the server signs it, and devices may apply it.

        Parameters
        ----------
        name
            A name for people.
        allow_unusable
            Publish it even if its verdict is "do not use".

        Raises
        ------
        StoreError
            The decode has no result.
        DecodingError
            The verdict is "do not use", and that is not allowed.
        """
        decode = await self.decode_state(decode_id)
        path = f"/v1/studies/{decode.study_id}/published"
        body = {"decode_id": decode.decode_id, "name": name, "allow_unusable": allow_unusable}
        return await self._read(PublicationBody, "POST", path, body)

    def publications(self, study: str) -> AsyncIterator[PublicationBody]:
        """Yield the published results of a study, oldest first."""
        return self._pages_of(PublicationBody, study, "publications")

    async def published(self, study: str) -> SignedResult:
        """Return the latest published result of a study, verified with the server's key.

        Raises
        ------
        NotFoundError
            Nothing was published.
        SignatureError
            The server's key has not signed it.
        """
        path = await self._path_of(study)
        answer = await self._server.send("GET", f"{path}/published")
        signed = decode_published(answer.content)
        keys = (await self.identity()).keys
        known = {key.key_id: key.public_key for key in keys}
        if signed.key_id.hex() not in known:
            raise ANSWERS.refuse("key")
        signed.verify(bytes.fromhex(known[signed.key_id.hex()]))
        return signed

    async def identity(self) -> IdentityBody:
        """Return the keys that sign published results; the last one signs now."""
        return await self._read(IdentityBody, "GET", "/v1/identity")

    async def rotate_identity(self, *, endorse: bool = True) -> IdentityBody:
        """Replace the key that signs published results.

        Parameters
        ----------
        endorse
            Let the old key name its successor, so that devices follow; False where the old key may
            be in other hands.
        """
        return await self._read(IdentityBody, "POST", "/v1/identity/rotate", {"endorse": endorse})
