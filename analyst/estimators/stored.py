"""Generative models whose release can be stored, and read back as a model that samples."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from fractions import Fraction
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from sfumato.analyst.estimators.clustering import compose_rounds
from sfumato.analyst.estimators.columns import Bounds, read_box
from sfumato.analyst.estimators.contract import PrivateEstimator, Release, read_release
from sfumato.analyst.estimators.declaration import estimator
from sfumato.analyst.estimators.inputs import Exact, list_names
from sfumato.analyst.estimators.signature import open_release
from sfumato.shared.errors import MalformedMessageError, SketchError
from sfumato.shared.privacy import PrivacyEvent

_NOT_PUBLISHED: Final = {
    "bounds", "budget", "ledger", "max_unreadable", "random_state", "refit", "source"
}  # fmt: skip
"""Parameters that decide nothing about the release; and bounds, which are written as numbers."""
_PLAIN: Final = (bool, int, float, str, bytes, Fraction, type(None))
_BESIDE: Final = {"estimator", "parameters"}


@estimator
class StoredModel(PrivateEstimator):
    """A model that its release, with the parameters in it, determines.

    Parameters
    ----------
    bounds
        ``(lower, upper)``: numbers, or arrays of shape ``(d,)``, or a mapping of columns to pairs;
        data units. Required and public: they must not be read off the records.
    """

    parts: Sequence[Any] | None = field(default=None, kw_only=False)
    epsilon: Exact
    bounds: Bounds
    binary: bool = False

    @classmethod
    def decode(cls, data: bytes, *, owner: str | bytes | None = None) -> Self:
        """Read what ``release_.encode()`` wrote, as a fitted model: it samples, and spends nothing.

        Labels of parts that are no numbers or texts become texts.

        Parameters
        ----------
        owner
            Public key of the owner who signed it
            (:func:`sfumato.analyst.estimators.signature.sign_release`); None for a release
            without a signature.

        Raises
        ------
        SignatureError
            The owner has not signed it, or it is signed and no owner is stated.
        MalformedMessageError
            The bytes are none, or of another version or estimator, or do not hold together.
        """
        data = open_release(data, owner)
        document = read_release(data)
        try:
            design = document["design"]
            if design["estimator"] != cls.__name__:
                raise ValueError
            parameters = dict(design["parameters"])
            lower, upper = (np.array(each, dtype=np.float64) for each in parameters.pop("bounds"))
            found = cls(**parameters, bounds=(lower, upper))
            found._restore(design, document["n_records"], np.array(document["sums"], np.int64))
            if found.release_.encode() != data:
                raise ValueError
        except (ArithmeticError, AttributeError, IndexError, KeyError, SketchError) as error:
            raise _refuse(cls) from error
        except (TypeError, ValueError) as error:
            raise _refuse(cls) from error
        return found

    def _restore(
        self, design: Mapping[str, Any], n_records: int | None, sums: NDArray[np.int64]
    ) -> None:
        """Set what a fit sets, from its release.

        Raises
        ------
        SketchError, KeyError, TypeError, ValueError
            The release does not hold together.
        """
        names = list(design["names"])
        public = {key: value for key, value in design.items() if key not in _BESIDE}
        is_counted = isinstance(n_records, int) and n_records > 0
        if (self.relation == "replace-one") != is_counted or (is_counted == (n_records is None)):
            raise ValueError
        noise_variance, events = self._read_release(names, public, sums)
        self.release_ = Release(
            design=design, n_records=n_records, sums=sums, noise_variance=noise_variance
        )
        self.events_ = ()
        self.guarantee_ = compose_rounds(events)
        self.n_features_in_ = len(names)
        if names != list_names(None, len(names)):
            self.feature_names_in_ = np.array(names, dtype=object)
        self._show(names)

    def _read_release(
        self, names: Sequence[str], public: Mapping[str, Any], sums: NDArray[np.int64]
    ) -> tuple[float, Sequence[PrivacyEvent]]:
        """Check a release; return the variance of its noise, and what it spent."""
        raise NotImplementedError

    def _show(self, names: Sequence[str]) -> None:
        """Set the attributes that follow from the release."""
        raise NotImplementedError

    def _complete(self, public: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
        """Return a release's design with the parameters that restore the model."""
        box = [each.tolist() for each in read_box(self.bounds, names)]
        parameters = {
            name: _make_plain(value)
            for name, value in self.get_params(deep=False).items()
            if name not in _NOT_PUBLISHED
        }
        return {
            **public,
            "estimator": type(self).__name__,
            "parameters": {**parameters, "bounds": box},
        }


def _refuse(model: type[StoredModel]) -> MalformedMessageError:
    return MalformedMessageError(
        f"must be a release of {model.__name__}",
        field="release",
        fix="read the bytes that `release_.encode()` wrote",
    )


def _make_plain(value: Any) -> Any:
    """Return a parameter as what CBOR can hold."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, _PLAIN):
        return value
    if isinstance(value, np.ndarray):
        return value.tolist()
    if hasattr(value, "to_numpy"):
        # Public records in a table.
        return value.to_numpy().tolist()
    return [_make_plain(each) for each in value] if isinstance(value, Iterable) else str(value)
