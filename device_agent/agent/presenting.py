"""A server restored from a backup knows an earlier key: it is shown the changes since once more.

The device keeps the keys that it has replaced, with what each had signed. A server whose database
is of another life than the one that took the present key may know one of them. That key then signs
the same change again, and every one after it, in their order; at the end the server knows the
present key, and what each of the others may verify. A server of the same life never gets them: a
key that it does not know any more was taken from the device there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from device_agent.agent.device import Device
from device_agent.messages import DeviceAnswer, KeyOffer
from device_agent.store import DeviceKey, list_signed
from device_agent.transport import ServerClient
from shared.errors import LedgerError, SignatureError, SketchError, TransportError
from shared.wire import encode_rotation_input

Present = Callable[[ServerClient], bool]


def make_device_question(device: Device) -> Callable[[ServerClient], DeviceAnswer]:
    """Return what asks about the device, presenting its keys again if need be; for any thread.

    It raises as ``ServerClient.ask_device``, and ``LedgerError`` where a restored server knows more
    of the device than this ledger does.
    """
    present = make_presenting(device)

    def ask(client: ServerClient) -> DeviceAnswer:
        try:
            return client.ask_device()
        except SignatureError:
            if not present(client):
                raise
            return client.ask_device()

    return ask


def make_presenting(device: Device) -> Present:
    """Return what presents the keys again, and tells whether the present one is known now."""
    signed, generation = list_signed(device.connection), device.identity.generation
    chain = [*device.retired, (device.key, signed)]
    device_id = device.identity.device

    def present(client: ServerClient) -> bool:
        for i in reversed(range(len(device.retired))):
            answer = _ask_as(client, chain[i][0])
            if answer is None:
                continue
            if answer.generation == generation:
                return False
            _require_not_behind(answer, signed)
            for (old, last_sequences), (new, _) in zip(chain[i:], chain[i + 1 :], strict=False):
                offer = make_key_offer(device_id, new, last_sequences)
                client.signed_by(old.sign).change_key(offer)
            return True
        return False

    return present


def make_key_offer(device: bytes, key: DeviceKey, last_sequences: Mapping[str, int]) -> KeyOffer:
    """Return the offer of a key, with the last sketches that the one before it has signed."""
    told = encode_rotation_input(
        device=device, public_key=key.public_bytes, last_sequences=last_sequences
    )
    return KeyOffer(
        public_key=key.public_bytes, last_sequences=last_sequences, proof=key.sign(told)
    )


def _ask_as(client: ServerClient, key: DeviceKey) -> DeviceAnswer | None:
    """Ask with another key; None if the server does not take it."""
    try:
        return client.signed_by(key.sign).ask_device()
    except TransportError:
        raise
    except SketchError:
        return None


def _require_not_behind(answer: DeviceAnswer, signed: Mapping[str, int]) -> None:
    """Keep a clone, or a restored backup of the device, from bringing its own key to the server."""
    ahead = [name for name, last in answer.last_sequences.items() if last > signed.get(name, -1)]
    if ahead:
        raise LedgerError(
            "the server knows later sketches than this ledger: it was restored from a backup, or "
            "this device was cloned; nothing was released",
            field=f"stream {', '.join(sorted(ahead))}",
            fix="use the state_dir that released them, or enrol a new device with another "
            "state_dir",
        )
