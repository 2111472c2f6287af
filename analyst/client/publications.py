"""Calls about published results and the key that signs them."""

from __future__ import annotations

from sfumato.analyst.client.decodes import AsyncDecodes
from sfumato.analyst.requests import ANSWERS
from sfumato.shared.wire import SignedResult, decode_published
from sfumato.shared.wire.calls.publications import Publications
from sfumato.shared.wire.objects.publications import PublicationBody


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
        body = {"decode_id": decode.decode_id, "name": name, "allow_unusable": allow_unusable}
        return await self._call(Publications.publish_result, decode.study_id, body=body)

    async def published(self, study: str) -> SignedResult:
        """Return the latest published result of a study, verified with the server's key.

        Raises
        ------
        NotFoundError
            Nothing was published.
        SignatureError
            The server's key has not signed it.
        """
        answer = await self._send(Publications.get_published, study)
        signed = decode_published(answer.content)
        keys = (await self.identity()).keys
        known = {key.key_id: key.public_key for key in keys}
        if signed.key_id.hex() not in known:
            raise ANSWERS.refuse("key")
        signed.verify(bytes.fromhex(known[signed.key_id.hex()]))
        return signed
