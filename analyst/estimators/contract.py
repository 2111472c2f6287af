"""The contract of all estimators of private records.

* ``fit`` sums the records exactly, spends, and draws noise once, from the operating system.
* What is learnt about the records is in ``release_``; every other attribute follows from it and
  from public parameters. The records and their exact sums are not kept.
* ``events_`` and ``guarantee_`` say what was spent. A second fit would spend again, and is refused
  unless ``refit=True``.
* ``random_state`` can steer what is computed from a release, never noise.
"""

from __future__ import annotations

import hashlib
import logging
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal, localcontext
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from sfumato.analyst.estimators.declaration import estimator, result
from sfumato.analyst.estimators.inputs import (
    Exact,
    describe_lost_names,
    describe_names,
    find_names,
    list_names,
    read_number,
    read_rows,
    refuse_words,
    spell_cell,
)
from sfumato.analyst.estimators.lock import holding
from sfumato.analyst.estimators.progress import follow_step
from sfumato.analyst.estimators.sizes import require_records
from sfumato.learning.clustering.methods.contract import Round
from sfumato.shared.arrays import Integers
from sfumato.shared.cbor import encode_deterministic
from sfumato.shared.container import decode_container, encode_container
from sfumato.shared.errors import ConfigError, PrivacyError, TableError
from sfumato.shared.privacy import NEIGHBOURINGS, Budget, PrivacyEvent, PrivacyGuarantee
from sfumato.shared.privacy.accounting import explain_relations, join_events, select_per_record
from sfumato.shared.privacy.limits import DEFAULT_DELTA, DEFAULT_EPSILON
from sfumato.shared.reading.unreadable import MOST_UNREADABLE, UnreadableError, find_unreadable
from sfumato.shared.spending import Account, Turn, find_ledger, take_turn

if TYPE_CHECKING:
    from sklearn.utils import Tags

STREAM = "main"
FORMAT = "sfumato-release"
VERSION = 1

_log = logging.getLogger("sfumato.spending")
_MOST_EPSILON = 10_000
_REFUSED = "refused: noise that can be repeated can be removed"


@dataclass(frozen=True, kw_only=True, eq=False)
class Release:
    """All that an estimator has published about its records, and the public numbers behind it.

    Parameters
    ----------
    design
        Public numbers that decided what was released, and how: anything that CBOR can hold.
    n_records
        Number of records; None where it is secret.
    sums
        Sums with noise: shape ``(n_coordinates,)``, int64, read-only.
    noise_variance
        Variance of the noise on each of them.
    """

    design: Mapping[str, Any]
    n_records: int | None
    sums: Integers
    noise_variance: float

    def __post_init__(self) -> None:
        self.sums.setflags(write=False)

    def encode(self) -> bytes:
        """Return the release as deterministic CBOR."""
        return encode_container(
            FORMAT,
            VERSION,
            {
                "design": dict(self.design),
                "n_records": self.n_records,
                "sums": self.sums.tolist(),
            },
        )

    @cached_property
    def digest(self) -> bytes:
        """SHA-256 of the encoding."""
        return hashlib.sha256(self.encode()).digest()


def read_release(data: bytes) -> dict[str, Any]:
    """Return the members of an encoded release.

    Raises
    ------
    MalformedMessageError, UnsupportedVersionError
        The bytes are none, are damaged, or of another version.
    """
    return decode_container(
        data, FORMAT, VERSION, field="release", fix="read what `release_.encode()` wrote"
    )


class absent:  # noqa: N801 - used as a marker
    """A method of a base class that an estimator has not; its error says why."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: object, owner: type) -> Any:
        # The reason comes from __getattr__, which follows.
        raise AttributeError(self._name)


@estimator
class PrivateEstimator(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Parameters, spending and refusals that all estimators have in common.

    Parameters
    ----------
    epsilon, delta
        The guarantee: texts such as ``"0.1"`` or ``"1/10"``, integers, fractions, or floats, which
        stand for their decimal text.
    relation
        ``replace-one``, where the number of records is public, or ``add-remove-one``, where it is
        secret too.
    random_state
        Steers what is computed from the release, never noise.
    ledger, source, budget
        An owner's ledger that counts what is released, the file that the records come from, and the
        limit of epsilon for each of them; as ``sfumato sketch --ledger``. A fit that was killed is
        finished by the next one with the same parameters: the same release, counted once.
    refit
        Allow a second fit, which spends again.
    max_unreadable
        The largest share of a column whose values cannot be read; more spends nothing.
    verbose
        Whether steps that take over a second show how far they are, on standard error.

    Attributes
    ----------
    release_, events_, guarantee_
        What was released, what each release spent, and what all guarantee together.
    n_features_in_, feature_names_in_
        Number and, of a table, names of the columns.
    """

    epsilon: Any
    delta: Exact = "0"
    relation: Literal["replace-one", "add-remove-one"] = "replace-one"
    random_state: object = None
    ledger: str | Path | None = None
    source: str | Path | None = None
    budget: Exact | None = None
    refit: bool = False
    max_unreadable: float = MOST_UNREADABLE
    verbose: bool = False

    n_features_in_: int = result()
    release_: Release = result()
    events_: tuple[PrivacyEvent, ...] = result()
    guarantee_: PrivacyGuarantee = result()

    _ABSENT: ClassVar[Mapping[str, str]] = MappingProxyType({})
    """Attributes of similar estimators that depend on the records, and why there are none."""
    _n_open_turns = _n_counted_turns = 0

    def __getattr__(self, name: str) -> Any:
        reason = type(self)._ABSENT.get(name)
        if reason is None and name.endswith("_") and not name.startswith("_"):
            is_fitted = "n_features_in_" in vars(self)
            reason = "a fit gives it no such result" if is_fitted else "call fit first"
        described = f"{type(self).__name__!r} has no attribute {name!r}"
        raise AttributeError(f"{described}: {reason}" if reason else described)

    # ---- scikit-learn's protocol ----

    def __new__(cls, *given: Any, **named: Any) -> Self:
        """Refuse a seed of the noise by name, before any other argument is read."""
        del given
        refuse_seed(named)
        made: Self = super().__new__(cls)
        return made

    def set_params(self, **parameters: Any) -> Self:
        """Change parameters; they take effect with the next fit.

        Raises
        ------
        PrivacyError
            A seed of the noise is among them.
        ValueError
            There is no such parameter.
        """
        refuse_seed(parameters)
        super().set_params(**parameters)
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return "release_" in vars(self)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.non_deterministic = self._is_private
        return tags

    @property
    def _is_private(self) -> bool:
        return True

    def _note_columns(self, n_columns: int, names: NDArray[np.object_] | None) -> None:
        self.n_features_in_ = n_columns
        self.__dict__.pop("feature_names_in_", None)
        if names is not None:
            self.feature_names_in_ = names

    def _require_fitted(self) -> None:
        """Refuse what needs a fit: by scikit-learn's error, which is an ``AttributeError`` too."""
        if "n_features_in_" not in vars(self):
            raise NotFittedError(f"{type(self).__name__!r} has no result: call fit first")

    def _require_columns(self, n_columns: int, names: NDArray[np.object_] | None) -> None:
        """Refuse other columns than those of the fit."""
        known = vars(self).get("feature_names_in_")
        if known is not None and names is not None and known.tolist() != names.tolist():
            raise TableError(
                f"must have the columns {', '.join(known)}, in this order, and has "
                f"{', '.join(names)}. {describe_names(known.tolist(), names.tolist())}",
                field="X",
                fix="reorder the columns, such as X[estimator.feature_names_in_]",
            )
        if n_columns != self.n_features_in_:
            raise TableError(
                f"must have {self.n_features_in_} columns and has {n_columns}: X has {n_columns} "
                f"features, but {type(self).__name__} is expecting {self.n_features_in_} features "
                "as input",
                field="X",
                fix="pass the columns that it was fitted to",
            )
        if (known is None) != (names is None):
            warnings.warn(
                describe_lost_names(type(self).__name__, has_names=names is not None),
                UserWarning,
                stacklevel=2,
            )

    # ---- spending ----

    def fit(self, X: Any, y: object = None) -> Self:  # noqa: N803 - scikit-learn's name
        """Release what is needed of some records, once, and compute the results from that.

        One thread fits an estimator at a time; the next one finds it fitted.

        Parameters
        ----------
        X
            Shape ``(n, d)``, data units. A record with a missing value moves no result.
        y
            Ignored.

        Raises
        ------
        PrivacyError, ConfigError, TableError, PlanError
            A parameter, or the shape or type of ``X``, is refused, or too many of its values cannot
            be read; nothing was spent.
        BudgetExceededError
            The ledger does not allow it; nothing was released.
        DecodingError
            The release shows no clusters; it stays in ``release_``.

        Guarantees
        ----------
        ``guarantee_``, for everything that this estimator then shows. Nothing that is refused, and
        no attribute, depends on a value of ``X`` but through the release. One refusal does: that of
        unreadable values. It is for their owner, and part of no release.
        """
        del y
        with holding(self):
            self._require_first()
            self._fit(X)
        return self

    def _fit(self, X: Any) -> None:  # noqa: N803
        raise NotImplementedError

    def _follow_step(self, step: str) -> Callable[[float], None]:
        """Return what shows the completed share of a step, if that is wanted."""
        return follow_step(f"{type(self).__name__}: {step}", verbose=self.verbose)

    def _require_first(self) -> None:
        """Refuse a second fit, which would spend again, unless the caller asked for it."""
        # What was spent before outlives its release: an exact fit in between drops that alone.
        events = vars(self).get("events_", ())
        if ("release_" in vars(self) or events) and not self.refit:
            spent = self._state_spent(events) if events else self.guarantee_
            raise PrivacyError(
                f"was fitted already and has spent {describe_level(spent)} under "
                f"{spent.neighbouring}; a second fit of the same records would spend it again",
                field=type(self).__name__,
                fix="use what was released, or set refit=True",
            )

    def _state_spent(self, events: Sequence[PrivacyEvent]) -> PrivacyGuarantee:
        """Return what all fits guarantee together, as ``guarantee_`` does of them."""
        return compose_guarantee(events)

    def _read_level(self) -> tuple[Fraction, Fraction]:
        """Return epsilon and delta, exact; refuse a relation that is unknown."""
        self._require_relation()
        epsilon = self._read_epsilon(self.epsilon)
        delta = read_number(self.delta, "delta")
        if not 0 <= delta < 1:
            raise PrivacyError(
                "must be from 0 to below 1",
                field="delta",
                fix='use "0", or less than one over the number of records, such as "1e-9"',
            )
        return epsilon, delta

    def _require_relation(self) -> None:
        if self.relation not in NEIGHBOURINGS:
            raise PrivacyError(
                f"must be one of {', '.join(NEIGHBOURINGS)}",
                field="relation",
                fix="use replace-one to hide values, add-remove-one to hide presence too",
            )

    @staticmethod
    def _read_epsilon(stated: Exact) -> Fraction:
        epsilon = read_number(stated, "epsilon")
        if epsilon <= 0:
            raise PrivacyError("must be greater than zero", field="epsilon", fix="use 1 or less")
        if epsilon > _MOST_EPSILON:
            raise PrivacyError(
                f"must be at most {_MOST_EPSILON:,}, beyond which no noise is left",
                field="epsilon",
                fix="use 1 or less",
            )
        return epsilon

    def _read_numbers(
        self,
        X: Any,  # noqa: N803
    ) -> tuple[NDArray[np.floating], NDArray[np.object_] | None, list[str]]:
        """Return rows of enough readable numbers, the table's own names, and a name a column."""
        refuse_words(X)
        rows, found = read_rows(X), find_names(X)
        names = list_names(found, rows.shape[1])
        require_records(rows.shape, self.relation)
        self._require_readable(rows, names, X)
        return rows, found, names

    def _require_readable(
        self,
        rows: NDArray[np.floating],
        names: Sequence[str],
        X: Any,  # noqa: N803
        *,
        filled: Collection[int] = (),
    ) -> None:
        """Refuse rows of which too many values cannot be read, before anything is spent.

        Parameters
        ----------
        rows
            Shape ``(n, d)``: numbers, and NaN where there is none.
        X
            The table that they were read from.
        filled
            The columns where something stands for a missing value.
        """
        is_limit = isinstance(self.max_unreadable, int | float)
        if not is_limit or not 0 <= self.max_unreadable <= 1:
            raise ConfigError(
                "must be a share from 0 to 1", field="max_unreadable", fix="use 0.1, or more"
            )
        is_gone = ~np.isfinite(rows)
        is_gone[:, list(filled)] = False
        found = find_unreadable(
            list(np.sum(is_gone, axis=0)),
            len(rows),
            n_lost=int(np.count_nonzero(is_gone.any(axis=1))),
            most=self.max_unreadable,
        )
        if found is not None:
            text = spell_cell(X, int(np.argmax(is_gone[:, found.column])), found.column)
            raise UnreadableError(found, names, text=text, field="X")

    @contextmanager
    def _take_turn(self, choices: Mapping[str, Any]) -> Iterator[Turn]:
        """Take the turn of a release; ``choices`` are public, and none of them is fresh."""
        named = {"estimator": type(self).__name__, **choices}
        account = self._find_account()
        # A fit may count its pilot, and inside that turn the rest; its first fit is no second one.
        is_whole = not self._n_open_turns
        self._n_counted_turns = 0 if is_whole else self._n_counted_turns
        self._n_open_turns += 1
        try:
            with take_turn(named, account) as turn:
                yield turn
                spent = turn.sum_up()
        finally:
            self._n_open_turns -= 1
        if account is None or spent is None:
            return
        self._n_counted_turns += 1
        if is_whole and spent.n_releases > self._n_counted_turns:
            # No warning: one that a caller has made an error would fail a fit that has spent.
            _log.warning("this is %s (%s)", spent.describe(), account.ledger)

    def _find_account(self) -> Account | None:
        """Return where releases are counted: wherever it is known which records they are of."""
        if self.ledger is None and self.source is None:
            return None
        source, budget = self._find_source(), self._read_budget()
        ledger = find_ledger() if self.ledger is None else Path(self.ledger)
        return Account(ledger=ledger, records=source, budget=budget)

    def _draw_once(
        self, turn: Turn, draw: Callable[[], Integers], *events: PrivacyEvent, shows: bool = True
    ) -> Integers:
        """Count the events of one draw together, in the ledger if there is one and here; draw.

        ``shows`` is false where the caller shows it later, with what follows it.
        """
        turn.reserve(events[0] if len(events) == 1 else join_events(events))
        # What fails from here on may have been seen.
        self.events_ = (*vars(self).get("events_", ()), *events)
        sums = turn.draw(draw)
        if shows:
            turn.show()
        return sums

    def _find_source(self) -> Path:
        if self.source is None:
            raise ConfigError(
                "is missing: the ledger counts releases by where the records come from",
                field="source",
                fix="name the file that the records were read from",
            )
        path = Path(self.source)
        if not path.exists():
            raise ConfigError("does not exist", field="source", fix="name the file of the records")
        return path

    def _name_account(self) -> tuple[Path | None, ...]:
        """Name where releases are counted, and by which file of records."""
        account = self._find_account()
        return () if account is None else (account.ledger.resolve(), account.records.resolve())

    def _read_budget(self) -> Budget:
        limit = None if self.ledger is None else DEFAULT_EPSILON
        if self.budget is not None:
            limit = read_number(self.budget, "budget")
        return Budget(per_record=limit, delta=DEFAULT_DELTA)

    def describe(self) -> str:
        """Describe in words what was spent, and what it protects."""
        return (
            f"{describe_guarantee(self.guarantee_)} Rows and columns of the input and all "
            "parameters are public."
            f"{self._describe_repetition()}{self._describe_condition()}"
        )

    def _describe_condition(self) -> str:
        """Describe what must hold of the records for the guarantee to hold; mostly nothing."""
        return ""

    def _describe_repetition(self) -> str:
        """Describe what more than one release costs; empty for one."""
        n_fits = len({event.stream for event in self.events_})
        if n_fits <= 1:
            return ""
        mixed = explain_relations(self.events_)
        why = f": {mixed}" if mixed else ""
        return f" It was fitted {n_fits} times; this is what they cost together{why}."

    def _name_fit(self) -> str:
        """Name the records of a fit: a second fit may read the same ones, under another name."""
        n_before = len({event.stream for event in vars(self).get("events_", ())})
        return f"{STREAM}.{n_before + 1}" if n_before else STREAM


def refuse_seed(given: Mapping[str, Any]) -> None:
    """Refuse an argument that would seed the noise.

    Raises
    ------
    PrivacyError
        There is one.
    """
    if "seed" in given:
        raise PrivacyError(
            _REFUSED,
            field="seed",
            fix="leave it out; random_state steers what is computed from a release",
        )


def compose_guarantee(events: Sequence[PrivacyEvent]) -> PrivacyGuarantee:
    """Return what all releases of the same records guarantee together, at least one.

    Fits may have read the same records, and so have a pilot and its sketch: their losses add up.
    Releases of one plan in one fit are of different records: the largest counts. Fits under both
    relations protect a record that is replaced.
    """
    costly = select_costly(events)
    joint = costly[0] if len(costly) == 1 else join_events(costly)
    return PrivacyGuarantee(
        epsilon=joint.epsilon, delta=joint.delta, neighbouring=joint.neighbouring, rho=joint.rho
    )


def select_costly(events: Sequence[PrivacyEvent]) -> Sequence[PrivacyEvent]:
    """Return the releases that one record may be in: of each plan in each fit the costliest."""
    return select_per_record(events, {event.reader for event in events})


def describe_level(guarantee: PrivacyGuarantee | PrivacyEvent) -> str:
    """Return epsilon, and delta where there is one, in words."""
    level = f"epsilon = {_show_upper(guarantee.epsilon, 6)}"
    return f"{level}, delta = {_show_upper(guarantee.delta, 3)}" if guarantee.delta else level


def describe_guarantee(guarantee: PrivacyGuarantee) -> str:
    """Describe in words what a release protects, and how well."""
    changed = (
        "in the values of one record; the number of records is public"
        if guarantee.neighbouring == "replace-one"
        else "by the presence of one record; the number of records is secret"
    )
    return (
        f"The release is {describe_level(guarantee)} differentially private: this compares two "
        f"sets of records that differ {changed}."
    )


def _show_upper(value: Fraction, digits: int) -> str:
    """Write a bound with so many digits, rounded up."""
    with localcontext(prec=digits, rounding=ROUND_CEILING):
        return f"{float(Decimal(value.numerator) / Decimal(value.denominator)):.{digits}g}"


def make_event(
    design: Mapping[str, Any], guarantee: PrivacyGuarantee | Round, *, relation: str, stream: str
) -> PrivacyEvent:
    """Return the event of one release; its public design tells it from others."""
    return PrivacyEvent(
        stream=stream,
        plan_digest=hashlib.sha256(encode_deterministic(dict(design))).digest(),
        sequence=0,
        neighbouring=relation,
        epsilon=guarantee.epsilon,
        delta=guarantee.delta,
        rho=guarantee.rho,
    )
