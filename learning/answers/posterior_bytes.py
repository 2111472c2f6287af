"""Bytes of a posterior: deterministic CBOR with numbers in single precision, some 60 kB."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sfumato.learning.decoding.density import Posterior
from sfumato.shared.container import decode_container, encode_container
from sfumato.shared.errors import MalformedMessageError

__all__ = ["pack_posterior", "unpack_posterior"]

_FORMAT: Final = "sfumato-posterior"
_VERSION: Final = 1
_FIX: Final = "decode the snapshot again"
_NUMBER: Final = np.dtype("<f4")


def pack_posterior(posterior: Posterior) -> bytes:
    """Pack a posterior; covariances along the axes take one number a dimension."""
    rows, columns = np.tril_indices(posterior.n_dimensions)
    roots = (
        np.diagonal(posterior.roots, axis1=1, axis2=2)
        if posterior.is_along_axes
        else posterior.roots[:, rows, columns]
    )
    content = {
        "n_atoms": np.bincount(posterior.draw_of).tolist(),
        "shares": _to_bytes(posterior.shares),
        "weights": _to_bytes(posterior.weights),
        "means": _to_bytes(posterior.means),
        "roots": _to_bytes(roots),
        "lower": posterior.lower.tolist(),
        "upper": posterior.upper.tolist(),
        "doubt": float(posterior.doubt),
        "held_out": float(posterior.held_out),
        "is_trusted": posterior.is_trusted,
    }
    return encode_container(_FORMAT, _VERSION, content)


def unpack_posterior(content: bytes) -> Posterior:
    """Unpack a posterior.

    Raises
    ------
    MalformedMessageError, UnsupportedVersionError
        The bytes are not those of a posterior, are damaged, or of another version.
    DecodingError
        The numbers are not a posterior.
    """
    found = decode_container(content, _FORMAT, _VERSION, field="posterior", fix=_FIX)
    try:
        return _read(found)
    except (KeyError, TypeError, ValueError) as error:
        raise MalformedMessageError(
            "must have all arrays of a posterior, of one length",
            field="posterior",
            fix=_FIX,
        ) from error


def _read(found: dict[str, Any]) -> Posterior:
    lower, upper = (np.array(found[name], dtype=np.float64) for name in ("lower", "upper"))
    counts = np.array(found["n_atoms"], dtype=np.intp)
    n_atoms, d = int(counts.sum()), len(lower)
    packed = _to_array(found["roots"]).reshape(n_atoms, -1)
    roots = np.zeros((n_atoms, d, d))
    # In one dimension both forms are the same.
    rows, columns = np.diag_indices(d) if packed.shape[1] == d else np.tril_indices(d)
    roots[:, rows, columns] = packed
    draw_of = np.repeat(np.arange(len(counts)), counts)
    shares, weights = _to_array(found["shares"]), _to_array(found["weights"])
    # Single precision leaves sums that are not exactly 1.
    sums = np.bincount(draw_of, weights=weights, minlength=len(counts))
    return Posterior(
        shares=shares / np.sum(shares),
        draw_of=draw_of,
        weights=weights / sums[draw_of],
        means=_to_array(found["means"]).reshape(n_atoms, d),
        roots=roots,
        lower=lower,
        upper=upper,
        doubt=float(found["doubt"]),
        held_out=float(found["held_out"]),
        is_trusted=bool(found["is_trusted"]),
    )


def _to_bytes(values: NDArray[np.float64]) -> bytes:
    return np.ascontiguousarray(values, dtype=_NUMBER).tobytes()


def _to_array(content: bytes) -> NDArray[np.float64]:
    return np.frombuffer(content, dtype=_NUMBER).astype(np.float64)
