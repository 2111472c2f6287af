"""The payload of a sketch: fixed-width little-endian two's complement integers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from shared.errors import MalformedMessageError, WireError


def encode_payload(sums: NDArray[np.int64], width: int) -> bytes:
    """Encode a released sum: real parts, imaginary parts, then the scaled count if it is secret.

    Parameters
    ----------
    sums
        Shape ``(2 m,)`` or ``(2 m + 1,)``, int64.
    width
        Bytes of one coordinate, 1 to 8.

    Raises
    ------
    WireError
        A coordinate does not fit the width.
    """
    limit = 1 << (8 * width - 1)
    if sums.size and (int(sums.min()) < -limit or int(sums.max()) >= limit):
        raise WireError(
            f"has a coordinate that does not fit {width} bytes",
            field="payload",
            fix="report this: the plan's coordinate bound should have prevented it",
        )
    octets = sums.astype("<i8").view(np.uint8).reshape(-1, 8)
    return octets[:, :width].tobytes()


def decode_payload(payload: bytes, *, width: int, n_coordinates: int) -> NDArray[np.int64]:
    """Decode a payload: shape ``(n_coordinates,)``, int64.

    Raises
    ------
    MalformedMessageError
        The payload has another length than ``width * n_coordinates``.
    """
    if len(payload) != width * n_coordinates:
        raise MalformedMessageError(
            f"must have {width * n_coordinates} bytes and has {len(payload)}",
            field="payload",
            fix=f"send {n_coordinates} coordinates of {width} bytes",
        )
    octets = np.zeros((n_coordinates, 8), dtype=np.uint8)
    octets[:, 8 - width :] = np.frombuffer(payload, dtype=np.uint8).reshape(-1, width)
    # The octets fill the top of the word, so the shift extends the sign.
    shifted: NDArray[np.int64] = octets.view("<i8").reshape(-1) >> (8 * (8 - width))
    return shifted.astype(np.int64, copy=False)
