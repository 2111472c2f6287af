"""Present replaced keys to a server that was restored from a backup and knows only an earlier one.

The device keeps the keys that it has replaced, with what each had signed. A server whose database
has another generation than the one that took the present key may know one of them. That key signs
the same change again, and every later one in order, so that the server knows the present key and
what each of the others may verify. A server of the same generation gets none: a key that it does
not know any more was taken from the device there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sfumato.device_agent.agent.device import Device
from sfumato.device_agent.agent.exchange.comparison import (
    Offers,
    describe_copied,
    find_copied,
    load_offers,
)
from sfumato.device_agent.server.messages import DeviceAnswer, KeyOffer
from sfumato.device_agent.server.transport import ServerClient
from sfumato.device_agent.store.identity import load_generation
from sfumato.device_agent.store.key import DeviceKey
from sfumato.device_agent.store.key_change import list_signed
from sfumato.shared.errors import LedgerError, SignatureError, SketchError, TransportError
from sfumato.shared.wire import encode_rotation_input

Present = Callable[[ServerClient], bool]


class CopyError(LedgerError):
    """Another copy of this state was at work, as ``answer`` shows; no key is presented."""

    def __init__(self, answer: DeviceAnswer, error: LedgerError) -> None:
        self.answer = answer
        super().__init__(error.rule, field=error.field, fix=error.fix)


def make_device_question(device: Device) -> Callable[[ServerClient], DeviceAnswer]:
    """Return a request for the server's knowledge of the device; for any thread.

    It presents the keys again if needed, and raises as ``ServerClient.fetch_device``.
    """
    present = make_presenting(device)

    def request(client: ServerClient) -> DeviceAnswer:
        try:
            return client.fetch_device()
        except SignatureError:
            try:
                is_known = present(client)
            except CopyError as error:
                return error.answer
            if not is_known:
                raise
            return client.fetch_device()

    return request


def make_presenting(device: Device) -> Present:
    """Return a request that presents the keys, and returns whether the present one is known now.

    It raises ``CopyError`` if another copy of this state was at work.
    """
    signed, generation = list_signed(device.connection), load_generation(device.connection)
    offers = load_offers(device.connection) if device.retired else Offers()
    chain = [*device.retired, (device.key, signed)]
    device_id = device.identity.device

    def present(client: ServerClient) -> bool:
        for i in reversed(range(len(device.retired))):
            answer = _fetch_as(client, chain[i][0])
            if answer is None:
                continue
            if answer.generation == generation:
                return False
            # A clone, or a restored backup, must not bring its own key to the server.
            if copied := find_copied(offers, answer):
                raise CopyError(answer, describe_copied(copied))
            for (old, last_sequences), (new, _) in zip(chain[i:], chain[i + 1 :], strict=False):
                offer = make_key_offer(device_id, new, last_sequences)
                client.signed_by(old.sign).change_key(offer)
            return True
        return False

    return present


def make_key_offer(device: bytes, key: DeviceKey, last_sequences: Mapping[str, int]) -> KeyOffer:
    """Return the offer of a key, with the last sketches that its predecessor has signed."""
    told = encode_rotation_input(
        device=device, public_key=key.public_bytes, last_sequences=last_sequences
    )
    return KeyOffer(
        public_key=key.public_bytes, last_sequences=last_sequences, proof=key.sign(told)
    )


def _fetch_as(client: ServerClient, key: DeviceKey) -> DeviceAnswer | None:
    """Request the server's knowledge with another key; None if it does not take that key."""
    try:
        return client.signed_by(key.sign).fetch_device()
    except TransportError:
        raise
    except SketchError:
        return None
