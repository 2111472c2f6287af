"""The images of MNIST (LeCun, Cortes and Burges), from a pinned package."""

from __future__ import annotations

import gzip
import io
import pickle
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np

from benchmarks.packages import MNIST, read_member
from sfumato.shared.arrays import Floats, Integers

_MEMBER: Final = "mnist/data/mnist.pkl.gz"
_ALLOWED: Final = frozenset(
    {
        ("numpy.core.multiarray", "_reconstruct"),
        ("numpy", "ndarray"),
        ("numpy", "dtype"),
    }
)


class _ArraysOnly(pickle.Unpickler):
    """An unpickler that makes arrays and nothing else."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _ALLOWED:
            raise pickle.UnpicklingError(f"holds {module}.{name}, which is no array")
        if name == "_reconstruct":
            return np.array(0).__reduce__()[0]
        return getattr(np, name)


@lru_cache(maxsize=1)
def _read_parts() -> Any:
    """Return training images with their digits, and those of the test; pixels from 0 to 1."""
    data = gzip.decompress(read_member(MNIST, _MEMBER))
    # The package has the training images in two parts.
    (first, ones), (second, twos), test = read_arrays(data)
    return (np.concatenate([first, second]), np.concatenate([ones, twos])), test


@dataclass(frozen=True, kw_only=True, eq=False)
class Digits:
    """Images whose pixels are 0 or 1, with their digits.

    Parameters
    ----------
    images, digits
        Shapes ``(60_000, 784)`` and ``(60_000,)``.
    test_images, test_digits
        Shapes ``(10_000, 784)`` and ``(10_000,)``.
    """

    images: Floats
    digits: Integers
    test_images: Floats
    test_digits: Integers


def load_digits() -> Digits:
    """Return training and test images with their digits.

    Raises
    ------
    PackageUnavailableError
        The wheel with the data cannot be fetched.
    """
    (images, digits), (test_images, test_digits) = _read_parts()
    return Digits(
        images=(images > 0.5).astype(np.float64),
        digits=digits.astype(np.int64),
        test_images=(test_images > 0.5).astype(np.float64),
        test_digits=test_digits.astype(np.int64),
    )


def read_arrays(data: bytes) -> Any:
    """Read nested tuples of arrays, as Python 2 pickled them.

    Raises
    ------
    pickle.UnpicklingError
        They hold something else.
    """
    return _ArraysOnly(io.BytesIO(data), encoding="latin1").load()
