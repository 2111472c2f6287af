"""Generative models whose release can be stored, and read back as a model that samples."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from fractions import Fraction
from typing import Any, Final, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.analyst.estimators.clustering import compose_rounds
from sfumato.analyst.estimators.columns import Bounds, read_box
from sfumato.analyst.estimators.contract import PrivateEstimator, Release, read_release
from sfumato.analyst.estimators.declaration import estimator, result
from sfumato.analyst.estimators.inputs import (
    Exact,
    list_names,
    read_rng,
    read_whole,
    require_delta,
)
from sfumato.analyst.estimators.labels import make_array, place_wanted, require_visible
from sfumato.analyst.estimators.lock import holding
from sfumato.analyst.estimators.signature import open_release
from sfumato.shared.arrays import Floats, Integers
from sfumato.shared.errors import ConfigError, MalformedMessageError, SketchError
from sfumato.shared.privacy import PrivacyEvent, PrivacyGuarantee

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
    parts_: list[Any] = result()
    part_sizes_: Floats = result()

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: N803 - scikit-learn's name
        """Release what is needed of some records and of their parts, once.

        Parameters
        ----------
        X
            Shape ``(n, d)``, data units. A record with a missing value adds nothing.
        y
            Shape ``(n,)``, the part of each record; one of no part adds to no part. Ignored
            without ``parts``.

        Raises
        ------
        PrivacyError, ConfigError, TableError
            A parameter, or the shape or type of what was passed, is refused; nothing was spent.
        BudgetExceededError
            The ledger does not allow it; nothing was released.
        """
        with holding(self):
            self._require_first()
            self._fit_parts(X, y)
        return self

    def _fit_parts(self, X: Any, y: Any) -> None:  # noqa: N803
        rows, found, names = self._read_numbers(X)
        places = self._place(y, len(rows))
        design = self._design(names)
        read_rng(self.random_state)
        n_public = len(rows) if self.relation == "replace-one" else None
        public = self._publish(design, names)
        events = self._list_events(design, public)

        def release() -> Integers:
            return self._draw_sums(design, rows.astype(np.float64, copy=False), places)

        with self._take_turn({**public, "n_records": n_public}) as turn:
            self.release_ = Release(
                design=self._complete(public, names),
                n_records=n_public,
                # Everything is counted before anything is drawn.
                sums=self._draw_once(turn, release, *events),
                noise_variance=self._find_variance(design),
            )
            self.guarantee_ = compose_rounds(self.events_)
            self._note_columns(rows.shape[1], found)
            self._show(names)

    def plan_events(
        self, n_features: int, *, names: Sequence[str] | None = None
    ) -> tuple[PrivacyEvent, ...]:
        """Return what a fit to records of so many columns will spend; reads no record.

        Parameters
        ----------
        names
            Names of the columns, where ``bounds`` names them.
        """
        known = list(names or list_names(None, n_features))
        design = self._design(known)
        return self._list_events(design, self._publish(design, known))

    def sample(
        self, n_samples: int = 1, *, parts: ArrayLike | None = None
    ) -> tuple[Floats, NDArray[Any]]:
        """Draw synthetic records: shapes ``(n, d)``, data units, and ``(n,)``, their parts.

        Parameters
        ----------
        parts
            Shape ``(n_samples,)``, the part of each record; None to draw them by their noisy sizes.

        Raises
        ------
        DecodingError
            Noise hides every part, or one that is asked for.
        ConfigError
            A part is unknown.
        """
        self._require_fitted()
        n = read_whole(n_samples, "n_samples", most=1 << 30, fix="ask for fewer records")
        wanted = place_wanted(parts, self.parts_, n)
        require_visible(self.part_sizes_, wanted)
        listed = None if wanted is None else wanted.tolist()
        records, places = self._draw_records(n, read_rng(self.random_state), listed)
        return records, make_array(self.parts_)[places]

    def _state_spent(self, events: Sequence[PrivacyEvent]) -> PrivacyGuarantee:
        return compose_rounds(events)

    def _read_terms(self, names: Sequence[str]) -> tuple[Fraction, Fraction, Floats, Floats]:
        """Return epsilon, delta, and lower and upper bounds."""
        epsilon, delta = self._read_level()
        lower, upper = read_box(self.bounds, names)
        require_delta(delta)
        if self.binary and not (np.all(lower == 0.0) and np.all(upper == 1.0)):
            raise ConfigError(
                "must be (0, 1) for binary columns", field="bounds", fix="set binary=False"
            )
        return epsilon, delta, lower, upper

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

    def _restore(self, design: Mapping[str, Any], n_records: int | None, sums: Integers) -> None:
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
        is_named = names != list_names(None, len(names))
        self._note_columns(len(names), np.array(names, dtype=object) if is_named else None)
        self._show(names)

    def _read_release(
        self, names: Sequence[str], public: Mapping[str, Any], sums: Integers
    ) -> tuple[float, Sequence[PrivacyEvent]]:
        """Check a release; return the variance of its noise, and what it spent."""
        raise NotImplementedError

    def _place(self, y: Any, n_records: int) -> NDArray[np.intp] | None:
        """Return the part of each record, -1 for none; None where parts are found."""
        raise NotImplementedError

    def _design(self, names: Sequence[str]) -> Any:
        """Return the public numbers of a release; noise that cannot be drawn is refused here."""
        raise NotImplementedError

    def _publish(self, design: Any, names: Sequence[str]) -> dict[str, Any]:
        """Return a design as plain values."""
        raise NotImplementedError

    def _list_events(self, design: Any, public: Mapping[str, Any]) -> tuple[PrivacyEvent, ...]:
        """Return what a release will spend."""
        raise NotImplementedError

    def _draw_sums(self, design: Any, rows: Floats, places: NDArray[np.intp] | None) -> Integers:
        """Release what is asked of the records."""
        raise NotImplementedError

    def _find_variance(self, design: Any) -> float:
        """Return the variance of the noise on each of the sums; NaN where they have none alike."""
        raise NotImplementedError

    def _draw_records(
        self, n: int, rng: np.random.Generator, parts: list[int] | None
    ) -> tuple[Floats, NDArray[np.intp]]:
        """Draw records of parts, or of parts by their sizes."""
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
